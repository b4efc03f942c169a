/* SPDX-License-Identifier: MIT */
/* The log layout: taking a pipeline over, probing a quiet outbox, and its end. */
#include "postgres/poll_log/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define LOOK_MIN_US 4000
#define PULSE_US 1000000

/*
 * In these texts (cursor.h) $E is the columns of an event (with $3 as the bounds:
 * columns.h; and no payload of the anchor at $1), $U the same for a usual read,
 * $A whether any lane is parked, $P what may hold a writer's lock.
 */
static const char *const templates[LOG_STATEMENTS] = {
    [LOG_ENROL] = PG_ENROL_SQL,
    [LOG_READ_CURSOR] = "SELECT k.sink, k.position, k.gaps::text, " PG_ANCHOR_OF(
        "k.anchor_id") ", k.epoch, k.on_dead, "
                       "k.system_id, k.timeline, (SELECT " PG_ANCHOR_OF(
                           "o.id") " FROM $T o WHERE o.seq = "
                                   "k.position LIMIT 1), (SELECT CASE WHEN q.is_called THEN "
                                   "q.last_value ELSE 0 END FROM $S "
                                   "q), pg_backend_pid(), k.mode FROM $K k WHERE k.pipeline = $1 "
                                   "AND k.outbox = $2",
    [LOG_TAKE] = PG_TAKE_SQL,
    [LOG_READ] = "SELECT $U FROM $T o WHERE o.seq >= $1 ORDER BY o.seq LIMIT $2",
    [LOG_READ_EXACT] = "SELECT $E FROM $T o WHERE o.seq >= $1 ORDER BY o.seq LIMIT $2",
    [LOG_READ_GAPS] =
        "(SELECT r.* FROM unnest($4::int8[], $5::int8[]) AS g(low, high) CROSS JOIN LATERAL "
        "(SELECT $E FROM $T o WHERE o.seq >= g.low AND o.seq <= g.high ORDER BY o.seq LIMIT $2) r "
        "ORDER BY r.seq LIMIT $2) UNION ALL (SELECT $E FROM $T o WHERE o.seq >= $1 ORDER BY o.seq "
        "LIMIT $2) ORDER BY seq LIMIT $2",
    [LOG_READ_SINCE] = "SELECT $E FROM $T o WHERE o.seq >= $1 AND o.created_at >= $4 ORDER BY "
                       "o.seq LIMIT $2",
    /* INSERT takes this lock before it takes a seq, and a commit is visible
     * before the lock is given back. */
    [LOG_WRITERS] =
        "SELECT l.virtualtransaction FROM pg_locks l WHERE l.locktype = 'relation' AND l.mode = "
        "'RowExclusiveLock' AND l.granted AND l.database = (SELECT d.oid FROM pg_database d WHERE "
        "d.datname = current_database()) AND l.relation $P",
    [LOG_FACTS] = "SELECT pg_current_wal_insert_lsn(), pg_current_wal_flush_lsn(), CASE WHEN "
                  "q.is_called THEN q.last_value ELSE 0 END, $A FROM $S q",
    [LOG_FLUSHED] = "SELECT pg_current_wal_flush_lsn()",
    [LOG_FORCE] = "SELECT pg_logical_emit_message(true, 'outrider.flush', '')",
    [LOG_LAST] = "SELECT CASE WHEN q.is_called THEN q.last_value ELSE 0 END FROM $S q",
    [LOG_SAVE] = PG_SAVE_SQL("position = coalesce($4, position), gaps = "
                             "coalesce($5::text::int8multirange, gaps), anchor_id = coalesce($6, "
                             "anchor_id)"),
    /* $1: as pg_locks names it. Of other roles' sessions a relay without
     * pg_read_all_stats sees little more than the process. */
    [LOG_OLDEST] =
        "SELECT coalesce((SELECT concat_ws(', ', 'server process ' || l.pid, a.usename, "
        "nullif(a.application_name, ''), 'open since ' || a.xact_start, a.state) FROM pg_locks l "
        "JOIN pg_stat_activity a ON a.pid = l.pid WHERE l.virtualtransaction = $1 LIMIT 1), "
        "(SELECT format('prepared transaction %s of %s, prepared %s', p.gid, p.owner, p.prepared) "
        "FROM pg_prepared_xacts p WHERE p.database = current_database() ORDER BY p.prepared LIMIT "
        "1), 'has just ended')",
    [LOG_AHEAD] = "SELECT count(*), min(x.seq) FROM (SELECT o.seq FROM $T o WHERE o.seq > $1 ORDER "
                  "BY o.seq LIMIT 1000) x",
};

