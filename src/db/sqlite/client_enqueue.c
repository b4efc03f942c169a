/* SPDX-License-Identifier: MIT */
/*
 * An event into the outbox, on the application's own connection.
 *
 *  (1) The transaction stays the application's: nothing here begins, commits
 *      or rolls back, and a refused event takes back its own statement only.
 *  (2) No state of the connection changes, and no statement stays behind that
 *      would make sqlite3_close() fail.
 */
#include "client.h"

#include "base/clock.h"
#include "base/event_check.h"
#include "base/uuid.h"
#include "outrider/sqlite.h"

static const char sql_insert[] =
    "INSERT INTO main.outbox (id, aggregate_type, aggregate_id, event_type, payload, headers, "
    "topic, partition_key, partition, occurred_at, expires_at) "
    "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";

/* Text columns get text, others bytes: a BLOB that lies in a TEXT column stays
 * one, and `WHERE payload LIKE` or json_extract would not see it. */
static int bind_payload(sqlite3 *db, sqlite3_stmt *st, int i, const struct outrider_event *e,
                        struct outrider_error *err)
{
    const char *type = NULL;
    (void)sqlite3_table_column_metadata(db, "main", "outbox", "payload", &type, NULL, NULL, NULL,
                                        NULL);
    struct bytes payload = bytes_of(e->payload != NULL ? e->payload : "", e->payload_len);
    if (type == NULL || sqlite3_stricmp(type, "TEXT") != 0)
        return sqlite3_bind_blob64(st, i, payload.data, payload.len, SQLITE_STATIC);
    if (!outrider__bytes_is_utf8(payload) || memchr(payload.data, '\0', payload.len) != NULL) {
        (void)outrider__event_fail_field(err, "payload",
                                         "is not UTF-8 text, which the outbox asks for; "
                                         "`outrider init --payload bytea` takes any bytes");
        return -1;
    }
    return sqlite3_bind_text64(st, i, payload.data, payload.len, SQLITE_STATIC, SQLITE_UTF8);
}

static int bind_string(sqlite3_stmt *st, int i, const char *s)
{
    return s != NULL ? sqlite3_bind_text(st, i, s, -1, SQLITE_STATIC) : SQLITE_OK;
}

static int bind_time(sqlite3_stmt *st, int i, int64_t us)
{
    char text[CLOCK_TEXT_SIZE];
    if (us == 0)
        return SQLITE_OK;
    outrider__clock_format(us, text);
    return sqlite3_bind_text(st, i, text, -1, SQLITE_TRANSIENT);
}

/* An empty topic or key means "none", as it does in JSON that leaves it out. */
static const char *or_null(const char *s)
{
    return s != NULL && *s != '\0' ? s : NULL;
}

static int fail_insert(sqlite3 *db, int rc, struct outrider_error *err)
{
    const char *said = sqlite3_errmsg(db);
    if ((rc & 0xff) == SQLITE_ERROR && strstr(said, "no such table") != NULL)
        return outrider__fail(err, OUTRIDER_NO_OUTBOX, OUTRIDER_STOP,
                              "%s has no table outbox; call outrider_init_sqlite() or run "
                              "`outrider init`",
                              outrider__sqlite_name(db));
    if ((rc & 0xff) == SQLITE_ERROR && strstr(said, "has no column") != NULL)
        return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                              "%s: %s; call outrider_init_sqlite() or run `outrider init`",
                              outrider__sqlite_name(db), said);
    if (rc == SQLITE_CONSTRAINT_CHECK && strstr(said, "payload_is_json") != NULL)
        return outrider__fail(err, OUTRIDER_NOT_JSON, OUTRIDER_DEAD,
                              "event: payload is not valid JSON, which this outbox asks for; "
                              "`outrider init --payload text` or `bytea` takes other forms");
    if (rc == SQLITE_CONSTRAINT_UNIQUE)
        return outrider__event_fail_field(err, "id", "is in the outbox already");
    return outrider__sqlite_fail(err, db, rc, "cannot insert the event");
}

static int bind_event(sqlite3 *db, sqlite3_stmt *st, const struct outrider_event *e, const char *id,
                      struct outrider_error *err)
{
    int rc = bind_payload(db, st, 5, e, err);
    if (rc < 0)
        return -1;
    rc |= bind_string(st, 1, id);
    rc |= bind_string(st, 2, e->aggregate_type);
    rc |= bind_string(st, 3, e->aggregate_id);
    rc |= bind_string(st, 4, e->event_type);
    rc |= bind_string(st, 6, e->headers);
    rc |= bind_string(st, 7, or_null(e->topic));
    rc |= bind_string(st, 8, or_null(e->partition_key));
    rc |= e->partition >= 0 ? sqlite3_bind_int(st, 9, e->partition) : SQLITE_OK;
    rc |= bind_time(st, 10, e->occurred_at_us);
    rc |= bind_time(st, 11, e->expires_at_us);
    return rc == SQLITE_OK ? 0 : fail_insert(db, sqlite3_extended_errcode(db), err);
}

static int insert(sqlite3 *db, sqlite3_stmt *st, const struct outrider_event *e, const char *id,
                  struct outrider_error *err)
{
    sqlite3_int64 last_rowid = sqlite3_last_insert_rowid(db);
    int rc = bind_event(db, st, e, id, err);
    if (rc == 0) {
        (void)sqlite3_step(st);
        if (sqlite3_reset(st) != SQLITE_OK)
            rc = fail_insert(db, sqlite3_extended_errcode(db), err);
        else /* the application may want to know the rowid of its own last insert */
            sqlite3_set_last_insert_rowid(db, last_rowid);
    }
    sqlite3_clear_bindings(st);
    return rc;
}

int outrider__sqlite_enqueue(sqlite3 *db, sqlite3_stmt **kept, const struct outrider_event *event,
                             unsigned flags, char ret_id[OUTRIDER_ID_SIZE],
                             struct outrider_error *err)
{
    char id[OUTRIDER_ID_SIZE];
    if (db == NULL)
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP, "no connection was given");
    if (outrider__event_check(event, SIZE_MAX, err) < 0)
        return -1;
    if ((flags & OUTRIDER_ENQUEUE_AUTOCOMMIT) == 0 && sqlite3_get_autocommit(db))
        return outrider__fail(err, OUTRIDER_NO_TRANSACTION, OUTRIDER_STOP,
                              "%s: no transaction is open: the event would not share the fate of "
                              "the data it tells of; BEGIN first",
                              outrider__sqlite_name(db));
    if (event->id != NULL)
        memcpy(id, event->id, sizeof id);
    else if (outrider__uuid_new(outrider__clock_now().wall_us, id) < 0)
        return outrider__fail(err, OUTRIDER_IO, OUTRIDER_RETRY, "the system has no random bytes");
    if (*kept == NULL && sqlite3_prepare_v2(db, sql_insert, -1, kept, NULL) != SQLITE_OK)
        return fail_insert(db, sqlite3_extended_errcode(db), err);
    if (insert(db, *kept, event, id, err) < 0)
        return -1;
    if (ret_id != NULL)
        memcpy(ret_id, id, sizeof id);
    return 0;
}

int outrider_enqueue_sqlite(sqlite3 *db, const struct outrider_event *event, unsigned flags,
                            char ret_id[OUTRIDER_ID_SIZE], struct outrider_error *err)
{
    sqlite3_stmt *st = NULL;
    int rc = outrider__sqlite_enqueue(db, &st, event, flags, ret_id, err);
    sqlite3_finalize(st);
    return rc;
}
