/* SPDX-License-Identifier: MIT */
/*
 * The PostgreSQL store: what an operator changes of a pipeline that stands still, which are
 * the sink, and the number of the last transaction of exactly_once.
 *
 *  (1) Each change holds the lock of the pipeline's relay until its transaction ends: no
 *      relay is active meanwhile. Relays that compete (ordered: false) have no lock.
 *  (2) Each change raises the epoch of the row, so that a relay which lost its lock without
 *      noticing cannot save over the change.
 */
#include "postgres/store/store.h"

#include "common/pipeline.h"

#include "pipeline.sql.h"
#include "shared.sql.h"

static int pipeline_query(struct pg_store *s, const char *sql, const struct pg_args *args,
                          PGresult **ret_result, struct outrider_error *err)
{
    const struct pg_block block = {sql, "cannot change the pipeline", PG_READS};
    struct pg_words words;
    outrider__pg_words_init(&words, &s->cat);
    outrider__pg_words_add(&words, "mine", sql_intent_mine);
    int rc = outrider__pg_store_run(s, &block, &words, args, ret_result, err);
    outrider__pg_words_release(&words);
    return rc;
}

/* The same for a statement that returns one number. */
static int pipeline_count(struct pg_store *s, const char *sql, const struct pg_args *args,
                          int64_t *ret_n, struct outrider_error *err)
{
    PGresult *r = NULL;
    if (pipeline_query(s, sql, args, &r, err) < 0)
        return -1;
    *ret_n = outrider__pg_get_int(r, 0, 0, 0);
    PQclear(r);
    return 0;
}

static void pipeline_args(const struct pg_store *s, struct pg_args *ret_args)
{
    outrider__pg_args_init(ret_args);
    outrider__pg_arg_str(ret_args, s->config->name);
    outrider__pg_arg_str(ret_args, s->cat.table);
}

/* Contract (1). */
static int pipeline_lock(struct pg_store *s, struct outrider_error *err)
{
    struct pg_args args;
    PGresult *r = NULL;
    pipeline_args(s, &args);
    int rc = pipeline_query(s, sql_pipeline_lock, &args, &r, err);
    outrider__pg_args_release(&args);
    if (rc < 0)
        return -1;
    bool is_free = outrider__pg_get_bool(r, 0, 0);
    PQclear(r);
    if (is_free)
        return 0;
    return outrider__fail(err, OUTRIDER_STANDBY, OUTRIDER_RETRY,
                          "a relay of pipeline '%s' is active on %s; stop that relay first",
                          s->config->name, s->cat.table);
}

typedef int pipeline_work(struct pg_store *s, const void *what, struct strbuf *ret_report,
                          struct outrider_error *err);

/* Runs the work in a transaction that has the pipeline's lock. */
static int pipeline_change(struct pg_store *s, pipeline_work *work, const void *what,
                           struct strbuf *ret_report, struct outrider_error *err)
{
    if (outrider__pg_store_ready(s, err) < 0 ||
        outrider__pg_store_exec(s, "BEGIN", "cannot begin", err) < 0)
        return -1;
    int rc = pipeline_lock(s, err) < 0 ? -1 : work(s, what, ret_report, err);
    if (rc == 0)
        rc = outrider__pg_store_exec(s, "COMMIT", "cannot commit", err);
    if (rc < 0)
        (void)outrider__pg_store_exec(s, "ROLLBACK", "cannot roll back", NULL);
    return rc;
}

static int pipeline_move(struct pg_store *s, const void *what, struct strbuf *ret_report,
                         struct outrider_error *err)
{
    const struct string_list *tables = &s->config->source.tables;
    const char *sink = what;
    struct pg_args args;
    PGresult *r = NULL;
    pipeline_args(s, &args);
    outrider__pg_array_begin(&args, PG_TEXT);
    for (size_t i = 0; i < tables->n; i++)
        outrider__pg_array_text(&args, bytes_str(tables->items[i]));
    outrider__pg_array_end(&args);
    outrider__pg_arg_str(&args, sink);
    int rc = pipeline_query(s, sql_pipeline_move, &args, &r, err);
    outrider__pg_args_release(&args);
    if (rc < 0)
        return -1;
    if (PQntuples(r) > 0)
        outrider__pipeline_move_report(ret_report, s->config->name, outrider__pg_get_str(r, 0, 0),
                                       sink);
    else
        rc = outrider__fail(err, OUTRIDER_NOT_FOUND, OUTRIDER_STOP,
                            "%s has no pipeline '%s'; `outrider status` lists those it has",
                            s->cat.table, s->config->name);
    PQclear(r);
    return rc;
}

int outrider__pg_store_move(struct store *base, struct strbuf *ret_report,
                            struct outrider_error *err)
{
    struct pg_store *s = pg_store_of(base);
    return pipeline_change(s, pipeline_move, s->config->sink_identity, ret_report, err);
}

static int store_pipeline_remove_orphans(struct pg_store *s, const struct pg_args *args,
                                         int64_t *ret_n, struct outrider_error *err)
{
    if (pipeline_count(s, sql_pipeline_orphans, args, ret_n, err) < 0)
        return -1;
    return *ret_n > 0 ? pipeline_query(s, sql_pipeline_remove_orphans, args, NULL, err) : 0;
}

static int pipeline_reset(struct pg_store *s, const void *what, struct strbuf *ret_report,
                          struct outrider_error *err)
{
    const struct commit_mark *progress = what;
    struct pg_args args, name;
    int64_t n = 0, n_orphans = 0;
    pipeline_args(s, &args);
    outrider__pg_args_init(&name);
    outrider__pg_arg_str(&name, s->config->name);
    if (progress != NULL) {
        outrider__pg_arg_int8(&args, (int64_t)progress->no);
        outrider__pg_arg_int8(&args, (int64_t)progress->stamp);
    }
    int rc = pipeline_count(s, progress != NULL ? sql_pipeline_progress : sql_pipeline_forget,
                            &args, &n, err);
    if (rc == 0 && progress == NULL)
        rc = store_pipeline_remove_orphans(s, &name, &n_orphans, err);
    outrider__pg_args_release(&args);
    outrider__pg_args_release(&name);
    if (rc == 0 && n + n_orphans == 0)
        rc = outrider__fail(err, OUTRIDER_NOT_FOUND, OUTRIDER_STOP,
                            "pipeline '%s' of %s has not run with exactly_once", s->config->name,
                            s->cat.table);
    if (rc == 0)
        outrider__intent_reset_report(ret_report, s->config->name, progress);
    return rc;
}

int outrider__pg_store_reset_intent(struct store *base, const struct commit_mark *progress,
                                    struct strbuf *ret_report, struct outrider_error *err)
{
    return pipeline_change(pg_store_of(base), pipeline_reset, progress, ret_report, err);
}
