/* SPDX-License-Identifier: MIT */
/* How PostgreSQL reads and writes the columns of an outbox table: common/table_sql.h. */
#include <stdlib.h>

#include "postgres/table/table.h"
#include "postgres/wire/dialect.h"

static void table_event(struct strbuf *q, const struct outbox_table *t, const char *alias,
                        int bounds)
{
    struct pg_bounds b;
    if (bounds > 0)
        b = outrider__pg_bounds_of(bounds);
    outrider__pg_sql_event(q, t, alias, bounds > 0 ? &b : NULL);
}

static void table_of_text(struct strbuf *q, const struct outbox_table *t, enum column_role role,
                          const char *text)
{
    outrider__strbuf_appendf(q, "CAST(%s AS %s)", text, t->map.columns[role]->type);
}

static void table_payload(struct strbuf *q, const struct outbox_table *t, const char *value)
{
    outrider__pg_bytea_sql(q, t->map.columns[ROLE_PAYLOAD]->type_id, value);
}

const struct table_dialect outrider__pg_table_dialect = {
    .sql = &outrider__pg_dialect,
    .id = outrider__pg_sql_id,
    .key = outrider__pg_sql_key,
    .lane = outrider__pg_sql_lane,
    .event = table_event,
    .order = outrider__pg_sql_order,
    .time_of = outrider__pg_sql_time_of,
    .stamp = outrider__pg_sql_stamp,
    .of_text = table_of_text,
    .stored = outrider__pg_stored_sql,
    .payload = table_payload,
};

void outrider__pg_sql_finish(struct strbuf *sql, const struct strbuf *neutral)
{
    if (neutral->len == 0 && !neutral->failed)
        return;
    char *text = neutral->failed ? NULL
                                 : outrider__sql_finish(&outrider__pg_dialect, strbuf_cstr(neutral),
                                                        NULL, NULL);
    if (text == NULL)
        sql->failed = true;
    else
        strbuf_append_str(sql, text);
    free(text);
}
