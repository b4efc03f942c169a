/* SPDX-License-Identifier: MIT */
/* The SQLite store: what works, what does not, and what to do about it. */
#include "store.h"

#include <stdio.h>
#include <sys/stat.h>

#include "common/findings.h"
#include "store.sql.h"

#define WAL_LARGE (64LL << 20)
#define CHECK_AT_MOST (256LL << 20) /* a check reads the whole file */

struct doctor {
    struct sqlite_store *s;
    struct finder to;
};

/* Whether the block gave a number. */
static bool doctor_ask(const struct doctor *d, const char *block, int64_t *ret_n)
{
    sqlite3_stmt *st = NULL;
    bool has_one = outrider__sqlite_store_prepare(d->s, block, NULL, &st, NULL) == 0 &&
                   sqlite3_step(st) == SQLITE_ROW;
    if (has_one)
        *ret_n = sqlite3_column_int64(st, 0); /* its only column; NULL is 0 */
    return sqlite3_finalize(st) == SQLITE_OK && has_one;
}

static void doctor_check_journal(const struct doctor *d)
{
    sqlite3_stmt *st = NULL;
    struct stat file;
    char wal[4200];
    bool is_wal = false;
    if (outrider__sqlite_store_prepare(d->s, "PRAGMA main.journal_mode", NULL, &st, NULL) == 0 &&
        sqlite3_step(st) == SQLITE_ROW)
        is_wal = sqlite3_stricmp((const char *)sqlite3_column_text(st, 0), "wal") == 0;
    sqlite3_finalize(st);
    if (!is_wal)
        outrider__find(&d->to, FINDING_WARNING,
                       "run `outrider init`, or `PRAGMA journal_mode = WAL`",
                       "the journal is not in WAL mode: relay and writers wait for each other");
    else
        outrider__find(&d->to, FINDING_OK, NULL, "journal in WAL mode");
    (void)snprintf(wal, sizeof wal, "%s-wal", d->s->real);
    if (is_wal && stat(wal, &file) == 0 && file.st_size > WAL_LARGE)
        outrider__find(&d->to, FINDING_WARNING,
                       "look for a connection that keeps a read transaction open, then run "
                       "`PRAGMA wal_checkpoint(TRUNCATE)`",
                       "the -wal file has %lld MiB", (long long)(file.st_size >> 20));
}

static void doctor_check_integrity(const struct doctor *d)
{
    sqlite3_stmt *st = NULL;
    struct stat file;
    if (stat(d->s->real, &file) == 0 && file.st_size > CHECK_AT_MOST) {
        outrider__find(&d->to, FINDING_NOTE, "run `PRAGMA quick_check` when there is time for it",
                       "the file has %lld MiB: its pages were not checked",
                       (long long)(file.st_size >> 20));
        return;
    }
    const char *said = "cannot be read";
    if (outrider__sqlite_store_prepare(d->s, "PRAGMA quick_check(1)", NULL, &st, NULL) == 0 &&
        sqlite3_step(st) == SQLITE_ROW)
        said = (const char *)sqlite3_column_text(st, 0);
    if (said != NULL && strcmp(said, "ok") == 0)
        outrider__find(&d->to, FINDING_OK, NULL, "quick_check found no damage");
    else
        outrider__find(&d->to, FINDING_PROBLEM, "restore a backup, then run `outrider resync`",
                       "the file is damaged: %s", said != NULL ? said : "unknown");
    sqlite3_finalize(st);
}

static bool doctor_check_schema(const struct doctor *d)
{
    struct outrider_error err;
    if (outrider__sqlite_check(d->s->db, &err) < 0) {
        outrider__find(&d->to, FINDING_PROBLEM, NULL, "%s", err.message);
        return false;
    }
    outrider__find(&d->to, FINDING_OK, NULL,
                   "outbox of schema version %d, numbered by AUTOINCREMENT", SQLITE_SCHEMA_VERSION);
    return true;
}

static void doctor_check_pipeline(void *ctx, const struct store_status *st)
{
    const struct doctor *d = ctx;
    char holder[128] = "";
    bool is_active = outrider__sqlite_lock_is_held(d->s->real, st->pipeline, holder, sizeof holder);
    outrider__find_lag(&d->to, st, is_active ? holder : NULL);
    outrider__find_failed(&d->to, st);
}

static void doctor_check_payloads(const struct doctor *d)
{
    int64_t largest;
    if (!doctor_ask(d, sql_doctor_payload, &largest))
        return;
    outrider__find_payload(&d->to, largest, d->s->config->source.max_payload);
    if (doctor_ask(d, sql_doctor_headers, &largest))
        outrider__find_headers(&d->to, largest, d->s->config->source.max_headers);
}

static void doctor_check_history(const struct doctor *d)
{
    int64_t broken;
    if (doctor_ask(d, sql_doctor_history, &broken) && broken > 0)
        outrider__find(
            &d->to, FINDING_PROBLEM, "look at what happened, then run `outrider resync`",
            "the history of the outbox was rewritten below the position of %lld pipelines",
            (long long)broken);
}

/* AUTOINCREMENT counts from the highest seq that was ever there, also one chosen by hand. */
static void doctor_check_numbers(const struct doctor *d)
{
    int64_t highest, n_below;
    if (doctor_ask(d, sql_doctor_sequence, &highest) && highest == INT64_MAX)
        outrider__find(&d->to, FINDING_PROBLEM,
                       "when it is delivered, delete the row that has the highest seq, set "
                       "sqlite_sequence back to the highest that is left, and run `outrider "
                       "resync`",
                       "seqs are used up: nobody can insert an event (SQLITE_FULL)");
    if (doctor_ask(d, "SELECT count(*) FROM outbox WHERE seq < 1", &n_below))
        outrider__find_below_first(&d->to, NULL, n_below);
}

int outrider__sqlite_doctor(struct store *base, finding_fn *found, void *ctx,
                            struct outrider_error *err)
{
    struct sqlite_store *s = sqlite_store_of(base);
    struct doctor d = {s, {found, ctx}};
    struct outrider_error why;
    if (outrider__sqlite_store_connect(s, false, &why) < 0) {
        outrider__find(&d.to, FINDING_PROBLEM, NULL, "%s", why.message);
        return 0;
    }
    outrider__find(&d.to, FINDING_OK, NULL, "%s can be read and written", s->path);
    if (!doctor_check_schema(&d))
        return 0;
    doctor_check_journal(&d);
    doctor_check_integrity(&d);
    doctor_check_history(&d);
    doctor_check_numbers(&d);
    doctor_check_payloads(&d);
    outrider__find_retention(&d.to, s->config->cleanup.retention_us);
    return outrider__sqlite_status(base, doctor_check_pipeline, &d, err);
}
