/* SPDX-License-Identifier: MIT */
/* The PostgreSQL store: dead letters. */
#include <stdlib.h>

#include "postgres/store/dead.h"
#include "postgres/store/store.h"
#include "postgres/table/table.h"
#include "postgres/wire/dialect.h"
#include "store.sql.h"

/* As outrider__pg_row_stored() reads them; payload and texts come whole. */
#define DEAD_EVENT                                                                                \
    "seq, id, aggregate_type, aggregate_id, event_type, payload, headers, topic, partition_key, " \
    "partition, occurred_at, created_at, expires_at, NULL::int8, NULL::text"

static const struct pg_block dead_lock_block = {sql_dead_lock, "cannot lock the cursors", PG_READS};

int outrider__pg_store_dead_query(struct pg_store *s, enum dead_statement which,
                                  const struct pg_args *args, PGresult **ret_result,
                                  struct outrider_error *err)
{
    const struct dead_names names = {.parked = s->cat.parked_table,
                                     .cursor = s->cat.cursor_table,
                                     .event = DEAD_EVENT,
                                     .has_outbox = true};
    char *sql = outrider__dead_sql(&outrider__pg_dialect, &names, which, NULL, err);
    if (sql == NULL)
        return -1;
    int rc = outrider__pg_store_query(s, sql, args, outrider__dead_purpose(which), ret_result, err);
    free(sql);
    return rc;
}

static void dead_add_filter(struct pg_args *args, const struct dead_filter *f)
{
    outrider__pg_args_init(args);
    outrider__pg_arg_str(args, f->pipeline);
    if (f->n_ids > 0) {
        outrider__pg_array_begin(args, PG_TEXT);
        for (size_t i = 0; i < f->n_ids; i++)
            outrider__pg_array_text(args, bytes_str(f->ids[i]));
        outrider__pg_array_end(args);
    } else {
        outrider__pg_arg_null(args, PG_TEXT_ARRAY);
    }
    outrider__pg_arg_str(args, f->event_type);
    outrider__pg_arg_time(args, f->since_us);
    outrider__pg_arg_bool(args, f->with_parked);
}

static int dead_tell_row(const PGresult *r, int row, struct batch *b,
                         void (*tell)(void *, const struct dead_row *), void *ctx,
                         struct outrider_error *err)
{
    struct dead_row d = {0};
    outrider__batch_reset(b);
    d.event = outrider__pg_row_stored(b, r, row, &EVENT_UNBOUNDED);
    if (d.event == NULL)
        return outrider__fail_nomem(err);
    if (outrider__pg_row_show(d.event, err) < 0)
        return -1;
    d.event->is_parked = true;
    d.event->arrival = outrider__pg_get_int(r, row, EV_COLUMNS + DEAD_ARRIVAL, 0);
    d.event->attempts = (uint32_t)outrider__pg_get_int(r, row, EV_COLUMNS + DEAD_ATTEMPTS, 0);
    d.pipeline = outrider__pg_get_str(r, row, EV_COLUMNS + DEAD_PIPELINE);
    d.state = outrider__pg_get_str(r, row, EV_COLUMNS + DEAD_STATE);
    d.error_code = outrider__pg_get_str(r, row, EV_COLUMNS + DEAD_CODE);
    d.error_message = outrider__pg_get_str(r, row, EV_COLUMNS + DEAD_MESSAGE);
    d.parked_at_us = outrider__pg_get_time(r, row, EV_COLUMNS + DEAD_PARKED_AT, 0);
    d.next_attempt_us = outrider__pg_get_time(r, row, EV_COLUMNS + DEAD_NEXT, 0);
    d.updated_at_us = outrider__pg_get_time(r, row, EV_COLUMNS + DEAD_UPDATED_AT, 0);
    tell(ctx, &d);
    return 0;
}

int outrider__pg_store_dead_list(struct store *base, const struct dead_filter *f,
                                 void (*row)(void *, const struct dead_row *), void *ctx,
                                 struct outrider_error *err)
{
    struct pg_store *s = pg_store_of(base);
    struct pg_args args;
    struct batch b;
    PGresult *r = NULL;
    if (outrider__pg_store_ready(s, err) < 0 || outrider__batch_init(&b, 1, SIZE_MAX, err) < 0)
        return -1;
    dead_add_filter(&args, f);
    int rc = outrider__pg_store_dead_query(s, DEAD_LIST, &args, &r, err);
    outrider__pg_args_release(&args);
    if (rc == 0) {
        for (int i = 0; rc == 0 && i < PQntuples(r); i++)
            rc = dead_tell_row(r, i, &b, row, ctx, err);
        PQclear(r);
    }
    outrider__batch_release(&b);
    if (rc == 0 && outrider__pg_store_has_states(s))
        rc = outrider__pg_tables_dead_list(s, f, row, ctx, err);
    return rc;
}

/* A relay settles under its cursor row's lock: taking the same locks first, in
 * one order, keeps the two from waiting for each other. */
static int dead_change(struct pg_store *s, enum dead_statement which, const struct dead_filter *f,
                       uint64_t *ret_n, struct outrider_error *err)
{
    struct pg_args args;
    PGresult *r = NULL;
    uint64_t n_adopted = 0;
    int rc = outrider__pg_store_run(s, &dead_lock_block, NULL, NULL, NULL, err);
    if (rc < 0)
        return -1;
    if (outrider__pg_store_has_states(s) &&
        outrider__pg_tables_dead_change(s, f, which == DEAD_DISCARD, &n_adopted, err) < 0)
        return -1;
    dead_add_filter(&args, f);
    rc = outrider__pg_store_dead_query(s, which, &args, &r, err);
    outrider__pg_args_release(&args);
    if (rc < 0)
        return -1;
    uint64_t n = outrider__pg_store_changed(r);
    PQclear(r);
    if (outrider__pg_store_dead_query(s, DEAD_MEND, NULL, NULL, err) < 0)
        return -1;
    *ret_n = n + n_adopted;
    return 0;
}

static int dead_change_all(struct store *base, enum dead_statement which,
                           const struct dead_filter *f, uint64_t *ret_n, struct outrider_error *err)
{
    struct pg_store *s = pg_store_of(base);
    uint64_t n = 0;
    if (outrider__pg_store_ready(s, err) < 0 ||
        outrider__pg_store_exec(s, "BEGIN", "cannot begin", err) < 0)
        return -1;
    int rc = dead_change(s, which, f, &n, err);
    if (rc == 0)
        rc = outrider__pg_store_exec(s, "COMMIT", "cannot commit", err);
    if (rc < 0) {
        (void)outrider__pg_store_exec(s, "ROLLBACK", "cannot roll back", NULL);
        return -1;
    }
    *ret_n = n;
    return 0;
}

int outrider__pg_store_dead_retry(struct store *base, const struct dead_filter *f, uint64_t *ret_n,
                                  struct outrider_error *err)
{
    return dead_change_all(base, DEAD_RETRY, f, ret_n, err);
}

int outrider__pg_store_dead_discard(struct store *base, const struct dead_filter *f,
                                    uint64_t *ret_n, struct outrider_error *err)
{
    return dead_change_all(base, DEAD_DISCARD, f, ret_n, err);
}
