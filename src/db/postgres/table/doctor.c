/* SPDX-License-Identifier: MIT */
/* What doctor says of a table whose rows carry their state: the map, and what is amiss. */
#include <stdio.h>

#include "postgres/table/table.h"
#include "postgres/client/client.h"
#include "postgres/store/store.h"

#define LARGE_PAYLOAD (64 * 1024)

struct doctor {
    struct pg_store *s;
    struct finder to;
};

static void tell_map(const struct doctor *d, const struct outbox_table *a)
{
    struct strbuf text;
    outrider__strbuf_init(&text, 8192);
    outrider__map_describe(&a->map, &text);
    for (size_t i = 0; i < text.len; i++)
        if (text.data[i] == '\n')
            text.data[i] = i + 1 < text.len ? ';' : '\0';
    outrider__find(&d->to, FINDING_OK, NULL, "%s: layout status%s; %s", a->outbox,
                   a->is_ours ? "" : ", adopted", strbuf_cstr(&text));
    outrider__strbuf_release(&text);
}

/* A statement that a relay will need: the server says whether it can be prepared. */
static void try_statement(const struct doctor *d, const struct outbox_table *a,
                          void (*build)(struct strbuf *, const struct outbox_table *),
                          const char *what)
{
    struct outrider_error why;
    struct strbuf statement, sql;
    outrider__strbuf_init(&statement, 65536);
    outrider__strbuf_init(&sql, 65536);
    build(&statement, a);
    outrider__strbuf_appendf(&sql,
                             "PREPARE outrider_try (text[], text, int8[], text[], int4[], int8[], "
                             "text[], text[]) AS %s",
                             strbuf_cstr(&statement));
    if (statement.len > 0 && outrider__pg_store_exec(d->s, strbuf_cstr(&sql), what, &why) < 0)
        outrider__find(&d->to, FINDING_PROBLEM, NULL, "%s: %s", a->outbox, why.message);
    else if (statement.len > 0)
        (void)outrider__pg_store_exec(d->s, "DEALLOCATE outrider_try", "cannot ask", NULL);
    outrider__strbuf_release(&statement);
    outrider__strbuf_release(&sql);
}

/* What stops a relay at its start: see table.h. */
static void check_start(const struct doctor *d, struct outbox_table *a)
{
    struct outrider_error why;
    if (outrider__pg_table_check(a, d->s->config, &why) < 0) {
        outrider__find(&d->to, FINDING_PROBLEM, NULL, "%s", why.message);
        return;
    }
    if (!a->can_be_polled || a->map.waits_for_words)
        return;
    if (d->s->config->source.after_publish != AFTER_PUBLISH_DELETE)
        try_statement(d, a, outrider__pg_mark_sql, "cannot mark events as published");
    try_statement(d, a, outrider__pg_failed_sql, "cannot mark events as failed");
}

static void check_order(const struct doctor *d, const struct outbox_table *a)
{
    const struct map_column *time = a->map.columns[ROLE_CREATED_AT] != NULL
                                        ? a->map.columns[ROLE_CREATED_AT]
                                        : a->map.columns[ROLE_OCCURRED_AT];
    if (a->map.is_ordered)
        return;
    outrider__find(
        &d->to, FINDING_WARNING,
        "add a column that a sequence numbers, such as `seq bigint GENERATED ALWAYS AS IDENTITY`",
        "%s has no sequence: order is by %s%sinsertion, as far as the heap tells (a transaction "
        "counts from its begin, not from its commit)",
        a->outbox, time != NULL ? time->name : "", time != NULL ? ", then by " : "");
}

static void check_uncovered(const struct doctor *d, const struct outbox_table *a)
{
    struct strbuf words;
    uint64_t n = 0;
    outrider__strbuf_init(&words, 8192);
    if (outrider__pg_tables_uncovered(d->s, a, d->s->config->name, &words, &n, NULL) == 0 && n > 0)
        outrider__find(&d->to, FINDING_WARNING,
                       "say what the state means with map.status_values, or give the rows a state "
                       "that is known",
                       "%llu %s of %s %s in a state that no word covers, and nobody delivers them: "
                       "%s",
                       (unsigned long long)n, n == 1 ? "row" : "rows", a->outbox,
                       n == 1 ? "is" : "are", strbuf_cstr(&words));
    outrider__strbuf_release(&words);
}

