/* SPDX-License-Identifier: MIT */
#include "postgres/shared/cursor.h"

#include <stdlib.h>
#include <string.h>

#include "shared.sql.h"

void outrider__pg_cursor_words(struct pg_words *words, const char *sets)
{
    outrider__pg_words_add(words, "sets", sets);
    outrider__pg_words_add(words, "totals", sql_cursor_totals);
}

void outrider__pg_cursor_args(const struct pg_source *s, struct pg_args *a)
{
    outrider__pg_args_clear(a);
    outrider__pg_arg_str(a, s->config->name);
    outrider__pg_arg_str(a, s->cat.table);
}

struct cursor_place outrider__pg_cursor_place(const struct pg_source *s)
{
    return (struct cursor_place){.config = s->config, .outbox = s->cat.table};
}

int outrider__pg_cursor_check(const struct pg_source *s, const PGresult *r, int sink_column,
                              int pid_column, struct outrider_error *err)
{
    struct cursor_place at = outrider__pg_cursor_place(s);
    if (PQntuples(r) != 1)
        return outrider__fail(err, OUTRIDER_FENCED, OUTRIDER_RETRY,
                              "the cursor of pipeline '%s' vanished", s->config->name);
    if (outrider__pg_get_int(r, 0, pid_column, 0) != s->cat.backend_pid)
        return outrider__fail(err, OUTRIDER_UNSUPPORTED, OUTRIDER_STOP,
                              "a pooler hands the relay's statements to several sessions; connect "
                              "to the server itself, or use the pooler's session mode");
    return outrider__cursor_check_sink(&at, outrider__pg_get_bytes(r, 0, sink_column), err);
}

int outrider__pg_cursor_check_adopted(const struct pg_source *s, const char *mode,
                                      struct outrider_error *err)
{
    if (strcmp(mode, "adopting") != 0)
        return 0;
    return outrider__fail(err, OUTRIDER_HISTORY, OUTRIDER_STOP,
                          "`outrider slot adopt` for pipeline '%s' was begun and did not end; run "
                          "the command again, or give up: outrider slot drop --name %s",
                          s->config->name, s->config->name);
}

int outrider__pg_cursor_add_take(struct pg_source *s, struct pg_statement *take,
                                 struct pg_parked *parked, struct pg_args *a, int64_t epoch,
                                 bool is_other_policy, struct outrider_error *err)
{
    outrider__pg_cursor_args(s, a);
    outrider__pg_arg_int8(a, epoch);
    outrider__pg_arg_str(a, cursor_sink(s->config));
    outrider__pg_arg_str(a, cursor_policy(s->config));
    outrider__pg_arg_int8(a, s->cat.system_id);
    outrider__pg_arg_int4(a, s->cat.timeline);
    if (outrider__pg_request_add(&s->conn, take, a, err) < 0)
        return -1;
    return is_other_policy ? outrider__pg_parked_add_mend(parked, &s->conn, s->now.wall_us, err)
                           : 0;
}

int outrider__pg_cursor_taken(const struct pg_source *s, const PGresult *r,
                              struct pg_cursor *ret_cursor, struct outrider_error *err)
{
    struct cursor_place at = outrider__pg_cursor_place(s);
    if (PQntuples(r) != 1)
        return outrider__cursor_fail_fenced(&at, err);
    ret_cursor->epoch = outrider__pg_get_int(r, 0, TAKE_EPOCH, 0);
    ret_cursor->tid = outrider__pg_get_tid(r, 0, TAKE_TID);
    return 0;
}

void outrider__pg_cursor_totals(struct pg_args *a, int64_t now_wall_us, const struct tally *t,
                                const struct pg_cursor *cursor)
{
    outrider__pg_arg_time(a, now_wall_us);
    outrider__pg_arg_int8(a, t->delivered);
    outrider__pg_arg_int8(a, t->expired);
    outrider__pg_arg_int8(a, t->skipped);
    outrider__pg_arg_int8(a, t->dead);
    outrider__pg_arg_tid(a, cursor->tid);
}

/* The statements of SOURCE_FETCH_PARKED's request. */
enum cursor_parked_step { CURSOR_PARKED_ROWS, CURSOR_PARKED_DUE };

static int pg_cursor_on_fetched_parked(void *ctx, PGresult **results, int n,
                                       struct outrider_error *err)
{
    struct pg_op *op = ctx;
    struct pg_source *s = op->source;
    (void)n;
    if (outrider__pg_parked_fill(s->config, op->op->batch, results[CURSOR_PARKED_ROWS], err) < 0)
        return -1;
    s->base.parked_due_us = outrider__pg_parked_due_us(results[CURSOR_PARKED_DUE]);
    pg_op_done(op);
    return 0;
}

int outrider__pg_cursor_fetch_parked(struct pg_source *s, struct pg_parked *parked,
                                     struct pg_op *op, struct outrider_error *err)
{
    if (outrider__pg_request_begin(&s->conn, pg_cursor_on_fetched_parked, op, err) < 0 ||
        outrider__pg_parked_add_fetch(parked, &s->conn, op->op->batch, op->op->now_wall_us, err) <
            0 ||
        outrider__pg_parked_add_due(parked, &s->conn, err) < 0)
        return -1;
    return outrider__pg_request_end(&s->conn, err);
}

int outrider__pg_next_range(const char **text, int64_t *ret_low, int64_t *ret_high)
{
    const char *p = strchr(*text, '[');
    char *end;
    if (p == NULL)
        return 0;
    int64_t low = strtoll(p + 1, &end, 10);
    int64_t high = low - 1;
    if (end[0] == ',' && end[1] == ')') { /* no end: what follows the highest number has none */
        high = INT64_MAX;
        end++;
    } else if (*end == ',') {
        high = strtoll(end + 1, &end, 10) - 1;
    }
    if (*end != ')' || high < low)
        return -1;
    *ret_low = low;
    *ret_high = high;
    *text = end;
    return 1;
}
