/* SPDX-License-Identifier: MIT */
/*
 * Which column has which role. What a table lacks:
 *     aggregate type   the table's name without _outbox and outbox_
 *     aggregate id     the column X_id, X being that name, or the only *_id
 *                      there is; else the idempotency key
 *     event type       the payload column's name without _json, _payload and
 *                      _body, if it has one of its own; else the aggregate type
 *     seq              the id if a sequence numbers it; else order is by time
 *                      and insertion, as far as the database tells
 */
#include "common/column_map.h"

#include <stdio.h>
#include <strings.h>

#include "common/column_role.h"

/* Of the ways in which two columns can mean the same, those that matter: a
 * wrong choice here would deliver the wrong thing, or twice, or not at all. */
static bool map_must_be_sure(const struct column_map *m, enum column_role role)
{
    bool is_mark = role == ROLE_PUBLISHED_AT && m->columns[ROLE_STATUS] == NULL &&
                   m->columns[ROLE_PUBLISHED] == NULL;
    return role == ROLE_PAYLOAD || role == ROLE_AGGREGATE_ID || role == ROLE_STATUS ||
           role == ROLE_PUBLISHED || is_mark;
}

static int map_ambiguous(const struct column_map *m, enum column_role role, const char *a,
                         const char *b, struct outrider_error *err)
{
    return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                          "table %s: '%s' and '%s' could both be %s; say which with %s: %s",
                          m->table->quoted, a, b, outrider__map_option(role) + 4,
                          outrider__map_option(role), a);
}

static int map_missing(const struct column_map *m, enum column_role role, const char *what,
                       struct outrider_error *err)
{
    return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                          "table %s: %s; name the column with %s: COLUMN", m->table->quoted, what,
                          outrider__map_option(role));
}

/* The column of this name, else the only one that has it but for case, '_' and '-'. */
static const struct map_column *map_column_named(struct column_map *m, const char *name)
{
    const struct map_column *like = NULL;
    char wanted[80], has[80];
    size_t n_like = 0;
    bool can_compare = outrider__map_normalise(bytes_str(name), wanted, sizeof wanted);
    for (size_t i = 0; i < m->table->n; i++) {
        const struct map_column *c = &m->table->columns[i];
        if (strcmp(c->name, name) == 0)
            return c;
        if (can_compare && outrider__map_normalise(bytes_str(c->name), has, sizeof has) &&
            strcmp(wanted, has) == 0) {
            like = c;
            n_like++;
        }
    }
    if (n_like != 1)
        return NULL;
    size_t n = strlen(m->respelled);
    (void)snprintf(m->respelled + n, sizeof m->respelled - n, "%s'%s' for '%s'", n > 0 ? ", " : "",
                   like->name, name);
    return like;
}

/* "name?": a column that the table may have. NULL: it does not. */
static const struct map_column *map_column_if_any(struct column_map *m, const char *name)
{
    char plain[80];
    (void)snprintf(plain, sizeof plain, "%.*s", (int)strlen(name) - 1, name);
    return strlen(name) <= sizeof plain ? map_column_named(m, plain) : NULL;
}

/* A column that the configuration names. 1: found, or not needed; 0: nothing is set. */
static int map_take_given(struct column_map *m, const struct pipeline_config *config,
                          enum column_role role, struct outrider_error *err)
{
    const char *name = config->map.columns[role];
    if (name == NULL || *name == '\0')
        return 0;
    if (strcmp(name, "-") == 0)
        return 1;
    m->columns[role] = map_column_named(m, name);
    if (m->columns[role] != NULL)
        return 1;
    if (name[strlen(name) - 1] == '?') {
        m->columns[role] = map_column_if_any(m, name);
        return 1;
    }
    return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                          "table %s has no column '%s', which %s names", m->table->quoted, name,
                          outrider__map_option(role));
}

static bool map_has_record_key(const struct column_map *m)
{
    for (size_t i = 0; i < m->table->n; i++)
        if (outrider__names_rank(" recordkey ", m->table->columns[i].name) >= 0)
            return true;
    return false;
}

/* DEFAULT 0, which says that the number is a mark and not a count of something. */
static bool map_begins_at_zero(const struct map_column *c)
{
    return c->initial != NULL && (strcmp(c->initial, "0") == 0 ||
                                  (c->initial_value != NULL && strcmp(c->initial_value, "0") == 0));
}

