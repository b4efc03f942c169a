/* SPDX-License-Identifier: MIT */
/* Reading a table's columns from the catalogue, and SQL made from the map. */
#include "postgres/table/table.h"

#include <stdio.h>

#include "table.sql.h"

const char *const outrider__pg_table_sql = sql_table;

#define PG_NAME 19
_Static_assert(PG_NAME_MAX == OUTBOX_NAME_MAX, "names of tables");
#define HIDDEN_BY_RULE(statement)                                                                \
    "has a rule that does something else INSTEAD of " statement ", so no row could be settled; " \
    "DROP RULE"

const struct map_dialect outrider__pg_map_dialect = {
    .row_place = "xmin, cmin, tableoid, ctid",
    .add_unique = "CREATE UNIQUE INDEX CONCURRENTLY ON @table@ (@column@)",
    .forbid_null = "ALTER TABLE @table@ ALTER COLUMN @column@ SET NOT NULL",
    .allow_null = "ALTER TABLE @table@ ALTER COLUMN @column@ DROP NOT NULL",
    .widen = "ALTER TABLE @table@ ALTER COLUMN @column@ TYPE bigint",
    .wide_integer = "bigint",
    .join_relay = "GRANT outrider_relay TO @role@",
};

enum column {
    C_OID,
    C_QUOTED,
    C_NAME,
    C_PARTITIONED,
    C_OURS,
    C_N_KEY,
    C_COLUMN,
    C_TYPE_OID,
    C_TYPE,
    C_TYPE_KIND,
    C_LENGTH,
    C_NOT_NULL,
    C_IS_KEY,
    C_UNIQUE,
    C_INDEXED,
    C_NUMBERED,
    C_DEFAULT,
    C_CHECK,
    C_LABELS,
    C_CONDITIONS,
    C_QUOTED_COLUMN,
    C_UNIQUE_IN_PARTS,
    C_FIXED,
    C_CAN_SELECT,
    C_CAN_UPDATE,
    C_RELKIND,
    C_ROLE,
    C_CAN_DELETE,
    C_CAN_SEE_PLACE,
    C_HIDES_UPDATE,
    C_HIDES_DELETE,
    C_SCHEMA,
    C_OWNED,
    C_GENERATED
};

static uint8_t width_of(Oid type)
{
    return type == PG_INT8 ? 8 : type == PG_INT4 ? 4 : type == PG_INT2 ? 2 : 0;
}

static enum map_kind kind_of(Oid type, char typtype)
{
    if (typtype == 'e')
        return KIND_ENUM;
    switch (type) {
    case PG_INT2:
    case PG_INT4:
    case PG_INT8:
        return KIND_INTEGER;
    case PG_TEXT:
    case PG_VARCHAR:
    case PG_BPCHAR:
    case PG_NAME:
        return KIND_TEXT;
    case PG_NUMERIC:
        return KIND_DECIMAL;
    case PG_BOOL:
        return KIND_BOOLEAN;
    case PG_TIMESTAMP:
    case PG_TIMESTAMPTZ:
    case PG_DATE:
        return KIND_TIME;
    case PG_UUID:
        return KIND_UUID;
    case PG_JSON:
    case PG_JSONB:
        return KIND_JSON;
    case PG_BYTEA:
        return KIND_BYTES;
    default:
        return KIND_OTHER;
    }
}

static const char *keep(struct arena *arena, const PGresult *r, int row, int col)
{
    struct bytes copy = BYTES_NULL;
    if (outrider__arena_dup(arena, outrider__pg_get_bytes(r, row, col), &copy) < 0)
        return NULL;
    return copy.data;
}

int outrider__pg_table_split(struct arena *arena, const char *text, struct string_list *ret_list)
{
    size_t n = 1;
    if (text == NULL)
        return 0;
    for (const char *p = text; *p != '\0'; p++)
        n += *p == '\x1f';
    ret_list->items = outrider__arena_alloc(arena, n * sizeof *ret_list->items);
    if (ret_list->items == NULL)
        return -1;
    for (const char *p = text;; p++) {
        const char *end = strchrnul(p, '\x1f');
        struct bytes item;
        if (outrider__arena_dup(arena, bytes_of(p, (size_t)(end - p)), &item) < 0)
            return -1;
        ret_list->items[ret_list->n++] = item.data;
        if (*end == '\0')
            return 0;
        p = end;
    }
}

/* The text of a literal that is all of a default ('a', 'a'::text); NULL: it is something else. */
const char *outrider__pg_default_value(struct arena *arena, const char *sql)
{
    if (sql == NULL || *sql != '\'')
        return NULL;
    char *value = outrider__arena_alloc(arena, strlen(sql));
    size_t n = 0;
    const char *p = sql + 1;
    for (; value != NULL && *p != '\0' && (*p != '\'' || p[1] == '\''); p++) {
        p += *p == '\'';
        value[n++] = *p;
    }
    if (value == NULL || *p == '\0')
        return NULL;
    value[n] = '\0';
    p++;
    bool is_all = *p == '\0' || strncmp(p, "::", 2) == 0;
    return is_all && strpbrk(p, "'|") == NULL ? value : NULL; /* 'a'::text || 'b'::text */
}

