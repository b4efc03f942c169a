/* SPDX-License-Identifier: MIT */
/*
 * Words of a status column that nothing tells at the start: the table is looked at
 * as often as it would be read, until its first rows tell them. And rows that no
 * known word covers, which nobody delivers: they are told, once, and again when
 * there are other words among them or ten times as many rows.
 */
#include "postgres/poll_status/status.h"

#define WATCH_US 10000000

void outrider__pg_status_tell_waiting(const struct status_source *d)
{
    for (size_t i = 0; i < d->n_tables; i++) {
        const struct outbox_table *a = &d->tables[i].a;
        if (a->map.waits_for_words)
            outrider__pg_source_warn(
                d->s,
                "table %s: nothing tells yet which word in column '%s' means pending; its first "
                "rows will, or set map.status_values",
                a->outbox, a->map.columns[ROLE_STATUS]->name);
    }
}

static int words_on_taken(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct status_source *d = ctx;
    struct status_table *t = d->fetching.table;
    (void)n;
    t->epoch = outrider__pg_get_int(results[0], 0, 0, 0);
    d->words_us = d->s->now.mono_us;
    d->next_table = (size_t)(t - d->tables); /* now it can be read */
    d->n_tried = 0;
    return outrider__pg_status_was_empty(d, err);
}

/* The words are known, and remembered before a row is read by them. */
static int words_begin_reading(struct status_source *d, struct status_table *t,
                               struct outrider_error *err)
{
    if (outrider__pg_status_prepare(d, t, err) < 0 || outrider__pg_status_try(d, t, err) < 0)
        return -1;
    outrider__pg_status_take_args(d, t);
    return outrider__pg_request(&d->s->conn, &t->st[ST_TAKE], &d->args, words_on_taken, d, err);
}

static int words_on_words(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct status_source *d = ctx;
    struct status_table *t = d->fetching.table;
    struct bytes found = outrider__pg_get_bytes(results[0], 0, 0);
    struct study_words words;
    struct outrider_error why;
    (void)n;
    t->is_exhausted = !d->is_before_mark;
    if (bytes_eq(found, strbuf_bytes(&t->seen)))
        return outrider__pg_status_was_empty(d, err);
    outrider__strbuf_clear(&t->seen);
    outrider__strbuf_append(&t->seen, found);
    if (t->seen.failed)
        return outrider__fail_nomem(err);
    if (outrider__pg_table_words(results[0], &d->arena, &words, err) < 0)
        return -1;
    if (outrider__study_learn(&t->a, d->s->config, &words, &why) < 0) {
        /* The stream needs no words, and the sweep before it takes whatever is not settled. */
        if (pg_source_is_cdc(d->s))
            return outrider__pg_status_was_empty(d, err);
        if (err != NULL)
            *err = why;
        return -1;
    }
    return t->a.map.waits_for_words ? outrider__pg_status_was_empty(d, err)
                                    : words_begin_reading(d, t, err);
}

int outrider__pg_status_learn(struct status_source *d, struct status_table *t,
                              struct outrider_error *err)
{
    if (t->sql[ST_WORDS] == NULL) {
        t->is_exhausted = true;
        return outrider__pg_status_was_empty(d, err);
    }
    return outrider__pg_request(&d->s->conn, &t->st[ST_WORDS], NULL, words_on_words, d, err);
}

/* Whether the rows have other words than those that were told. */
static bool words_is_news(struct status_table *t, const PGresult *r, uint64_t n,
                          struct outrider_error *err)
{
    struct strbuf words;
    bool is_new = false;
    (void)err;
    outrider__strbuf_init(&words, 65536);
    for (int i = 0; i < PQntuples(r); i++)
        outrider__strbuf_appendf(&words, "%s%s;", PQgetisnull(r, i, 0) ? "" : "=",
                                 outrider__pg_get_str(r, i, 0));
    is_new = n > 0 && (!bytes_eq(strbuf_bytes(&words), strbuf_bytes(&t->uncovered)) ||
                       n / 10 >= t->n_uncovered);
    if (n == 0 || is_new) {
        outrider__strbuf_clear(&t->uncovered);
        outrider__strbuf_append(&t->uncovered, strbuf_bytes(&words));
        t->n_uncovered = n;
    }
    outrider__strbuf_release(&words);
    return is_new;
}

static int words_on_uncovered(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct status_source *d = ctx;
    struct status_table *t = &d->tables[d->words_table];
    struct strbuf words;
    (void)n;
    outrider__strbuf_init(&words, 4096);
    uint64_t count = outrider__pg_table_uncovered(results[0], &words);
    if (words_is_news(t, results[0], count, err))
        outrider__pg_source_warn(d->s,
                                 "rows of %s are in a state that no word covers, and are not "
                                 "delivered: %.100s; say what it means with map.status_values",
                                 t->a.outbox, strbuf_cstr(&words));
    outrider__strbuf_release(&words);
    d->is_looking = false;
    d->words_table++;
    d->words_us = d->s->now.mono_us;
    return 0;
}

int outrider__pg_status_watch_words(struct status_source *d, struct outrider_error *err)
{
    if (d->is_looking || d->s->now.mono_us < d->words_us)
        return 0;
    while (d->words_table < d->n_tables && d->tables[d->words_table].sql[ST_UNCOVERED] == NULL)
        d->words_table++;
    if (d->words_table == d->n_tables) {
        d->words_table = 0;
        d->words_us = d->s->now.mono_us + WATCH_US;
        return 0;
    }
    d->is_looking = true;
    return outrider__pg_request(&d->s->conn, &d->tables[d->words_table].st[ST_UNCOVERED], NULL,
                                words_on_uncovered, d, err);
}
