/* SPDX-License-Identifier: MIT */
/*
 * The move of a pipeline from polling to the stream (arrive.c), and back (leave.c). It
 * leads the slot maker, the stream and the layout that polls; none of these knows of it.
 *
 *  (1) There: polling delivers as ever while the server makes the slot, which takes as
 *      long as the oldest transaction that writes. Then polling ends its last batches.
 *      What the slot's snapshot shows and polling has not settled is saved as the sweep
 *      (our own log), or read at once (other tables); cdc.h (1), (2), (6), (7).
 *  (2) Back: a temporary slot is made, and the stream is read up to where that slot
 *      begins. Then everything in its snapshot is delivered, and nothing else. So polling
 *      begins with the snapshot's highest seq as the position and the missing seqs as
 *      gaps. The stream is not read while the slot is made, or it could be beyond
 *      already: the server gets a while for it, then delivery goes on for a while, and so
 *      in turn, each time longer.
 *  (3) `leaving` is saved in the cursor before the slot is dropped: otherwise a crash
 *      between the two leaves a slot that fills the disk.
 *  (4) Operations that come while one layout hands over to another are held
 *      (outrider__pg_source_hold), and started by the next one.
 *
 *   READING --mode poll--> POLLING --slot made--> STOPPING --quiet--> READING or SWEEPING
 *      |--mode cdc--> SWEEPING --all settled--> STREAM --mode: poll asked for--> LEFT
 *      +--mode leaving--> LEFT --slot dropped--> polling, or READING again
 */
#ifndef POSTGRES_CDC_MOVE_H
#define POSTGRES_CDC_MOVE_H

#include "base/error.h"

struct pg_layout;
struct pg_source;
struct pg_op;

enum move_phase {
    MOVE_READING,  /* the cursor and the server's facts; or something is being saved */
    MOVE_POLLING,  /* another layout delivers while the slot is made */
    MOVE_STOPPING, /* its last batches */
    MOVE_SWEEPING, /* the rows from before the slot */
    MOVE_STREAM,
    MOVE_LEFT /* back to polling: the slot is dropped */
};

/* outrider_cursor.mode. */
enum cursor_mode { CURSOR_POLL, CURSOR_CDC, CURSOR_LEAVING, CURSOR_MEMBER, CURSOR_OTHER };

/* The way back, once the temporary slot was asked for. */
enum leave_state { LEAVE_READY, LEAVE_DROPPING, LEAVE_SAVING };

struct cdc_move {
    enum move_phase phase;
    enum cursor_mode mode; /* as the cursor has it */
    bool is_leaving;       /* mode poll is asked for */
    bool skips_rows;       /* the pipeline begins, with existing_rows: skip */
    /* There. */
    const struct pg_layout *poller; /* delivers while the slot is made; NULL: nobody can */
    bool has_given_up;              /* --once: the slot did not come in time */
    /* Back. */
    enum leave_state leaving;
    int64_t drop_us;                  /* when the slot is dropped, or that is tried again */
    int64_t pause_us, pause_until_us; /* (2) */
};

/* Makes the publication where there is none, drops a slot nobody knows the beginning of,
 * and begins to poll. */
int outrider__cdc_arrive_begin(struct pg_source *s, struct outrider_error *err);
/* Operations while another layout polls. */
int outrider__cdc_arrive_start(struct pg_source *s, struct pg_op *op, struct outrider_error *err);
/* MOVE_POLLING and MOVE_STOPPING. */
int outrider__cdc_arrive_tick(struct pg_source *s, struct outrider_error *err);
/* Polling has ended: its layout is closed, and operations are held. */
void outrider__cdc_arrive_end_polling(struct pg_source *s);

/* MOVE_STREAM, when mode poll is asked for. */
int outrider__cdc_leave_tick(struct pg_source *s, struct outrider_error *err);
/* MOVE_LEFT: drops the slot, then hands over to the layout that polls. */
int outrider__cdc_leave_drop(struct pg_source *s, struct outrider_error *err);

#endif
