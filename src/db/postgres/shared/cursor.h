/* SPDX-License-Identifier: MIT */
/*
 * A pipeline's row in outrider_cursor, for the layouts that keep a position in
 * it (log, cdc): enrolling, checking, taking it over, and what every save of it
 * has in common.
 *
 *  (1) The statements are the blocks cursor_* of shared.sql. $1 and $2 are the
 *      pipeline and the outbox's name in all of them.
 *  (2) Taking over raises the epoch. cursor_save fails, and its transaction with
 *      it, when the epoch is not ours any more: nobody settles without the epoch.
 */
#ifndef POSTGRES_CURSOR_H
#define POSTGRES_CURSOR_H

#include "common/cursor_rules.h"
#include "common/tally.h"
#include "postgres/shared/source.h"
#include "postgres/wire/statements.h"

struct pg_cursor {
    int64_t epoch;
    uint64_t tid; /* the row's version that was written last */
};

/* Columns of cursor_take and of cursor_save. */
enum pg_take_column { TAKE_EPOCH, TAKE_TID };
enum pg_save_column { SAVE_TID };

/* The words of cursor_save; sets are the layout's own assignments. */
void outrider__pg_cursor_words(struct pg_words *words, const char *sets);

/* Begins the arguments with the pipeline and the outbox. */
void outrider__pg_cursor_args(const struct pg_source *s, struct pg_args *a);
/* What errors say about the cursor of this source. */
struct cursor_place outrider__pg_cursor_place(const struct pg_source *s);
/* The row is there, is read on our own session, and belongs to our sink. */
int outrider__pg_cursor_check(const struct pg_source *s, const PGresult *r, int sink_column,
                              int pid_column, struct outrider_error *err);
/* Whether `outrider slot adopt` came to its end: what it began is not to be read. */
int outrider__pg_cursor_check_adopted(const struct pg_source *s, const char *mode,
                                      struct outrider_error *err);
/* Adds the take-over, and mends the lanes where the policy is another one. */
int outrider__pg_cursor_add_take(struct pg_source *s, struct pg_statement *take,
                                 struct pg_parked *parked, struct pg_args *a, int64_t epoch,
                                 bool is_other_policy, struct outrider_error *err);
/* The first result of that request. */
int outrider__pg_cursor_taken(const struct pg_source *s, const PGresult *r,
                              struct pg_cursor *ret_cursor, struct outrider_error *err);

/* Arguments $7 to $12. */
void outrider__pg_cursor_totals(struct pg_args *a, int64_t now_wall_us, const struct tally *t,
                                const struct pg_cursor *cursor);

/* SOURCE_FETCH_PARKED, from start to done. */
int outrider__pg_cursor_fetch_parked(struct pg_source *s, struct pg_parked *parked,
                                     struct pg_op *op, struct outrider_error *err);

/* "{[1,4),[7,)}", as the server writes it: gives the next range, both ends
 * included, and moves *text behind it. 0: none is left; negative: no such text. */
int outrider__pg_next_range(const char **text, int64_t *ret_low, int64_t *ret_high);

#endif