static int read_column(struct map_column *c, const PGresult *r, int row, struct arena *arena)
{
    *c = (struct map_column){
        .name = keep(arena, r, row, C_COLUMN),
        .type = keep(arena, r, row, C_TYPE),
        .type_id = (uint32_t)outrider__pg_get_int(r, row, C_TYPE_OID, 0),
        .length = (int32_t)outrider__pg_get_int(r, row, C_LENGTH, -1),
        .is_not_null = outrider__pg_get_bool(r, row, C_NOT_NULL),
        .is_key = outrider__pg_get_bool(r, row, C_IS_KEY),
        .is_unique = outrider__pg_get_bool(r, row, C_UNIQUE),
        .is_indexed = outrider__pg_get_bool(r, row, C_INDEXED),
        .is_numbered = outrider__pg_get_bool(r, row, C_NUMBERED),
        .initial = keep(arena, r, row, C_DEFAULT),
        .check = keep(arena, r, row, C_CHECK),
        .quoted = keep(arena, r, row, C_QUOTED_COLUMN),
        .is_unique_in_parts = outrider__pg_get_bool(r, row, C_UNIQUE_IN_PARTS),
        .is_fixed = outrider__pg_get_bool(r, row, C_FIXED),
        .is_generated = outrider__pg_get_bool(r, row, C_GENERATED),
        .can_select = outrider__pg_get_bool(r, row, C_CAN_SELECT),
        .can_update = outrider__pg_get_bool(r, row, C_CAN_UPDATE),
    };
    c->width = width_of(c->type_id);
    c->has_zone = c->type_id == PG_TIMESTAMPTZ;
    c->is_padded = c->type_id == PG_BPCHAR;
    c->initial_value = outrider__pg_default_value(arena, c->initial);
    c->kind = kind_of(c->type_id, *outrider__pg_get_str(r, row, C_TYPE_KIND));
    if (c->name == NULL || c->type == NULL || c->quoted == NULL)
        return -1;
    if (outrider__pg_table_split(arena, keep(arena, r, row, C_CONDITIONS), &c->conditions) < 0)
        return -1;
    return outrider__pg_table_split(arena, keep(arena, r, row, C_LABELS), &c->all);
}

static int check_relation(const PGresult *r, const char *asked, struct outrider_error *err)
{
    char kind = *outrider__pg_get_str(r, 0, C_RELKIND);
    if (kind == 'r' || kind == 'p')
        return 0;
    return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                          "%.100s is %s, and an outbox is a table: rows are locked and marked "
                          "there; name the table that holds the rows with --table",
                          asked,
                          kind == 'v'   ? "a view"
                          : kind == 'm' ? "a materialized view"
                          : kind == 'f' ? "a foreign table"
                                        : "no table");
}

int outrider__pg_table_read(struct outbox_table *a, const PGresult *r, const char *asked,
                            struct arena *arena, struct outrider_error *err)
{
    int n = PQntuples(r);
    if (n == 0)
        return outrider__fail(
            err, OUTRIDER_NO_OUTBOX, OUTRIDER_RETRY,
            "there is no table %.100s; run `outrider init`, or name the table with "
            "--table",
            asked);
    if (n > MAP_COLUMNS_MAX)
        return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                              "table %.100s has more than %d columns: hardly an outbox", asked,
                              MAP_COLUMNS_MAX);
    if (check_relation(r, asked, err) < 0)
        return -1;
    a->id = (uint32_t)outrider__pg_get_int(r, 0, C_OID, 0);
    a->is_partitioned = outrider__pg_get_bool(r, 0, C_PARTITIONED);
    a->is_ours = outrider__pg_get_bool(r, 0, C_OURS);
    a->is_owned = outrider__pg_get_bool(r, 0, C_OWNED);
    (void)snprintf(a->outbox, sizeof a->outbox, "%s", outrider__pg_get_str(r, 0, C_QUOTED));
    (void)snprintf(a->schema, sizeof a->schema, "%s", outrider__pg_get_str(r, 0, C_SCHEMA));
    a->table = (struct map_table){
        .dialect = &outrider__pg_map_dialect,
        .name = keep(arena, r, 0, C_NAME),
        .quoted = a->outbox,
        .columns = outrider__arena_alloc(arena, (size_t)n * sizeof *a->table.columns),
        .n = (size_t)n,
        .n_key = (size_t)outrider__pg_get_int(r, 0, C_N_KEY, 0),
        .role = keep(arena, r, 0, C_ROLE),
        .is_partitioned = a->is_partitioned,
        .can_delete = outrider__pg_get_bool(r, 0, C_CAN_DELETE),
        .can_see_place = outrider__pg_get_bool(r, 0, C_CAN_SEE_PLACE),
        .hides_update =
            outrider__pg_get_bool(r, 0, C_HIDES_UPDATE) ? HIDDEN_BY_RULE("UPDATE") : NULL,
        .hides_delete =
            outrider__pg_get_bool(r, 0, C_HIDES_DELETE) ? HIDDEN_BY_RULE("DELETE") : NULL,
    };
    if (a->table.name == NULL || a->table.columns == NULL || a->table.role == NULL)
        return outrider__fail_nomem(err);
    for (int i = 0; i < n; i++)
        if (read_column(&a->table.columns[i], r, i, arena) < 0)
            return outrider__fail_nomem(err);
    return 0;
}

