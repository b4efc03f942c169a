/* SPDX-License-Identifier: MIT */
/* init: the rights of role outrider_relay on adopted tables, column by column. */
#include "postgres/table/table.h"
#include "postgres/store/store.h"

/* A comment of one line: the text may have line breaks. */
static void grants_remark(struct strbuf *sql, const char *text)
{
    strbuf_append_str(sql, "-- ");
    for (const char *p = text; *p != '\0'; p++)
        strbuf_append_char(sql, *p == '\n' || *p == '\r' ? ' ' : *p);
    strbuf_append_char(sql, '\n');
}

static void grants_of_table(const struct outbox_table *a, const struct pipeline_config *config,
                            struct strbuf *sql)
{
    struct map_needs needs;
    const char *prefix = a->is_owned ? "" : "--   ";
    outrider__map_needs(&a->map, config, &needs);
    if (!a->is_owned)
        outrider__strbuf_appendf(sql, "-- This user does not own %s; its owner runs:\n", a->outbox);
    outrider__strbuf_appendf(sql, "%sGRANT USAGE ON SCHEMA %s TO outrider_relay;\n%s", prefix,
                             a->schema, prefix);
    outrider__map_grant(&a->map, &needs, "outrider_relay", sql);
    strbuf_append_str(sql, ";\n");
}

/* A table that cannot be read gets no rights, and that is no error: init also makes our own
 * tables and the inbox, and a user may want these alone. */
int outrider__pg_tables_grants(struct pg_store *s, struct strbuf *sql, struct outrider_error *err)
{
    for (size_t i = 0; i < outrider__pg_tables_count(s); i++) {
        struct outrider_error why;
        struct arena arena;
        struct outbox_table a = {0};
        outrider__arena_init(&arena, 16384);
        if (outrider__pg_tables_load(s, i, STUDY_FOR_RIGHTS, &arena, &a, &why) < 0)
            grants_remark(sql, why.message);
        else if (!a.is_ours)
            grants_of_table(&a, s->config, sql);
        outrider__arena_release(&arena);
    }
    return sql->failed ? outrider__fail_nomem(err) : 0;
}
