/* SPDX-License-Identifier: MIT */
/*
 * Outcomes, written in one transaction and one round trip per batch:
 *     the cursor row (epoch, totals)
 *     outrider_parked: what was there of these rows goes, what must be there comes
 *     the rows that failed, died, expired or are given back
 *     the rows that are published
 */
#include "postgres/poll_status/status.h"

#include "base/failpoint.h"
#include "common/outcome.h"
#include "common/tally.h"

enum group { GROUP_PUBLISHED, GROUP_CHANGED, GROUP_PARKED, GROUP_TRIED };

static bool has_value(const struct status_table *t, enum map_state s)
{
    return t->a.map.values[s][0] != '\0';
}

/* Whether the outcome needs a place in outrider_parked. */
static bool is_parked(const struct status_table *t, const struct event *e)
{
    if (e->outcome == OUTCOME_EXPIRED)
        return t->a.parks_dead && !has_value(t, STATE_EXPIRED);
    return (e->outcome == OUTCOME_PARKED && t->a.parks_retries) ||
           (e->outcome == OUTCOME_DEAD && t->a.parks_dead);
}

static bool belongs(const struct status_table *t, const struct event *e, enum group g)
{
    switch (g) {
    case GROUP_PUBLISHED:
        return outcome_is_published(e);
    case GROUP_CHANGED:
        return e->outcome == OUTCOME_PARKED || outcome_is_given_up(e) ||
               (outcome_is_untried(e) && t->claims);
    case GROUP_PARKED:
        return is_parked(t, e);
    default:
        return !outcome_is_untried(e);
    }
}

static size_t count(const struct status_table *t, const struct batch *b, enum group g)
{
    size_t n = 0;
    for (size_t i = 0; i < b->n_settle; i++)
        n += belongs(t, &b->events[i], g);
    return n;
}

static const char *state_of(const struct status_table *t, const struct event *e)
{
    if (e->outcome == OUTCOME_EXPIRED && has_value(t, STATE_EXPIRED))
        return t->a.map.values[STATE_EXPIRED];
    if (outcome_is_given_up(e) && has_value(t, STATE_DEAD))
        return t->a.map.values[STATE_DEAD];
    if ((outcome_is_given_up(e) || e->outcome == OUTCOME_PARKED) && has_value(t, STATE_FAILED))
        return t->a.map.values[STATE_FAILED];
    return t->a.map.values[STATE_PENDING];
}

/* How long from now until the next try. */
static void add_delay(struct pg_args *a, const struct event *e, int64_t now_us)
{
    if (e->outcome != OUTCOME_PARKED)
        outrider__pg_array_null(a);
    else
        outrider__pg_array_int8(a, outcome_delay_us(e, now_us));
}

enum field {
    F_ID,
    F_CLAIM,
    F_STATE,
    F_ATTEMPTS,
    F_DELAY,
    F_CODE,
    F_MESSAGE,
    F_ORIGIN,
    F_LANE,
    F_PARKED_STATE
};

static void add_field(struct status_source *d, const struct status_table *t, const struct event *e,
                      enum field f, int64_t now_us)
{
    struct pg_args *a = &d->args;
    switch (f) {
    case F_ID:
        outrider__pg_array_text(a, e->id);
        break;
    case F_CLAIM:
        outrider__pg_array_int8(a, e->claim);
        break;
    case F_STATE:
        outrider__pg_array_text(a, bytes_str(state_of(t, e)));
        break;
    case F_ATTEMPTS:
        outrider__pg_array_int4(a, (int32_t)e->attempts);
        break;
    case F_DELAY:
        add_delay(a, e, now_us);
        break;
    case F_CODE:
        outrider__pg_array_text(a, outcome_is_untried(e) ? BYTES_NULL : outrider__outcome_code(e));
        break;
    case F_MESSAGE:
        outrider__pg_array_text(a,
                                outcome_is_untried(e) ? BYTES_NULL : outrider__outcome_message(e));
        break;
    case F_ORIGIN:
        outrider__pg_array_text(a, outrider__outcome_origin(e));
        break;
    case F_LANE:
        outrider__pg_array_stored(a, outcome_lane(e, d->s->config->ordered));
        break;
    case F_PARKED_STATE:
        outrider__pg_array_text(a, bytes_str(outcome_is_given_up(e) ? "dead" : "parked"));
        break;
    }
}

static Oid type_of(enum field f)
{
    return f == F_CLAIM || f == F_DELAY ? PG_INT8 : f == F_ATTEMPTS ? PG_INT4 : PG_TEXT;
}