/* Beyond its name and its type. */
static bool map_is_likely(const struct column_map *m, enum column_role role,
                          const struct map_column *c)
{
    if (c->is_fixed && outrider__map_is_written(role))
        return false;
    if (role == ROLE_ID && !c->is_unique && !c->is_key)
        return false;
    if (role == ROLE_HEADERS && c->kind != KIND_JSON && strcasestr(c->name, "header") == NULL)
        return false;
    /* Namastack's own division of its work is none of the receiver's. */
    if (role == ROLE_PARTITION && map_has_record_key(m))
        return false;
    return role != ROLE_PUBLISHED || c->kind != KIND_INTEGER || map_begins_at_zero(c);
}

static int map_take_named(struct column_map *m, enum column_role role, bool as_number,
                          struct outrider_error *err)
{
    const struct map_column *best = NULL, *second = NULL;
    int rank = 0;
    for (size_t i = 0; i < m->table->n; i++) {
        const struct map_column *c = &m->table->columns[i];
        int r = outrider__role_rank(role, c->name);
        if (r < 0 || !(as_number ? c->kind == KIND_INTEGER : outrider__role_takes(role, c)) ||
            !map_is_likely(m, role, c))
            continue;
        if (best == NULL || r < rank) {
            second = best;
            best = c;
            rank = r;
        } else {
            second = c;
        }
    }
    if (second != NULL && map_must_be_sure(m, role))
        return map_ambiguous(m, role, best->name, second->name, err);
    m->columns[role] = best;
    return 0;
}

/* A time may be a number, if there is none that is a time: map.epoch says what it counts. */
static int map_take_by_name(struct column_map *m, enum column_role role, struct outrider_error *err)
{
    if (map_take_named(m, role, false, err) < 0)
        return -1;
    if (m->columns[role] != NULL || !outrider__map_is_time(role))
        return 0;
    return map_take_named(m, role, true, err);
}

static bool map_is_used(const struct column_map *m, const struct map_column *c)
{
    for (int i = 0; i < ROLE_COUNT; i++)
        if (m->columns[i] == c)
            return true;
    return false;
}

static bool map_ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), k = strlen(end);
    return n > k && strcasecmp(text + n - k, end) == 0;
}

/* order_outbox, outbox_orders, outbox: "order", "orders", "outbox". */
static void map_name_of_table(const char *table, char *ret_name, size_t size)
{
    size_t n = strlen(table);
    if (map_ends_with(table, "_outbox"))
        n -= 7;
    else if (n > 7 && strncasecmp(table, "outbox_", 7) == 0) {
        table += 7;
        n -= 7;
    }
    (void)snprintf(ret_name, size, "%.*s", (int)n, table);
}

static int map_infer_id(struct column_map *m, struct outrider_error *err)
{
    const struct map_column *key = NULL;
    if (map_take_by_name(m, ROLE_ID, err) < 0)
        return -1;
    if (m->columns[ROLE_ID] != NULL)
        return 0;
    for (size_t i = 0; i < m->table->n; i++)
        if (m->table->columns[i].is_key)
            key = &m->table->columns[i];
    if (key == NULL || m->table->n_key != 1)
        return map_missing(m, ROLE_ID, "no column is the unique id of an event", err);
    m->columns[ROLE_ID] = key;
    return 0;
}

static int map_infer_payload(struct column_map *m, struct outrider_error *err)
{
    if (map_take_by_name(m, ROLE_PAYLOAD, err) < 0)
        return -1;
    for (int pass = 0; m->columns[ROLE_PAYLOAD] == NULL && pass < 2; pass++) {
        for (size_t i = 0; i < m->table->n; i++) {
            const struct map_column *c = &m->table->columns[i];
            bool is_named = map_ends_with(c->name, "_json") || map_ends_with(c->name, "_payload") ||
                            map_ends_with(c->name, "_body") || map_ends_with(c->name, "_data");
            bool fits = pass == 0 ? c->kind == KIND_JSON
                                  : is_named && outrider__role_takes(ROLE_PAYLOAD, c);
            if (!fits || map_is_used(m, c))
                continue;
            if (m->columns[ROLE_PAYLOAD] != NULL)
                return map_ambiguous(m, ROLE_PAYLOAD, m->columns[ROLE_PAYLOAD]->name, c->name, err);
            m->columns[ROLE_PAYLOAD] = c;
        }
    }
    if (m->columns[ROLE_PAYLOAD] == NULL)
        return map_missing(m, ROLE_PAYLOAD, "no column is the payload", err);
    return 0;
}

