/* SPDX-License-Identifier: MIT */
/*
 * The schema and its versions.
 *
 * The version stands in the table outrider_schema and not in user_version:
 * the file, and so that number, belongs to the application. Version 0 is a
 * database without that table, also one whose application made an outbox by
 * itself: its missing columns are added. Everything happens in one
 * transaction, so that a schema is either of a version or not.
 */
#include "client.h"

#include "outrider/sqlite.h"

#include <stdio.h>

#include "client.sql.h"
#include "schema.sql.h"
#include "schema_inbox.sql.h"
#include "schema_intent.sql.h"

static const char sql_version_table[] =
    "CREATE TABLE IF NOT EXISTS outrider_schema (version INTEGER NOT NULL);\n";

static const char *const payload_columns[] = {
    [SQLITE_PAYLOAD_JSON] =
        "payload TEXT CONSTRAINT payload_is_json CHECK (payload IS NULL OR json_valid(payload))",
    [SQLITE_PAYLOAD_TEXT] = "payload TEXT",
    [SQLITE_PAYLOAD_BLOB] = "payload BLOB",
};

/* Columns of an application's own outbox that may be absent, and how they come in. */
static const struct {
    const char *name, *sql;
} addable[] = {
    {"headers", sql_schema_add_headers},
    {"topic", "ALTER TABLE outbox ADD COLUMN topic TEXT;\n"},
    {"partition_key", "ALTER TABLE outbox ADD COLUMN partition_key TEXT;\n"},
    {"partition", "ALTER TABLE outbox ADD COLUMN partition INTEGER;\n"},
    {"occurred_at", "ALTER TABLE outbox ADD COLUMN occurred_at TEXT;\n"},
    {"expires_at", "ALTER TABLE outbox ADD COLUMN expires_at TEXT;\n"},
};

static const char *const required[] = {"seq",        "id",      "aggregate_type", "aggregate_id",
                                       "event_type", "payload", "created_at"};

bool outrider__sqlite_has_column(sqlite3 *db, const char *table, const char *column)
{
    return sqlite3_table_column_metadata(db, "main", table, column, NULL, NULL, NULL, NULL, NULL) ==
           SQLITE_OK;
}

bool outrider__sqlite_has_table(sqlite3 *db, const char *table)
{
    return sqlite3_table_column_metadata(db, "main", table, NULL, NULL, NULL, NULL, NULL, NULL) ==
           SQLITE_OK;
}

int outrider__sqlite_version(sqlite3 *db, int64_t *ret_version, struct outrider_error *err)
{
    int64_t n;
    if (outrider__sqlite_int(db, sql_schema_has_version, 0, &n, err) < 0)
        return -1;
    if (n == 0) {
        *ret_version = 0;
        return 0;
    }
    return outrider__sqlite_int(db, "SELECT max(version) FROM main.outrider_schema", 0, ret_version,
                                err);
}

/* A reused seq would be passed over by the cursor: an event lost. */
static int schema_check_outbox(sqlite3 *db, struct outrider_error *err)
{
    for (size_t i = 0; i < sizeof required / sizeof *required; i++)
        if (!outrider__sqlite_has_column(db, "outbox", required[i]))
            return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                                  "%s: table outbox has no column '%s'; rename that table and run "
                                  "`outrider init`, or add the column",
                                  outrider__sqlite_name(db), required[i]);
    int is_autoincrement = 0;
    int rc = sqlite3_table_column_metadata(db, "main", "outbox", "seq", NULL, NULL, NULL, NULL,
                                           &is_autoincrement);
    if (rc != SQLITE_OK)
        return outrider__sqlite_fail(err, db, rc, "cannot read the schema");
    if (!is_autoincrement)
        return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                              "%s: outbox.seq is not INTEGER PRIMARY KEY AUTOINCREMENT, so SQLite "
                              "may give a number out twice and events would be lost; rename that "
                              "table, run `outrider init` and copy its rows over in their order",
                              outrider__sqlite_name(db));
    return 0;
}

static int schema_fail_newer(sqlite3 *db, int64_t version, struct outrider_error *err)
{
    return outrider__fail(err, OUTRIDER_SCHEMA_NEWER, OUTRIDER_STOP,
                          "%s: the outbox has schema version %lld, this program knows up to %d; "
                          "upgrade this program to the one that made it",
                          outrider__sqlite_name(db), (long long)version, SQLITE_SCHEMA_VERSION);
}

int outrider__sqlite_check(sqlite3 *db, struct outrider_error *err)
{
    int64_t version;
    /* The first read of the file: this is where "not a database" shows. */
    if (outrider__sqlite_version(db, &version, err) < 0)
        return -1;
    if (version > SQLITE_SCHEMA_VERSION)
        return schema_fail_newer(db, version, err);
    if (!outrider__sqlite_has_table(db, "outbox"))
        return outrider__fail(err, OUTRIDER_NO_OUTBOX, OUTRIDER_STOP,
                              "%s has no table outbox; run `outrider init --db sqlite:%s`",
                              outrider__sqlite_name(db), outrider__sqlite_name(db));
    if (version < SQLITE_SCHEMA_VERSION)
        return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                              "%s: the outbox has schema version %lld, this program needs %d; run "
                              "`outrider init --db sqlite:%s` to bring it up to date",
                              outrider__sqlite_name(db), (long long)version, SQLITE_SCHEMA_VERSION,
                              outrider__sqlite_name(db));
    return schema_check_outbox(db, err);
}

