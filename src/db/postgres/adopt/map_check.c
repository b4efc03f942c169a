/* SPDX-License-Identifier: MIT */
/*
 * Whether a table allows what the map asks of it, before an event is published: a
 * settle that fails after that would publish its events again. What is asked
 * follows from the roles (poll_status/sql.c, cdc/tables.c):
 *     reads    every column of the map
 *     writes   the roles from status on; a column that must not be NULL gets a value
 *              that says the same (outrider__pg_sql_nothing)
 *     deletes  after_publish: delete, or a clean-up that was asked for
 */
#include <stdio.h>

#include "postgres/adopt/map.h"
#include "postgres/wire/wire.h"

#define PG_NUMERIC 1700
#define KIND(k) (1U << KIND_##k)
#define ANY_KIND (~0U)
#define GRANT_MAX 360 /* what a message has room for */

/* Types that a role can work with, whoever chose the column. */
static const struct {
    unsigned kinds;
    bool is_number; /* numeric will do, too */
    const char *what;
} wanted[ROLE_COUNT] = {
    [ROLE_ID] = {ANY_KIND, false, NULL},
    [ROLE_SEQ] = {KIND(INTEGER), true, "an integer"},
    [ROLE_AGGREGATE_TYPE] = {ANY_KIND, false, NULL},
    [ROLE_AGGREGATE_ID] = {ANY_KIND, false, NULL},
    [ROLE_EVENT_TYPE] = {ANY_KIND, false, NULL},
    [ROLE_PAYLOAD] = {ANY_KIND, false, NULL},
    [ROLE_HEADERS] = {KIND(JSON) | KIND(TEXT) | KIND(BYTES), false, "JSON, or text that is JSON"},
    [ROLE_TOPIC] = {ANY_KIND, false, NULL},
    [ROLE_PARTITION_KEY] = {ANY_KIND, false, NULL},
    [ROLE_PARTITION] = {KIND(INTEGER), true, "an integer"},
    [ROLE_OCCURRED_AT] = {KIND(TIME), false, "a timestamp"},
    [ROLE_CREATED_AT] = {KIND(TIME), false, "a timestamp"},
    [ROLE_EXPIRES_AT] = {KIND(TIME), false, "a timestamp"},
    [ROLE_IDEMPOTENCY_KEY] = {ANY_KIND, false, NULL},
    [ROLE_REQUEST_DIGEST] = {ANY_KIND, false, NULL},
    [ROLE_STATUS] = {KIND(TEXT) | KIND(ENUM) | KIND(INTEGER) | KIND(BOOLEAN) | KIND(OTHER), true,
                     "text, an enum or a number"},
    [ROLE_PUBLISHED] = {KIND(BOOLEAN) | KIND(INTEGER), false, "a boolean, or an integer"},
    [ROLE_PUBLISHED_AT] = {KIND(TIME), false, "a timestamp"},
    [ROLE_ATTEMPTS] = {KIND(INTEGER), true, "an integer"},
    [ROLE_NEXT_ATTEMPT_AT] = {KIND(TIME), false, "a timestamp"},
    [ROLE_LAST_ERROR] = {KIND(TEXT) | KIND(OTHER), false, "text"},
    [ROLE_LAST_ERROR_CODE] = {KIND(TEXT) | KIND(OTHER), false, "text"},
    [ROLE_LOCKED_BY] = {KIND(TEXT) | KIND(UUID) | KIND(OTHER), false, "text or uuid"},
    [ROLE_LOCKED_AT] = {KIND(TIME), false, "a timestamp"},
    [ROLE_LOCKED_UNTIL] = {KIND(TIME), false, "a timestamp"},
    [ROLE_CLAIM] = {KIND(INTEGER), true, "an integer"},
    [ROLE_UPDATED_AT] = {KIND(TIME), false, "a timestamp"},
};

static bool is_read(enum column_role role)
{
    return role != ROLE_IDEMPOTENCY_KEY && role != ROLE_REQUEST_DIGEST;
}

static int check_epoch(const struct column_map *m, enum column_role role,
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
    bool fits = c->oid == PG_INT8 || (c->oid == PG_INT4 && m->epoch == EPOCH_S);
    if (fits)
        return 0;
    return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                          "table %s: column '%s' (%s) has type %s, which has no room for the time "
                          "of today in the unit of map.epoch; ALTER TABLE %s ALTER COLUMN %s TYPE "
                          "bigint, or leave the column out with %s: '-'",
                          m->table->quoted, c->name, option, c->type, m->table->quoted, c->quoted,
                          option);
}

