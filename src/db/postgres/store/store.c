/* SPDX-License-Identifier: MIT */
/* The PostgreSQL store: connection, put. Synchronous, unlike the source. */
#include "postgres/store/store.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/url.h"
#include "postgres/client/client.h"
#include "outrider/postgres.h"
#include "postgres/postgres.h"

static int store_open(struct store *base, const struct pipeline_config *config,
                      struct outrider_error *err)
{
    struct pg_store *s = pg_store_of(base);
    struct arena arena;
    struct bytes text = BYTES_NULL;
    (void)err;
    s->config = config;
    outrider__arena_init(&arena, 1024);
    if (outrider__url_redact(bytes_str(config->source.url), &arena, &text) == 0)
        (void)snprintf(base->description, sizeof base->description, "%.*s", (int)text.len,
                       text.data);
    outrider__arena_release(&arena);
    return 0;
}

static void store_close(struct store *base)
{
    struct pg_store *s = pg_store_of(base);
    if (s->pg != NULL)
        PQfinish(s->pg);
    s->pg = NULL;
}

const char *outrider__pg_store_table(const struct pg_store *s)
{
    return s->config->source.tables.n > 0 ? s->config->source.tables.items[0] : "outbox";
}

/* By the source's own way of connecting, waited for: one deadline, one form of errors. */
int outrider__pg_store_connect(struct pg_store *s, struct outrider_error *err)
{
    struct pg_conn c;
    if (s->pg != NULL)
        return 0;
    struct instant now = outrider__clock_now();
    int rc = outrider__pg_connect(&c, s->config->source.url, "command",
                                  s->config->source.connect_timeout_us, now, err);
    while (rc == 0 && c.state == PG_CONNECTING) {
        struct pollfd fd;
        (void)poll(&fd, (nfds_t)outrider__pg_fds(&c, &fd, 1), 100);
        rc = outrider__pg_poll(&c, outrider__clock_now(), err);
    }
    if (rc == 0 && (PQexitPipelineMode(c.pg) != 1 || PQsetnonblocking(c.pg, 0) != 0))
        rc = outrider__pg_fail(err, c.pg, NULL, "cannot set the connection up");
    if (rc < 0) {
        outrider__pg_close(&c);
        return -1;
    }
    s->pg = c.pg;
    return 0;
}

int outrider__pg_store_query(struct pg_store *s, const char *sql, const struct pg_args *args,
                             const char *what, PGresult **ret_result, struct outrider_error *err)
{
    const char *values[PG_ARGS_MAX];
    int lengths[PG_ARGS_MAX], formats[PG_ARGS_MAX];
    if (args != NULL && args->bytes.failed)
        return outrider__fail_nomem(err);
    if (args != NULL)
        outrider__pg_args_values(args, values, lengths, formats);
    PGresult *res = PQexecParams(s->pg, sql, args != NULL ? args->n : 0,
                                 args != NULL ? args->types : NULL, values, lengths, formats, 1);
    ExecStatusType status = PQresultStatus(res);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
        int rc = outrider__pg_fail(err, s->pg, res, what);
        PQclear(res);
        return rc;
    }
    if (ret_result != NULL)
        *ret_result = res;
    else
        PQclear(res);
    return 0;
}

int outrider__pg_store_run(struct pg_store *s, const struct pg_block *block,
                           const struct pg_words *words, const struct pg_args *args,
                           PGresult **ret_result, struct outrider_error *err)
{
    struct pg_words plain;
    char *sql = NULL;
    outrider__pg_words_init(&plain, &s->cat);
    if (outrider__pg_block_expand(block, words != NULL ? words : &plain, &sql, err) < 0)
        return -1;
    int rc = outrider__pg_store_query(s, sql, args, block->what, ret_result, err);
    free(sql);
    return rc;
}

int outrider__pg_store_exec(struct pg_store *s, const char *sql, const char *what,
                            struct outrider_error *err)
{
    PGresult *res = PQexec(s->pg, sql);
    ExecStatusType status = PQresultStatus(res);
    bool is_good = status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
    int rc = is_good ? 0 : outrider__pg_fail(err, s->pg, res, what);
    PQclear(res);
    return rc;
}

uint64_t outrider__pg_store_changed(const PGresult *r)
{
    return strtoull(PQcmdTuples((PGresult *)r), NULL, 10);
}

int outrider__pg_store_catalog(struct pg_store *s, struct outrider_error *err)
{
    struct pg_args args;
    PGresult *r = NULL;
    if (outrider__pg_store_connect(s, err) < 0)
        return -1;
    outrider__pg_args_init(&args);
    outrider__pg_arg_str(&args, outrider__pg_store_table(s));
    int rc = outrider__pg_store_query(s, outrider__pg_catalog_sql, &args,
                                      "cannot read the catalogue", &r, err);
    outrider__pg_args_release(&args);
    if (rc < 0)
        return -1;
    outrider__pg_catalog_read(&s->cat, r, outrider__pg_store_table(s));
    PQclear(r);
    return 0;
}

