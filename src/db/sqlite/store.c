/* SPDX-License-Identifier: MIT */
/* The SQLite store: connection, init, put, status, clean-up. */
#include "store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "housekeeping.h"
#include "outrider/sqlite.h"
#include "sqlite.h"

#define BUSY_TIMEOUT_MS 5000

static int store_open(struct store *base, const struct pipeline_config *config,
                      struct outrider_error *err)
{
    struct sqlite_store *s = sqlite_store_of(base);
    s->config = config;
    if (outrider__sqlite_path(config, &s->path, err) < 0)
        return -1;
    (void)snprintf(base->description, sizeof base->description, "sqlite:%s", s->path);
    return 0;
}

static void store_close(struct store *base)
{
    struct sqlite_store *s = sqlite_store_of(base);
    outrider_writer_free(s->writer);
    (void)sqlite3_close(s->db);
    free(s->path);
    free(s->real);
    s->db = NULL;
    s->writer = NULL;
    s->path = s->real = NULL;
}

int outrider__sqlite_store_connect(struct sqlite_store *s, bool may_create,
                                   struct outrider_error *err)
{
    if (s->db != NULL)
        return 0;
    if (outrider__sqlite_open(s->path, may_create, &s->db, &s->real, err) < 0)
        return -1;
    int64_t timeout_ms = s->config->source.connect_timeout_us / 1000;
    (void)sqlite3_busy_timeout(s->db, timeout_ms > 0 && timeout_ms < 3600000 ? (int)timeout_ms
                                                                             : BUSY_TIMEOUT_MS);
    return 0;
}

int outrider__sqlite_store_ready(struct sqlite_store *s, struct outrider_error *err)
{
    if (outrider__sqlite_store_connect(s, false, err) < 0)
        return -1;
    return outrider__sqlite_check(s->db, err);
}

int outrider__sqlite_store_prepare(struct sqlite_store *s, const char *block,
                                   const struct sqlite_words *words, sqlite3_stmt **ret_st,
                                   struct outrider_error *err)
{
    int rc = outrider__sqlite_prepare(s->db, block, words, 0, ret_st);
    return rc == SQLITE_OK ? 0
                           : outrider__sqlite_fail(err, s->db, rc, "cannot prepare a statement");
}

int outrider__sqlite_store_begin(struct sqlite_store *s, struct outrider_error *err)
{
    return outrider__sqlite_exec(s->db, "BEGIN IMMEDIATE", "cannot begin to write", err);
}

int outrider__sqlite_store_end(struct sqlite_store *s, int result, struct outrider_error *err)
{
    if (result == 0)
        result = outrider__sqlite_exec(s->db, "COMMIT", "cannot commit", err);
    if (result < 0 && !sqlite3_get_autocommit(s->db))
        (void)sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    return result;
}

static int store_read_init_options(const struct init_options *o, struct sqlite_init *ret_init,
                                   struct outrider_error *err)
{
    static const struct {
        const char *name;
        enum sqlite_payload payload;
    } payloads[] = {{"jsonb", SQLITE_PAYLOAD_JSON},
                    {"json", SQLITE_PAYLOAD_JSON},
                    {"text", SQLITE_PAYLOAD_TEXT},
                    {"bytea", SQLITE_PAYLOAD_BLOB},
                    {"blob", SQLITE_PAYLOAD_BLOB}};
    if (o->layout != NULL && strcmp(o->layout, "log") != 0)
        return outrider__fail(err, OUTRIDER_UNSUPPORTED, OUTRIDER_STOP,
                              "layout '%s' is not made for SQLite; leave --layout out or say log",
                              o->layout);
    if (o->partition != NULL)
        return outrider__fail(err, OUTRIDER_UNSUPPORTED, OUTRIDER_STOP,
                              "SQLite has no partitions; leave --partition out");
    const char *payload = o->payload != NULL ? o->payload : "jsonb";
    for (size_t i = 0; i < sizeof payloads / sizeof *payloads; i++) {
        if (strcmp(payload, payloads[i].name) == 0) {
            ret_init->payload = payloads[i].payload;
            return 0;
        }
    }
    return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                          "unknown payload form '%s'; there are jsonb, text and bytea", payload);
}

