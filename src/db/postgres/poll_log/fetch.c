/* SPDX-License-Identifier: MIT */
/*
 * Reading the log. One request: who writes (if there are gaps), then the read,
 * then how far the server's log is; a second one where lanes are parked, or
 * where the flush has to be waited for.
 */
#include "postgres/poll_log/log.h"

#include <stdlib.h>

#include "base/failpoint.h"

#define FLUSH_PAUSE_US 400
#define FLUSH_FORCE_US 2000
#define AHEAD_AGAIN_US 10000000
#define LOG_AHEAD_MAX 1000 /* as log_ahead counts */

/* Columns of log_facts and of log_ahead. */
enum log_facts_column { FACTS_INSERT_LSN, FACTS_FLUSH_LSN, FACTS_LAST_VALUE, FACTS_ANY_PARKED };
enum log_ahead_column { AHEAD_COUNT, AHEAD_FIRST };

static size_t log_fetch_max_gaps(const struct pg_source *s)
{
    int64_t n = s->config->source.max_gaps;
    return n > 0 ? (size_t)n : SIZE_MAX;
}

static void log_fetch_choose_size(struct pg_source *s, const struct batch *b)
{
    struct log_source *l = log_of(s);
    struct log_fetch *f = &l->fetch;
    outrider__read_begin(&l->read, s->config, b);
    f->limit = l->read.limit + 1; /* the anchor */
}

static int log_fetch_add_writers(struct pg_source *s, int *n, struct outrider_error *err)
{
    struct log_source *l = log_of(s);
    struct log_fetch *f = &l->fetch;
    f->i_writers = -1;
    if (!f->with_gaps)
        return 0;
    outrider__pg_args_clear(&l->args);
    outrider__pg_arg_oid(&l->args, s->cat.oid);
    outrider__pg_arg_oid(&l->args, s->cat.sequence_oid);
    if (outrider__pg_request_add(&s->conn, &l->st[LOG_FINGERPRINT], &l->args, err) < 0 ||
        outrider__pg_request_add(&s->conn, &l->st[LOG_WRITERS], NULL, err) < 0)
        return -1;
    f->i_writers = *n + 1;
    *n += 2;
    return 0;
}

static int log_fetch_add_read(struct pg_source *s, int *n, struct outrider_error *err)
{
    struct log_source *l = log_of(s);
    struct log_fetch *f = &l->fetch;
    struct pg_args *a = &l->args;
    /* Where a usual read leaves a column out, the next one will tell how large it is. */
    enum log_statement which = l->read.is_large ? LOG_READ_EXACT : LOG_READ;
    outrider__pg_args_clear(a);
    outrider__pg_arg_int8(a, f->gaps_only ? INT64_MAX : l->head);
    outrider__pg_arg_int8(a, f->limit);
    outrider__pg_arg_bounds(a, s->config, l->read.is_large);
    if (f->with_gaps) {
        which = LOG_READ_GAPS;
        outrider__pg_array_begin(a, PG_INT8);
        for (size_t i = 0; i < l->gaps.n; i++)
            outrider__pg_array_int8(a, l->gaps.items[i].low);
        outrider__pg_array_end(a);
        outrider__pg_array_begin(a, PG_INT8);
        for (size_t i = 0; i < l->gaps.n; i++)
            outrider__pg_array_int8(a, l->gaps.items[i].high);
        outrider__pg_array_end(a);
    }
    f->i_read = (*n)++;
    return outrider__pg_request_add(&s->conn, &l->st[which], a, err);
}

static int log_fetch_on_read(void *ctx, PGresult **results, int n, struct outrider_error *err);