bool outrider__pg_table_has_states(const struct pg_catalog *cat,
                                   const struct pipeline_config *config)
{
    return cat->has_mark || !cat->has_seq || config->source.tables.n > 1 ||
           outrider__map_is_given(config);
}

int outrider__pg_table_infer(struct outbox_table *a, const struct pipeline_config *config,
                             const struct pg_catalog *cat, struct outrider_error *err)
{
    if (outrider__map_infer(&a->table, config, &a->map, err) < 0)
        return -1;
    if (a->map.mark == MARK_NONE && config->source.mode != MODE_CDC)
        return outrider__fail(
            err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
            "table %s has a sequence (%s) but no mark of what is published; as a log it needs "
            "that column to be called seq, or name the mark with map.status, map.published or "
            "map.published_at: COLUMN",
            a->outbox, a->map.columns[ROLE_SEQ]->name);
    bool has_dead = a->map.mark == MARK_STATUS && a->map.values[STATE_DEAD][0] != '\0';
    a->parks_retries = !outrider__map_keeps_retries(&a->map);
    a->parks_dead = a->parks_retries || !has_dead;
    (void)snprintf(a->cursor_table, sizeof a->cursor_table, "%s", cat->cursor_table);
    (void)snprintf(a->parked_table, sizeof a->parked_table, "%s", cat->parked_table);
    return 0;
}

int outrider__pg_table_check(struct outbox_table *a, const struct pipeline_config *config,
                             struct outrider_error *err)
{
    int after = config->source.after_publish;
    bool touches = after == AFTER_PUBLISH_MARK || after == AFTER_PUBLISH_DELETE ||
                   (config->cleanup.adopted && config->cleanup.retention_us > 0);
    struct outrider_error why;
    struct map_needs needs;
    outrider__map_needs(&a->map, config, &needs);
    a->can_be_polled = a->map.mark != MARK_NONE;
    if (outrider__map_check_needs(&a->map, &needs, &why) == 0)
        return 0;
    /* The stream needs no mark, if nobody asked for one. */
    if (config->source.mode == MODE_CDC && !touches) {
        a->can_be_polled = false;
        memset(needs.writes, 0, sizeof needs.writes);
        return outrider__map_check_needs(&a->map, &needs, err);
    }
    if (err != NULL)
        *err = why;
    return -1;
}

static void append_quoted(struct strbuf *sql, const char *text, char quote)
{
    strbuf_append_char(sql, quote);
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == quote)
            strbuf_append_char(sql, quote);
        strbuf_append_char(sql, *p);
    }
    strbuf_append_char(sql, quote);
}

void outrider__pg_sql_ident(struct strbuf *sql, const char *name)
{
    append_quoted(sql, name, '"');
}

/* standard_conforming_strings is on since 9.1; a backslash is a backslash. */
void outrider__pg_sql_literal(struct strbuf *sql, const char *text)
{
    append_quoted(sql, text, '\'');
}

void outrider__pg_sql_column(struct strbuf *sql, const struct outbox_table *a,
                             enum column_role role, const char *alias)
{
    strbuf_append_str(sql, alias);
    outrider__pg_sql_ident(sql, a->map.columns[role]->name);
}

static bool has(const struct outbox_table *a, enum column_role role)
{
    return a->map.columns[role] != NULL;
}

static bool is_bytes(const struct outbox_table *a, enum column_role role)
{
    return has(a, role) && a->map.columns[role]->kind == KIND_BYTES;
}

void outrider__pg_sql_id(struct strbuf *sql, const struct outbox_table *a, const char *alias)
{
    bool is_hex = is_bytes(a, ROLE_ID);
    if (is_hex)
        strbuf_append_str(sql, "('\\x' || encode(");
    outrider__pg_sql_column(sql, a, ROLE_ID, alias);
    strbuf_append_str(sql, is_hex ? ", 'hex'))" : "::text");
}

static bool has_byte_keys(const struct outbox_table *a)
{
    return is_bytes(a, ROLE_AGGREGATE_ID) || is_bytes(a, ROLE_PARTITION_KEY);
}

/* A key column as bytes. */
static void key_bytes(struct strbuf *sql, const struct outbox_table *a, enum column_role role,
                      const char *alias)
{
    if (!is_bytes(a, role))
        strbuf_append_str(sql, "convert_to(");
    outrider__pg_sql_column(sql, a, role, alias);
    strbuf_append_str(sql, is_bytes(a, role) ? "::bytea, " : "::text, 'UTF8'), ");
}