static void check_values(const struct doctor *d, const struct outbox_table *a)
{
    if (a->map.mark != MARK_STATUS)
        return;
    if (a->map.waits_for_words) {
        outrider__find(&d->to, FINDING_WARNING,
                       "a default or a CHECK constraint on the column, or map.status_values, would "
                       "say it",
                       "%s: nothing tells yet which value of '%s' means pending: a relay waits for "
                       "the first rows",
                       a->outbox, a->map.columns[ROLE_STATUS]->name);
        return;
    }
    if (a->map.values_are_remembered)
        outrider__find(
            &d->to, FINDING_OK, NULL,
            "%s: the words of '%s' are those of an earlier start (outrider_cursor.words)",
            a->outbox, a->map.columns[ROLE_STATUS]->name);
    if (a->map.values_are_assumed)
        outrider__find(
            &d->to, FINDING_NOTE,
            "a CHECK constraint on the column, or map.status_values, would make it certain",
            "%s: some values of '%s' are the usual ones, nothing in the table confirms them",
            a->outbox, a->map.columns[ROLE_STATUS]->name);
    check_uncovered(d, a);
}

static void check_retries(const struct doctor *d, const struct outbox_table *a)
{
    if (a->parks_retries)
        outrider__find(&d->to, FINDING_NOTE, NULL,
                       "%s has no columns for attempts and the next one's time: they are kept in "
                       "outrider_parked",
                       a->outbox);
    if (!outrider__map_can_compete(&a->map))
        outrider__find(
            &d->to, FINDING_NOTE, NULL,
            "%s has no columns for a lock's owner and time: one relay at a time reads it",
            a->outbox);
}

static void check_index(const struct doctor *d, const struct outbox_table *a)
{
    enum column_role mark = a->map.mark == MARK_STATUS    ? ROLE_STATUS
                            : a->map.mark == MARK_BOOLEAN ? ROLE_PUBLISHED
                                                          : ROLE_PUBLISHED_AT;
    enum column_role order = a->map.columns[ROLE_SEQ] != NULL ? ROLE_SEQ : ROLE_CREATED_AT;
    struct strbuf advice, where;
    PGresult *r = NULL;
    if (a->map.mark == MARK_NONE) /* mode cdc: nobody looks for unpublished rows */
        return;
    outrider__strbuf_init(&where, 4096);
    outrider__pg_sql_unsettled(&where, a, "");
    outrider__strbuf_init(&advice, 8192);
    outrider__strbuf_appendf(&advice, "CREATE INDEX CONCURRENTLY ON %s (", a->outbox);
    outrider__pg_sql_ident(&advice, a->map.columns[order] != NULL ? a->map.columns[order]->name
                                                                  : a->map.columns[ROLE_ID]->name);
    outrider__strbuf_appendf(&advice, ") WHERE %s", strbuf_cstr(&where));
    /* Any index that begins with the mark, or has a condition, may serve. */
    struct pg_args args;
    outrider__pg_args_init(&args);
    outrider__pg_arg_oid(&args, a->id);
    outrider__pg_arg_str(&args, a->map.columns[mark]->name);
    if (outrider__pg_store_query(
            d->s,
            "SELECT EXISTS (SELECT FROM pg_index i LEFT JOIN pg_attribute t ON t.attrelid = "
            "i.indrelid AND t.attnum = i.indkey[0] WHERE i.indrelid = $1 AND i.indisvalid AND "
            "(t.attname = $2 OR pg_get_expr(i.indpred, i.indrelid) LIKE '%' || $2 || '%'))",
            &args, "cannot read the catalogue", &r, NULL) == 0) {
        if (!outrider__pg_get_bool(r, 0, 0))
            outrider__find(
                &d->to, FINDING_WARNING, strbuf_cstr(&advice),
                "%s has no index for what is not published yet: every look reads the whole table",
                a->outbox);
        PQclear(r);
    }
    outrider__pg_args_release(&args);
    outrider__strbuf_release(&where);
    outrider__strbuf_release(&advice);
}