/* A pooler may give the session, and with it the setting, to an application: then the
 * look alone has to do. */
static int store_forbid_hiding(struct pg_store *s, struct outrider_error *err)
{
    if (PQbackendPID(s->pg) != s->cat.backend_pid)
        return 0;
    return outrider__pg_store_exec(s, "SET row_security = off", "cannot set the session up", err);
}

int outrider__pg_store_guard(struct pg_store *s, bool is_strict, struct outrider_error *err)
{
    struct pg_args args;
    PGresult *r = NULL;
    if (store_forbid_hiding(s, err) < 0)
        return -1;
    outrider__pg_args_init(&args);
    outrider__pg_guard_args(&args, s->config, s->cat.companion_schema);
    int rc = outrider__pg_store_query(s, outrider__pg_guard_sql, &args, "cannot read the catalogue",
                                      &r, err);
    outrider__pg_args_release(&args);
    if (rc == 0)
        rc = outrider__pg_guard_check(r, is_strict, err);
    PQclear(r);
    return rc;
}

int outrider__pg_store_ready(struct pg_store *s, struct outrider_error *err)
{
    char place[160];
    if (outrider__pg_store_catalog(s, err) < 0)
        return -1;
    outrider__pg_place(s->pg, place, sizeof place);
    if (s->cat.oid == 0)
        return outrider__fail(err, OUTRIDER_NO_OUTBOX, OUTRIDER_STOP,
                              "%s has no table %s; run `outrider init`, or name the table with "
                              "--table",
                              place, s->cat.asked);
    if (s->cat.cursor_table[0] == '\0' || s->cat.parked_table[0] == '\0')
        return outrider__fail(err, OUTRIDER_NO_OUTBOX, OUTRIDER_STOP,
                              "%s has %s, but not outrider_cursor and outrider_parked beside it; "
                              "run `outrider init`",
                              place, s->cat.table);
    if (outrider__pg_catalog_check_version(&s->cat, place, err) < 0)
        return -1;
    return outrider__pg_store_guard(s, false, err);
}

static int store_put_begin(struct store *base, struct outrider_error *err)
{
    struct pg_store *s = pg_store_of(base);
    if (outrider__pg_store_connect(s, err) < 0)
        return -1;
    return outrider__pg_store_exec(s, "BEGIN", "cannot begin", err);
}

static int store_put(struct store *base, const struct outrider_event *e,
                     char ret_id[OUTRIDER_ID_SIZE], struct outrider_error *err)
{
    struct pg_store *s = pg_store_of(base);
    if (outrider__event_fits(s->config, e, err) < 0)
        return -1;
    return outrider_enqueue_pg(s->pg, e, 0, ret_id, err);
}

static int store_put_commit(struct store *base, struct outrider_error *err)
{
    return outrider__pg_store_exec(pg_store_of(base), "COMMIT", "cannot commit", err);
}

static void store_put_rollback(struct store *base)
{
    struct pg_store *s = pg_store_of(base);
    if (s->pg != NULL && PQtransactionStatus(s->pg) != PQTRANS_IDLE)
        (void)outrider__pg_store_exec(s, "ROLLBACK", "cannot roll back", NULL);
}

static int store_cleanup_inbox(struct store *base, int64_t older_than_us, uint64_t limit,
                               uint64_t *ret_removed, struct outrider_error *err)
{
    struct pg_store *s = pg_store_of(base);
    size_t removed = 0;
    if (outrider__pg_store_connect(s, err) < 0 ||
        outrider_inbox_cleanup_pg(s->pg, NULL, older_than_us, limit, &removed, err) < 0)
        return -1;
    *ret_removed = removed;
    return 0;
}

const struct store_ops outrider__store_postgres = {
    .scheme = "postgresql",
    .size = sizeof(struct pg_store),
    .open = store_open,
    .close = store_close,
    .init = outrider__pg_store_init,
    .put_begin = store_put_begin,
    .put = store_put,
    .put_commit = store_put_commit,
    .put_rollback = store_put_rollback,
    .status = outrider__pg_store_status,
    .count_failed = outrider__pg_store_count_failed,
    .dead_list = outrider__pg_store_dead_list,
    .dead_retry = outrider__pg_store_dead_retry,
    .dead_discard = outrider__pg_store_dead_discard,
    .cleanup = outrider__pg_store_cleanup,
    .cleanup_inbox = store_cleanup_inbox,
    .doctor = outrider__pg_store_doctor,
    .resync = outrider__pg_store_resync,
    .move = outrider__pg_store_move,
    .reset_intent = outrider__pg_store_reset_intent,
    .stream_drop = outrider__pg_store_slot_drop,
    .stream_adopt = outrider__pg_store_slot_adopt,
};