static int log_fetch_send_read(struct pg_source *s, struct pg_op *op, struct outrider_error *err)
{
    struct log_source *l = log_of(s);
    struct log_fetch *f = &l->fetch;
    int n = 0;
    *f = (struct log_fetch){.op = op, .no = f->no + 1, .ask_us = CLOCK_NEVER};
    f->with_gaps = l->gaps.n > 0;
    f->gaps_only = l->gaps.n > log_fetch_max_gaps(s);
    log_fetch_choose_size(s, op->op->batch);
    if (outrider__pg_request_begin(&s->conn, log_fetch_on_read, s, err) < 0 ||
        log_fetch_add_writers(s, &n, err) < 0 || log_fetch_add_read(s, &n, err) < 0)
        return -1;
    f->i_facts = n++;
    outrider__pg_cursor_args(s, &l->args);
    if (outrider__pg_request_add(&s->conn, &l->st[LOG_FACTS], &l->args, err) < 0)
        return -1;
    return outrider__pg_request_end(&s->conn, err);
}

int outrider__pg_log_fetch(struct pg_source *s, struct pg_op *op, struct outrider_error *err)
{
    int errno_value = FAILPOINT("postgres.fetch");
    if (errno_value != 0)
        return outrider__fail_errno(err, errno_value, "cannot read the outbox");
    return log_fetch_send_read(s, op, err);
}

static int log_fetch_note_writers(struct pg_source *s, const PGresult *r,
                                  struct outrider_error *err)
{
    size_t n = (size_t)PQntuples(r);
    uint64_t *writers = malloc((n + 1) * sizeof *writers);
    if (writers == NULL)
        return outrider__fail_nomem(err);
    for (size_t i = 0; i < n; i++) {
        writers[i] = outrider__pg_writer_parse(outrider__pg_get_str(r, (int)i, 0));
        if (writers[i] == 0) {
            free(writers);
            return outrider__fail(err, OUTRIDER_DB, OUTRIDER_STOP,
                                  "pg_locks names a transaction in a form that is not known");
        }
    }
    int rc = outrider__gaps_note_writers(&log_of(s)->gaps, writers, n);
    free(writers);
    return rc < 0 ? outrider__fail_nomem(err) : 0;
}

/* What one read came to. */
struct log_reading {
    struct batch *b;
    const PGresult *r;
    int64_t head;    /* after it */
    int64_t covered; /* everything up to here was looked at */
    size_t n_late;   /* of the batch's first events: found in gaps */
    bool is_complete, anchor_seen;
    bool met_ahead;     /* the first row above the sequence, where the reading ends */
    struct event *last; /* the row at head, or NULL: it is the old one */
    struct event_bounds max;
};

static int log_fetch_verify_anchor(struct pg_source *s, const struct event *e,
                                   struct outrider_error *err)
{
    if (bytes_eq(outrider__text_cut(e->id), strbuf_bytes(&log_of(s)->anchor)))
        return 0;
    return outrider__pg_log_fail_history(s, "the row at the position is another one now", err);
}

static int log_fetch_take_row(struct pg_source *s, struct log_reading *g, int row,
                              struct outrider_error *err)
{
    struct log_source *l = log_of(s);
    struct batch *b = g->b;
    struct event *e = outrider__pg_row(b, g->r, row, 0, &g->max);
    if (e == NULL)
        return outrider__fail_nomem(err);
    if (e->seq <= 0) {
        b->n--;
        return 0;
    }
    if (e->seq == l->head) {
        b->n--; /* the anchor: settled or in flight already */
        g->anchor_seen = true;
        g->covered = e->seq;
        return log_fetch_verify_anchor(s, e, err);
    }
    g->covered = e->seq;
    if (e->seq < l->head) {
        g->n_late++;
        return 0;
    }
    if (l->head > 0 && !g->anchor_seen)
        return outrider__pg_log_fail_history(s, "the row at the position is gone", err);
    if (e->seq - 1 > g->head && outrider__gaps_add(&l->gaps, g->head + 1, e->seq - 1) < 0)
        return outrider__fail_nomem(err);
    g->head = e->seq;
    g->last = e;
    return 0;
}