/* Ids of other things than the aggregate. */
static const char other_ids[] =
    " correlationid causationid traceid spanid requestid tenantid userid messageid eventid "
    "parentid sessionid workerid transactionid ";

/* Whether the column is X_id, X being the table's own name, also in the plural. */
static bool map_is_own_id(const struct map_column *c, const char *name)
{
    char column[80], own[80];
    if (!outrider__map_normalise(bytes_str(c->name), column, sizeof column) ||
        !outrider__map_normalise(bytes_str(name), own, sizeof own - 2))
        return false;
    size_t n = strlen(own);
    for (int plural = 0; plural < 2; plural++) {
        if (plural == 1 && (n < 2 || own[n - 1] != 's'))
            return false;
        (void)snprintf(own + n - plural, sizeof own - n, "id");
        if (strcmp(column, own) == 0)
            return true;
    }
    return false;
}

static int map_infer_aggregate_id(struct column_map *m, const char *name,
                                  struct outrider_error *err)
{
    const struct map_column *only = NULL, *second = NULL;
    if (map_take_by_name(m, ROLE_AGGREGATE_ID, err) < 0)
        return -1;
    for (size_t i = 0; m->columns[ROLE_AGGREGATE_ID] == NULL && i < m->table->n; i++) {
        const struct map_column *c = &m->table->columns[i];
        if (!map_ends_with(c->name, "_id") || c->kind == KIND_BYTES ||
            !outrider__role_takes(ROLE_AGGREGATE_ID, c))
            continue;
        if (map_is_own_id(c, name))
            m->columns[ROLE_AGGREGATE_ID] = c;
        else if (!map_is_used(m, c) && outrider__names_rank(other_ids, c->name) < 0) {
            second = only;
            only = c;
        }
    }
    if (m->columns[ROLE_AGGREGATE_ID] != NULL)
        return 0;
    if (second != NULL)
        return map_ambiguous(m, ROLE_AGGREGATE_ID, second->name, only->name, err);
    m->columns[ROLE_AGGREGATE_ID] = only != NULL ? only : m->columns[ROLE_IDEMPOTENCY_KEY];
    if (m->columns[ROLE_AGGREGATE_ID] == NULL)
        m->columns[ROLE_AGGREGATE_ID] = m->columns[ROLE_PARTITION_KEY];
    if (m->columns[ROLE_AGGREGATE_ID] == NULL)
        return map_missing(m, ROLE_AGGREGATE_ID, "no column is the aggregate's id", err);
    return 0;
}

static void map_infer_names(struct column_map *m, const char *name)
{
    static const char *const ends[] = {"_json", "_payload", "_body", "_data"};
    (void)snprintf(m->aggregate_type, sizeof m->aggregate_type, "%s", name);
    (void)snprintf(m->event_type, sizeof m->event_type, "%s", name);
    const char *payload = m->columns[ROLE_PAYLOAD]->name;
    if (outrider__role_rank(ROLE_PAYLOAD, payload) >= 0)
        return;
    size_t n = strlen(payload);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (map_ends_with(payload, ends[i]))
            n = strlen(payload) - strlen(ends[i]);
    (void)snprintf(m->event_type, sizeof m->event_type, "%.*s", (int)n, payload);
}

static void map_infer_order(struct column_map *m)
{
    const struct map_column *id = m->columns[ROLE_ID];
    if (m->columns[ROLE_SEQ] == NULL) {
        for (size_t i = 0; i < m->table->n; i++) {
            const struct map_column *c = &m->table->columns[i];
            bool is_plain_key = c->is_key && m->table->n_key == 1;
            if (c->is_numbered && c->kind == KIND_INTEGER && (c == id || is_plain_key))
                m->columns[ROLE_SEQ] = c;
        }
    }
    m->is_ordered = m->columns[ROLE_SEQ] != NULL;
}