static const char *const purposes[LOG_STATEMENTS] = {
    [LOG_ENROL] = "cannot take over the pipeline",
    [LOG_READ_CURSOR] = "cannot read the cursor",
    [LOG_TAKE] = "cannot take over the pipeline",
    [LOG_READ] = "cannot read the outbox",
    [LOG_READ_EXACT] = "cannot read the outbox",
    [LOG_READ_GAPS] = "cannot read the outbox",
    [LOG_READ_SINCE] = "cannot read the outbox",
    [LOG_WRITERS] = "cannot read the locks",
    [LOG_FINGERPRINT] = "cannot read the catalogue",
    [LOG_FACTS] = "cannot read the log's position",
    [LOG_FLUSHED] = "cannot read the log's position",
    [LOG_FORCE] = "cannot flush the log",
    [LOG_LAST] = "cannot read the sequence",
    [LOG_SAVE] = "cannot settle",
    [LOG_OLDEST] = "cannot read the locks",
    [LOG_AHEAD] = "cannot read the outbox",
};

static void append_lockable(struct strbuf *sql, const struct pg_catalog *cat)
{
    if (cat->relkind == 'p')
        outrider__strbuf_appendf(sql, "IN (SELECT t.relid FROM pg_partition_tree(%u) t)", cat->oid);
    else
        outrider__strbuf_appendf(sql, "= %u", cat->oid);
}

/* Whether any lane is parked; a replay does not ask. */
static void append_any(struct strbuf *sql, const struct pg_source *s)
{
    const struct log_source *l = s->layout_data;
    bool asks = s->config->ordered && !s->config->replay;
    outrider__strbuf_appendf(sql, "(%s)", asks ? l->parked.sql[PARKED_ANY] : "SELECT false");
}

static void letter(struct strbuf *sql, char c, const struct pg_source *s)
{
    struct pg_bounds b =
        c == 'E' ? outrider__pg_bounds_of(3) : outrider__pg_bounds_fixed(s->config, false);
    if (c == 'E' || c == 'U')
        outrider__pg_sql_log_event(sql, &s->cat, &b, "$1");
    else if (c == 'A')
        append_any(sql, s);
    else if (c == 'P')
        append_lockable(sql, &s->cat);
}

int outrider__pg_log_fail_history(struct pg_source *s, const char *what, struct outrider_error *err)
{
    return outrider__fail(err, OUTRIDER_HISTORY, OUTRIDER_STOP,
                          "%s: the history of the outbox was rewritten: %s; look at what happened, "
                          "then run `outrider resync --name %s`",
                          s->cat.table, what, s->config->name);
}

int outrider__pg_log_check_fingerprint(struct pg_source *s, const PGresult *r,
                                       struct outrider_error *err)
{
    if (PQntuples(r) == 1 && strcmp(outrider__pg_get_str(r, 0, 0), s->cat.fingerprint) == 0)
        return 0;
    return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_RETRY,
                          "%s or its sequence was altered: checking it anew", s->cat.table);
}

void outrider__pg_log_look_soon(struct pg_source *s)
{
    struct log_source *l = log_of(s);
    l->look_gap_us = LOOK_MIN_US;
    l->look_us = s->now.mono_us + l->look_gap_us;
}

