/* SPDX-License-Identifier: MIT */
/*
 * Gaps: seqs below the position that were not there when they were looked for.
 *
 *  (1) Ranges are disjoint, in ascending order; those of one read form a group.
 *  (2) A group's writers are the transactions that held a writer's lock on the
 *      outbox at some moment after the read that showed the gap: whoever may
 *      still fill it is among them. They are noted once and then only leave.
 *  (3) A transaction that is prepared may change its name; so whenever a
 *      writer of a group disappears, the prepared ones that are there join it.
 *  (4) A range is forgotten only by a read that looked at all of it with a
 *      snapshot newer than the moment at which the last writer was gone.
 *
 * Pure: no database here.
 */
#ifndef POSTGRES_GAPS_H
#define POSTGRES_GAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A virtual transaction "3/17" as one number; prepared ones ("-1/4711") have
 * PG_WRITER_PREPARED set. 0: not one. */
#define PG_WRITER_PREPARED (1ULL << 63)
uint64_t outrider__pg_writer_parse(const char *text);
#define PG_WRITER_TEXT 32
void outrider__pg_writer_format(uint64_t writer, char ret_text[PG_WRITER_TEXT]);

struct gap_group {
    struct gap_group *next;
    size_t n_ranges;
    bool is_noted;
    uint64_t *writers; /* sorted */
    size_t n_writers;
};

struct gap {
    int64_t low, high; /* both included */
    struct gap_group *group;
};

struct gap_set {
    struct gap *items;
    size_t n, size;
    struct gap_group *groups;
    struct gap_group *fresh; /* group of the read under way */
};

void outrider__gaps_init(struct gap_set *g);
void outrider__gaps_release(struct gap_set *g);
/* Ranges that are added from now on belong to a new group. */
void outrider__gaps_begin_group(struct gap_set *g);
/* A range above all others. Negative: no memory. */
int outrider__gaps_add(struct gap_set *g, int64_t low, int64_t high);
/* Who holds a writer's lock now (sorted in place, may hold doubles). */
int outrider__gaps_note_writers(struct gap_set *g, uint64_t *writers, size_t n);
/* A read whose snapshot is newer than the last note_writers() looked at
 * everything up to `covered`, and found these seqs (ascending) in gaps: they
 * leave, and so do ranges up to `covered` whose writers are all gone. */
int outrider__gaps_apply_read(struct gap_set *g, const int64_t *found, size_t n, int64_t covered);
/* One that the oldest gap with known writers waits for; 0: there is none. */
uint64_t outrider__gaps_oldest_writer(const struct gap_set *g);
/* Some group's writers are still to be noted. */
bool outrider__gaps_needs_writers(const struct gap_set *g);

#endif
