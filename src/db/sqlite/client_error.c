/* SPDX-License-Identifier: MIT */
/* From SQLite's result codes to ours. */
#include "client.h"

bool outrider__sqlite_is_busy(int rc)
{
    return (rc & 0xff) == SQLITE_BUSY || (rc & 0xff) == SQLITE_LOCKED;
}

const char *outrider__sqlite_name(sqlite3 *db)
{
    const char *name = db != NULL ? sqlite3_db_filename(db, "main") : NULL;
    return name != NULL && *name != '\0' ? name : "the database";
}

static const struct {
    int rc;
    const char *name;
    enum outrider_code code;
    enum outrider_disposition disposition;
    const char *advice;
} causes[] = {
    {SQLITE_BUSY, "SQLITE_BUSY", OUTRIDER_DB_LOCKED, OUTRIDER_RETRY,
     "another connection holds a lock; will work once it commits"},
    {SQLITE_LOCKED, "SQLITE_LOCKED", OUTRIDER_DB_LOCKED, OUTRIDER_RETRY,
     "another connection holds a lock; will work once it commits"},
    {SQLITE_READONLY, "SQLITE_READONLY", OUTRIDER_DB_READONLY, OUTRIDER_STOP,
     "this user must be able to write to the file and to its directory"},
    {SQLITE_PERM, "SQLITE_PERM", OUTRIDER_AUTH, OUTRIDER_STOP, "check the permissions of the file"},
    {SQLITE_AUTH, "SQLITE_AUTH", OUTRIDER_AUTH, OUTRIDER_STOP, "check the connection's authorizer"},
    {SQLITE_NOTADB, "SQLITE_NOTADB", OUTRIDER_NOT_A_DATABASE, OUTRIDER_STOP,
     "check the path: the file exists but is not a SQLite database"},
    {SQLITE_CORRUPT, "SQLITE_CORRUPT", OUTRIDER_DB, OUTRIDER_STOP,
     "the file is damaged: run `PRAGMA integrity_check`, restore a backup, then `outrider doctor`"},
    {SQLITE_FULL, "SQLITE_FULL", OUTRIDER_NO_SPACE, OUTRIDER_RETRY, "make room on the disk"},
    {SQLITE_IOERR, "SQLITE_IOERR", OUTRIDER_IO, OUTRIDER_RETRY,
     "check the disk and the system log"},
    {SQLITE_CANTOPEN, "SQLITE_CANTOPEN", OUTRIDER_CONNECT, OUTRIDER_STOP,
     "check the path and the permissions of the file and its directory"},
    {SQLITE_NOMEM, "SQLITE_NOMEM", OUTRIDER_NOMEM, OUTRIDER_RETRY, "out of memory"},
    {SQLITE_TOOBIG, "SQLITE_TOOBIG", OUTRIDER_TOO_LARGE, OUTRIDER_DEAD, "above SQLite's own limit"},
    {SQLITE_CONSTRAINT, "SQLITE_CONSTRAINT", OUTRIDER_INVALID, OUTRIDER_DEAD,
     "the row breaks a constraint of the table"},
    {SQLITE_INTERRUPT, "SQLITE_INTERRUPT", OUTRIDER_CANCELLED, OUTRIDER_RETRY, "interrupted"},
    {SQLITE_SCHEMA, "SQLITE_SCHEMA", OUTRIDER_DB, OUTRIDER_RETRY, "the schema just changed"},
};

int outrider__sqlite_fail(struct outrider_error *err, sqlite3 *db, int rc, const char *what)
{
    const char *said = db != NULL ? sqlite3_errmsg(db) : sqlite3_errstr(rc);
    if (rc == SQLITE_READONLY_DBMOVED) {
        (void)outrider__fail(err, OUTRIDER_DB, OUTRIDER_RETRY,
                             "%s: %s: the file was removed or replaced by another one",
                             outrider__sqlite_name(db), what);
        outrider__error_origin(err, "SQLITE_READONLY");
        return -1;
    }
    for (size_t i = 0; i < sizeof causes / sizeof *causes; i++) {
        if (causes[i].rc != (rc & 0xff))
            continue;
        (void)outrider__fail(err, causes[i].code, causes[i].disposition, "%s: %s: %s (%s)",
                             outrider__sqlite_name(db), what, said, causes[i].advice);
        outrider__error_origin(err, causes[i].name);
        return -1;
    }
    (void)outrider__fail(err, OUTRIDER_DB, OUTRIDER_STOP, "%s: %s: %s", outrider__sqlite_name(db),
                         what, said);
    outrider__error_origin(err, "SQLITE_ERROR");
    return -1;
}

int outrider__sqlite_exec(sqlite3 *db, const char *sql, const char *what,
                          struct outrider_error *err)
{
    int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? 0 : outrider__sqlite_fail(err, db, rc, what);
}

int outrider__sqlite_int(sqlite3 *db, const char *sql, int64_t otherwise, int64_t *ret_value,
                         struct outrider_error *err)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(db, sql, -1, &st, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(st);
    int result = 0;
    if (rc == SQLITE_ROW && sqlite3_column_type(st, 0) != SQLITE_NULL)
        *ret_value = sqlite3_column_int64(st, 0);
    else if (rc == SQLITE_ROW || rc == SQLITE_DONE)
        *ret_value = otherwise;
    else
        result = outrider__sqlite_fail(err, db, rc, "cannot read the database");
    sqlite3_finalize(st);
    return result;
}
