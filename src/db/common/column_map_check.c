/* SPDX-License-Identifier: MIT */
/*
 * Whether a table allows what the map asks of it, before an event is published: a
 * settle that fails after that would publish its events again. What is asked
 * follows from the roles of the map:
 *     reads    every column of the map
 *     writes   the roles from status on; a column that must not be NULL gets a value
 *              that says the same
 *     deletes  after_publish: delete, or a clean-up that was asked for
 */
#include <stdio.h>

#include "common/column_map.h"
#include "common/sql.h"

#define KIND(k) (1U << KIND_##k)
#define ANY_KIND (~0U)
#define NUMBER (KIND(INTEGER) | KIND(DECIMAL))
#define MEND_MAX 320
#define GRANT_MAX 360 /* what a message has room for */

/* Types that a role can work with, whoever chose the column. */
static const struct {
    unsigned kinds;
    const char *what;
} wanted[ROLE_COUNT] = {
    [ROLE_ID] = {ANY_KIND, NULL},
    [ROLE_SEQ] = {NUMBER, "an integer"},
    [ROLE_AGGREGATE_TYPE] = {ANY_KIND, NULL},
    [ROLE_AGGREGATE_ID] = {ANY_KIND, NULL},
    [ROLE_EVENT_TYPE] = {ANY_KIND, NULL},
    [ROLE_PAYLOAD] = {ANY_KIND, NULL},
    [ROLE_HEADERS] = {KIND(JSON) | KIND(TEXT) | KIND(BYTES), "JSON, or text that is JSON"},
    [ROLE_TOPIC] = {ANY_KIND, NULL},
    [ROLE_PARTITION_KEY] = {ANY_KIND, NULL},
    [ROLE_PARTITION] = {NUMBER, "an integer"},
    [ROLE_OCCURRED_AT] = {KIND(TIME), "a timestamp"},
    [ROLE_CREATED_AT] = {KIND(TIME), "a timestamp"},
    [ROLE_EXPIRES_AT] = {KIND(TIME), "a timestamp"},
    [ROLE_IDEMPOTENCY_KEY] = {ANY_KIND, NULL},
    [ROLE_REQUEST_DIGEST] = {ANY_KIND, NULL},
    [ROLE_STATUS] = {KIND(TEXT) | KIND(ENUM) | NUMBER | KIND(BOOLEAN) | KIND(OTHER),
                     "text, an enum or a number"},
    [ROLE_PUBLISHED] = {KIND(BOOLEAN) | KIND(INTEGER), "a boolean, or an integer"},
    [ROLE_PUBLISHED_AT] = {KIND(TIME), "a timestamp"},
    [ROLE_ATTEMPTS] = {NUMBER, "an integer"},
    [ROLE_NEXT_ATTEMPT_AT] = {KIND(TIME), "a timestamp"},
    [ROLE_LAST_ERROR] = {KIND(TEXT) | KIND(OTHER), "text"},
    [ROLE_LAST_ERROR_CODE] = {KIND(TEXT) | KIND(OTHER), "text"},
    [ROLE_LOCKED_BY] = {KIND(TEXT) | KIND(UUID) | KIND(OTHER), "text or uuid"},
    [ROLE_LOCKED_AT] = {KIND(TIME), "a timestamp"},
    [ROLE_LOCKED_UNTIL] = {KIND(TIME), "a timestamp"},
    [ROLE_CLAIM] = {NUMBER, "an integer"},
    [ROLE_UPDATED_AT] = {KIND(TIME), "a timestamp"},
};

/* The statement that mends a table, in the words of its database. */
static void map_mend(const struct map_table *t, const char *statement, const struct map_column *c,
                     char ret_text[static MEND_MAX])
{
    const struct sql_word words[] = {{"table", t->quoted},
                                     {"column", c != NULL ? c->quoted : ""},
                                     {"type", c != NULL ? c->type : ""},
                                     {"role", t->role}};
    struct strbuf sql;
    outrider__strbuf_init(&sql, SQL_TEXT_CAP);
    outrider__sql_append(&sql, statement, words, sizeof words / sizeof *words);
    (void)snprintf(ret_text, MEND_MAX, "%s", strbuf_cstr(&sql));
    outrider__strbuf_release(&sql);
}

