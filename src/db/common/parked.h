/* SPDX-License-Identifier: MIT */
/*
 * The table outrider_parked, for every database and every layout: events that
 * failed, events that queue behind them, and dead letters.
 *
 *  (1) Rows of a lane leave in the order of `arrival`. The first live row of a
 *      lane is 'parked' with the time of its next attempt, those behind it are
 *      'queued' without one; 'dead' rows count as live only under on_dead: block.
 *  (2) Every statement works on a whole batch: a batch takes a fixed number of
 *      statements. The adapter runs them in the transaction that saves the cursor.
 *  (3) That transaction begins with a statement that fails when the epoch is not
 *      ours any more.
 *  (4) lane, aggregate_type, aggregate_id, event_type, headers, topic and
 *      partition_key are text columns, and an event's values are bytes. A value that
 *      is no text, or that begins with "\x", is stored as "\x" and hex digits
 *      (base/hex.h). A lane has one form only: text as it is wherever that is
 *      possible. The other columns may hold hex although the value is text.
 *
 * The adapter asks which statements a batch needs (outrider__parked_steps), and for
 * each statement which values to send: pipeline, outbox, then the time if has_now, then
 * the fields of every event that is `wanted`, column by column or row by row, as the
 * dialect's struct sql_rows wants them.
 */
#ifndef COMMON_PARKED_H
#define COMMON_PARKED_H

#include "common/dialect.h"
#include "core/config.h"
#include "core/event.h"

enum parked_statement {
    PARKED_INSERT,
    PARKED_REMOVE,
    PARKED_UPDATE,
    PARKED_MEND, /* a NULL set of lanes: all lanes */
    PARKED_DUE,  /* one row: the time when the next lane is due, or NULL */
    PARKED_ANY,  /* one row, a truth value: has the pipeline a live row? */
    /* For each lane of the set that has a live row: the lane's number in the set, from 1. */
    PARKED_BLOCKED,
    /* Behind the fields: time, rows, rows of one lane, bounds (a set of 4 numbers:
     * payload, headers, text, and 1), bytes, and 1 if dead letters block. Returns an event's
     * columns, then arrival and attempts. */
    PARKED_FETCH,
    PARKED_STATEMENTS
};

/* At most this part of a batch is for one lane. */
#define PARKED_LANE_SHARE 4

/* What a statement takes of each event. */
enum parked_field {
    PARKED_SEQ,
    PARKED_ARRIVAL,
    PARKED_ID,
    PARKED_LANE,
    PARKED_STATE,
    PARKED_ATTEMPTS,
    PARKED_NEXT,
    PARKED_CODE,
    PARKED_ORIGIN,
    PARKED_MESSAGE,
    PARKED_AGGREGATE_TYPE,
    PARKED_AGGREGATE_ID,
    PARKED_EVENT_TYPE,
    PARKED_PAYLOAD,
    PARKED_HEADERS,
    PARKED_TOPIC,
    PARKED_PARTITION_KEY,
    PARKED_PARTITION,
    PARKED_OCCURRED_AT,
    PARKED_CREATED_AT,
    PARKED_EXPIRES_AT,
    PARKED_IS_CUT,
    PARKED_FIELDS
};

typedef bool parked_test(const struct event *e);

struct parked_input {
    bool has_now;
    parked_test *wanted;
    const enum parked_field *fields;
    size_t n;
};

/* Where the rows are, and how a row of the outbox becomes a copy. */
struct parked_names {
    const char *table;
    bool blocks; /* on_dead: block */
    /*
     * A SELECT list of id, aggregate_type, aggregate_id, event_type (text), payload
     * (bytes), headers (text), topic, partition_key (text), partition (int4),
     * occurred_at, created_at, expires_at (time) and a FROM clause with the outbox as
     * `o`, joined to the input `u` by its key: u.seq (int8) and u.id (text) are there.
     * NULL: the events' own values are sent, for rows that may be gone already (or
     * never were).
     */
    const char *copy;
    /* Without copy: a SELECT of id, aggregate_type, aggregate_id, event_type, payload
     * (bytes), headers, topic and partition_key, so named, of the outbox's row where
     * u.is_cut = 1, which says that some of the row was too large to be read. A dialect
     * without LATERAL: of all rows of the outbox. */
    const char *whole;
};

struct parked_sql {
    char *sql[PARKED_STATEMENTS]; /* owned */
    struct sql_params params[PARKED_STATEMENTS];
};

int outrider__parked_sql_init(struct parked_sql *p, const struct sql_dialect *d,
                              const struct parked_names *names, struct outrider_error *err);
void outrider__parked_sql_release(struct parked_sql *p);
/* "cannot park events", for errors. */
const char *outrider__parked_purpose(enum parked_statement which);

/* The statements that the outcomes of events[0..n) ask for, in order; returns how many. is_parked:
 * the batch holds parked rows. */
size_t outrider__parked_steps(const struct event *events, size_t n, bool is_parked,
                              enum parked_statement ret_steps[3]);
/* sends_values: names->copy was NULL. */
struct parked_input outrider__parked_input(enum parked_statement which, bool sends_values);
enum sql_type outrider__parked_type(enum parked_field f);
struct sql_value outrider__parked_value(const struct pipeline_config *config, const struct event *e,
                                        enum parked_field f);

#endif
