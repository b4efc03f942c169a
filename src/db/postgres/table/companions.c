/* SPDX-License-Identifier: MIT */
/* Our own tables beside an adopted one: made when a relay first reads it. */
#include "postgres/table/table.h"

#include "schema_companions.sql.h"

#define TAG "$outrider$"

/* One statement, so that it can travel as one: a block around the script that
 * `outrider init` runs, under the lock that it takes. */
void outrider__pg_companions_sql(const struct pg_catalog *cat, struct strbuf *sql)
{
    strbuf_append_str(sql, "DO " TAG " BEGIN\n"
                           "PERFORM pg_advisory_xact_lock(hashtextextended('outrider/init', 0));\n"
                           "PERFORM set_config('search_path', ");
    outrider__sql_literal(sql, cat->companion_schema);
    strbuf_append_str(sql,
                      ", true);\nPERFORM set_config('client_min_messages', 'warning', true);\n");
    strbuf_append_str(sql, sql_schema_companions);
    strbuf_append_str(sql, "END " TAG);
}
