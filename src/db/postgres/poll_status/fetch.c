/* SPDX-License-Identifier: MIT */
/* Reading, and where need be claiming, one batch from one table. */
#include "postgres/poll_status/status.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/failpoint.h"
#include "base/uuid.h"

static int fetch_ask(struct status_source *d, struct outrider_error *err);

int64_t outrider__pg_status_room(const struct status_source *d)
{
    int64_t room = d->s->config->source.concurrency;
    if (room <= 0)
        return INT64_MAX;
    for (size_t i = 0; i < STATUS_FLIGHTS_MAX; i++)
        if (d->flights[i].batch != NULL)
            room -= (int64_t)d->flights[i].batch->n;
    return room > 0 ? room : 0;
}

/* Another owner for every claim: see poll_status/status.h (4). */
static void fetch_name_owner(struct status_source *d, const struct status_table *t,
                             char owner[STATUS_OWNER_SIZE])
{
    const struct map_column *c = t->a.map.columns[ROLE_LOCKED_BY];
    d->n_claims++;
    if (c != NULL && c->kind == KIND_UUID) {
        (void)outrider__uuid_new(d->s->now.wall_us, owner);
        return;
    }
    int n = snprintf(owner, STATUS_OWNER_SIZE, "%s%s/%s.%" PRIu64, d->owner_prefix, d->host,
                     d->nonce, d->n_claims);
    if (c == NULL || c->length <= 0 || n <= c->length)
        return;
    n = snprintf(owner, STATUS_OWNER_SIZE, "%s%s.%" PRIu64, d->owner_prefix, d->nonce, d->n_claims);
    if (n > c->length) /* the count and what is random matter most */
        (void)snprintf(owner, STATUS_OWNER_SIZE, "%.*s", c->length, d->nonce);
}

/* The server executes statements in the order in which they are sent. So when this fetch
 * is executed, the rows of a batch that is being settled say themselves what became of
 * them. Leaving them out would pass over a row that is given back, and return the next
 * one of its key. */
static void fetch_add_in_flight(struct status_source *d, const struct status_table *t)
{
    outrider__pg_array_begin(&d->args, PG_TEXT);
    for (size_t i = 0; i < STATUS_FLIGHTS_MAX; i++) {
        const struct status_flight *f = &d->flights[i];
        if (f->batch == NULL || f->is_settling || f->table != t)
            continue;
        for (size_t k = 0; k < f->batch->n; k++)
            outrider__pg_array_text(&d->args, f->batch->events[k].id);
    }
    outrider__pg_array_end(&d->args);
}

static void fetch_add_claim(struct status_source *d, const struct status_table *t)
{
    if (t->claims) {
        fetch_name_owner(d, t, d->fetching.owner);
        outrider__pg_arg_str(&d->args, d->fetching.owner);
    } else {
        fetch_add_in_flight(d, t);
    }
}

/* Rows beyond what fits were claimed too: back with them, untouched. */
static int fetch_release_rest(struct status_source *d, const PGresult *r, int first,
                              struct outrider_error *err)
{
    struct status_table *t = d->fetching.table;
    if (!t->claims || first >= PQntuples(r))
        return 0;
    outrider__pg_args_clear(&d->args);
    outrider__pg_array_begin(&d->args, PG_TEXT);
    for (int i = first; i < PQntuples(r); i++)
        outrider__pg_array_text(&d->args, outrider__pg_get_bytes(r, i, EV_ID));
    outrider__pg_array_end(&d->args);
    outrider__pg_arg_str(&d->args, d->fetching.owner);
    outrider__pg_array_begin(&d->args, PG_INT8);
    for (int i = first; i < PQntuples(r); i++)
        outrider__pg_array_int8(&d->args, outrider__pg_get_int(r, i, STATUS_CLAIM, 0));
    outrider__pg_array_end(&d->args);
    return outrider__pg_request(&d->s->conn, &t->st[ST_RELEASE], &d->args, NULL, NULL, err);
}

