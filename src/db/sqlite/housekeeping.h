/* SPDX-License-Identifier: MIT */
/* What relay and operator both do to the tables. Result codes of SQLite. */
#ifndef SQLITE_HOUSEKEEPING_H
#define SQLITE_HOUSEKEEPING_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

/* Makes it true again that the first live row of each lane of the pipeline is
 * 'parked' and those behind it are 'queued'; whether dead letters count as
 * live is `blocks`. For whoever changed states from outside. */
int outrider__sqlite_mend_lanes(sqlite3 *db, const char *pipeline, bool blocks, int64_t now_us);

/* Removes at most limit rows that every pipeline has settled and that were
 * made before older_than_us; never the row at a position: it is an anchor. */
int outrider__sqlite_remove_settled(sqlite3 *db, int64_t older_than_us, int64_t limit,
                                    uint64_t *ret_removed);

#endif
