/* SPDX-License-Identifier: MIT */
/* The tables of mode cdc: what own and mapped ones share. */
#include "postgres/cdc/tables.h"

#include <stdlib.h>

#include "common/outcome.h"
#include "postgres/cdc/cdc.h"

static struct outbox_table *tables_at(struct pg_source *s, size_t i)
{
    return &cdc_of(s)->tables.items[i].a;
}

static int tables_begin_mapped(struct pg_source *s,
                               int (*done)(struct pg_source *, struct outrider_error *),
                               struct outrider_error *err)
{
    struct cdc_tables *t = &cdc_of(s)->tables;
    /* The cursor does not say which of the rows from before the slot were delivered. */
    if (s->config->exactly_once)
        return outrider__fail(err, OUTRIDER_UNSUPPORTED, OUTRIDER_STOP,
                              "exactly_once in mode cdc reads an outbox of layout log, and %s is "
                              "none; poll it (--mode poll), or leave exactly_once out",
                              s->cat.table);
    int n = outrider__study_count(s->config, err);
    if (n < 0)
        return -1;
    t->items = calloc((size_t)n, sizeof *t->items);
    if (t->items == NULL)
        return outrider__fail_nomem(err);
    t->n = (size_t)n;
    t->reader = (struct table_reader){
        .s = s, .n = t->n, .table = tables_at, .done = done, .arena = &t->arena};
    return outrider__pg_table_reader_begin(&t->reader, err);
}

int outrider__cdc_tables_begin(struct pg_source *s,
                               int (*done)(struct pg_source *, struct outrider_error *),
                               struct outrider_error *err)
{
    struct cdc_tables *t = &cdc_of(s)->tables;
    bool is_mapped = outrider__pg_table_has_states(&s->cat, s->config);
    outrider__arena_init(&t->arena, 16384);
    outrider__strbuf_init(&t->names, CDC_SQL_CAP);
    t->rows = is_mapped ? &outrider__cdc_rows_mapped : &outrider__cdc_rows_own;
    if (is_mapped)
        return tables_begin_mapped(s, done, err);
    return outrider__pg_catalog_check_log(&s->cat, err) < 0 ? -1 : done(s, err);
}

/* What is too large to be read is copied inside the server. */
static int tables_prepare_oversize(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_tables *t = &cdc_of(s)->tables;
    struct strbuf q;
    outrider__strbuf_init(&q, CDC_SQL_CAP * (t->n + 1));
    t->rows->append_oversize(&q, s);
    return outrider__cdc_take_sql(&t->oversize_sql, &q, err);
}

int outrider__cdc_tables_prepare(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_tables *t = &cdc_of(s)->tables;
    t->n_outboxes = t->n > 0 ? t->n : 1;
    t->outboxes = calloc(t->n_outboxes, sizeof *t->outboxes);
    if (t->outboxes == NULL)
        return outrider__fail_nomem(err);
    if (t->rows->prepare(s, err) < 0)
        return -1;
    for (size_t i = 0; i < t->n_outboxes; i++)
        outrider__strbuf_appendf(&t->names, "%s%s", i > 0 ? ", " : "", t->rows->name(s, i));
    return t->names.failed ? outrider__fail_nomem(err) : tables_prepare_oversize(s, err);
}

int outrider__cdc_take_sql(char **ret_sql, struct strbuf *q, struct outrider_error *err)
{
    if (q->failed) {
        outrider__strbuf_release(q);
        return outrider__fail_nomem(err);
    }
    *ret_sql = q->data;
    return 0;
}

int outrider__cdc_refuse_mark(const char *table, struct outrider_error *err)
{
    return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                          "after_publish: mark: %s has no column that says whether an event is "
                          "published; use delete or none, or name the column with map.status, "
                          "map.published or map.published_at",
                          table);
}

bool outrider__cdc_is_finished(const struct pg_source *s, const struct event *e)
{
    return outcome_is_published(e) || (e->outcome == OUTCOME_EXPIRED &&
                                       s->config->source.after_publish == AFTER_PUBLISH_DELETE);
}

void outrider__cdc_tables_release(struct cdc_tables *t)
{
    for (size_t i = 0; i < t->n; i++) {
        free(t->items[i].settle_sql);
        free(t->items[i].snapshot_sql);
        free(t->items[i].cleanup_sql);
    }
    outrider__pg_table_reader_release(&t->reader);
    free(t->items);
    free(t->outboxes);
    outrider__pg_statements_release(&t->settle_own, 1);
    free(t->oversize_sql);
    outrider__strbuf_release(&t->names);
    outrider__arena_release(&t->arena);
}

void outrider__cdc_tables_oids(const struct pg_source *s, struct pg_args *a)
{
    const struct cdc_tables *t = &cdc_of((struct pg_source *)s)->tables;
    outrider__pg_array_begin(a, PG_INT8);
    for (size_t i = 0; i < t->n_outboxes; i++)
        outrider__pg_array_int8(a, t->outboxes[i].oid);
    outrider__pg_array_end(a);
}

void outrider__cdc_tables_names(const struct pg_source *s, struct pg_args *a)
{
    const struct cdc_tables *t = &cdc_of((struct pg_source *)s)->tables;
    outrider__pg_array_begin(a, PG_TEXT);
    for (size_t i = 0; i < t->n_outboxes; i++)
        outrider__pg_array_text(a, bytes_str(t->rows->name(s, i)));
    outrider__pg_array_end(a);
}

void outrider__cdc_tables_columns(const struct pg_source *s, struct pg_args *a)
{
    const struct cdc_tables *t = &cdc_of((struct pg_source *)s)->tables;
    outrider__pg_array_begin(a, PG_INT8);
    for (size_t i = 0; i < t->n_outboxes; i++)
        for (int k = 0; k < CDC_ROLES; k++)
            if (t->outboxes[i].columns[k] != NULL)
                outrider__pg_array_int8(a, t->outboxes[i].oid);
    for (size_t i = 0; i < t->n_outboxes; i++)
        for (size_t k = 0; k < t->outboxes[i].n_headers; k++)
            outrider__pg_array_int8(a, t->outboxes[i].oid);
    outrider__pg_array_end(a);
    outrider__pg_array_begin(a, PG_TEXT);
    for (size_t i = 0; i < t->n_outboxes; i++)
        for (int k = 0; k < CDC_ROLES; k++)
            if (t->outboxes[i].columns[k] != NULL)
                outrider__pg_array_text(a, bytes_str(t->outboxes[i].columns[k]));
    for (size_t i = 0; i < t->n_outboxes; i++)
        for (size_t k = 0; k < t->outboxes[i].n_headers; k++)
            outrider__pg_array_text(a, bytes_str(t->outboxes[i].headers[k].column));
    outrider__pg_array_end(a);
}