static int check_type(const struct column_map *m, enum column_role role, struct outrider_error *err)
{
    const struct map_column *c = m->columns[role];
    const char *option = outrider__map_option(role);
    if ((wanted[role].kinds & (1U << c->kind)) != 0 ||
        (wanted[role].is_number && c->oid == PG_NUMERIC))
        return 0;
    if (outrider__map_is_time(role) && c->kind == KIND_INTEGER)
        return check_epoch(m, role, err);
    return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                          "table %s: column '%s' has type %s, and %s needs %s%s; name another "
                          "column there, or none: %s: '-'",
                          m->table->quoted, c->name, c->type, option, wanted[role].what,
                          outrider__map_is_time(role) ? ", or a bigint with map.epoch" : "",
                          option);
}

/* A uuid or a number of a sequence is not given twice, though a partitioned table can
 * have no index that says so. */
static bool is_unique_enough(const struct map_table *t, const struct map_column *id)
{
    return id->is_unique || (t->is_partitioned && id->is_unique_in_parts &&
                             (id->kind == KIND_UUID || id->is_numbered));
}

static int refuse_id(const struct column_map *m, const struct map_column *id, const char *why,
                     const char *mend, struct outrider_error *err)
{
    return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                          "table %s: column '%s' (map.id) %s: of two rows with one id the second "
                          "would be marked and never sent; %s; or name a column that is unique "
                          "with map.id",
                          m->table->quoted, id->name, why, mend);
}

/* Rows are settled by their id. The stream alone settles by transactions. */
static int check_id(const struct column_map *m, const struct pipeline_config *config,
                    struct outrider_error *err)
{
    const struct map_column *id = m->columns[ROLE_ID];
    int after = config->source.after_publish;
    char mend[320];
    bool is_left_alone = config->source.mode == MODE_CDC && m->mark == MARK_NONE &&
                         after != AFTER_PUBLISH_MARK && after != AFTER_PUBLISH_DELETE;
    if (is_left_alone)
        return 0;
    if (!is_unique_enough(m->table, id)) {
        if (m->table->is_partitioned)
            (void)snprintf(mend, sizeof mend,
                           "a partitioned table needs an id of type uuid, or one that a sequence "
                           "numbers, in its primary key");
        else
            (void)snprintf(mend, sizeof mend, "CREATE UNIQUE INDEX CONCURRENTLY ON %s (%s)",
                           m->table->quoted, id->quoted);
        return refuse_id(m, id,
                         "has no unique index of its own (over all rows, not deferrable, valid)",
                         mend, err);
    }
    (void)snprintf(mend, sizeof mend, "ALTER TABLE %s ALTER COLUMN %s SET NOT NULL",
                   m->table->quoted, id->quoted);
    return id->is_not_null ? 0 : refuse_id(m, id, "may be NULL", mend, err);
}

static int check_mark(const struct column_map *m, struct outrider_error *err)
{
    const struct map_column *c = m->columns[ROLE_PUBLISHED_AT];
    if (m->mark != MARK_TIME || !c->is_not_null)
        return 0;
    return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                          "table %s: column '%s' (map.published_at) is NOT NULL, and NULL is what "
                          "says that a row waits: no event would be sent; ALTER TABLE %s ALTER "
                          "COLUMN %s DROP NOT NULL, or name the mark with map.status or "
                          "map.published",
                          m->table->quoted, c->name, m->table->quoted, c->quoted);
}

/* Two roles that are written need two columns. */
static int check_shared(const struct column_map *m, enum column_role role,
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
        if (check_type(m, role, err) < 0)
            return -1;
        if (outrider__map_is_written(role) && check_shared(m, role, err) < 0)
            return -1;
    }
    return check_id(m, config, err) < 0 ? -1 : check_mark(m, err);
}

static bool is_written(const struct pipeline_config *config, enum column_role role)
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
    bool writes = !config->replay && m->mark != MARK_NONE;
    *ret_needs = (struct map_needs){0};
    for (int i = 0; i < ROLE_COUNT; i++) {
        const struct map_column *c = m->columns[i];
        if (c == NULL)
            continue;
        ret_needs->reads[c - m->table->columns] |= is_read((enum column_role)i);
        ret_needs->writes[c - m->table->columns] |=
            writes && is_written(config, (enum column_role)i);
    }
    ret_needs->reads_place = m->columns[ROLE_SEQ] == NULL || config->source.mode == MODE_CDC;
    for (size_t i = 0; i < m->n_headers; i++)
        ret_needs->reads[m->headers[i].column - m->table->columns] = true;
    ret_needs->deletes =
        !config->replay &&
        (after == AFTER_PUBLISH_DELETE ||
         (m->mark != MARK_NONE && config->cleanup.adopted && config->cleanup.retention_us > 0));
}