static int log_fetch_take_rows(struct pg_source *s, struct log_reading *g,
                               struct outrider_error *err)
{
    struct log_source *l = log_of(s);
    struct log_fetch *f = &l->fetch;
    int n = PQntuples(g->r), i;
    outrider__gaps_begin_group(&l->gaps);
    for (i = 0; i < n; i++) {
        int64_t seq = outrider__pg_get_int(g->r, i, EV_SEQ, 0);
        g->met_ahead = seq > l->last_value;
        if (g->met_ahead)
            break;
        bool is_large = seq != l->head && outrider__pg_row_is_large(g->r, i, 0);
        if (outrider__read_ends_at(&l->read, is_large) || batch_is_full(g->b))
            break;
        if (log_fetch_take_row(s, g, i, err) < 0)
            return -1;
    }
    outrider__read_end(&l->read, g->b, i);
    g->is_complete = g->met_ahead || (i == n && n < f->limit);
    if (!g->is_complete)
        return 0;
    g->covered = INT64_MAX;
    if (l->head > 0 && !g->anchor_seen && !f->gaps_only)
        return outrider__pg_log_fail_history(s, "the row at the position is gone", err);
    return 0;
}

/* Contract (3) and (4): the gaps after the read, and a copy of them for the batch. */
static int log_fetch_remember(struct pg_source *s, const struct log_reading *g,
                              struct outrider_error *err)
{
    struct log_source *l = log_of(s);
    struct batch *b = g->b;
    int64_t *late = malloc((g->n_late + 1) * sizeof *late);
    if (late == NULL)
        return outrider__fail_nomem(err);
    for (size_t i = 0; i < g->n_late; i++)
        late[i] = b->events[i].seq;
    size_t n_gaps = l->gaps.n;
    int rc = outrider__gaps_apply_read(&l->gaps, late, g->n_late, g->covered);
    free(late);
    if (rc < 0)
        return outrider__fail_nomem(err);
    l->has_forgotten_gaps = b->n == 0 && (l->has_forgotten_gaps || l->gaps.n < n_gaps);
    if (b->n == 0)
        return 0;
    l->n_out++;
    struct log_mark *m = outrider__arena_alloc(&b->arena, sizeof *m);
    struct gap *gaps = outrider__arena_alloc(&b->arena, l->gaps.n * sizeof *gaps);
    if (m == NULL || gaps == NULL)
        return outrider__fail_nomem(err);
    *m = (struct log_mark){.position = g->head, .before = l->head, .gaps = gaps};
    if (l->gaps.n > 0)
        memcpy(gaps, l->gaps.items, l->gaps.n * sizeof *gaps);
    m->n_gaps = l->gaps.n;
    if (outrider__arena_dup(&b->arena, strbuf_bytes(&l->anchor), &m->anchor_before) < 0)
        return outrider__fail_nomem(err);
    m->anchor = g->last != NULL ? outrider__text_cut(g->last->id) : m->anchor_before;
    b->source_data = m;
    b->position = g->head;
    return 0;
}

static int log_fetch_move_head(struct pg_source *s, const struct log_reading *g,
                               struct outrider_error *err)
{
    struct log_source *l = log_of(s);
    if (g->last != NULL) {
        outrider__strbuf_clear(&l->anchor);
        outrider__strbuf_append(&l->anchor, outrider__text_cut(g->last->id));
        if (l->anchor.failed)
            return outrider__fail_nomem(err);
    }
    l->head = g->head;
    s->base.ready = !g->is_complete;
    if (g->is_complete && g->b->n > 0)
        outrider__pg_log_look_soon(s);
    if (l->mark >= 0 && l->fetch.no >= l->mark_fetch_no &&
        (g->is_complete || (g->covered >= l->mark && !l->fetch.gaps_only)))
        s->base.mark_reached = true;
    return 0;
}