static void key_columns(struct strbuf *sql, const struct outbox_table *a, const char *alias)
{
    bool bytes = has_byte_keys(a);
    strbuf_append_str(sql, "coalesce(");
    for (int i = 0; i < 2; i++) {
        enum column_role role = i == 0 ? ROLE_PARTITION_KEY : ROLE_AGGREGATE_ID;
        if (!has(a, role))
            continue;
        if (bytes) {
            key_bytes(sql, a, role, alias);
        } else {
            outrider__pg_sql_column(sql, a, role, alias);
            strbuf_append_str(sql, "::text, ");
        }
    }
    strbuf_append_str(sql, bytes ? "''::bytea)" : "'')");
}

void outrider__pg_sql_key(struct strbuf *sql, const struct outbox_table *a, const char *alias)
{
    struct strbuf key;
    outrider__strbuf_init(&key, 2048);
    key_columns(&key, a, alias);
    if (has_byte_keys(a))
        strbuf_append_str(sql, strbuf_cstr(&key));
    else
        outrider__strbuf_appendf(sql,
                                 "CASE WHEN starts_with(%s, '\\x') THEN '\\x' || "
                                 "encode(convert_to(%s, 'UTF8'), 'hex') ELSE %s END",
                                 strbuf_cstr(&key), strbuf_cstr(&key), strbuf_cstr(&key));
    sql->failed |= key.failed;
    outrider__strbuf_release(&key);
}

void outrider__pg_sql_lane(struct strbuf *sql, const struct outbox_table *a, const char *lane)
{
    if (!has_byte_keys(a)) {
        strbuf_append_str(sql, lane);
        return;
    }
    outrider__strbuf_appendf(sql,
                             "CASE WHEN %s ~ '^\\\\x([0-9a-f]{2})*$' THEN decode(substr(%s, 3), "
                             "'hex') ELSE convert_to(%s, 'UTF8') END",
                             lane, lane, lane);
}

static void words_of(struct strbuf *sql, const struct outbox_table *a, const enum map_state *states,
                     size_t n)
{
    const char *before = "";
    for (size_t i = 0; i < n; i++) {
        if (a->map.values[states[i]][0] == '\0')
            continue;
        strbuf_append_str(sql, before);
        outrider__pg_sql_literal(sql, a->map.values[states[i]]);
        before = ", ";
    }
}

/* No word for pending is known: whatever is not settled is new. */
static void not_settled(struct strbuf *sql, const struct outbox_table *a, const char *alias)
{
    static const enum map_state settled[] = {STATE_PUBLISHED, STATE_DEAD, STATE_EXPIRED};
    struct strbuf words;
    outrider__strbuf_init(&words, 1024);
    words_of(&words, a, settled, sizeof settled / sizeof *settled);
    if (words.len == 0) {
        strbuf_append_str(sql, "true");
    } else {
        strbuf_append_str(sql, "(");
        outrider__pg_sql_column(sql, a, ROLE_STATUS, alias);
        outrider__strbuf_appendf(sql, " IN (%s)) IS NOT TRUE", strbuf_cstr(&words));
    }
    outrider__strbuf_release(&words);
}

void outrider__pg_sql_unsettled(struct strbuf *sql, const struct outbox_table *a, const char *alias)
{
    static const enum map_state live[] = {STATE_PENDING, STATE_PROCESSING, STATE_FAILED};
    if (a->map.waits_for_words) {
        not_settled(sql, a, alias);
    } else if (a->map.mark == MARK_STATUS) {
        outrider__pg_sql_column(sql, a, ROLE_STATUS, alias);
        strbuf_append_str(sql, " IN (");
        words_of(sql, a, live, sizeof live / sizeof *live);
        strbuf_append_str(sql, ")");
    } else if (a->map.mark == MARK_BOOLEAN) {
        strbuf_append_str(sql, "(NOT ");
        outrider__pg_sql_column(sql, a, ROLE_PUBLISHED, alias);
        if (!a->map.columns[ROLE_PUBLISHED]->is_not_null) {
            strbuf_append_str(sql, " OR ");
            outrider__pg_sql_column(sql, a, ROLE_PUBLISHED, alias);
            strbuf_append_str(sql, " IS NULL");
        }
        strbuf_append_str(sql, ")");
    } else if (a->map.mark == MARK_TIME) {
        outrider__pg_sql_column(sql, a, ROLE_PUBLISHED_AT, alias);
        strbuf_append_str(sql, " IS NULL");
    } else {
        strbuf_append_str(sql, "false"); /* the row does not say */
    }
}

void outrider__pg_sql_not_streamed(struct strbuf *sql, const struct outbox_table *a,
                                   const char *pipeline)
{
    if (a->cursor_table[0] == '\0')
        return;
    outrider__strbuf_appendf(sql,
                             " AND coalesce(((o.xmin::text::int8 - (SELECT max(k.settled_xid) FROM "
                             "%s k WHERE k.pipeline = %s AND k.mode = 'cdc')) & 4294967295) "
                             "< 2147483648, true)",
                             a->cursor_table, pipeline);
}