/* "SELECT (a, b)": of the columns that are needed, those that the role lacks, or all. */
static void privilege(const struct column_map *m, const char *name, const bool *needs, bool is_all,
                      bool is_select, bool with_place, struct strbuf *sql)
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
        outrider__strbuf_appendf(sql, "%s%s%s" MAP_PLACE, n == 0 ? before : "", n == 0 ? name : "",
                                 n == 0 ? " (" : ", ");
    if (n > 0 || with_place)
        strbuf_append_str(sql, ")");
}

void outrider__map_grant(const struct column_map *m, const struct map_needs *needs, const char *to,
                         struct strbuf *sql)
{
    struct strbuf list;
    outrider__strbuf_init(&list, sql->cap);
    bool lacks_place = needs->reads_place && !m->table->can_see_place;
    privilege(m, "SELECT", needs->reads, to != NULL, true, to != NULL || lacks_place, &list);
    privilege(m, "UPDATE", needs->writes, to != NULL, false, false, &list);
    if (needs->deletes && (to != NULL || !m->table->can_delete))
        outrider__strbuf_appendf(&list, "%sDELETE", list.len > 0 ? ", " : "");
    if (list.len > 0)
        outrider__strbuf_appendf(sql, "GRANT %s ON %s TO %s", strbuf_cstr(&list), m->table->quoted,
                                 to != NULL ? to : m->table->role);
    sql->failed |= list.failed;
    outrider__strbuf_release(&list);
}

static int check_fixed(const struct column_map *m, const struct map_needs *needs,
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
static int check_nothing(const struct column_map *m, const struct map_needs *needs,
                         struct outrider_error *err)
{
    const struct map_column *c = m->columns[ROLE_LOCKED_BY];
    if (c == NULL || !c->is_not_null || c->kind == KIND_TEXT || c->initial != NULL ||
        !needs->writes[c - m->table->columns])
        return 0;
    return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                          "table %s: column '%s' (map.locked_by) is NOT NULL, and no value of type "
                          "%s says that nobody has the row; ALTER TABLE %s ALTER COLUMN %s DROP "
                          "NOT NULL, or leave the column out with map.locked_by: '-'",
                          m->table->quoted, c->name, c->type, m->table->quoted, c->quoted);
}

static int check_rules(const struct column_map *m, const struct map_needs *needs,
                       struct outrider_error *err)
{
    bool updates = false;
    for (size_t i = 0; i < m->table->n; i++)
        updates |= needs->writes[i];
    bool is_hidden = updates && m->table->hides_update;
    if (!is_hidden && !(needs->deletes && m->table->hides_delete))
        return 0;
    return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                          "table %s has a rule that does something else INSTEAD of %s, so no row "
                          "could be settled; DROP RULE, or name another table",
                          m->table->quoted, is_hidden ? "UPDATE" : "DELETE");
}

int outrider__map_check_needs(const struct column_map *m, const struct map_needs *needs,
                              struct outrider_error *err)
{
    struct strbuf grant;
    int rc = 0;
    if (check_fixed(m, needs, err) < 0 || check_nothing(m, needs, err) < 0 ||
        check_rules(m, needs, err) < 0)
        return -1;
    outrider__strbuf_init(&grant, 65536);
    outrider__map_grant(m, needs, NULL, &grant);
    /* A statement that is cut off mends nothing. */
    if (grant.len > GRANT_MAX)
        rc = outrider__fail(err, OUTRIDER_AUTH, OUTRIDER_STOP,
                            "role %s lacks rights on table %s, so nothing is published; `outrider "
                            "init --dry-run --table %s` prints them, and its owner runs: GRANT "
                            "outrider_relay TO %s",
                            m->table->role, m->table->quoted, m->table->quoted, m->table->role);
    else if (grant.len > 0)
        rc = outrider__fail(err, OUTRIDER_AUTH, OUTRIDER_STOP,
                            "role %s lacks rights on table %s, so nothing is published; its owner "
                            "runs: %s",
                            m->table->role, m->table->quoted, strbuf_cstr(&grant));
    outrider__strbuf_release(&grant);
    return rc;
}