static bool map_needs_read(enum column_role role)
{
    return role != ROLE_IDEMPOTENCY_KEY && role != ROLE_REQUEST_DIGEST;
}

static int map_check_epoch(const struct column_map *m, enum column_role role,
                           struct outrider_error *err)
{
    const struct map_column *c = m->columns[role];
    const char *option = outrider__map_option(role);
    if (m->epoch == EPOCH_NONE)
        return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                              "table %s: column '%s' (%s) is a time and has type %s; say what the "
                              "number counts since 1970 with map.epoch: s, ms, us or ns, or leave "
                              "the column out with %s: '-'",
                              m->table->quoted, c->name, option, c->type, option);
    if (c->width >= 8 || (c->width >= 4 && m->epoch == EPOCH_S))
        return 0;
    char mend[MEND_MAX];
    map_mend(m->table, m->table->phrases->widen, c, mend);
    return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                          "table %s: column '%s' (%s) has type %s, which has no room for the time "
                          "of today in the unit of map.epoch; %s, or leave the column out with "
                          "%s: '-'",
                          m->table->quoted, c->name, option, c->type, mend, option);
}

static int map_check_type(const struct column_map *m, enum column_role role,
                          struct outrider_error *err)
{
    const struct map_column *c = m->columns[role];
    const char *option = outrider__map_option(role);
    if ((wanted[role].kinds & (1U << c->kind)) != 0)
        return 0;
    bool is_time = outrider__map_is_time(role);
    if (is_time && c->kind == KIND_INTEGER)
        return map_check_epoch(m, role, err);
    return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                          "table %s: column '%s' has type %s, and %s needs %s%s%s%s; name "
                          "another column there, or none: %s: '-'",
                          m->table->quoted, c->name, c->type, option, wanted[role].what,
                          is_time ? ", or a " : "", is_time ? m->table->phrases->wide_integer : "",
                          is_time ? " with map.epoch" : "", option);
}

/* A uuid or a number of a sequence is not given twice, though a partitioned table can
 * have no index that says so. */
static bool map_is_unique(const struct map_table *t, const struct map_column *id)
{
    return id->is_unique || (t->is_partitioned && id->is_unique_in_parts &&
                             (id->kind == KIND_UUID || id->is_numbered));
}

static int map_refuse_id(const struct column_map *m, const struct map_column *id, const char *why,
                         const char *mend, struct outrider_error *err)
{
    return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                          "table %s: column '%s' (map.id) %s: of two rows with one id the second "
                          "would be marked and never sent; %s; or name a column that is unique "
                          "with map.id",
                          m->table->quoted, id->name, why, mend);
}

/* Rows are settled by their id. The stream alone settles by transactions. */
static int map_check_id(const struct column_map *m, const struct pipeline_config *config,
                        struct outrider_error *err)
{
    const struct map_column *id = m->columns[ROLE_ID];
    int after = config->source.after_publish;
    char mend[MEND_MAX];
    bool is_left_alone = config->source.mode == MODE_CDC && m->mark == MARK_NONE &&
                         after != AFTER_PUBLISH_MARK && after != AFTER_PUBLISH_DELETE;
    if (is_left_alone)
        return 0;
    if (!map_is_unique(m->table, id)) {
        if (m->table->is_partitioned)
            (void)snprintf(mend, sizeof mend,
                           "a partitioned table needs an id of type uuid, or one that a sequence "
                           "numbers, in its primary key");
        else
            map_mend(m->table, m->table->phrases->add_unique, id, mend);
        return map_refuse_id(
            m, id, "has no unique index of its own (over all rows, not deferrable, valid)", mend,
            err);
    }
    map_mend(m->table, m->table->phrases->forbid_null, id, mend);
    return id->is_not_null ? 0 : map_refuse_id(m, id, "may be NULL", mend, err);
}

static int map_check_mark(const struct column_map *m, struct outrider_error *err)
{
    const struct map_column *c = m->columns[ROLE_PUBLISHED_AT];
    char mend[MEND_MAX];
    if (m->mark != MARK_TIME || !c->is_not_null)
        return 0;
    map_mend(m->table, m->table->phrases->allow_null, c, mend);
    return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                          "table %s: column '%s' (map.published_at) is NOT NULL, and NULL is what "
                          "says that a row waits: no event would be sent; %s, or name the mark "
                          "with map.status or map.published",
                          m->table->quoted, c->name, mend);
}