void outrider__pg_sql_published(struct strbuf *sql, const struct outbox_table *a, const char *alias)
{
    bool is_known = a->map.values[STATE_PUBLISHED][0] != '\0'; /* or the word is waited for */
    if (a->map.mark == MARK_STATUS && is_known) {
        outrider__pg_sql_column(sql, a, ROLE_STATUS, alias);
        strbuf_append_str(sql, " = ");
        outrider__pg_sql_literal(sql, a->map.values[STATE_PUBLISHED]);
    } else if (a->map.mark == MARK_BOOLEAN) {
        outrider__pg_sql_column(sql, a, ROLE_PUBLISHED, alias);
    } else if (a->map.mark == MARK_TIME) {
        outrider__pg_sql_column(sql, a, ROLE_PUBLISHED_AT, alias);
        strbuf_append_str(sql, " IS NOT NULL");
    } else {
        strbuf_append_str(sql, "false");
    }
}

/* A column as text (bytes: as they are), or what stands for it. */
static void text_column(struct strbuf *sql, const struct outbox_table *a, enum column_role role,
                        const char *alias, const char *otherwise, const struct pg_bounds *b)
{
    struct strbuf value;
    outrider__strbuf_init(&value, 512);
    if (has(a, role)) {
        outrider__pg_sql_column(&value, a, role, alias);
        strbuf_append_str(&value, is_bytes(a, role) ? "::bytea" : "::text");
        outrider__pg_sql_text(sql, strbuf_cstr(&value), is_bytes(a, role), b);
    } else if (otherwise != NULL) {
        outrider__pg_sql_literal(sql, otherwise);
        strbuf_append_str(sql, "::text");
    } else {
        strbuf_append_str(sql, "NULL::text");
    }
    strbuf_append_str(sql, ", ");
    sql->failed |= value.failed;
    outrider__strbuf_release(&value);
}

static void cast_column(struct strbuf *sql, const struct outbox_table *a, enum column_role role,
                        const char *alias, const char *type)
{
    if (has(a, role))
        outrider__pg_sql_column(sql, a, role, alias);
    else
        strbuf_append_str(sql, "NULL");
    outrider__strbuf_appendf(sql, "::%s, ", type);
}

static void time_column(struct strbuf *sql, const struct outbox_table *a, enum column_role role,
                        const char *alias)
{
    if (has(a, role))
        outrider__pg_sql_time(sql, a, role, alias);
    else
        strbuf_append_str(sql, "NULL::timestamptz");
    strbuf_append_str(sql, ", ");
}

static void headers_as_json(struct strbuf *sql, const struct outbox_table *a, const char *alias)
{
    strbuf_append_str(sql, is_bytes(a, ROLE_HEADERS) ? "convert_from(" : "(");
    outrider__pg_sql_column(sql, a, ROLE_HEADERS, alias);
    strbuf_append_str(sql, is_bytes(a, ROLE_HEADERS) ? ", 'UTF8')::json" : ")::json");
}

/* The event's own, or NULL where they are no object. */
static void own_headers(struct strbuf *sql, const struct outbox_table *a, const char *alias)
{
    strbuf_append_str(sql, "CASE WHEN json_typeof(");
    headers_as_json(sql, a, alias);
    strbuf_append_str(sql, ") = 'object' THEN ");
    headers_as_json(sql, a, alias);
    strbuf_append_str(sql, " END");
}

static void quoted(struct strbuf *sql, const struct map_column *c, const char *alias)
{
    strbuf_append_str(sql, alias);
    outrider__pg_sql_ident(sql, c->name);
}

/* As JSON; a moment in UTC, whatever the session's time zone is. */
static void header_value(struct strbuf *sql, const struct map_column *c, const char *alias)
{
    bool is_moment = c->has_zone;
    if (is_moment) {
        strbuf_append_str(sql, "CASE WHEN isfinite(");
        quoted(sql, c, alias);
        strbuf_append_str(sql, ") THEN to_json((to_json(");
        quoted(sql, c, alias);
        strbuf_append_str(sql, " AT TIME ZONE 'UTC') #>> '{}') || '+00:00') ELSE ");
    }
    strbuf_append_str(sql, "to_json(");
    quoted(sql, c, alias);
    strbuf_append_str(sql, is_moment ? ") END" : ")");
}

/* The event's own headers and those that are made from columns, as one object. Not jsonb,
 * which has an order and a spelling of its own: the stream brings the same. */
