/* SPDX-License-Identifier: MIT */
/*
 * Dead letters in outrider_parked, for the commands: listing them, trying them again,
 * discarding them.
 *
 *  (1) A change and the mending of lanes behind it are one transaction. A relay settles
 *      under its cursor row's lock: whoever changes takes the locks of all cursor
 *      rows first, in the order of pipeline and outbox.
 *  (2) The parameters of DEAD_LIST, DEAD_RETRY and DEAD_DISCARD are those of struct
 *      dead_filter: pipeline, ids (a set), event type, since, with_parked. Without a
 *      dialect's `now` the time is parameter 6.
 */
#ifndef COMMON_DEAD_H
#define COMMON_DEAD_H

#include "common/dialect.h"

enum dead_statement {
    DEAD_LIST,
    DEAD_RETRY,
    DEAD_DISCARD,
    DEAD_FAILED, /* pipeline, and the outbox where has_outbox */
    DEAD_MEND,   /* all lanes of all pipelines; needs has_outbox */
    DEAD_STATEMENTS
};

/* What DEAD_LIST returns behind an event's columns, the first of these at index 0. */
enum dead_column {
    DEAD_ARRIVAL,
    DEAD_ATTEMPTS,
    DEAD_PIPELINE,
    DEAD_STATE,
    DEAD_CODE,
    DEAD_MESSAGE,
    DEAD_PARKED_AT,
    DEAD_NEXT,
    DEAD_UPDATED_AT
};

/* What DEAD_FAILED returns. */
enum failed_column { FAILED_LIVE, FAILED_DEAD };

struct dead_names {
    const char *parked, *cursor; /* the tables */
    const char *event;           /* the columns of an event, as the adapter reads them */
    bool has_outbox;             /* the tables have the column outbox: several share a database */
};

/* For free(). */
char *outrider__dead_sql(const struct sql_dialect *d, const struct dead_names *names,
                         enum dead_statement which, struct sql_params *ret_params,
                         struct outrider_error *err);
/* "cannot list the parked events", for errors. */
const char *outrider__dead_purpose(enum dead_statement which);

#endif