static bool log_reads(const struct pg_catalog *cat, const struct pipeline_config *config)
{
    (void)config;
    return cat->has_seq && !cat->has_mark;
}

static int check_anchor(struct pg_source *s, const PGresult *r, struct outrider_error *err)
{
    struct log_source *l = log_of(s);
    char what[160];
    int64_t sequence = outrider__pg_get_int(r, 0, 9, 0);
    if (l->head == 0)
        return 0;
    if (sequence < l->head) {
        (void)snprintf(what, sizeof what,
                       "its sequence stands at %" PRId64 ", below the position %" PRId64, sequence,
                       l->head);
        return outrider__pg_log_fail_history(s, what, err);
    }
    bool is_there = !PQgetisnull(r, 0, 8);
    if (is_there && bytes_eq(outrider__pg_get_bytes(r, 0, 8), outrider__pg_get_bytes(r, 0, 3)))
        return 0;
    (void)snprintf(what, sizeof what, "the row at the position %" PRId64 " %s", l->head,
                   is_there ? "is another one now" : "is gone");
    return outrider__pg_log_fail_history(s, what, err);
}

/* What is not below the position is read from there on anyway. */
static int load_gaps(struct pg_source *s, const char *text, struct outrider_error *err)
{
    struct log_source *l = log_of(s);
    int64_t low = 0, high = 0;
    int rc;
    outrider__gaps_begin_group(&l->gaps);
    while ((rc = outrider__pg_next_range(&text, &low, &high)) > 0) {
        if (high >= l->head)
            high = l->head - 1;
        if (low <= high && outrider__gaps_add(&l->gaps, low, high) < 0)
            return outrider__fail_nomem(err);
    }
    if (rc == 0)
        return 0;
    return outrider__fail(err, OUTRIDER_DB, OUTRIDER_STOP,
                          "outrider_cursor.gaps of pipeline '%s' cannot be read", s->config->name);
}

static void activate(struct pg_source *s)
{
    struct log_source *l = log_of(s);
    l->pulse_us = s->now.mono_us + PULSE_US;
    s->base.reads_ahead = true;
    outrider__pg_log_look_soon(s);
    outrider__pg_source_activate(s);
}

static int on_taken(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    struct log_source *l = log_of(s);
    if (outrider__pg_cursor_taken(s, results[0], &l->cursor, err) < 0)
        return -1;
    s->base.parked_due_us = outrider__pg_parked_due_us(results[n - 1]);
    activate(s);
    return 0;
}

static int take_over(struct pg_source *s, int64_t epoch, bool is_other_policy,
                     struct outrider_error *err)
{
    struct log_source *l = log_of(s);
    if (outrider__pg_request_begin(&s->conn, on_taken, s, err) < 0 ||
        outrider__pg_cursor_add_take(s, &l->st[LOG_TAKE], &l->parked, &l->args, epoch,
                                     is_other_policy, err) < 0)
        return -1;
    if (outrider__pg_parked_add_due(&l->parked, &s->conn, err) < 0)
        return -1;
    return outrider__pg_request_end(&s->conn, err);
}

static void tell_of_another_server(struct pg_source *s, const PGresult *r)
{
    int64_t system_id = outrider__pg_get_int(r, 0, 6, s->cat.system_id);
    int64_t timeline = outrider__pg_get_int(r, 0, 7, s->cat.timeline);
    if (system_id != s->cat.system_id)
        outrider__pg_source_warn(s, "the database was moved to another cluster since; its history "
                                    "fits, events may be delivered again");
    else if (timeline != s->cat.timeline)
        outrider__pg_source_warn(s,
                                 "the server was failed over or restored since (timeline %lld, now "
                                 "%d); its history fits, events may be delivered again",
                                 (long long)timeline, s->cat.timeline);
}