static void add_array(struct status_source *d, const struct status_table *t, const struct batch *b,
                      enum group g, enum field f, int64_t now_us)
{
    outrider__pg_array_begin(&d->args, type_of(f));
    for (size_t i = 0; i < b->n_settle; i++)
        if (belongs(t, &b->events[i], g))
            add_field(d, t, &b->events[i], f, now_us);
    outrider__pg_array_end(&d->args);
}

static void add_arguments(struct status_source *d, const struct status_flight *f, enum group g,
                          int64_t now_us)
{
    static const enum field published[] = {F_CLAIM};
    static const enum field changed[] = {F_CLAIM, F_STATE, F_ATTEMPTS, F_DELAY, F_CODE, F_MESSAGE};
    static const enum field parked[] = {F_CLAIM, F_PARKED_STATE, F_ATTEMPTS, F_DELAY,
                                        F_CODE,  F_MESSAGE,      F_ORIGIN,   F_LANE};
    const enum field *fields = g == GROUP_CHANGED  ? changed
                               : g == GROUP_PARKED ? parked
                                                   : published;
    size_t n = g == GROUP_CHANGED ? 6 : g == GROUP_PARKED ? 8 : 1;
    const struct status_table *t = f->table;
    outrider__pg_args_clear(&d->args);
    add_array(d, t, f->batch, g, F_ID, now_us);
    if (g != GROUP_TRIED) {
        outrider__pg_arg_str(&d->args, f->owner);
        for (size_t i = 0; i < n; i++)
            add_array(d, t, f->batch, g, fields[i], now_us);
    }
}

static int add_group(struct status_source *d, struct status_flight *f, enum group g,
                     enum status_statement which, int64_t now_us, struct outrider_error *err)
{
    struct status_table *t = f->table;
    if (t->sql[which] == NULL || count(t, f->batch, g) == 0)
        return 0;
    add_arguments(d, f, g, now_us);
    return outrider__pg_request_add(&d->s->conn, &t->st[which], &d->args, err);
}

static int add_cursor(struct status_source *d, struct status_flight *f, struct outrider_error *err)
{
    struct tally t = outrider__tally_all(f->batch);
    outrider__pg_args_clear(&d->args);
    outrider__pg_arg_int8(&d->args, t.delivered);
    outrider__pg_arg_int8(&d->args, t.expired);
    outrider__pg_arg_int8(&d->args, t.skipped);
    outrider__pg_arg_int8(&d->args, t.dead);
    outrider__pg_arg_int8(&d->args, f->table->epoch);
    return outrider__pg_request_add(&d->s->conn, &f->table->st[ST_CURSOR], &d->args, err);
}

/* Prepares what settling will need: if the server cannot take it, then now, and not
 * when the events are published. */
int outrider__pg_status_try(struct status_source *d, struct status_table *t,
                            struct outrider_error *err)
{
    static const struct {
        enum status_statement which;
        enum group group;
    } tried[] = {{ST_PUBLISH, GROUP_PUBLISHED},
                 {ST_CHANGE, GROUP_CHANGED},
                 {ST_PARK, GROUP_PARKED},
                 {ST_RELEASE, GROUP_PUBLISHED},
                 {ST_RENEW, GROUP_PUBLISHED}};
    struct batch none = {0};
    struct status_flight f = {.batch = &none, .table = t};
    if (outrider__pg_request_begin(&d->s->conn, NULL, NULL, err) < 0)
        return -1;
    for (size_t i = 0; i < sizeof tried / sizeof *tried; i++) {
        if (t->sql[tried[i].which] == NULL)
            continue;
        add_arguments(d, &f, tried[i].group, 0);
        if (outrider__pg_request_try(&d->s->conn, &t->st[tried[i].which], &d->args, err) < 0)
            return -1;
    }
    return outrider__pg_request_end(&d->s->conn, err);
}

/* Claimed rows of which a stop found nothing out: they are given back. */
static void give_back_rest(struct status_flight *f)
{
    struct batch *b = f->batch;
    if (!f->table->claims)
        return;
    for (size_t i = b->n_settle; i < b->n; i++)
        b->events[i].outcome = OUTCOME_RELEASED;
    b->n_settle = b->n;
}

static int finish(struct pg_op *op)
{
    struct status_source *d = status_of(op->source);
    struct status_flight *f = outrider__pg_status_flight(d, op->op->batch);
    if (f != NULL)
        *f = (struct status_flight){0};
    outrider__pg_status_look_soon(d);
    pg_op_done(op);
    return 0;
}