/* Two roles that are written need two columns. */
static int map_check_shared(const struct column_map *m, enum column_role role,
                            struct outrider_error *err)
{
    for (int other = ROLE_STATUS; other < (int)role; other++) {
        if (m->columns[other] != m->columns[role])
            continue;
        return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                              "table %s: column '%s' is both %s and %s; name another column for "
                              "one of them, or none: '-'",
                              m->table->quoted, m->columns[role]->name,
                              outrider__map_option((enum column_role)other),
                              outrider__map_option(role));
    }
    return 0;
}

int outrider__map_check(const struct column_map *m, const struct pipeline_config *config,
                        struct outrider_error *err)
{
    for (int i = 0; i < ROLE_COUNT; i++) {
        enum column_role role = (enum column_role)i;
        if (m->columns[role] == NULL)
            continue;
        if (map_check_type(m, role, err) < 0)
            return -1;
        if (outrider__map_is_written(role) && map_check_shared(m, role, err) < 0)
            return -1;
    }
    return map_check_id(m, config, err) < 0 ? -1 : map_check_mark(m, err);
}

static bool map_needs_write(const struct pipeline_config *config, enum column_role role)
{
    bool deletes = config->source.after_publish == AFTER_PUBLISH_DELETE;
    if (!outrider__map_is_written(role) ||
        (deletes && (role == ROLE_PUBLISHED || role == ROLE_PUBLISHED_AT)))
        return false;
    return role != ROLE_CLAIM || !config->exactly_once; /* then nothing is claimed */
}

void outrider__map_needs(const struct column_map *m, const struct pipeline_config *config,
                         struct map_needs *ret_needs)
{
    int after = config->source.after_publish;
    /* A table without a mark is read from the stream alone, and rows are left as they are. */
    bool writes = m->mark != MARK_NONE;
    *ret_needs = (struct map_needs){0};
    for (int i = 0; i < ROLE_COUNT; i++) {
        const struct map_column *c = m->columns[i];
        if (c == NULL)
            continue;
        ret_needs->reads[c - m->table->columns] |= map_needs_read((enum column_role)i);
        ret_needs->writes[c - m->table->columns] |=
            writes && map_needs_write(config, (enum column_role)i);
    }
    ret_needs->reads_place = m->table->phrases->row_place != NULL &&
                             (m->columns[ROLE_SEQ] == NULL || config->source.mode == MODE_CDC);
    for (size_t i = 0; i < m->n_headers; i++)
        ret_needs->reads[m->headers[i].column - m->table->columns] = true;
    ret_needs->deletes =
        after == AFTER_PUBLISH_DELETE ||
        (m->mark != MARK_NONE && config->cleanup.adopted && config->cleanup.retention_us > 0);
}

void outrider__map_needs_read(const struct column_map *m, const struct pipeline_config *config,
                              struct map_needs *ret_needs)
{
    outrider__map_needs(m, config, ret_needs);
    memset(ret_needs->writes, 0, sizeof ret_needs->writes);
    ret_needs->deletes = false;
}

/* "SELECT (a, b)": of the columns that are needed, those that the role lacks, or all. */
static void map_privilege(const struct column_map *m, const char *name, const bool *needs,
                          bool is_all, bool is_select, bool with_place, struct strbuf *sql)
{
    const char *before = sql->len > 0 ? ", " : "";
    size_t n = 0;
    for (size_t i = 0; i < m->table->n; i++) {
        const struct map_column *c = &m->table->columns[i];
        if (!needs[i] || (!is_all && (is_select ? c->can_select : c->can_update)))
            continue;
        if (n++ == 0)
            outrider__strbuf_appendf(sql, "%s%s (", before, name);
        else
            strbuf_append_str(sql, ", ");
        strbuf_append_str(sql, c->quoted);
    }
    if (with_place)
        outrider__strbuf_appendf(sql, "%s%s%s%s", n == 0 ? before : "", n == 0 ? name : "",
                                 n == 0 ? " (" : ", ", m->table->phrases->row_place);
    if (n > 0 || with_place)
        strbuf_append_str(sql, ")");
}