static int on_cursor(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    struct log_source *l = log_of(s);
    const PGresult *r = results[n - 1];
    if (outrider__pg_cursor_check(s, r, 0, 10, err) < 0)
        return -1;
    if (outrider__pg_cursor_check_adopted(s, outrider__pg_get_str(r, 0, 11), err) < 0)
        return -1;
    if (strcmp(outrider__pg_get_str(r, 0, 11), "poll") != 0)
        return outrider__pg_cdc_begin_leaving(s, err);
    if (s->cdc == NULL && outrider__pg_cdc_forget_slot(s, err) < 0)
        return -1;
    l->head = outrider__pg_get_int(r, 0, 1, 0);
    l->last_value = outrider__pg_get_int(r, 0, 9, 0);
    if (check_anchor(s, r, err) < 0 || load_gaps(s, outrider__pg_get_str(r, 0, 2), err) < 0)
        return -1;
    outrider__strbuf_clear(&l->anchor);
    outrider__strbuf_append(&l->anchor, outrider__pg_get_bytes(r, 0, 3));
    if (l->anchor.failed)
        return outrider__fail_nomem(err);
    tell_of_another_server(s, r);
    return take_over(s, outrider__pg_get_int(r, 0, 4, 0),
                     outrider__pg_cursor_other_policy(s, outrider__pg_get_str(r, 0, 5)), err);
}

static void append_stored(struct strbuf *sql, const char *const *columns, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        outrider__pg_stored_sql(sql, columns[i]);
        strbuf_append_str(sql, ", ");
    }
}

static int prepare_parked(struct pg_source *s, struct outrider_error *err)
{
    static const char *const before[] = {"o.aggregate_type", "o.aggregate_id", "o.event_type"};
    static const char *const behind[] = {"o.headers", "o.topic", "o.partition_key"};
    struct strbuf copy;
    outrider__strbuf_init(&copy, PG_SQL_CAP);
    strbuf_append_str(&copy, "o.id::text, ");
    append_stored(&copy, before, sizeof before / sizeof *before);
    outrider__pg_bytea_sql(&copy, s->cat.payload_type, "o.payload");
    strbuf_append_str(&copy, ", ");
    append_stored(&copy, behind, sizeof behind / sizeof *behind);
    outrider__strbuf_appendf(&copy,
                             "o.partition, o.occurred_at, o.created_at, o.expires_at FROM u JOIN "
                             "%s o ON o.seq = u.seq",
                             s->cat.table);
    int rc = copy.failed ? outrider__fail_nomem(err)
                         : outrider__pg_parked_init(&log_of(s)->parked, &s->cat, s->config,
                                                    strbuf_cstr(&copy), NULL, err);
    outrider__strbuf_release(&copy);
    return rc;
}

static int prepare(struct pg_source *s, struct outrider_error *err)
{
    struct log_source *l = log_of(s);
    if (prepare_parked(s, err) < 0)
        return -1;
    for (int i = 0; i < LOG_STATEMENTS; i++) {
        const char *template = i == LOG_FINGERPRINT ? outrider__pg_fingerprint_sql : templates[i];
        l->sql[i] = outrider__pg_expand(template, s, letter);
        if (l->sql[i] == NULL)
            return outrider__fail_nomem(err);
        l->st[i] = (struct pg_statement){.sql = l->sql[i],
                                         .what = purposes[i],
                                         .purpose = i == LOG_SAVE ? PG_SETTLES : PG_READS};
    }
    return outrider__pg_cleaner_init(&l->cleaner, &s->cat, err);
}

