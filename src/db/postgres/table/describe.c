/* SPDX-License-Identifier: MIT */
/* The description of a table for the column map, from the catalogue. */
#include "postgres/table/table.h"

#include <stdio.h>

#include "table.sql.h"

const char *const outrider__pg_table_sql = sql_table_columns;

#define PG_NAME 19
_Static_assert(PG_NAME_MAX == OUTBOX_NAME_MAX, "names of tables");
#define HIDDEN_BY_RULE(statement)                                                                \
    "has a rule that does something else INSTEAD of " statement ", so no row could be settled; " \
    "DROP RULE"

const struct map_phrases outrider__pg_map_phrases = {
    .row_place = "xmin, cmin, tableoid, ctid",
    .add_unique = "CREATE UNIQUE INDEX CONCURRENTLY ON @table@ (@column@)",
    .forbid_null = "ALTER TABLE @table@ ALTER COLUMN @column@ SET NOT NULL",
    .allow_null = "ALTER TABLE @table@ ALTER COLUMN @column@ DROP NOT NULL",
    .widen = "ALTER TABLE @table@ ALTER COLUMN @column@ TYPE bigint",
    .wide_integer = "bigint",
    .add_sequence = "add a column that a sequence numbers, such as `seq bigint GENERATED ALWAYS AS "
                    "IDENTITY`",
    .order_without_sequence = "insertion, as far as the heap tells",
    .join_relay = "GRANT outrider_relay TO @role@",
};

/* Result columns of table_columns. */
enum table_column {
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

static uint8_t table_type_width(Oid type)
{
    return type == PG_INT8 ? 8 : type == PG_INT4 ? 4 : type == PG_INT2 ? 2 : 0;
}

static enum map_kind table_type_kind(Oid type, char typtype)
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

static const char *table_keep(struct arena *arena, const PGresult *r, int row, int col)
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

static int table_read_column(struct map_column *c, const PGresult *r, int row, struct arena *arena)
{
    *c = (struct map_column){
        .name = table_keep(arena, r, row, C_COLUMN),
        .type = table_keep(arena, r, row, C_TYPE),
        .type_id = (uint32_t)outrider__pg_get_int(r, row, C_TYPE_OID, 0),
        .length = (int32_t)outrider__pg_get_int(r, row, C_LENGTH, -1),
        .is_not_null = outrider__pg_get_bool(r, row, C_NOT_NULL),
        .is_key = outrider__pg_get_bool(r, row, C_IS_KEY),
        .is_unique = outrider__pg_get_bool(r, row, C_UNIQUE),
        .is_indexed = outrider__pg_get_bool(r, row, C_INDEXED),
        .is_numbered = outrider__pg_get_bool(r, row, C_NUMBERED),
        .initial = table_keep(arena, r, row, C_DEFAULT),
        .check = table_keep(arena, r, row, C_CHECK),
        .quoted = table_keep(arena, r, row, C_QUOTED_COLUMN),
        .is_unique_in_parts = outrider__pg_get_bool(r, row, C_UNIQUE_IN_PARTS),
        .is_fixed = outrider__pg_get_bool(r, row, C_FIXED),
        .is_generated = outrider__pg_get_bool(r, row, C_GENERATED),
        .can_select = outrider__pg_get_bool(r, row, C_CAN_SELECT),
        .can_update = outrider__pg_get_bool(r, row, C_CAN_UPDATE),
    };
    c->width = table_type_width(c->type_id);
    c->has_zone = c->type_id == PG_TIMESTAMPTZ;
    c->is_padded = c->type_id == PG_BPCHAR;
    c->initial_value = outrider__pg_default_value(arena, c->initial);
    c->kind = table_type_kind(c->type_id, *outrider__pg_get_str(r, row, C_TYPE_KIND));
    if (c->name == NULL || c->type == NULL || c->quoted == NULL)
        return -1;
    if (outrider__pg_table_split(arena, table_keep(arena, r, row, C_CONDITIONS), &c->conditions) <
        0)
        return -1;
    return outrider__pg_table_split(arena, table_keep(arena, r, row, C_LABELS), &c->all);
}

static const char *table_relation_kind(char relkind)
{
    switch (relkind) {
    case 'r':
    case 'p':
        return NULL;
    case 'v':
        return "a view";
    case 'm':
        return "a materialized view";
    case 'f':
        return "a foreign table";
    default:
        return "no table";
    }
}

int outrider__pg_table_describe(struct outbox_table *a, const struct pg_catalog *cat,
                                const PGresult *r, const char *asked, struct arena *arena,
                                struct outrider_error *err)
{
    int n = PQntuples(r);
    const struct table_relation relation = {
        .asked = asked,
        .n_columns = (size_t)n,
        .kind = n > 0 ? table_relation_kind(*outrider__pg_get_str(r, 0, C_RELKIND)) : NULL};
    if (outrider__study_relation(&relation, err) < 0)
        return -1;
    a->id = (uint32_t)outrider__pg_get_int(r, 0, C_OID, 0);
    a->is_partitioned = outrider__pg_get_bool(r, 0, C_PARTITIONED);
    a->is_ours = outrider__pg_get_bool(r, 0, C_OURS);
    a->is_owned = outrider__pg_get_bool(r, 0, C_OWNED);
    (void)snprintf(a->outbox, sizeof a->outbox, "%s", outrider__pg_get_str(r, 0, C_QUOTED));
    (void)snprintf(a->schema, sizeof a->schema, "%s", outrider__pg_get_str(r, 0, C_SCHEMA));
    (void)snprintf(a->cursor_table, sizeof a->cursor_table, "%s", cat->cursor_table);
    (void)snprintf(a->parked_table, sizeof a->parked_table, "%s", cat->parked_table);
    a->table = (struct map_table){
        .phrases = &outrider__pg_map_phrases,
        .name = table_keep(arena, r, 0, C_NAME),
        .quoted = a->outbox,
        .columns = outrider__arena_alloc(arena, (size_t)n * sizeof *a->table.columns),
        .n = (size_t)n,
        .n_key = (size_t)outrider__pg_get_int(r, 0, C_N_KEY, 0),
        .role = table_keep(arena, r, 0, C_ROLE),
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
        if (table_read_column(&a->table.columns[i], r, i, arena) < 0)
            return outrider__fail_nomem(err);
    return 0;
}

bool outrider__pg_table_has_states(const struct pg_catalog *cat,
                                   const struct pipeline_config *config)
{
    return cat->has_mark || !cat->has_seq || config->source.tables.n > 1 ||
           outrider__map_is_given(config);
}