static void joined_headers(struct strbuf *sql, const struct outbox_table *a, const char *alias)
{
    strbuf_append_str(sql, "(SELECT json_object_agg(h.k, h.v) FROM (");
    if (has(a, ROLE_HEADERS)) {
        strbuf_append_str(sql, "SELECT j.key, j.value FROM json_each(");
        own_headers(sql, a, alias);
        strbuf_append_str(sql, ") j UNION ALL SELECT v.k, v.v FROM (");
    }
    for (size_t i = 0; i < a->map.n_headers; i++) {
        strbuf_append_str(sql, i > 0 ? ", (" : "VALUES (");
        outrider__pg_sql_literal(sql, a->map.headers[i].name);
        strbuf_append_str(sql, "::text, ");
        header_value(sql, a->map.headers[i].column, alias);
        strbuf_append_str(sql, ")");
    }
    if (has(a, ROLE_HEADERS)) {
        strbuf_append_str(sql, ") AS v(k, v) WHERE v.k NOT IN (SELECT json_object_keys(");
        own_headers(sql, a, alias);
        strbuf_append_str(sql, "))");
    }
    strbuf_append_str(sql, ") AS h(k, v))::text");
}

/* Where the row does not say when it was written: when it is read. */
static void created_column(struct strbuf *sql, const struct outbox_table *a, const char *alias)
{
    strbuf_append_str(sql, "coalesce(");
    time_column(sql, a, ROLE_CREATED_AT, alias);
    strbuf_append_str(sql, "now()), ");
}

/* SQL over them as t.h; what is put together is put together once. */
static void over_joined(struct strbuf *sql, const struct outbox_table *a, const char *alias,
                        const struct pg_bounds *b, const char *above, const char *otherwise)
{
    outrider__strbuf_appendf(
        sql, "(SELECT CASE WHEN octet_length(t.h) > %s THEN %s ELSE %s END FROM (SELECT ",
        b->headers, above, otherwise);
    joined_headers(sql, a, alias);
    strbuf_append_str(sql, " AS h OFFSET 0) t)");
}

static void headers_column(struct strbuf *sql, const struct outbox_table *a, const char *alias,
                           const struct pg_bounds *b)
{
    struct strbuf column;
    outrider__strbuf_init(&column, 512);
    if (a->map.n_headers > 0 && b != NULL) {
        over_joined(sql, a, alias, b, "'!'", "t.h");
    } else if (a->map.n_headers > 0) {
        joined_headers(sql, a, alias);
    } else if (has(a, ROLE_HEADERS)) {
        outrider__pg_sql_column(&column, a, ROLE_HEADERS, alias);
        outrider__pg_sql_headers(sql, a->map.columns[ROLE_HEADERS]->type_id, strbuf_cstr(&column),
                                 b);
    } else {
        strbuf_append_str(sql, "NULL::text");
    }
    strbuf_append_str(sql, ", ");
    sql->failed |= column.failed;
    outrider__strbuf_release(&column);
}

static void large_headers(struct strbuf *sql, const struct outbox_table *a, const char *alias,
                          const struct pg_bounds *b)
{
    struct strbuf column, size;
    outrider__strbuf_init(&column, 512);
    outrider__strbuf_init(&size, 4096);
    if (a->map.n_headers == 0 && has(a, ROLE_HEADERS)) {
        outrider__pg_sql_column(&column, a, ROLE_HEADERS, alias);
        outrider__pg_size_sql(&size, a->map.columns[ROLE_HEADERS]->type_id, strbuf_cstr(&column));
        outrider__pg_sql_large_column(sql, "headers", strbuf_cstr(&size), b->headers);
    } else if (a->map.n_headers > 0) {
        strbuf_append_str(sql, " ELSE ");
        over_joined(sql, a, alias, b, "'headers ' || octet_length(t.h)", "NULL");
    }
    sql->failed |= column.failed || size.failed;
    outrider__strbuf_release(&column);
    outrider__strbuf_release(&size);
}

/* EV_LARGE: rows are settled by their id, so that is read whatever its size. */
static void large_column(struct strbuf *sql, const struct outbox_table *a, const char *alias,
                         const struct pg_bounds *b)
{
    static const struct {
        enum column_role role;
        const char *name;
    } texts[] = {{ROLE_AGGREGATE_TYPE, "aggregate_type"},
                 {ROLE_AGGREGATE_ID, "aggregate_id"},
                 {ROLE_EVENT_TYPE, "event_type"},
                 {ROLE_TOPIC, "topic"},
                 {ROLE_PARTITION_KEY, "partition_key"}};
    struct strbuf size;
    if (b == NULL) {
        strbuf_append_str(sql, "NULL::text");
        return;
    }
    outrider__strbuf_init(&size, 1024);
    outrider__pg_sql_large_begin(sql, b);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (!has(a, texts[i].role))
            continue;
        outrider__strbuf_clear(&size);
        strbuf_append_str(&size, "octet_length(");
        outrider__pg_sql_column(&size, a, texts[i].role, alias);
        strbuf_append_str(&size, is_bytes(a, texts[i].role) ? "::bytea)" : "::text)");
        outrider__pg_sql_large_column(sql, texts[i].name, strbuf_cstr(&size), b->text);
    }
    large_headers(sql, a, alias, b);
    outrider__pg_sql_large_end(sql);
    sql->failed |= size.failed;
    outrider__strbuf_release(&size);
}

