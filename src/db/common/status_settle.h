/* SPDX-License-Identifier: MIT */
/*
 * The settle of a batch in layout `status`: which rows go into which statement, and with
 * which values. One transaction, in this order:
 *     the cursor row (epoch, totals): ST_CURSOR
 *     outrider_parked: what was there of these rows goes, what must be there comes
 *     the rows that failed, died, expired or are given back
 *     the rows that are published
 *
 *  (1) An event belongs to GROUP_PUBLISHED or to GROUP_CHANGED or to none of them, and may
 *      belong to GROUP_PARKED and GROUP_TRIED beside that.
 *  (2) The statement of a group without members is not run.
 *  (3) Every statement takes the ids of the group's members, then, except for
 *      GROUP_TRIED, the owner of the claim, then the fields of the group.
 */
#ifndef COMMON_STATUS_SETTLE_H
#define COMMON_STATUS_SETTLE_H

#include "common/status_sql.h"
#include "core/event.h"

enum status_group { GROUP_PUBLISHED, GROUP_CHANGED, GROUP_PARKED, GROUP_TRIED, GROUP_COUNT };

enum status_field {
    FIELD_ID,
    FIELD_CLAIM,
    FIELD_STATE, /* a word of the status column */
    FIELD_ATTEMPTS,
    FIELD_DELAY, /* microseconds until the next try */
    FIELD_CODE,
    FIELD_MESSAGE,
    FIELD_ORIGIN,
    FIELD_LANE,
    FIELD_PARKED_STATE, /* a state of outrider_parked */
    FIELD_COUNT
};

/* What the decisions depend on. */
struct status_rows {
    const struct outbox_table *table;
    bool claims;  /* rows in flight are marked as claimed */
    bool ordered; /* config->ordered */
};

struct status_step {
    enum status_statement which;
    enum status_group group;
    bool needs_copies; /* only where outrider_parked knows some of the rows */
};
/* The statements behind ST_CURSOR, in order. */
#define STATUS_STEPS 4
extern const struct status_step outrider__status_steps[STATUS_STEPS];

bool outrider__status_belongs(const struct status_rows *r, const struct event *e,
                              enum status_group g);
/* How many of events[0 .. n_settle) belong to the group. */
size_t outrider__status_members(const struct status_rows *r, const struct batch *b,
                                enum status_group g);
/* The fields behind ids and owner: (3). */
const enum status_field *outrider__status_fields(enum status_group g, size_t *ret_n);
enum sql_type outrider__status_field_type(enum status_field f);
struct sql_value outrider__status_value(const struct status_rows *r, const struct event *e,
                                        enum status_field f, int64_t now_wall_us);
/* Claimed rows of which a stop found nothing out become RELEASED, and are settled too. */
void outrider__status_give_back_rest(const struct status_rows *r, struct batch *b);

#endif