static int fetch_fill(struct status_source *d, const PGresult *r, struct outrider_error *err)
{
    struct batch *b = d->fetching.batch;
    struct bounded_read *read = &d->fetching.table->read;
    struct event_bounds max = outrider__event_bounds(d->s->config);
    int i = 0, n = PQntuples(r);
    max.id = EVENT_ANY_SIZE;
    for (; i < n && !batch_is_full(b); i++) {
        if (outrider__read_ends_at(read, outrider__pg_row_is_large(r, i, 0)))
            break;
        struct event *e = outrider__pg_row(b, r, i, 0, &max);
        if (e == NULL)
            return outrider__fail_nomem(err);
        e->attempts = (uint32_t)outrider__pg_get_int(r, i, STATUS_ATTEMPTS, 0);
        e->claim = outrider__pg_get_int(r, i, STATUS_CLAIM, 0);
        d->fetching.has_copies |= outrider__pg_get_bool(r, i, STATUS_HAS_COPY);
        outrider__table_complete(&d->fetching.table->a, e);
    }
    outrider__read_end(read, b, i);
    return fetch_release_rest(d, r, i, err);
}

static int fetch_finish(struct status_source *d, struct outrider_error *err)
{
    struct pg_op *op = d->fetch_op;
    d->fetch_op = NULL;
    if (d->fetching.batch->n > 0) {
        struct status_flight *slot = outrider__pg_status_flight(d, NULL);
        if (slot == NULL)
            return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP, "too many batches");
        *slot = d->fetching;
        if (d->renew_us == CLOCK_NEVER)
            d->renew_us = d->s->now.mono_us + d->s->config->source.lease_us / 3;
        outrider__pg_status_look_soon(d);
    } else {
        outrider__pg_status_look_later(d);
    }
    bool all = true;
    for (size_t i = 0; i < d->n_tables; i++)
        all &= d->tables[i].is_exhausted;
    d->s->base.mark_reached = d->is_marked && all;
    pg_op_done(op);
    return 0;
}

int outrider__pg_status_was_empty(struct status_source *d, struct outrider_error *err)
{
    return ++d->n_tried < d->n_tables ? fetch_ask(d, err) : fetch_finish(d, err);
}

static int fetch_on_rows(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct status_source *d = ctx;
    struct status_table *t = d->fetching.table;
    (void)n;
    if (fetch_fill(d, results[0], err) < 0)
        return -1;
    t->is_exhausted = !d->is_before_mark && PQntuples(results[0]) < d->limit &&
                      d->fetching.batch->n == (size_t)PQntuples(results[0]);
    if (outrider__read_is_repeated(&t->read, d->fetching.batch)) {
        d->next_table = (size_t)(t - d->tables); /* it begins with a large one: again */
        return fetch_ask(d, err);
    }
    return d->fetching.batch->n == 0 ? outrider__pg_status_was_empty(d, err) : fetch_finish(d, err);
}

/* Asks the table whose turn it is. What a crash of the server could still undo
 * must not be published: a claim's own commit is flushed behind it; without
 * one, a small message is, if anything is not flushed yet. */
static int fetch_ask(struct status_source *d, struct outrider_error *err)
{
    struct status_table *t = &d->tables[d->next_table];
    d->next_table = (d->next_table + 1) % d->n_tables;
    d->fetching.table = t;
    if (t->a.map.waits_for_words)
        return outrider__pg_status_learn(d, t, err);
    int64_t room = outrider__pg_status_room(d);
    t->read.claims = true;
    outrider__read_begin(&t->read, d->s->config, d->fetching.batch);
    d->limit = t->read.limit < room ? t->read.limit : room;
    outrider__pg_args_clear(&d->args);
    outrider__pg_arg_int8(&d->args, d->limit);
    outrider__pg_arg_bounds(&d->args, d->s->config, t->read.is_large);
    fetch_add_claim(d, t);
    struct pg_conn *c = &d->s->conn;
    if (outrider__pg_request_begin(c, fetch_on_rows, d, err) < 0 ||
        outrider__pg_request_add(c, &t->st[ST_FETCH], &d->args, err) < 0)
        return -1;
    if (!t->claims && outrider__pg_request_add(c, &d->st_flush, NULL, err) < 0)
        return -1;
    return outrider__pg_request_end(c, err);
}

int outrider__pg_status_fetch(struct status_source *d, struct pg_op *op, struct outrider_error *err)
{
    int errno_value = FAILPOINT("postgres.fetch");
    if (errno_value != 0)
        return outrider__fail_errno(err, errno_value, "cannot read the outbox");
    d->fetching = (struct status_flight){.batch = op->op->batch};
    d->fetch_op = op;
    d->is_before_mark = false;
    d->n_tried = 0;
    if (outrider__pg_status_room(d) == 0)
        return fetch_finish(d, err);
    return fetch_ask(d, err);
}