static int log_fetch_on_oldest(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    (void)n;
    (void)err;
    outrider__pg_source_warn(s,
                             "more than max_gaps (%lld) ranges of seqs may still be filled by open "
                             "transactions: new events wait; the oldest: %s",
                             (long long)log_fetch_max_gaps(s),
                             outrider__pg_get_str(results[0], 0, 0));
    return 0;
}

static int log_fetch_tell_of_crowd(struct pg_source *s, struct outrider_error *err)
{
    struct log_source *l = log_of(s);
    bool was_crowded = l->is_crowded;
    l->is_crowded = l->gaps.n > log_fetch_max_gaps(s);
    if (!was_crowded)
        l->crowded_told_us = 0;
    uint64_t oldest = outrider__gaps_oldest_writer(&l->gaps);
    if (!l->is_crowded || oldest == 0 ||
        (l->crowded_told_us != 0 && s->now.mono_us - l->crowded_told_us < 60000000))
        return 0;
    char text[PG_WRITER_TEXT];
    l->crowded_told_us = s->now.mono_us;
    outrider__pg_writer_format(oldest, text);
    outrider__pg_args_clear(&l->args);
    outrider__pg_arg_str(&l->args, text);
    return outrider__pg_request(&s->conn, &l->st[LOG_OLDEST], &l->args, log_fetch_on_oldest, s,
                                err);
}

static int log_fetch_on_ahead(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    struct log_source *l = log_of(s);
    int64_t count = outrider__pg_get_int(results[0], 0, AHEAD_COUNT, 0);
    int64_t first = outrider__pg_get_int(results[0], 0, AHEAD_FIRST, 0);
    (void)n;
    (void)err;
    if (count == 0 || (count == l->ahead_n && first == l->ahead_first))
        return 0;
    l->ahead_n = count;
    l->ahead_first = first;
    outrider__pg_source_warn(
        s,
        "%.60s: %s%lld rows have a seq above the sequence, from %lld on, and "
        "wait until it comes there; insert them anew without a seq, and delete "
        "these",
        s->cat.table, count == LOG_AHEAD_MAX ? "at least " : "", (long long)count,
        (long long)first);
    return 0;
}

/* Contract (9). */
static int log_fetch_tell_of_ahead(struct pg_source *s, struct outrider_error *err)
{
    struct log_source *l = log_of(s);
    if (s->now.mono_us < l->ahead_us)
        return 0;
    l->ahead_us = s->now.mono_us + AHEAD_AGAIN_US;
    outrider__pg_args_clear(&l->args);
    outrider__pg_arg_int8(&l->args, l->last_value);
    return outrider__pg_request(&s->conn, &l->st[LOG_AHEAD], &l->args, log_fetch_on_ahead, s, err);
}

/* A page's header counts as written only with what follows it. */
static int64_t log_fetch_lsn_target(const struct pg_catalog *cat, int64_t insert)
{
    if (cat->wal_segment_size > 0 && insert % cat->wal_segment_size == 40)
        return insert - 40;
    if (cat->wal_block_size > 0 && insert % cat->wal_block_size == 24)
        return insert - 24;
    return insert;
}

static void log_fetch_finish(struct pg_source *s)
{
    struct log_fetch *f = &log_of(s)->fetch;
    struct pg_op *op = f->op;
    f->op = NULL;
    f->ask_us = CLOCK_NEVER;
    pg_op_done(op);
}

static void log_fetch_wait_or_finish(struct pg_source *s)
{
    struct log_fetch *f = &log_of(s)->fetch;
    if (f->is_flushed && !f->needs_blocked) {
        log_fetch_finish(s);
        return;
    }
    f->ask_us = f->needs_blocked ? s->now.mono_us : s->now.mono_us + FLUSH_PAUSE_US;
}