static void payload_column(struct strbuf *sql, const struct map_column *payload, const char *column,
                           const char *size, const struct pg_bounds *b)
{
    bool is_own_form = payload->kind == KIND_JSON || payload->kind == KIND_BYTES;
    const char *cast = is_own_form ? "" : "::text";
    if (b == NULL)
        outrider__strbuf_appendf(sql, "%s%s, ", column, cast);
    else
        outrider__strbuf_appendf(sql, "CASE WHEN %s <= %s THEN %s%s END, ", size, b->payload,
                                 column, cast);
}

void outrider__pg_sql_event(struct strbuf *sql, const struct outbox_table *a, const char *alias,
                            const struct pg_bounds *b)
{
    const struct map_column *payload = a->map.columns[ROLE_PAYLOAD];
    struct strbuf column, size;
    outrider__strbuf_init(&column, 512);
    outrider__strbuf_init(&size, 4096);
    outrider__pg_sql_column(&column, a, ROLE_PAYLOAD, alias);
    outrider__pg_size_sql(&size, payload->type_id, strbuf_cstr(&column));
    cast_column(sql, a, ROLE_SEQ, alias, "int8");
    outrider__pg_sql_id(sql, a, alias);
    strbuf_append_str(sql, ", ");
    text_column(sql, a, ROLE_AGGREGATE_TYPE, alias, a->map.aggregate_type, b);
    text_column(sql, a, ROLE_AGGREGATE_ID, alias, NULL, b);
    text_column(sql, a, ROLE_EVENT_TYPE, alias, a->map.event_type, b);
    payload_column(sql, payload, strbuf_cstr(&column), strbuf_cstr(&size), b);
    headers_column(sql, a, alias, b);
    text_column(sql, a, ROLE_TOPIC, alias, NULL, b);
    text_column(sql, a, ROLE_PARTITION_KEY, alias, NULL, b);
    cast_column(sql, a, ROLE_PARTITION, alias, "int4");
    time_column(sql, a, ROLE_OCCURRED_AT, alias);
    created_column(sql, a, alias);
    time_column(sql, a, ROLE_EXPIRES_AT, alias);
    outrider__pg_sql_size(sql, strbuf_cstr(&column), strbuf_cstr(&size), b);
    strbuf_append_str(sql, ", ");
    large_column(sql, a, alias, b);
    sql->failed |= column.failed || size.failed;
    outrider__strbuf_release(&column);
    outrider__strbuf_release(&size);
}

static enum column_role time_role(const struct outbox_table *a)
{
    return has(a, ROLE_CREATED_AT) ? ROLE_CREATED_AT : ROLE_OCCURRED_AT;
}

/* " ORDER BY " and the columns that say the order; whether there is nothing to add. */
static bool order_by_columns(struct strbuf *sql, const struct outbox_table *a, const char *alias)
{
    strbuf_append_str(sql, " ORDER BY ");
    if (has(a, ROLE_SEQ)) {
        outrider__pg_sql_column(sql, a, ROLE_SEQ, alias);
        return true;
    }
    if (has(a, time_role(a))) {
        outrider__pg_sql_column(sql, a, time_role(a), alias);
        strbuf_append_str(sql, ", ");
    }
    return false;
}

void outrider__pg_sql_page_order(struct strbuf *sql, const struct outbox_table *a,
                                 const char *alias)
{
    if (!order_by_columns(sql, a, alias))
        outrider__pg_sql_column(sql, a, ROLE_ID, alias);
}

/* Rows that a relay has had and changed: another place in the heap is theirs since then. They
 * were read in order, so each of them comes before all rows of its key that no relay had. */
static void changed_first(struct strbuf *sql, const struct outbox_table *a, const char *alias)
{
    static const enum column_role counts[] = {ROLE_ATTEMPTS, ROLE_CLAIM};
    bool has_failed = a->map.mark == MARK_STATUS && a->map.values[STATE_FAILED][0] != '\0';
    const char *before = "(";
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        if (!has(a, counts[i]))
            continue;
        strbuf_append_str(sql, before);
        outrider__pg_sql_column(sql, a, counts[i], alias);
        strbuf_append_str(sql, " > 0");
        before = " OR ";
    }
    if (has_failed) {
        strbuf_append_str(sql, before);
        outrider__pg_sql_column(sql, a, ROLE_STATUS, alias);
        strbuf_append_str(sql, " = ");
        outrider__pg_sql_literal(sql, a->map.values[STATE_FAILED]);
        before = " OR ";
    }
    if (*before == ' ')
        strbuf_append_str(sql, ") IS NOT TRUE, ");
}

/*
 * Where claims are written and not counted, a row that was given back looks like one that nobody
 * had, and stands behind it. There an id that grows with time is the better witness: whether
 * it does is known of versions 6 and 7, and is the only hope of what is no uuid.
 */