static int on_left(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_op *op = ctx;
    struct status_source *d = status_of(op->source);
    const struct status_flight *f = outrider__pg_status_flight(d, op->op->batch);
    int64_t left = outrider__pg_get_int(results[0], 0, 0, 0);
    bool removes = d->s->config->source.after_publish == AFTER_PUBLISH_DELETE;
    (void)n;
    if (left == 0)
        return finish(op); /* somebody else settled them, or removed them */
    return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                          "%lld %s of table %s %s published and still not %s: a trigger on %s "
                          "passes over the change, or undoes it; mend the trigger, then start the "
                          "relay again, which publishes these events once more",
                          (long long)left, left == 1 ? "row" : "rows", f->table->a.outbox,
                          left == 1 ? "is" : "are", removes ? "removed" : "marked",
                          removes ? "DELETE" : "UPDATE");
}

/* The server says nothing of a trigger that passes over a change, or undoes it: such rows
 * would be read and published without end. r: of ST_PUBLISH. */
static int check_marked(struct pg_op *op, struct status_flight *f, const PGresult *r,
                        struct outrider_error *err)
{
    struct status_source *d = status_of(op->source);
    int64_t marked = outrider__pg_get_int(r, 0, 0, 0) - outrider__pg_get_int(r, 0, 1, 0);
    if (marked >= (int64_t)count(f->table, f->batch, GROUP_PUBLISHED))
        return finish(op);
    add_arguments(d, f, GROUP_PUBLISHED, 0);
    return outrider__pg_request(&d->s->conn, &f->table->st[ST_LEFT], &d->args, on_left, op, err);
}

static int settled(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_op *op = ctx;
    struct status_flight *f = outrider__pg_status_flight(status_of(op->source), op->op->batch);
    int errno_value = FAILPOINT("settle.after_commit");
    if (errno_value != 0)
        return outrider__fail_errno(err, errno_value, "cannot settle");
    if (f == NULL || count(f->table, f->batch, GROUP_PUBLISHED) == 0)
        return finish(op);
    return check_marked(op, f, results[n - 1], err);
}

int outrider__pg_status_settle(struct status_source *d, struct pg_op *op,
                               struct outrider_error *err)
{
    struct status_flight *f = outrider__pg_status_flight(d, op->op->batch);
    int64_t now_us = op->op->now_wall_us;
    int errno_value = FAILPOINT("settle.before_begin");
    if (errno_value != 0)
        return outrider__fail_errno(err, errno_value, "cannot settle");
    if (f == NULL || d->s->config->replay) {
        if (f != NULL)
            *f = (struct status_flight){0};
        pg_op_done(op);
        return 0;
    }
    give_back_rest(f);
    f->is_settling = true;
    struct pg_conn *c = &d->s->conn;
    if (outrider__pg_request_begin(c, settled, op, err) < 0 || add_cursor(d, f, err) < 0 ||
        outrider__pg_intent_add(d->s, op, err) < 0 ||
        (f->has_copies && add_group(d, f, GROUP_TRIED, ST_UNPARK, now_us, err) < 0) ||
        add_group(d, f, GROUP_PARKED, ST_PARK, now_us, err) < 0 ||
        add_group(d, f, GROUP_CHANGED, ST_CHANGE, now_us, err) < 0 ||
        add_group(d, f, GROUP_PUBLISHED, ST_PUBLISH, now_us, err) < 0)
        return -1;
    return outrider__pg_request_end(c, err);
}

/* "copies TABLE" or "rows TABLE". */
int outrider__pg_status_own_write(struct pg_source *s, const struct batch *b, struct strbuf *out,
                                  struct outrider_error *err)
{
    const struct status_flight *f = outrider__pg_status_flight(status_of(s), b);
    if (f == NULL)
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP, "a batch of no table");
    outrider__strbuf_appendf(out, "%s %s", f->has_copies ? "copies" : "rows", f->table->a.outbox);
    return out->failed ? outrider__fail_nomem(err) : 0;
}

int outrider__pg_status_own_read(struct pg_source *s, struct batch *b, struct bytes own,
                                 struct outrider_error *err)
{
    struct status_source *d = status_of(s);
    const char *name = own.len > 0 ? strchr(own.data, ' ') : NULL;
    struct status_flight *f = outrider__pg_status_flight(d, NULL);
    for (size_t i = 0; name != NULL && f != NULL && i < d->n_tables; i++) {
        if (strcmp(d->tables[i].a.outbox, name + 1) != 0)
            continue;
        *f = (struct status_flight){
            .batch = b, .table = &d->tables[i], .has_copies = own.data[0] == 'c'};
        return 0;
    }
    return outrider__fail(err, OUTRIDER_HISTORY, OUTRIDER_STOP,
                          "the intent in outrider_intent is of table %.100s, which is none of this "
                          "pipeline's; add it to source.tables",
                          name != NULL ? name + 1 : "?");
}