static int log_fetch_read_facts(struct pg_source *s, const PGresult *r, struct outrider_error *err)
{
    struct log_source *l = log_of(s);
    struct log_fetch *f = &l->fetch;
    l->last_value = outrider__pg_get_int(r, 0, FACTS_LAST_VALUE, 0);
    if (l->last_value < l->head)
        return outrider__pg_log_fail_history(s, "its sequence was set back below the position",
                                             err);
    f->target_lsn =
        log_fetch_lsn_target(&s->cat, outrider__pg_get_int(r, 0, FACTS_INSERT_LSN, INT64_MAX));
    f->is_flushed = outrider__pg_get_int(r, 0, FACTS_FLUSH_LSN, 0) >= f->target_lsn;
    return 0;
}

static int log_fetch_on_read(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    struct log_source *l = log_of(s);
    struct log_fetch *f = &l->fetch;
    struct log_reading g = {.b = f->op->op->batch,
                            .r = results[f->i_read],
                            .head = l->head,
                            .max = outrider__event_bounds(s->config)};
    (void)n;
    if (f->i_writers >= 0 &&
        (outrider__pg_log_check_fingerprint(s, results[f->i_writers - 1], err) < 0 ||
         log_fetch_note_writers(s, results[f->i_writers], err) < 0))
        return -1;
    if (log_fetch_read_facts(s, results[f->i_facts], err) < 0 ||
        log_fetch_take_rows(s, &g, err) < 0 || log_fetch_remember(s, &g, err) < 0 ||
        log_fetch_move_head(s, &g, err) < 0 || log_fetch_tell_of_crowd(s, err) < 0 ||
        (g.met_ahead && log_fetch_tell_of_ahead(s, err) < 0))
        return -1;
    if (outrider__read_is_repeated(&log_of(s)->read, g.b)) {
        outrider__batch_reset(g.b);
        return log_fetch_send_read(s, f->op, err);
    }
    if (g.b->n == 0) {
        log_fetch_finish(s);
        return 0;
    }
    f->needs_blocked = outrider__pg_get_bool(results[f->i_facts], 0, FACTS_ANY_PARKED);
    f->wait_since_us = s->now.mono_us;
    log_fetch_wait_or_finish(s);
    return 0;
}

static int log_fetch_on_waited(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    struct log_fetch *f = &log_of(s)->fetch;
    f->is_asking = false;
    if (f->needs_blocked) {
        f->needs_blocked = false;
        if (outrider__pg_parked_apply_blocked(f->op->op->batch, results[0], err) < 0)
            return -1;
    }
    const PGresult *flushed =
        results[n - 1]; /* behind the blocked lanes, where they are asked for */
    if (outrider__pg_get_int(flushed, 0, 0, 0) >= f->target_lsn)
        f->is_flushed = true;
    log_fetch_wait_or_finish(s);
    return 0;
}

int outrider__pg_log_fetch_tick(struct pg_source *s, struct outrider_error *err)
{
    struct log_source *l = log_of(s);
    struct log_fetch *f = &l->fetch;
    if (f->op == NULL || f->is_asking || s->now.mono_us < f->ask_us)
        return 0;
    f->is_asking = true;
    bool needs_force =
        !f->is_flushed && !f->is_forced && s->now.mono_us - f->wait_since_us >= FLUSH_FORCE_US;
    /* The message must be committed before the position is asked for. */
    if (needs_force) {
        f->is_forced = true;
        if (outrider__pg_request(&s->conn, &l->st[LOG_FORCE], NULL, NULL, NULL, err) < 0)
            return -1;
    }
    if (outrider__pg_request_begin(&s->conn, log_fetch_on_waited, s, err) < 0)
        return -1;
    if (f->needs_blocked &&
        outrider__pg_parked_add_blocked(&l->parked, &s->conn, f->op->op->batch, err) < 0)
        return -1;
    if (outrider__pg_request_add(&s->conn, &l->st[LOG_FLUSHED], NULL, err) < 0)
        return -1;
    return outrider__pg_request_end(&s->conn, err);
}
