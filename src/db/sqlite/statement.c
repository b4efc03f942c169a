/* SPDX-License-Identifier: MIT */
/* Statements from the blocks of source.sql and store.sql. */
#include "conn.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/sql.h"
#include "source.sql.h"
#include "store.sql.h"

int outrider__sqlite_prepare(sqlite3 *db, const char *block, const struct sqlite_words *words,
                             unsigned flags, sqlite3_stmt **ret_st)
{
    char text_cut[12];
    (void)snprintf(text_cut, sizeof text_cut, "%d", EVENT_TEXT_CUT);
    const struct sql_word table[] = {
        {"event", sql_event_columns},
        {"text_cut", text_cut},
        {"live", words != NULL && words->dead_are_live ? "" : "AND state <> 'dead'"},
        {"cursor", words != NULL && words->is_new ? sql_status_new : "outrider_cursor c"},
        {"before", sql_mend_before},
    };
    char *sql = outrider__sql_expand(block, table, sizeof table / sizeof *table);
    if (sql == NULL)
        return SQLITE_NOMEM;
    int rc = sqlite3_prepare_v3(db, sql, -1, flags, ret_st, NULL);
    free(sql);
    return rc;
}
