/* SPDX-License-Identifier: MIT */
/*
 * Events into the outbox, on the application's own connection.
 *
 *  (1) The transaction stays the application's: nothing here begins, commits
 *      or rolls back, and a refused event takes back its own statement only; an
 *      array is a savepoint, so that all of it goes in or nothing.
 *  (2) No state of the connection changes. One-shot calls leave no statement
 *      behind that would make sqlite3_close() fail; a writer's goes with it.
 */
#include "client.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/event_check.h"
#include "base/writer.h"
#include "client.sql.h"
#include "outrider/sqlite.h"

static const char sql_savepoint[] = "SAVEPOINT outrider_enqueue";
static const char sql_release[] = "RELEASE outrider_enqueue";
static const char sql_take_back[] = "ROLLBACK TO outrider_enqueue; RELEASE outrider_enqueue";

struct sqlite_writer {
    struct outrider_writer base; /* must stay first: see enqueue_writer_of() */
    sqlite3 *db;
    sqlite3_stmt *insert; /* NULL until the first event */
    int n_compiled;       /* how often SQLite made that statement anew by itself */
    bool takes_text;      /* the payload, of the table that the statement was made for */
};

static struct sqlite_writer *enqueue_writer_of(struct outrider_writer *w)
{
    return (struct sqlite_writer *)w;
}

/* Text columns get text, others bytes: a BLOB that lies in a TEXT column stays
 * one, and `WHERE payload LIKE` or json_extract would not see it. */
static bool enqueue_takes_text(sqlite3 *db)
{
    const char *type = NULL;
    (void)sqlite3_table_column_metadata(db, "main", "outbox", "payload", &type, NULL, NULL, NULL,
                                        NULL);
    return type != NULL && sqlite3_stricmp(type, "TEXT") == 0;
}

static int enqueue_bind_payload(const struct sqlite_writer *w, int i,
                                const struct outrider_event *e, struct outrider_error *err)
{
    struct bytes payload = bytes_of(e->payload != NULL ? e->payload : "", e->payload_len);
    if (!w->takes_text)
        return sqlite3_bind_blob64(w->insert, i, payload.data, payload.len, SQLITE_STATIC);
    if (!outrider__bytes_is_utf8(payload) || memchr(payload.data, '\0', payload.len) != NULL) {
        (void)outrider__event_fail_field(err, "payload",
                                         "is not UTF-8 text, which the outbox asks for; "
                                         "`outrider init --payload bytea` takes any bytes");
        return -1;
    }
    return sqlite3_bind_text64(w->insert, i, payload.data, payload.len, SQLITE_STATIC, SQLITE_UTF8);
}

static int enqueue_bind_string(sqlite3_stmt *st, int i, const char *s)
{
    return s != NULL ? sqlite3_bind_text(st, i, s, -1, SQLITE_STATIC) : SQLITE_OK;
}

static int enqueue_bind_time(sqlite3_stmt *st, int i, int64_t us)
{
    char text[CLOCK_TEXT_SIZE];
    if (us == 0)
        return SQLITE_OK;
    outrider__clock_format(us, text);
    return sqlite3_bind_text(st, i, text, -1, SQLITE_TRANSIENT);
}

static int enqueue_fail_insert(sqlite3 *db, int rc, struct outrider_error *err)
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

static int enqueue_bind_event(struct sqlite_writer *w, const struct outrider_event *e,
                              const char *id, struct outrider_error *err)
{
    sqlite3_stmt *st = w->insert;
    int rc = enqueue_bind_payload(w, 5, e, err);
    if (rc < 0)
        return -1;
    rc |= enqueue_bind_string(st, 1, id);
    rc |= enqueue_bind_string(st, 2, e->aggregate_type);
    rc |= enqueue_bind_string(st, 3, e->aggregate_id);
    rc |= enqueue_bind_string(st, 4, e->event_type);
    rc |= enqueue_bind_string(st, 6, e->headers);
    rc |= enqueue_bind_string(st, 7, writer_or_null(e->topic));
    rc |= enqueue_bind_string(st, 8, writer_or_null(e->partition_key));
    rc |= e->partition >= 0 ? sqlite3_bind_int(st, 9, e->partition) : SQLITE_OK;
    rc |= enqueue_bind_time(st, 10, e->occurred_at_us);
    rc |= enqueue_bind_time(st, 11, e->expires_at_us);
    return rc == SQLITE_OK ? 0 : enqueue_fail_insert(w->db, sqlite3_extended_errcode(w->db), err);
}