static int log_begin(struct pg_source *s, struct outrider_error *err)
{
    struct log_source *l = calloc(1, sizeof *l);
    if (l == NULL)
        return outrider__fail_nomem(err);
    s->layout_data = l;
    outrider__pg_args_init(&l->args);
    outrider__strbuf_init(&l->anchor, 1 << 16);
    outrider__gaps_init(&l->gaps);
    l->mark = -1;
    if (s->config->source.tables.n > 1)
        return outrider__fail(err, OUTRIDER_UNSUPPORTED, OUTRIDER_STOP,
                              "%s is a log: a pipeline reads one log; give each a pipeline of its "
                              "own",
                              s->cat.table);
    if (outrider__pg_catalog_check_log(&s->cat, err) < 0 || prepare(s, err) < 0)
        return -1;
    if (s->config->replay) {
        int64_t from = s->config->replay_from_seq;
        l->head = from > 0 ? from - 1 : 0;
        activate(s);
        return 0;
    }
    outrider__pg_cursor_args(s, &l->args);
    if (outrider__pg_request_begin(&s->conn, on_cursor, s, err) < 0 ||
        outrider__pg_request_add(&s->conn, &l->st[LOG_ENROL], &l->args, err) < 0 ||
        outrider__pg_request_add(&s->conn, &l->st[LOG_READ_CURSOR], &l->args, err) < 0)
        return -1;
    return outrider__pg_request_end(&s->conn, err);
}

static int fetch_parked(struct pg_source *s, struct pg_op *op, struct outrider_error *err)
{
    struct log_source *l = log_of(s);
    if (s->config->replay) {
        op->op->batch->is_parked = true;
        pg_op_done(op);
        return 0;
    }
    return outrider__pg_cursor_fetch_parked(s, &l->parked, op, err);
}

static void take_mark(struct pg_source *s, const PGresult *r)
{
    struct log_source *l = log_of(s);
    l->mark = outrider__pg_get_int(r, 0, 0, 0);
    if (l->mark == l->head && l->gaps.n == 0 && !s->config->replay)
        s->base.mark_reached = true;
    else
        s->base.ready = true;
}

static int on_mark(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_op *op = ctx;
    (void)n;
    (void)err;
    take_mark(op->source, results[0]);
    pg_op_done(op);
    return 0;
}

static int on_mark_again(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    (void)n;
    (void)err;
    take_mark(ctx, results[0]);
    return 0;
}

/* Where there are gaps, only a read that is newer than the mark can tell. */
static int mark(struct pg_source *s, pg_done_fn *done, void *ctx, struct outrider_error *err)
{
    struct log_source *l = log_of(s);
    s->must_mark = s->base.mark_reached = false;
    l->mark_fetch_no = l->fetch.no + 1;
    return outrider__pg_request(&s->conn, &l->st[LOG_LAST], NULL, done, ctx, err);
}

static int log_start(struct pg_source *s, struct pg_op *op, struct outrider_error *err)
{
    switch (op->op->kind) {
    case SOURCE_MARK:
        return mark(s, on_mark, op, err);
    case SOURCE_FETCH:
        return outrider__pg_log_fetch(s, op, err);
    case SOURCE_FETCH_PARKED:
        return fetch_parked(s, op, err);
    case SOURCE_SETTLE:
    case SOURCE_INTENT:
    case SOURCE_RECALL:
        return outrider__pg_log_settle(s, op, err);
    case SOURCE_CLEANUP:
        return outrider__pg_log_cleanup(s, op, err);
    }
    return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP, "unknown operation");
}

static int check_sequence(struct pg_source *s, int64_t last_value, struct outrider_error *err)
{
    struct log_source *l = log_of(s);
    l->last_value = last_value;
    if (last_value >= l->head || s->config->replay)
        return 0;
    return outrider__pg_log_fail_history(s, "its sequence was set back below the position", err);
}

static int on_probe(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    struct log_source *l = log_of(s);
    (void)n;
    l->is_probing = false;
    if (check_sequence(s, outrider__pg_get_int(results[0], 0, 0, 0), err) < 0)
        return -1;
    if (l->last_value > l->head)
        s->base.ready = true;
    return 0;
}

