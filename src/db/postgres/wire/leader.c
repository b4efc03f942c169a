/* SPDX-License-Identifier: MIT */
#include "postgres/wire/leader.h"

#include <stdio.h>

#include "wire.sql.h"

/* Columns of leader_try. */
enum leader_column { LEADER_GOT, LEADER_HOLDER };

void outrider__pg_leader_init(struct pg_leader *l, const struct pg_catalog *cat,
                              const char *pipeline)
{
    *l = (struct pg_leader){
        .st = {.sql = sql_leader_try, .what = "cannot ask for the pipeline's lock"}};
    (void)snprintf(l->name, sizeof l->name, "outrider/%s/%.63s", cat->table, pipeline);
}

static int leader_on_answer(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_leader *l = ctx;
    (void)n;
    (void)err;
    l->is_asking = false;
    l->is_held = outrider__pg_get_bool(results[0], 0, LEADER_GOT);
    l->waiting_for[0] = '\0';
    if (!l->is_held)
        (void)snprintf(l->waiting_for, sizeof l->waiting_for, "%s",
                       PQgetisnull(results[0], 0, LEADER_HOLDER)
                           ? "another relay"
                           : outrider__pg_get_str(results[0], 0, LEADER_HOLDER));
    return 0;
}

int outrider__pg_leader_try(struct pg_leader *l, struct pg_conn *c, struct instant now,
                            struct outrider_error *err)
{
    struct pg_args args;
    if (l->is_held || l->is_asking || now.mono_us < l->ask_us)
        return 0;
    outrider__pg_args_init(&args);
    outrider__pg_arg_str(&args, l->name);
    outrider__pg_arg_int4(&args, LEADER_STUCK_US / 1000000);
    l->is_asking = true;
    l->ask_us = now.mono_us + LEADER_PAUSE_US;
    int rc = outrider__pg_request(c, &l->st, &args, leader_on_answer, l, err);
    outrider__pg_args_release(&args);
    return rc;
}