static int enqueue_writer_check(struct outrider_writer *base, unsigned flags,
                                struct outrider_error *err)
{
    struct sqlite_writer *w = enqueue_writer_of(base);
    if ((flags & OUTRIDER_ENQUEUE_AUTOCOMMIT) == 0 && sqlite3_get_autocommit(w->db))
        return outrider__fail(err, OUTRIDER_NO_TRANSACTION, OUTRIDER_STOP,
                              "%s: no transaction is open: the event would not share the fate of "
                              "the data it tells of; BEGIN first",
                              outrider__sqlite_name(w->db));
    return 0;
}

static int enqueue_try_one(struct sqlite_writer *w, const struct outrider_event *e, const char *id,
                           struct outrider_error *err)
{
    int rc = enqueue_bind_event(w, e, id, err);
    if (rc == 0) {
        (void)sqlite3_step(w->insert);
        if (sqlite3_reset(w->insert) != SQLITE_OK)
            rc = enqueue_fail_insert(w->db, sqlite3_extended_errcode(w->db), err);
    }
    sqlite3_clear_bindings(w->insert);
    return rc;
}

/* An id is a UUID (event_check.c): nothing in it needs quoting. */
static int enqueue_take_back(const struct sqlite_writer *w, const char *id,
                             struct outrider_error *err)
{
    char sql[64 + OUTRIDER_ID_SIZE];
    (void)snprintf(sql, sizeof sql, "DELETE FROM main.outbox WHERE id = '%s'", id);
    return outrider__sqlite_exec(w->db, sql, "cannot insert the event", err);
}

/* The table may be another one since the last event: SQLite notices in the middle
 * of the insert, makes the statement anew and goes on. Then the payload may have
 * been given in the other form, or refused for it. */
static int enqueue_insert_one(struct sqlite_writer *w, const struct outrider_event *e,
                              const char *id, struct outrider_error *err)
{
    struct outrider_error why;
    bool was_open = !sqlite3_get_autocommit(w->db);
    int rc = enqueue_try_one(w, e, id, &why);
    int n_compiled = sqlite3_stmt_status(w->insert, SQLITE_STMTSTATUS_REPREPARE, 0);
    if (n_compiled == w->n_compiled && rc == 0)
        return 0;
    bool took_text = w->takes_text;
    w->n_compiled = n_compiled;
    w->takes_text = enqueue_takes_text(w->db);
    bool has_ended = was_open && sqlite3_get_autocommit(w->db);
    if (w->takes_text == took_text || has_ended) {
        if (rc < 0 && err != NULL)
            *err = why;
        return rc;
    }
    if (rc == 0 && enqueue_take_back(w, id, err) < 0)
        return -1;
    return enqueue_try_one(w, e, id, err);
}

static int enqueue_prepare_insert(struct sqlite_writer *w, struct outrider_error *err)
{
    if (sqlite3_prepare_v3(w->db, sql_enqueue, -1, SQLITE_PREPARE_PERSISTENT, &w->insert, NULL) !=
        SQLITE_OK)
        return enqueue_fail_insert(w->db, sqlite3_extended_errcode(w->db), err);
    w->n_compiled = 0;
    w->takes_text = enqueue_takes_text(w->db);
    return 0;
}