void outrider__map_grant(const struct column_map *m, const struct map_needs *needs, const char *to,
                         struct strbuf *sql)
{
    struct strbuf list;
    outrider__strbuf_init(&list, sql->cap);
    bool lacks_place = needs->reads_place && !m->table->can_see_place;
    map_privilege(m, "SELECT", needs->reads, to != NULL, true, to != NULL || lacks_place, &list);
    map_privilege(m, "UPDATE", needs->writes, to != NULL, false, false, &list);
    if (needs->deletes && (to != NULL || !m->table->can_delete))
        outrider__strbuf_appendf(&list, "%sDELETE", list.len > 0 ? ", " : "");
    if (list.len > 0)
        outrider__strbuf_appendf(sql, "GRANT %s ON %s TO %s", strbuf_cstr(&list), m->table->quoted,
                                 to != NULL ? to : m->table->role);
    sql->failed |= list.failed;
    outrider__strbuf_release(&list);
}

static int map_check_fixed(const struct column_map *m, const struct map_needs *needs,
                           struct outrider_error *err)
{
    for (int i = ROLE_STATUS; i < ROLE_COUNT; i++) {
        const struct map_column *c = m->columns[i];
        const char *option = outrider__map_option((enum column_role)i);
        if (c == NULL || !c->is_fixed || !needs->writes[c - m->table->columns])
            continue;
        return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                              "table %s: column '%s' (%s) is GENERATED ALWAYS, and the relay must "
                              "write there; name another column, or none: %s: '-'",
                              m->table->quoted, c->name, option, option);
    }
    return 0;
}

/* An owner of type uuid that must not be NULL, and has no default: nothing says "nobody". */
static int map_check_owner(const struct column_map *m, const struct map_needs *needs,
                           struct outrider_error *err)
{
    const struct map_column *c = m->columns[ROLE_LOCKED_BY];
    if (c == NULL || !c->is_not_null || c->kind == KIND_TEXT || c->initial != NULL ||
        !needs->writes[c - m->table->columns])
        return 0;
    char mend[MEND_MAX];
    map_mend(m->table, m->table->phrases->allow_null, c, mend);
    return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                          "table %s: column '%s' (map.locked_by) is NOT NULL, and no value of type "
                          "%s says that nobody has the row; %s, or leave the column out with "
                          "map.locked_by: '-'",
                          m->table->quoted, c->name, c->type, mend);
}

/* A statement that does something else settles no row. */
static int map_check_hidden(const struct column_map *m, const struct map_needs *needs,
                            struct outrider_error *err)
{
    bool updates = false;
    for (size_t i = 0; i < m->table->n; i++)
        updates |= needs->writes[i];
    const char *hidden = updates ? m->table->hides_update : NULL;
    if (hidden == NULL && needs->deletes)
        hidden = m->table->hides_delete;
    if (hidden == NULL)
        return 0;
    return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                          "table %s %s, or name another table", m->table->quoted, hidden);
}

int outrider__map_check_needs(const struct column_map *m, const struct map_needs *needs,
                              struct outrider_error *err)
{
    struct strbuf grant;
    char join[MEND_MAX];
    int rc = 0;
    if (map_check_fixed(m, needs, err) < 0 || map_check_owner(m, needs, err) < 0 ||
        map_check_hidden(m, needs, err) < 0)
        return -1;
    outrider__strbuf_init(&grant, 65536);
    outrider__map_grant(m, needs, NULL, &grant);
    /* A statement that is cut off mends nothing. */
    map_mend(m->table, m->table->phrases->join_relay, NULL, join);
    if (grant.len > GRANT_MAX)
        rc = outrider__fail(err, OUTRIDER_AUTH, OUTRIDER_STOP,
                            "role %s lacks rights on table %s, so nothing is published; `outrider "
                            "init --dry-run --table %s` prints them, and its owner runs: %s",
                            m->table->role, m->table->quoted, m->table->quoted, join);
    else if (grant.len > 0)
        rc = outrider__fail(err, OUTRIDER_AUTH, OUTRIDER_STOP,
                            "role %s lacks rights on table %s, so nothing is published; its owner "
                            "runs: %s",
                            m->table->role, m->table->quoted, strbuf_cstr(&grant));
    outrider__strbuf_release(&grant);
    return rc;
}
