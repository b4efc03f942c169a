/* SPDX-License-Identifier: MIT */
/*
 * Compares what was committed (the shop's table `history`) with what was
 * delivered (the lines of the event log), and exits with 1 if the promise is
 * broken: an event lost, invented, or out of its order.
 *
 * Order is that of first deliveries. After a crash the relay delivers again
 * what it could not settle, so a duplicate may follow newer events.
 */
#include "orders.h"

#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

static const char schema[] =
    "CREATE TEMP TABLE delivered ("
    "    position INTEGER PRIMARY KEY, topic TEXT, event_id TEXT, order_id TEXT, version INTEGER);";
static const char sql_insert[] =
    "INSERT INTO delivered (topic, event_id, order_id, version) VALUES (?1, ?2, ?3, ?4)";
static const char sql_index[] = "CREATE INDEX delivered_by_event ON delivered (event_id)";

static const char sql_committed[] = "SELECT count(*) FROM history";
static const char sql_delivered[] = "SELECT count(DISTINCT event_id) FROM delivered";
static const char sql_lost[] =
    "SELECT count(*) FROM history WHERE event_id NOT IN (SELECT event_id FROM delivered)";
/* An event that came with other content than was committed counts as invented, too. */
static const char sql_phantom[] =
    "SELECT count(DISTINCT event_id) FROM delivered AS d WHERE NOT EXISTS (SELECT 1 FROM history "
    "AS h"
    " WHERE h.event_id = d.event_id AND h.order_id = d.order_id AND h.version = d.version)";
static const char sql_duplicates[] = "SELECT count(*) - count(DISTINCT event_id) FROM delivered";
static const char sql_out_of_order[] =
    "SELECT count(*) FROM (SELECT version, max(version) OVER earlier AS newest FROM"
    "    (SELECT min(position) AS position, topic, order_id, version FROM delivered GROUP BY "
    "event_id)"
    " WINDOW earlier AS (PARTITION BY topic, order_id ORDER BY position"
    "    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) WHERE version < newest";

/* Takes one line of the log over into the table. */
static int take_line(sqlite3_stmt *insert, const char *line)
{
    json_t *root = json_loads(line, 0, NULL);
    const char *topic, *event_id, *order_id;
    int version;
    int r = json_unpack(root, "{s:s, s:{s:s}, s:{s:s, s:i}}", "topic", &topic, "headers",
                        "event-id", &event_id, "payload", "order", &order_id, "version", &version);
    if (r == 0) {
        sqlite3_bind_text(insert, 1, topic, -1, SQLITE_STATIC);
        sqlite3_bind_text(insert, 2, event_id, -1, SQLITE_STATIC);
        sqlite3_bind_text(insert, 3, order_id, -1, SQLITE_STATIC);
        sqlite3_bind_int(insert, 4, version);
        sqlite3_step(insert);
        r = sqlite3_reset(insert) == SQLITE_OK ? 0 : -1;
    }
    json_decref(root);
    return r;
}

static int take_file(sqlite3_stmt *insert, const char *path)
{
    FILE *f = fopen(path, "r");
    char *line = NULL;
    size_t size = 0;
    int r = 0;
    if (f == NULL) {
        perror(path);
        return -1;
    }
    for (long n = 1; r == 0 && getline(&line, &size, f) > 0; n++) {
        r = take_line(insert, line);
        if (r < 0)
            fprintf(stderr, "orders: %s:%ld: not an event that `orders write` made\n", path, n);
    }
    free(line);
    fclose(f);
    return r;
}

/* The topics of orders, whether one for all or one per type of event. The
 * segments of a topic are named so that they sort by age. */
static int take_log(sqlite3 *db, const char *dir)
{
    char pattern[4096];
    glob_t files = {0};
    sqlite3_stmt *insert = NULL;
    int r = 0;
    snprintf(pattern, sizeof pattern, "%s/order*/*.jsonl", dir);
    if (sqlite3_exec(db, schema, NULL, NULL, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(db, sql_insert, -1, &insert, NULL) != SQLITE_OK)
        r = -1;
    if (r == 0 && glob(pattern, 0, NULL, &files) == GLOB_NOMATCH)
        fprintf(stderr, "orders: no event log in %s\n", dir);
    for (size_t i = 0; r == 0 && i < files.gl_pathc; i++)
        r = take_file(insert, files.gl_pathv[i]);
    globfree(&files);
    sqlite3_finalize(insert);
    return r == 0 && sqlite3_exec(db, sql_index, NULL, NULL, NULL) == SQLITE_OK ? 0 : -1;
}

/* Prints "name value"; returns the value, or -1. */
static long tell(sqlite3 *db, const char *name, const char *sql)
{
    sqlite3_stmt *st;
    long value = -1;
    if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW)
        value = (long)sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    if (value < 0)
        fprintf(stderr, "orders: %s: %s\n", name, sqlite3_errmsg(db));
    else
        printf("%s %ld\n", name, value);
    return value;
}

static void tell_rolled_back(const char *db)
{
    char path[4096];
    long n = 0;
    snprintf(path, sizeof path, "%s" ROLLED_BACK_SUFFIX, db);
    FILE *f = fopen(path, "r");
    for (int c; f != NULL && (c = getc(f)) != EOF;)
        n += c == '\n';
    if (f != NULL)
        fclose(f);
    printf("rolled_back %ld\n", n);
}

int orders_verify(const struct options *o)
{
    sqlite3 *db = orders_open(o->db);
    if (db == NULL)
        return 1;
    if (take_log(db, o->log) < 0) {
        sqlite3_close(db);
        return 1;
    }
    bool kept = tell(db, "committed", sql_committed) >= 0;
    tell_rolled_back(o->db);
    kept &= tell(db, "delivered", sql_delivered) >= 0;
    kept &= tell(db, "lost", sql_lost) == 0;
    kept &= tell(db, "phantom", sql_phantom) == 0;
    kept &= tell(db, "out_of_order", sql_out_of_order) == 0;
    kept &= tell(db, "duplicates", sql_duplicates) >= 0;
    sqlite3_close(db);
    return kept ? 0 : 1;
}