/* Of a column in the newest rows; 0 where there is none. */
static int64_t largest(const struct doctor *d, const struct outbox_table *a, enum column_role role)
{
    struct strbuf sql, column;
    PGresult *r = NULL;
    int64_t size = 0;
    if (a->map.columns[role] == NULL)
        return 0;
    outrider__strbuf_init(&sql, 8192);
    outrider__strbuf_init(&column, 512);
    outrider__pg_sql_column(&column, a, role, "o.");
    strbuf_append_str(&sql, "SELECT max(size) FROM (SELECT ");
    outrider__pg_size_sql(&sql, a->map.columns[role]->type_id, strbuf_cstr(&column));
    outrider__strbuf_appendf(&sql, " AS size FROM %s o", a->outbox);
    outrider__pg_sql_page_order(&sql, a, "o.");
    strbuf_append_str(&sql, " DESC LIMIT 1000) x");
    if (outrider__pg_store_query(d->s, strbuf_cstr(&sql), NULL, "cannot ask", &r, NULL) == 0) {
        size = outrider__pg_get_int(r, 0, 0, 0);
        PQclear(r);
    }
    outrider__strbuf_release(&sql);
    outrider__strbuf_release(&column);
    return size;
}

static void check_sizes(const struct doctor *d, const struct outbox_table *a)
{
    int64_t max = d->s->config->source.max_payload, payload = largest(d, a, ROLE_PAYLOAD);
    int64_t max_headers = d->s->config->source.max_headers, headers = largest(d, a, ROLE_HEADERS);
    if (max > 0 && payload > max)
        outrider__find(
            &d->to, FINDING_WARNING,
            "keep the data elsewhere and send a reference, or raise source.max_payload",
            "%s: a payload of %lld bytes is above max_payload (%lld): it becomes a dead letter",
            a->outbox, (long long)payload, (long long)max);
    else if (payload > LARGE_PAYLOAD)
        outrider__find(&d->to, FINDING_WARNING, "keep the data elsewhere and send a reference",
                       "%s: large payloads, up to %lld bytes", a->outbox, (long long)payload);
    if (max_headers > 0 && headers > max_headers)
        outrider__find(&d->to, FINDING_WARNING,
                       "put the data into the payload, or raise source.max_headers",
                       "%s: headers of %lld bytes are above max_headers (%lld): the event becomes "
                       "a dead letter",
                       a->outbox, (long long)headers, (long long)max_headers);
}

static void check_retention(const struct doctor *d, const struct outbox_table *a)
{
    const struct pipeline_config *c = d->s->config;
    if (c->source.after_publish == AFTER_PUBLISH_DELETE)
        return;
    if (c->cleanup.retention_us <= 0 || (!a->is_ours && !c->cleanup.adopted))
        outrider__find(&d->to, FINDING_WARNING,
                       a->is_ours
                           ? "set cleanup.retention"
                           : "set cleanup.adopted: true (and cleanup.retention), or after_publish: "
                             "delete, unless the application cleans up itself",
                       "%s: no retention: published rows stay for ever", a->outbox);
}

static void check_pipeline(void *ctx, const struct store_status *st)
{
    const struct doctor *d = ctx;
    outrider__find(&d->to, FINDING_OK, NULL, "pipeline '%s' to %s: %llu pending; %s", st->pipeline,
                   st->sink[0] != '\0' ? st->sink : "(no sink yet)",
                   (unsigned long long)st->pending,
                   st->relay_active ? "a relay is active" : "no relay is active");
    if (st->parked > 0)
        outrider__find(&d->to, FINDING_NOTE, "`outrider dead list` shows why",
                       "pipeline '%s': %llu wait for "
                       "their next try",
                       st->pipeline, (unsigned long long)st->parked);
    if (st->dead > 0)
        outrider__find(
            &d->to, FINDING_WARNING, "`outrider dead list`, then `dead retry` or `dead discard`",
            "pipeline '%s': %llu dead letters", st->pipeline, (unsigned long long)st->dead);
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
        if (outrider__pg_tables_load(s, i, &arena, &a, &why) < 0) {
            outrider__find(&d.to, FINDING_PROBLEM, NULL, "%s", why.message);
            outrider__arena_release(&arena);
            return 0;
        }
        tell_map(&d, &a);
        check_start(&d, &a);
        check_order(&d, &a);
        check_values(&d, &a);
        check_retries(&d, &a);
        check_index(&d, &a);
        check_sizes(&d, &a);
        check_retention(&d, &a);
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
    return outrider__pg_tables_status(s, check_pipeline, &d, err);
}
