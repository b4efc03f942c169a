/* SPDX-License-Identifier: MIT */
/*
 * Outcomes, written in one transaction and one round trip per batch: which statements, and
 * which values, says common/status_settle.h.
 */
#include "postgres/poll_status/status.h"

#include "base/failpoint.h"
#include "common/status_settle.h"
#include "common/tally.h"
#include "postgres/wire/dialect.h"

static struct status_rows settle_rows(const struct status_source *d, const struct status_table *t)
{
    return (struct status_rows){
        .table = &t->a, .claims = t->claims, .ordered = d->s->config->ordered};
}

/* One field of the group's members, as an array. */
static void settle_add_array(struct status_source *d, const struct status_rows *rows,
                             const struct batch *b, enum status_group g, enum status_field f,
                             int64_t now_us)
{
    outrider__pg_array_begin(&d->args, outrider__pg_type_of(outrider__status_field_type(f)));
    for (size_t i = 0; i < b->n_settle; i++) {
        if (!outrider__status_belongs(rows, &b->events[i], g))
            continue;
        struct sql_value v = outrider__status_value(rows, &b->events[i], f, now_us);
        outrider__pg_array_value(&d->args, &v);
    }
    outrider__pg_array_end(&d->args);
}

static void settle_add_arguments(struct status_source *d, const struct status_flight *f,
                                 enum status_group g, int64_t now_us)
{
    struct status_rows rows = settle_rows(d, f->table);
    size_t n;
    const enum status_field *fields = outrider__status_fields(g, &n);
    outrider__pg_args_clear(&d->args);
    settle_add_array(d, &rows, f->batch, g, FIELD_ID, now_us);
    if (g != GROUP_TRIED)
        outrider__pg_arg_str(&d->args, f->owner);
    for (size_t i = 0; i < n; i++)
        settle_add_array(d, &rows, f->batch, g, fields[i], now_us);
}

static size_t settle_members(const struct status_source *d, const struct status_flight *f,
                             enum status_group g)
{
    struct status_rows rows = settle_rows(d, f->table);
    return outrider__status_members(&rows, f->batch, g);
}

/* common/status_settle.h: the statements behind the cursor row. */
static int settle_add_groups(struct status_source *d, struct status_flight *f, int64_t now_us,
                             struct outrider_error *err)
{
    struct status_table *t = f->table;
    for (size_t i = 0; i < STATUS_STEPS; i++) {
        const struct status_step *step = &outrider__status_steps[i];
        if ((step->needs_copies && !f->has_copies) || t->sql[step->which] == NULL ||
            settle_members(d, f, step->group) == 0)
            continue;
        settle_add_arguments(d, f, step->group, now_us);
        if (outrider__pg_request_add(&d->s->conn, &t->st[step->which], &d->args, err) < 0)
            return -1;
    }
    return 0;
}

static int settle_add_cursor(struct status_source *d, struct status_flight *f,
                             struct outrider_error *err)
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
        enum status_group group;
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
        settle_add_arguments(d, &f, tried[i].group, 0);
        if (outrider__pg_request_try(&d->s->conn, &t->st[tried[i].which], &d->args, err) < 0)
            return -1;
    }
    return outrider__pg_request_end(&d->s->conn, err);
}

static int settle_finish(struct pg_op *op)
{
    struct status_source *d = status_of(op->source);
    struct status_flight *f = outrider__pg_status_flight(d, op->op->batch);
    if (f != NULL)
        *f = (struct status_flight){0};
    outrider__pg_status_look_soon(d);
    pg_op_done(op);
    return 0;
}

static int settle_on_left(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_op *op = ctx;
    struct status_source *d = status_of(op->source);
    const struct status_flight *f = outrider__pg_status_flight(d, op->op->batch);
    int64_t left = outrider__pg_get_int(results[0], 0, 0, 0);
    bool removes = d->s->config->source.after_publish == AFTER_PUBLISH_DELETE;
    (void)n;
    if (left == 0)
        return settle_finish(op); /* somebody else settled them, or removed them */
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
static int settle_check_marked(struct pg_op *op, struct status_flight *f, const PGresult *r,
                               struct outrider_error *err)
{
    struct status_source *d = status_of(op->source);
    int64_t marked = outrider__pg_get_int(r, 0, 0, 0) - outrider__pg_get_int(r, 0, 1, 0);
    if (marked >= (int64_t)settle_members(d, f, GROUP_PUBLISHED))
        return settle_finish(op);
    settle_add_arguments(d, f, GROUP_PUBLISHED, 0);
    return outrider__pg_request(&d->s->conn, &f->table->st[ST_LEFT], &d->args, settle_on_left, op,
                                err);
}

static int settle_on_done(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_op *op = ctx;
    struct status_source *d = status_of(op->source);
    struct status_flight *f = outrider__pg_status_flight(d, op->op->batch);
    int errno_value = FAILPOINT("settle.after_commit");
    if (errno_value != 0)
        return outrider__fail_errno(err, errno_value, "cannot settle");
    if (f == NULL || settle_members(d, f, GROUP_PUBLISHED) == 0)
        return settle_finish(op);
    return settle_check_marked(op, f, results[n - 1], err);
}

int outrider__pg_status_settle(struct status_source *d, struct pg_op *op,
                               struct outrider_error *err)
{
    struct status_flight *f = outrider__pg_status_flight(d, op->op->batch);
    int64_t now_us = op->op->now_wall_us;
    int errno_value = FAILPOINT("settle.before_begin");
    if (errno_value != 0)
        return outrider__fail_errno(err, errno_value, "cannot settle");
    if (f == NULL) {
        pg_op_done(op);
        return 0;
    }
    struct status_rows rows = settle_rows(d, f->table);
    outrider__status_give_back_rest(&rows, f->batch);
    f->is_settling = true;
    struct pg_conn *c = &d->s->conn;
    if (outrider__pg_request_begin(c, settle_on_done, op, err) < 0 ||
        settle_add_cursor(d, f, err) < 0 || outrider__pg_intent_add(d->s, op, err) < 0 ||
        settle_add_groups(d, f, now_us, err) < 0)
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
