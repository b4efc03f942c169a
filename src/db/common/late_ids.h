/* SPDX-License-Identifier: MIT */
/*
 * The ids that polling settled just before a stream takes over. The stream sends these
 * events again, and they must not be delivered twice.
 *
 *  (1) From some moment on a stream has every commit. The relay learns of that moment
 *      at most a second later, and polls until then. So it is enough to remember what
 *      was settled in the last second: note() may forget ids that are older.
 *  (2) freeze() says that polling has ended. From then on nothing is forgotten or
 *      added, and has() answers.
 *  (3) An id is unique within its table, and the table is a number of the adapter's.
 */
#ifndef COMMON_LATE_IDS_H
#define COMMON_LATE_IDS_H

#include "base/arena.h"

struct late_id {
    int64_t table;
    struct bytes id;
};

struct late_ids {
    struct late_list {
        struct arena arena;
        struct late_id *items;
        size_t n, capacity;
    } lists[2]; /* the one that is written, and the one before it */
    int64_t since_us;
    bool is_frozen;
};

/* Negative: no memory. */
int outrider__late_ids_note(struct late_ids *l, int64_t table, struct bytes id, int64_t now_us);
void outrider__late_ids_freeze(struct late_ids *l);
/* Whether polling settled the event. */
bool outrider__late_ids_has(const struct late_ids *l, int64_t table, struct bytes id);
void outrider__late_ids_release(struct late_ids *l);

#endif