static void map_infer_mark(struct column_map *m)
{
    const struct map_column *published = m->columns[ROLE_PUBLISHED];
    if (m->columns[ROLE_STATUS] == NULL && published != NULL && published->kind == KIND_INTEGER) {
        m->columns[ROLE_STATUS] = published;
        m->columns[ROLE_PUBLISHED] = NULL;
        m->is_counted = true;
    }
    if (m->columns[ROLE_STATUS] != NULL)
        m->mark = MARK_STATUS;
    else if (m->columns[ROLE_PUBLISHED] != NULL)
        m->mark = MARK_BOOLEAN;
    else if (m->columns[ROLE_PUBLISHED_AT] != NULL)
        m->mark = MARK_TIME;
}

/* Roles whose inference needs those of others stand last. */
static int map_infer_role(struct column_map *m, const struct pipeline_config *config,
                          enum column_role role, const char *name, struct outrider_error *err)
{
    int given = map_take_given(m, config, role, err);
    if (given != 0)
        return given < 0 ? -1 : 0;
    if (role == ROLE_ID)
        return map_infer_id(m, err);
    if (role == ROLE_PAYLOAD)
        return map_infer_payload(m, err);
    if (role == ROLE_AGGREGATE_ID)
        return map_infer_aggregate_id(m, name, err);
    return map_take_by_name(m, role, err);
}

static int map_take_headers(struct column_map *m, const struct pipeline_config *config,
                            struct outrider_error *err)
{
    const struct string_map *wanted = &config->map.header_columns;
    const struct map_column *own = m->columns[ROLE_HEADERS];
    for (size_t i = 0; i < wanted->n; i++) {
        const struct map_column *c = map_column_named(m, wanted->items[i].value);
        if (c == NULL && config->map.missing_columns == MISSING_IS_LEFT_OUT)
            continue;
        if (c == NULL)
            return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                                  "table %s has no column '%.80s', which map.header_columns names "
                                  "(map.missing_columns: ignore leaves it out)",
                                  m->table->quoted, wanted->items[i].value);
        if (c->kind == KIND_BYTES)
            return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                                  "table %s: map.header_columns: '%s' holds bytes, which are no "
                                  "header",
                                  m->table->quoted, c->name);
        if (m->n_headers == MAP_HEADERS_MAX)
            return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                                  "map.header_columns names more than %d columns", MAP_HEADERS_MAX);
        m->headers[m->n_headers].column = c;
        m->headers[m->n_headers++].name = wanted->items[i].name;
    }
    if (m->n_headers > 0 && own != NULL && own->kind != KIND_JSON)
        return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                              "table %s: map.header_columns adds to the headers in column '%s', "
                              "which is not JSON; leave that column out with map.headers: '-'",
                              m->table->quoted, own->name);
    return 0;
}

static int map_infer_columns(const struct map_table *t, const struct pipeline_config *config,
                             struct column_map *ret_map, struct outrider_error *err)
{
    struct column_map m = {.table = t, .epoch = config->map.epoch};
    char name[64];
    map_name_of_table(t->name, name, sizeof name);
    for (int role = 0; role < ROLE_COUNT; role++)
        if (role != ROLE_PAYLOAD && role != ROLE_AGGREGATE_ID &&
            map_infer_role(&m, config, (enum column_role)role, name, err) < 0)
            return -1;
    if (map_infer_role(&m, config, ROLE_PAYLOAD, name, err) < 0 ||
        map_infer_role(&m, config, ROLE_AGGREGATE_ID, name, err) < 0)
        return -1;
    if (m.columns[ROLE_ID] == NULL || m.columns[ROLE_PAYLOAD] == NULL ||
        m.columns[ROLE_AGGREGATE_ID] == NULL)
        return outrider__fail(
            err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
            "table %s: map.id, map.payload and map.aggregate_id cannot be '-', nor "
            "name a column that is missing",
            t->quoted);
    if (map_take_headers(&m, config, err) < 0)
        return -1;
    map_infer_names(&m, name);
    map_infer_order(&m);
    map_infer_mark(&m);
    /* The log itself says what is new. */
    if (m.mark == MARK_NONE && !m.is_ordered && config->source.mode != MODE_CDC)
        return outrider__fail(
            err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
            "table %s has neither a mark (a status, a boolean, a time that is NULL until an event "
            "is published) nor a sequence; set map.status, map.published, map.published_at or "
            "map.seq: COLUMN",
            t->quoted);
    *ret_map = m;
    return 0;
}

