/* SPDX-License-Identifier: MIT */
#include "postgres/shared/parked.h"

#include <stdio.h>

#include "postgres/shared/columns.h"
#include "postgres/wire/dialect.h"

int outrider__pg_parked_init(struct pg_parked *p, const struct pg_catalog *cat,
                             const struct pipeline_config *config, const char *copy_sql,
                             const char *whole_sql, struct outrider_error *err)
{
    struct parked_names names = {.table = cat->parked_table,
                                 .blocks = config->retry.on_dead == ON_DEAD_BLOCK,
                                 .copy = copy_sql,
                                 .whole = whole_sql};
    *p = (struct pg_parked){.config = config, .sends_values = copy_sql == NULL};
    outrider__pg_args_init(&p->args);
    (void)snprintf(p->outbox, sizeof p->outbox, "%s", cat->table);
    if (outrider__parked_sql_init(&p->text, &outrider__pg_dialect, &names, err) < 0)
        return -1;
    for (int i = 0; i < PARKED_STATEMENTS; i++)
        p->st[i] = (struct pg_statement){
            .sql = p->text.sql[i], .what = outrider__parked_purpose((enum parked_statement)i)};
    return 0;
}

void outrider__pg_parked_release(struct pg_parked *p)
{
    if (p->config == NULL)
        return;
    outrider__parked_sql_release(&p->text);
    outrider__pg_args_release(&p->args);
    *p = (struct pg_parked){0};
}

/* Every statement begins with the pipeline and the outbox. */
static struct pg_args *parked_args_begin(struct pg_parked *p)
{
    outrider__pg_args_clear(&p->args);
    outrider__pg_arg_str(&p->args, p->config->name);
    outrider__pg_arg_str(&p->args, p->outbox);
    return &p->args;
}

static int parked_add(struct pg_parked *p, struct pg_conn *c, enum parked_statement which,
                      struct outrider_error *err)
{
    return outrider__pg_request_add(c, &p->st[which], &p->args, err);
}

/* The fields of the events as arrays, one for each field. */
static int parked_add_events(struct pg_parked *p, struct pg_conn *c, enum parked_statement which,
                             const struct event *events, size_t n, int64_t now_us,
                             struct outrider_error *err)
{
    struct parked_input in = outrider__parked_input(which, p->sends_values);
    struct pg_args *a = parked_args_begin(p);
    if (in.has_now)
        outrider__pg_arg_time(a, now_us);
    for (size_t f = 0; f < in.n; f++) {
        outrider__pg_array_begin(a, outrider__pg_type_of(outrider__parked_type(in.fields[f])));
        for (size_t i = 0; i < n; i++) {
            if (!in.wanted(&events[i]))
                continue;
            struct sql_value v = outrider__parked_value(p->config, &events[i], in.fields[f]);
            outrider__pg_array_value(a, &v);
        }
        outrider__pg_array_end(a);
    }
    return parked_add(p, c, which, err);
}

int outrider__pg_parked_settle(struct pg_parked *p, struct pg_conn *c, const struct event *events,
                               size_t n, bool is_parked, int64_t now_us, struct outrider_error *err)
{
    enum parked_statement steps[3];
    size_t n_steps = outrider__parked_steps(events, n, is_parked, steps);
    for (size_t i = 0; i < n_steps; i++)
        if (parked_add_events(p, c, steps[i], events, n, now_us, err) < 0)
            return -1;
    return (int)n_steps;
}

int outrider__pg_parked_add_mend(struct pg_parked *p, struct pg_conn *c, int64_t now_us,
                                 struct outrider_error *err)
{
    struct pg_args *a = parked_args_begin(p);
    outrider__pg_arg_time(a, now_us);
    outrider__pg_arg_null(a, PG_TEXT_ARRAY);
    return parked_add(p, c, PARKED_MEND, err);
}

int outrider__pg_parked_add_due(struct pg_parked *p, struct pg_conn *c, struct outrider_error *err)
{
    (void)parked_args_begin(p);
    return parked_add(p, c, PARKED_DUE, err);
}

int64_t outrider__pg_parked_due_us(const PGresult *r)
{
    return outrider__pg_get_time(r, 0, 0, CLOCK_NEVER);
}

int outrider__pg_parked_add_any(struct pg_parked *p, struct pg_conn *c, struct outrider_error *err)
{
    (void)parked_args_begin(p);
    return parked_add(p, c, PARKED_ANY, err);
}

int outrider__pg_parked_add_blocked(struct pg_parked *p, struct pg_conn *c, const struct batch *b,
                                    struct outrider_error *err)
{
    return parked_add_events(p, c, PARKED_BLOCKED, b->events, b->n, 0, err);
}

int outrider__pg_parked_apply_blocked(struct batch *b, const PGresult *r,
                                      struct outrider_error *err)
{
    for (int i = 0; i < PQntuples(r); i++) {
        int64_t n = outrider__pg_get_int(r, i, 0, 0);
        if (n < 1 || (size_t)n > b->n)
            return outrider__fail(err, OUTRIDER_DB, OUTRIDER_RETRY, "unexpected answer");
        b->events[n - 1].is_blocked = true;
    }
    return 0;
}

int outrider__pg_parked_add_fetch(struct pg_parked *p, struct pg_conn *c, const struct batch *b,
                                  int64_t now_us, struct outrider_error *err)
{
    struct pg_args *a = parked_args_begin(p);
    outrider__pg_arg_time(a, now_us);
    outrider__pg_arg_int8(a, (int64_t)b->capacity);
    outrider__pg_arg_int8(a, (int64_t)(b->capacity / PARKED_LANE_SHARE + 1));
    outrider__pg_arg_bounds(a, p->config, true);
    outrider__pg_arg_int8(a, (int64_t)b->max_bytes);
    outrider__pg_arg_int8(a, p->config->retry.on_dead == ON_DEAD_BLOCK);
    return parked_add(p, c, PARKED_FETCH, err);
}

int outrider__pg_parked_fill(const struct pipeline_config *config, struct batch *b,
                             const PGresult *r, struct outrider_error *err)
{
    struct event_bounds max = outrider__event_bounds(config);
    b->is_parked = true;
    for (int i = 0; i < PQntuples(r) && !batch_is_full(b); i++) {
        struct event *e = outrider__pg_row_stored(b, r, i, &max);
        if (e == NULL)
            return outrider__fail_nomem(err);
        e->is_parked = true;
        e->arrival = outrider__pg_get_int(r, i, EV_COLUMNS, 0);
        e->attempts = (uint32_t)outrider__pg_get_int(r, i, EV_COLUMNS + 1, 0);
    }
    return 0;
}
