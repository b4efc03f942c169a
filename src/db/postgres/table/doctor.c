/* SPDX-License-Identifier: MIT */
/* Doctor: gathers the facts on tables whose rows carry their state (common/findings.h). */
#include "common/findings.h"
#include "common/sql.h"
#include "postgres/client/client.h"
#include "postgres/store/store.h"
#include "postgres/table/table.h"
#include "table.sql.h"

struct doctor {
    struct pg_store *s;
    struct finder to;
};

/* A statement that a relay will need: the server says whether it can be prepared. */
static void doctor_try(const struct doctor *d, const struct outbox_table *a,
                       void (*build)(struct strbuf *, const struct outbox_table *),
                       const char *what)
{
    struct outrider_error why;
    struct strbuf statement, sql;
    outrider__strbuf_init(&statement, SQL_TEXT_CAP);
    outrider__strbuf_init(&sql, SQL_TEXT_CAP);
    build(&statement, a);
    const struct sql_word words[] = {{"statement", strbuf_cstr(&statement)}};
    outrider__sql_append(&sql, sql_table_try, words, 1);
    if (statement.len > 0 && outrider__pg_store_exec(d->s, strbuf_cstr(&sql), what, &why) < 0)
        outrider__find(&d->to, FINDING_PROBLEM, NULL, "%s: %s", a->outbox, why.message);
    else if (statement.len > 0)
        (void)outrider__pg_store_exec(d->s, "DEALLOCATE outrider_try", "cannot ask", NULL);
    outrider__strbuf_release(&statement);
    outrider__strbuf_release(&sql);
}

/* What stops a relay at its start. */
static void doctor_start(const struct doctor *d, struct outbox_table *a)
{
    struct outrider_error why;
    if (outrider__study_check(a, d->s->config, &why) < 0) {
        outrider__find(&d->to, FINDING_PROBLEM, NULL, "%s", why.message);
        return;
    }
    if (!a->can_be_polled || a->map.waits_for_words)
        return;
    if (d->s->config->source.after_publish != AFTER_PUBLISH_DELETE)
        doctor_try(d, a, outrider__pg_mark_sql, "cannot mark events as published");
    doctor_try(d, a, outrider__pg_failed_sql, "cannot mark events as failed");
}

/* Whether an index can find what is not published; the advice if there is none. */
static void doctor_index(const struct doctor *d, const struct outbox_table *a,
                         struct table_facts *facts, struct strbuf *advice)
{
    const struct map_column *mark = outrider__map_mark_column(&a->map);
    struct strbuf unsettled;
    struct pg_args args;
    PGresult *r = NULL;
    if (mark == NULL) /* mode cdc: nobody looks for unpublished rows */
        return;
    outrider__pg_args_init(&args);
    outrider__pg_arg_oid(&args, a->id);
    outrider__pg_arg_str(&args, mark->name);
    if (outrider__pg_store_query(d->s, sql_table_has_index, &args, "cannot read the catalogue", &r,
                                 NULL) == 0) {
        facts->lacks_index = !outrider__pg_get_bool(r, 0, 0);
        PQclear(r);
    }
    outrider__pg_args_release(&args);
    outrider__strbuf_init(&unsettled, SQL_TEXT_CAP);
    outrider__sql_unsettled(&unsettled, a, "");
    outrider__strbuf_appendf(advice, "CREATE INDEX CONCURRENTLY ON %s (", a->outbox);
    outrider__sql_name(advice, outrider__map_order_column(&a->map)->name);
    outrider__strbuf_appendf(advice, ") WHERE %s", strbuf_cstr(&unsettled));
    outrider__strbuf_release(&unsettled);
    facts->index_advice = strbuf_cstr(advice);
}

/* Of a column in the newest rows; 0 where there is none. */
static int64_t doctor_largest(const struct doctor *d, const struct outbox_table *a,
                              enum column_role role)
{
    struct strbuf sql, column, size, order;
    PGresult *r = NULL;
    int64_t largest = 0;
    if (a->map.columns[role] == NULL)
        return 0;
    outrider__strbuf_init(&sql, SQL_TEXT_CAP);
    outrider__strbuf_init(&column, 512);
    outrider__strbuf_init(&size, 4096);
    outrider__strbuf_init(&order, 4096);
    outrider__sql_column(&column, a, role, "o.");
    outrider__pg_size_sql(&size, a->map.columns[role]->type_id, strbuf_cstr(&column));
    outrider__pg_sql_page_order(&order, a, "o.");
    const struct sql_word words[] = {
        {"size", strbuf_cstr(&size)}, {"table", a->outbox}, {"order", strbuf_cstr(&order)}};
    outrider__sql_append(&sql, sql_table_largest, words, sizeof words / sizeof *words);
    if (outrider__pg_tables_query(d->s, &sql, NULL, "cannot ask", &r, NULL) == 0) {
        largest = outrider__pg_get_int(r, 0, 0, 0);
        PQclear(r);
    }
    outrider__strbuf_release(&column);
    outrider__strbuf_release(&size);
    outrider__strbuf_release(&order);
    return largest;
}

static void doctor_table(const struct doctor *d, const struct outbox_table *a)
{
    struct table_facts facts = {.table = a, .config = d->s->config};
    struct strbuf words, advice;
    outrider__strbuf_init(&words, 8192);
    outrider__strbuf_init(&advice, SQL_TEXT_CAP);
    if (outrider__pg_tables_uncovered(d->s, a, d->s->config->name, &words, &facts.n_uncovered,
                                      NULL) == 0)
        facts.uncovered = strbuf_cstr(&words);
    doctor_index(d, a, &facts, &advice);
    facts.payload_size = doctor_largest(d, a, ROLE_PAYLOAD);
    facts.headers_size = doctor_largest(d, a, ROLE_HEADERS);
    outrider__find_table(&d->to, &facts);
    outrider__strbuf_release(&words);
    outrider__strbuf_release(&advice);
}

static void doctor_pipeline(void *ctx, const struct store_status *st)
{
    const struct doctor *d = ctx;
    outrider__find_pipeline(&d->to, st);
}

int outrider__pg_tables_doctor(struct pg_store *s, finding_fn *found, void *ctx,
                               struct outrider_error *err)
{
    struct doctor d = {s, {found, ctx}};
    for (size_t i = 0; i < outrider__pg_tables_count(s); i++) {
        struct outrider_error why;
        struct arena arena;
        struct outbox_table a = {0};
        outrider__arena_init(&arena, 16384);
        if (outrider__pg_tables_load(s, i, STUDY_FOR_COMMAND, &arena, &a, &why) < 0) {
            outrider__find(&d.to, FINDING_PROBLEM, NULL, "%s", why.message);
            outrider__arena_release(&arena);
            return 0;
        }
        outrider__find_map(&d.to, &a);
        doctor_start(&d, &a);
        doctor_table(&d, &a);
        outrider__arena_release(&arena);
    }
    if (s->cat.cursor_table[0] == '\0' || s->cat.parked_table[0] == '\0') {
        outrider__find(&d.to, FINDING_NOTE,
                       "`outrider init` makes them; so does the first relay that may",
                       "outrider_cursor and outrider_parked are not there yet");
        return 0;
    }
    char place[160];
    struct outrider_error why;
    outrider__pg_place(s->pg, place, sizeof place);
    if (outrider__pg_catalog_check_version(&s->cat, place, &why) < 0) {
        outrider__find(&d.to, FINDING_PROBLEM, NULL, "%s", why.message);
        return 0;
    }
    return outrider__pg_tables_status(s, doctor_pipeline, &d, err);
}