static int enqueue_insert_all(struct sqlite_writer *w, const struct outrider_event *events,
                              size_t n, const writer_id *ids, struct outrider_error *err)
{
    if (outrider__sqlite_exec(w->db, sql_savepoint, "cannot insert the events", err) < 0)
        return -1;
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++) {
        struct outrider_event e = writer_event_at(events, i);
        rc = enqueue_insert_one(w, &e, ids[i], err);
        if (rc < 0)
            outrider__writer_blame(err, i);
    }
    /* Some failures have ended the whole transaction, and the savepoint with it. */
    if (rc < 0 && !sqlite3_get_autocommit(w->db))
        (void)sqlite3_exec(w->db, sql_take_back, NULL, NULL, NULL);
    if (rc == 0 && outrider__sqlite_exec(w->db, sql_release, "cannot insert the events", err) < 0) {
        (void)sqlite3_exec(w->db, sql_take_back, NULL, NULL, NULL);
        rc = -1;
    }
    return rc;
}

static int enqueue_writer_insert(struct outrider_writer *base, const struct outrider_event *events,
                                 size_t n, const writer_id *ids, struct outrider_error *err)
{
    struct sqlite_writer *w = enqueue_writer_of(base);
    if (w->insert == NULL && enqueue_prepare_insert(w, err) < 0)
        return -1;
    sqlite3_int64 last_rowid = sqlite3_last_insert_rowid(w->db);
    struct outrider_event first = writer_event_at(events, 0);
    int rc = n == 1 ? enqueue_insert_one(w, &first, ids[0], err)
                    : enqueue_insert_all(w, events, n, ids, err);
    /* The application may want to know the rowid of its own last insert. */
    sqlite3_set_last_insert_rowid(w->db, last_rowid);
    return rc;
}

static void enqueue_writer_release(struct sqlite_writer *w)
{
    sqlite3_finalize(w->insert);
    outrider__writer_release(&w->base);
}

static void enqueue_writer_free(struct outrider_writer *base)
{
    enqueue_writer_release(enqueue_writer_of(base));
    free(base);
}

static const struct writer_ops writer_ops = {
    .max_payload = SIZE_MAX,
    .check = enqueue_writer_check,
    .insert = enqueue_writer_insert,
    .free = enqueue_writer_free,
};

static int enqueue_writer_init(struct sqlite_writer *w, sqlite3 *db, struct outrider_error *err)
{
    if (db == NULL)
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP, "no connection was given");
    outrider__writer_init(&w->base, &writer_ops);
    w->db = db;
    w->insert = NULL;
    return 0;
}

int outrider_writer_new_sqlite(sqlite3 *db, unsigned flags, struct outrider_writer **ret_writer,
                               struct outrider_error *err)
{
    if (flags != 0 || ret_writer == NULL)
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP,
                              "a writer for SQLite has no flags, and needs a place to go to");
    struct sqlite_writer *w = malloc(sizeof *w);
    if (w == NULL)
        return outrider__fail_nomem(err);
    if (enqueue_writer_init(w, db, err) < 0) {
        free(w);
        return -1;
    }
    *ret_writer = &w->base;
    return 0;
}

int outrider_enqueue_sqlite(sqlite3 *db, const struct outrider_event *event, unsigned flags,
                            char ret_id[OUTRIDER_ID_SIZE], struct outrider_error *err)
{
    struct sqlite_writer w;
    if (enqueue_writer_init(&w, db, err) < 0)
        return -1;
    int rc = outrider_writer_put(&w.base, event, flags, ret_id, err);
    enqueue_writer_release(&w);
    return rc;
}

int outrider_enqueue_many_sqlite(sqlite3 *db, const struct outrider_event *events, size_t n,
                                 unsigned flags, char (*ret_ids)[OUTRIDER_ID_SIZE],
                                 struct outrider_error *err)
{
    struct sqlite_writer w;
    if (enqueue_writer_init(&w, db, err) < 0)
        return -1;
    int rc = outrider_writer_put_many(&w.base, events, n, flags, ret_ids, err);
    enqueue_writer_release(&w);
    return rc;
}