int outrider__map_columns(const struct map_table *t, const struct pipeline_config *config,
                          struct column_map *ret_map, struct outrider_error *err)
{
    if (map_infer_columns(t, config, ret_map, err) < 0)
        return -1;
    return outrider__map_check(ret_map, config, err);
}

int outrider__map_infer(const struct map_table *t, const struct pipeline_config *config,
                        struct column_map *ret_map, struct outrider_error *err)
{
    if (outrider__map_columns(t, config, ret_map, err) < 0)
        return -1;
    if (ret_map->mark != MARK_STATUS)
        return 0;
    return outrider__map_values(ret_map->columns[ROLE_STATUS], config,
                                ret_map->columns[ROLE_ATTEMPTS] != NULL, ret_map, err);
}

const struct map_column *outrider__map_status(const struct map_table *t,
                                              const struct pipeline_config *config)
{
    struct column_map m;
    return map_infer_columns(t, config, &m, NULL) < 0 ? NULL : m.columns[ROLE_STATUS];
}

bool outrider__map_is_given(const struct pipeline_config *config)
{
    for (int i = 0; i < ROLE_COUNT; i++)
        if (config->map.columns[i] != NULL && config->map.columns[i][0] != '\0')
            return true;
    return config->map.status_values.n > 0 || config->map.header_columns.n > 0;
}

bool outrider__map_keeps_retries(const struct column_map *m)
{
    return m->mark == MARK_STATUS && m->values[STATE_FAILED][0] != '\0' &&
           m->columns[ROLE_ATTEMPTS] != NULL &&
           (m->columns[ROLE_NEXT_ATTEMPT_AT] != NULL || m->columns[ROLE_UPDATED_AT] != NULL);
}

const struct map_column *outrider__map_mark_column(const struct column_map *m)
{
    switch (m->mark) {
    case MARK_STATUS:
        return m->columns[ROLE_STATUS];
    case MARK_BOOLEAN:
        return m->columns[ROLE_PUBLISHED];
    case MARK_TIME:
        return m->columns[ROLE_PUBLISHED_AT];
    default:
        return NULL;
    }
}

const struct map_column *outrider__map_order_column(const struct column_map *m)
{
    static const enum column_role roles_of_order[] = {ROLE_SEQ, ROLE_CREATED_AT, ROLE_ID};
    size_t i = 0;
    while (m->columns[roles_of_order[i]] == NULL && roles_of_order[i] != ROLE_ID)
        i++;
    return m->columns[roles_of_order[i]];
}

bool outrider__map_shows_claims(const struct column_map *m)
{
    return outrider__map_can_compete(m) ||
           (m->mark == MARK_STATUS && m->values[STATE_PROCESSING][0] != '\0');
}

bool outrider__map_can_compete(const struct column_map *m)
{
    return m->columns[ROLE_LOCKED_BY] != NULL &&
           (m->columns[ROLE_LOCKED_AT] != NULL || m->columns[ROLE_LOCKED_UNTIL] != NULL);
}

void outrider__map_describe(const struct column_map *m, struct strbuf *out)
{
    for (int i = 0; i < ROLE_COUNT; i++)
        if (m->columns[i] != NULL)
            outrider__strbuf_appendf(out, "%s: %s\n", outrider__map_option((enum column_role)i) + 4,
                                     m->columns[i]->name);
    for (size_t i = 0; i < m->n_headers; i++)
        outrider__strbuf_appendf(out, "header %s: %s\n", m->headers[i].name,
                                 m->headers[i].column->name);
    if (m->columns[ROLE_AGGREGATE_TYPE] == NULL)
        outrider__strbuf_appendf(out, "aggregate_type: '%s', from the table's name\n",
                                 m->aggregate_type);
    if (m->columns[ROLE_EVENT_TYPE] == NULL)
        outrider__strbuf_appendf(out, "event_type: '%s', from the names of table and payload\n",
                                 m->event_type);
    for (int i = 0; m->mark == MARK_STATUS && i < STATE_COUNT; i++)
        if (m->values[i][0] != '\0')
            outrider__strbuf_appendf(out, "status_values.%s: %s\n",
                                     outrider__state_name((enum map_state)i), m->values[i]);
}