/* The sequence is the whole probe while it equals head and there are no gaps. */
static int look(struct pg_source *s, struct outrider_error *err)
{
    struct log_source *l = log_of(s);
    if (s->base.ready || l->fetch.op != NULL || l->is_probing || s->now.mono_us < l->look_us)
        return 0;
    l->look_gap_us = l->look_gap_us * 2;
    if (l->look_gap_us > s->config->source.poll_interval_us)
        l->look_gap_us = s->config->source.poll_interval_us;
    l->look_us = s->now.mono_us + l->look_gap_us;
    if (l->gaps.n > 0 || l->last_value != l->head) {
        s->base.ready = true;
        return 0;
    }
    l->is_probing = true;
    return outrider__pg_request(&s->conn, &l->st[LOG_LAST], NULL, on_probe, s, err);
}

static int on_pulse(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    struct log_source *l = log_of(s);
    l->is_pulsing = false;
    if (outrider__pg_log_check_fingerprint(s, results[0], err) < 0)
        return -1;
    if (n > 1)
        s->base.parked_due_us = outrider__pg_parked_due_us(results[1]);
    return 0;
}

/* Keeps the session alive, sees what operators did, and what was altered. */
static int pulse(struct pg_source *s, struct outrider_error *err)
{
    struct log_source *l = log_of(s);
    if (l->is_pulsing || s->now.mono_us < l->pulse_us)
        return 0;
    l->is_pulsing = true;
    l->pulse_us = s->now.mono_us + PULSE_US;
    if (l->has_forgotten_gaps && l->n_out == 0 && !s->config->replay &&
        outrider__pg_log_save_gaps(s, err) < 0)
        return -1;
    outrider__pg_args_clear(&l->args);
    outrider__pg_arg_oid(&l->args, s->cat.oid);
    outrider__pg_arg_oid(&l->args, s->cat.sequence_oid);
    if (outrider__pg_request_begin(&s->conn, on_pulse, s, err) < 0 ||
        outrider__pg_request_add(&s->conn, &l->st[LOG_FINGERPRINT], &l->args, err) < 0)
        return -1;
    if (!s->config->replay && outrider__pg_parked_add_due(&l->parked, &s->conn, err) < 0)
        return -1;
    return outrider__pg_request_end(&s->conn, err);
}

static int log_tick(struct pg_source *s, struct instant now, struct outrider_error *err)
{
    struct log_source *l = log_of(s);
    (void)now;
    if (s->must_mark && mark(s, on_mark_again, s, err) < 0)
        return -1;
    if (outrider__pg_log_fetch_tick(s, err) < 0 || look(s, err) < 0 || pulse(s, err) < 0)
        return -1;
    int64_t wake = l->is_pulsing ? CLOCK_NEVER : l->pulse_us;
    if (!s->base.ready && l->fetch.op == NULL && !l->is_probing && l->look_us < wake)
        wake = l->look_us;
    if (l->fetch.op != NULL && l->fetch.ask_us < wake && !l->fetch.is_asking)
        wake = l->fetch.ask_us;
    s->base.wake_us = wake;
    return 0;
}

static void log_close(struct pg_source *s)
{
    struct log_source *l = log_of(s);
    if (l == NULL)
        return;
    for (int i = 0; i < LOG_STATEMENTS; i++)
        free(l->sql[i]);
    outrider__pg_cleaner_release(&l->cleaner);
    outrider__pg_parked_release(&l->parked);
    outrider__pg_args_release(&l->args);
    outrider__strbuf_release(&l->anchor);
    outrider__gaps_release(&l->gaps);
    free(l);
    s->layout_data = NULL;
}

const struct pg_layout outrider__pg_layout_log = {
    .name = "log",
    .reads = log_reads,
    .begin = log_begin,
    .start = log_start,
    .tick = log_tick,
    .close = log_close,
    .own_write = outrider__pg_log_own_write,
    .own_read = outrider__pg_log_own_read,
};
