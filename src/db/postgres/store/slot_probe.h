/* SPDX-License-Identifier: MIT */
/*
 * Where in the stream of a slot another program had come to: from what that program
 * noted (struct stream_offset, in positions of the log) to what outrider_cursor holds,
 * (commit, number of the event within it).
 *
 *  (1) Transactions that end at or before commit_lsn are published. The first one
 *      behind it is the one that event_lsn is in, if its xid says so.
 *  (2) What is not surely published is not left out: rows of one COPY share one
 *      position, so of such rows nobody knows how many were published.
 *  (3) Events are counted as the decoder counts them: cdc/decode.h (5).
 *  (4) Messages come in portions and shortened, so memory does not depend on what a
 *      transaction holds.
 */
#ifndef POSTGRES_SLOT_PROBE_H
#define POSTGRES_SLOT_PROBE_H

#include "postgres/store/store.h"

#define PROBE_TABLES_MAX 64

struct probe_table {
    uint32_t oid;
    char schema[64], name[64]; /* without quotes */
    char outbox[PG_NAME_MAX];  /* quoted: as in outrider_cursor */
};

struct probe_tables {
    struct probe_table items[PROBE_TABLES_MAX];
    size_t n;
};

struct probe_place {
    uint64_t lsn; /* 0: everything that the slot holds is to be delivered */
    int64_t number;
    bool is_in_doubt; /* some events may have been published: (2) */
};

/* slot is read to the end of the transaction in question, and moves on by that. */
int outrider__pg_slot_probe(struct pg_store *s, const char *slot, const char *publication,
                            const struct probe_tables *tables, const struct stream_offset *offset,
                            struct probe_place *ret_place, struct outrider_error *err);

#endif