static int schema_run(sqlite3 *db, const struct sqlite_init *init, const char *sql,
                      struct outrider_error *err)
{
    if (init->sql != NULL)
        strbuf_append_str(init->sql, sql);
    if (init->dry_run)
        return 0;
    return outrider__sqlite_exec(db, sql, "cannot make the outbox", err);
}

static int schema_complete_outbox(sqlite3 *db, const struct sqlite_init *init,
                                  struct outrider_error *err)
{
    if (!outrider__sqlite_has_table(db, "outbox"))
        return 0;
    if (schema_check_outbox(db, err) < 0)
        return -1;
    for (size_t i = 0; i < sizeof addable / sizeof *addable; i++)
        if (!outrider__sqlite_has_column(db, "outbox", addable[i].name) &&
            schema_run(db, init, addable[i].sql, err) < 0)
            return -1;
    return 0;
}

static int schema_migrate_to_1(sqlite3 *db, const struct sqlite_init *init,
                               struct outrider_error *err)
{
    if (schema_complete_outbox(db, init, err) < 0)
        return -1;
    const char *mark = strstr(sql_schema, "    @payload@");
    if (mark == NULL)
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP, "schema.sql has no @payload@");
    struct strbuf sql;
    outrider__strbuf_init(&sql, sizeof sql_schema + sizeof sql_schema_intent + 512);
    outrider__strbuf_append(&sql, bytes_of(sql_schema, (size_t)(mark - sql_schema)));
    outrider__strbuf_appendf(&sql, "    %s%s", payload_columns[init->payload],
                             mark + strlen("    @payload@"));
    strbuf_append_str(&sql, "\n");
    strbuf_append_str(&sql, sql_schema_intent);
    int rc = sql.failed ? outrider__fail_nomem(err) : schema_run(db, init, strbuf_cstr(&sql), err);
    outrider__strbuf_release(&sql);
    return rc;
}

/* migrations[v] leads from version v to v + 1. */
static int (*const migrations[SQLITE_SCHEMA_VERSION])(sqlite3 *, const struct sqlite_init *,
                                                      struct outrider_error *) = {
    schema_migrate_to_1};

static int schema_migrate(sqlite3 *db, const struct sqlite_init *init, struct outrider_error *err)
{
    int64_t version;
    if (outrider__sqlite_version(db, &version, err) < 0)
        return -1;
    if (version > SQLITE_SCHEMA_VERSION)
        return schema_fail_newer(db, version, err);
    if (version == SQLITE_SCHEMA_VERSION)
        return schema_check_outbox(db, err);
    if (version < 0)
        return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                              "%s: table outrider_schema holds %lld, which is no version",
                              outrider__sqlite_name(db), (long long)version);
    for (int64_t v = version; v < SQLITE_SCHEMA_VERSION; v++)
        if (migrations[v](db, init, err) < 0)
            return -1;
    char sql[160];
    (void)snprintf(sql, sizeof sql,
                   "DELETE FROM outrider_schema;\nINSERT INTO outrider_schema VALUES (%d);\n",
                   SQLITE_SCHEMA_VERSION);
    return schema_run(db, init, sql_version_table, err) < 0 ? -1 : schema_run(db, init, sql, err);
}

static int schema_make_inbox(sqlite3 *db, const struct sqlite_init *init,
                             struct outrider_error *err)
{
    if (!init->inbox || outrider__sqlite_has_table(db, "outrider_inbox"))
        return 0;
    return schema_run(db, init, sql_schema_inbox, err);
}

/* Readers must not stop writers, nor the other way round. A database in
 * memory has its own mode and keeps it. */
static int schema_set_wal(sqlite3 *db, const struct sqlite_init *init, struct outrider_error *err)
{
    return schema_run(db, init, "PRAGMA journal_mode = WAL;\n", err);
}

int outrider__sqlite_init(sqlite3 *db, const struct sqlite_init *init, struct outrider_error *err)
{
    if (!sqlite3_get_autocommit(db))
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP,
                              "%s: a transaction is open; make the outbox outside of one",
                              outrider__sqlite_name(db));
    int64_t version;
    if (outrider__sqlite_version(db, &version, err) < 0)
        return -1;
    if (version > SQLITE_SCHEMA_VERSION)
        return schema_fail_newer(db, version, err);
    if (schema_set_wal(db, init, err) < 0)
        return -1;
    if (init->dry_run)
        return schema_migrate(db, init, err) < 0 ? -1 : schema_make_inbox(db, init, err);
    if (outrider__sqlite_exec(db, "BEGIN IMMEDIATE", "cannot make the outbox", err) < 0)
        return -1;
    if (schema_migrate(db, init, err) < 0 || schema_make_inbox(db, init, err) < 0 ||
        outrider__sqlite_exec(db, "COMMIT", "cannot make the outbox", err) < 0) {
        if (!sqlite3_get_autocommit(db))
            (void)sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
        return -1;
    }
    return 0;
}

int outrider_init_sqlite(sqlite3 *db, struct outrider_error *err)
{
    if (db == NULL)
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP, "no connection was given");
    return outrider__sqlite_init(db, &(struct sqlite_init){.payload = SQLITE_PAYLOAD_JSON}, err);
}