static bool order_by_id(struct strbuf *sql, const struct outbox_table *a, const char *alias)
{
    if (!outrider__map_shows_claims(&a->map) || has(a, ROLE_CLAIM))
        return false;
    if (a->map.columns[ROLE_ID]->kind != KIND_UUID) {
        outrider__pg_sql_column(sql, a, ROLE_ID, alias);
        return true;
    }
    strbuf_append_str(sql, "CASE WHEN substr(");
    outrider__pg_sql_column(sql, a, ROLE_ID, alias);
    strbuf_append_str(sql, "::text, 15, 1) IN ('6', '7') THEN ");
    outrider__pg_sql_column(sql, a, ROLE_ID, alias);
    strbuf_append_str(sql, " END, ");
    return false;
}

/* When the row's transaction committed, where the server notes that; asked once a statement. */
#define COMMITTED                                                              \
    "CASE WHEN (SELECT current_setting('track_commit_timestamp')::bool) THEN " \
    "pg_xact_commit_timestamp(%sxmin) END"

/*
 * By the transaction that wrote the row, the statement in it, and the place that the statement
 * found, which goes up as long as vacuum made no room. Transactions come as they committed;
 * where the server does not note that, as they first wrote (their age without a sign: what is
 * frozen for more than 2^31 transactions is still the oldest).
 */
void outrider__pg_sql_order(struct strbuf *sql, const struct outbox_table *a, const char *alias)
{
    if (order_by_columns(sql, a, alias) || order_by_id(sql, a, alias))
        return;
    changed_first(sql, a, alias);
    outrider__strbuf_appendf(sql,
                             COMMITTED
                             " NULLS FIRST, CASE WHEN (" COMMITTED ") IS NULL THEN "
                             "age(%sxmin)::int8 & 4294967295 END DESC, %scmin::text::int8, "
                             "%stableoid, %sctid",
                             alias, alias, alias, alias, alias, alias);
}

void outrider__pg_sql_settled_at(struct strbuf *sql, const struct outbox_table *a,
                                 const char *alias)
{
    static const enum column_role times[] = {ROLE_PUBLISHED_AT, ROLE_UPDATED_AT, ROLE_CREATED_AT,
                                             ROLE_OCCURRED_AT};
    strbuf_append_str(sql, "coalesce(");
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        if (!has(a, times[i]))
            continue;
        outrider__pg_sql_time(sql, a, times[i], alias);
        strbuf_append_str(sql, ", ");
    }
    /* Without any time nothing is ever old enough. */
    strbuf_append_str(sql, "'infinity'::timestamptz)");
}

/* Settled for good: dead letters wait for a person. */
static void over(struct strbuf *sql, const struct outbox_table *a, const char *alias)
{
    const char *expired = a->map.values[STATE_EXPIRED];
    bool tells = a->map.mark == MARK_STATUS && expired[0] != '\0' &&
                 strcmp(expired, a->map.values[STATE_DEAD]) != 0;
    strbuf_append_str(sql, "(");
    outrider__pg_sql_published(sql, a, alias);
    if (tells) {
        strbuf_append_str(sql, " OR ");
        outrider__pg_sql_column(sql, a, ROLE_STATUS, alias);
        strbuf_append_str(sql, " = ");
        outrider__pg_sql_literal(sql, expired);
    }
    strbuf_append_str(sql, ")");
}

void outrider__pg_sql_cleanup(struct strbuf *sql, const struct outbox_table *a)
{
    outrider__strbuf_appendf(sql, "DELETE FROM %s o WHERE ", a->outbox);
    outrider__pg_sql_column(sql, a, ROLE_ID, "o.");
    strbuf_append_str(sql, " IN (SELECT ");
    outrider__pg_sql_column(sql, a, ROLE_ID, "i.");
    outrider__strbuf_appendf(sql, " FROM %s i WHERE ", a->outbox);
    over(sql, a, "i.");
    strbuf_append_str(sql, " AND ");
    if (has(a, ROLE_PUBLISHED_AT)) {
        /* By itself, so that an index on it serves. */
        strbuf_append_str(sql, "(");
        outrider__pg_sql_column(sql, a, ROLE_PUBLISHED_AT, "i.");
        strbuf_append_str(sql, " < ");
        outrider__pg_sql_stamp(sql, a, ROLE_PUBLISHED_AT, "$1::timestamptz");
        strbuf_append_str(sql, " OR ");
        outrider__pg_sql_column(sql, a, ROLE_PUBLISHED_AT, "i.");
        strbuf_append_str(sql, " IS NULL) AND ");
    }
    outrider__pg_sql_settled_at(sql, a, "i.");
    strbuf_append_str(sql, " < $1::timestamptz LIMIT $2::int8)");
}

void outrider__pg_table_complete(const struct outbox_table *a, struct event *e)
{
    if (bytes_is_null(e->aggregate_type))
        e->aggregate_type = bytes_str(a->map.aggregate_type);
    if (bytes_is_null(e->event_type))
        e->event_type = bytes_str(a->map.event_type);
    if (bytes_is_null(e->aggregate_id))
        e->aggregate_id = BYTES_LIT("");
}