/* What init would do to a file that is not there, without making it. */
static int store_dry_run_on_nothing(const struct sqlite_init *init, struct outrider_error *err)
{
    sqlite3 *db = NULL;
    int rc = sqlite3_open(":memory:", &db);
    int result = rc == SQLITE_OK ? outrider__sqlite_init(db, init, err)
                                 : outrider__sqlite_fail(err, db, rc, "cannot try it in memory");
    (void)sqlite3_close(db);
    return result;
}

static int store_init(struct store *base, const struct init_options *o, struct strbuf *ret_sql,
                      struct outrider_error *err)
{
    struct sqlite_store *s = sqlite_store_of(base);
    struct sqlite_init init = {.inbox = o->inbox, .dry_run = o->dry_run, .sql = ret_sql};
    if (store_read_init_options(o, &init, err) < 0)
        return -1;
    bool is_there = access(s->path, F_OK) == 0;
    if (!is_there && o->dry_run)
        return store_dry_run_on_nothing(&init, err);
    if (outrider__sqlite_store_connect(s, !is_there, err) < 0)
        return -1;
    return outrider__sqlite_init(s->db, &init, err);
}

static int store_put_begin(struct store *base, struct outrider_error *err)
{
    struct sqlite_store *s = sqlite_store_of(base);
    if (outrider__sqlite_store_ready(s, err) < 0)
        return -1;
    return outrider__sqlite_store_begin(s, err);
}

static int store_put(struct store *base, const struct outrider_event *e,
                     char ret_id[OUTRIDER_ID_SIZE], struct outrider_error *err)
{
    struct sqlite_store *s = sqlite_store_of(base);
    if (outrider__event_fits(s->config, e, err) < 0)
        return -1;
    if (s->writer == NULL && outrider_writer_new_sqlite(s->db, 0, &s->writer, err) < 0)
        return -1;
    return outrider_writer_put(s->writer, e, 0, ret_id, err);
}

static int store_put_commit(struct store *base, struct outrider_error *err)
{
    return outrider__sqlite_store_end(sqlite_store_of(base), 0, err);
}

static void store_put_rollback(struct store *base)
{
    struct sqlite_store *s = sqlite_store_of(base);
    if (s->db != NULL && !sqlite3_get_autocommit(s->db))
        (void)sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
}

static int store_cleanup(struct store *base, int64_t older_than_us, uint64_t limit,
                         uint64_t *ret_removed, struct outrider_error *err)
{
    struct sqlite_store *s = sqlite_store_of(base);
    if (outrider__sqlite_store_ready(s, err) < 0)
        return -1;
    int64_t n = limit > 1000000 ? 1000000 : (int64_t)limit;
    /* The application's triggers are for its own deletes. */
    (void)sqlite3_db_config(s->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    int rc = outrider__sqlite_remove_settled(s->db, older_than_us, n, ret_removed);
    (void)sqlite3_db_config(s->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 1, NULL);
    return rc == SQLITE_OK ? 0 : outrider__sqlite_fail(err, s->db, rc, "cannot clean up");
}

static int store_cleanup_inbox(struct store *base, int64_t older_than_us, uint64_t limit,
                               uint64_t *ret_removed, struct outrider_error *err)
{
    struct sqlite_store *s = sqlite_store_of(base);
    size_t removed = 0;
    if (outrider__sqlite_store_connect(s, false, err) < 0 ||
        outrider_inbox_cleanup_sqlite(s->db, NULL, older_than_us, limit, &removed, err) < 0)
        return -1;
    *ret_removed = removed;
    return 0;
}

const struct store_ops outrider__store_sqlite = {
    .scheme = "sqlite",
    .size = sizeof(struct sqlite_store),
    .open = store_open,
    .close = store_close,
    .init = store_init,
    .put_begin = store_put_begin,
    .put = store_put,
    .put_commit = store_put_commit,
    .put_rollback = store_put_rollback,
    .status = outrider__sqlite_status,
    .count_failed = outrider__sqlite_count_failed,
    .dead_list = outrider__sqlite_dead_list,
    .dead_retry = outrider__sqlite_dead_retry,
    .dead_discard = outrider__sqlite_dead_discard,
    .cleanup = store_cleanup,
    .cleanup_inbox = store_cleanup_inbox,
    .doctor = outrider__sqlite_doctor,
    .resync = outrider__sqlite_resync,
    .move = outrider__sqlite_move,
    .reset_intent = outrider__sqlite_reset_intent,
};
