/* SPDX-License-Identifier: MIT */
/*
 * Taking over a pipeline: its cursor row, its epoch, and the proof that the
 * outbox is still the one that the cursor was saved against.
 */
#include "source.h"

#include "housekeeping.h"

#include <stdio.h>

struct cursor {
    bool exists;
    bool is_other_policy; /* dead letters did not block and now do, or the other way round */
};

int outrider__sqlite_fail_history(struct sqlite_source *s, const char *what,
                                  struct outrider_error *err)
{
    return outrider__fail(err, OUTRIDER_HISTORY, OUTRIDER_STOP,
                          "%s: the history of the outbox was rewritten: %s; look at what happened, "
                          "then run `outrider resync --db sqlite:%s --name %s`",
                          s->path, what, s->path, s->config->name);
}

static struct bytes column(sqlite3_stmt *st, int i)
{
    const char *text = (const char *)sqlite3_column_text(st, i);
    return bytes_of(text != NULL ? text : "", (size_t)sqlite3_column_bytes(st, i));
}

static int check_sink(struct sqlite_source *s, struct bytes stored, struct outrider_error *err)
{
    const char *mine = s->config->sink_identity;
    if (mine == NULL || stored.len == 0 || bytes_eq_str(stored, mine))
        return 0;
    return outrider__fail(err, OUTRIDER_SINK_MISMATCH, OUTRIDER_STOP,
                          "pipeline '%s' of %s delivers to %.*s and not to %s; give this relay "
                          "another --name, or, to go on to the new sink from where the pipeline "
                          "is: UPDATE outrider_cursor SET sink = '%s' WHERE pipeline = '%s'",
                          s->config->name, s->path, (int)stored.len, stored.data, mine, mine,
                          s->config->name);
}

/* Positions and ids are compared in the same snapshot that the epoch is taken in. */
static int check_anchor(struct sqlite_source *s, sqlite3_stmt *st, struct outrider_error *err)
{
    char what[160];
    int64_t sequence = sqlite3_column_int64(st, 6);
    if (s->position == 0)
        return 0;
    if (sequence < s->position) {
        (void)snprintf(what, sizeof what, "its sequence stands at %lld, below the position %lld",
                       (long long)sequence, (long long)s->position);
        return outrider__sqlite_fail_history(s, what, err);
    }
    bool is_there = sqlite3_column_type(st, 5) != SQLITE_NULL;
    if (is_there && bytes_eq(column(st, 5), column(st, 2)))
        return 0;
    (void)snprintf(what, sizeof what, "the row at the position %lld %s", (long long)s->position,
                   is_there ? "is another one now" : "is gone");
    return outrider__sqlite_fail_history(s, what, err);
}

static enum step read_cursor(struct sqlite_source *s, struct cursor *ret_cursor,
                             struct outrider_error *err)
{
    sqlite3_stmt *st = outrider__sqlite_statement(s, ST_CURSOR_READ, err);
    if (st == NULL)
        return STEP_FAILED;
    (void)sqlite3_bind_text(st, 1, s->config->name, -1, SQLITE_STATIC);
    int rc = sqlite3_step(st);
    *ret_cursor = (struct cursor){.exists = rc == SQLITE_ROW};
    if (rc == SQLITE_DONE) {
        s->position = s->epoch = 0;
        outrider__strbuf_clear(&s->read_id);
    } else if (rc == SQLITE_ROW) {
        s->position = sqlite3_column_int64(st, 1);
        s->epoch = sqlite3_column_int64(st, 3);
        ret_cursor->is_other_policy = !bytes_eq_str(column(st, 4), s->blocks ? "block" : "skip");
        if (check_sink(s, column(st, 0), err) < 0 || check_anchor(s, st, err) < 0)
            return STEP_FAILED;
        outrider__strbuf_clear(&s->read_id);
        outrider__strbuf_append(&s->read_id, column(st, 2));
        if (s->read_id.failed)
            return (enum step)outrider__fail_nomem(err);
    } else {
        return outrider__sqlite_stumble(s, rc, "cannot read the cursor", err);
    }
    (void)sqlite3_reset(st);
    s->read_seq = s->position;
    return STEP_DONE;
}

static int write_cursor(struct sqlite_source *s, const struct cursor *cursor, struct instant now)
{
    struct outrider_error ignored;
    sqlite3_stmt *st;
    int rc = SQLITE_OK;
    if (!cursor->exists) {
        st = outrider__sqlite_statement(s, ST_CURSOR_MAKE, &ignored);
        if (st == NULL)
            return sqlite3_extended_errcode(s->db);
        (void)sqlite3_bind_text(st, 1, s->config->name, -1, SQLITE_STATIC);
        (void)sqlite3_bind_int64(st, 2, now.wall_us);
        (void)sqlite3_step(st);
        rc = sqlite3_reset(st);
    }
    st = rc == SQLITE_OK ? outrider__sqlite_statement(s, ST_CURSOR_TAKE, &ignored) : NULL;
    if (st == NULL)
        return sqlite3_extended_errcode(s->db);
    const char *sink = s->config->sink_identity;
    (void)sqlite3_bind_text(st, 1, s->config->name, -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(st, 2, sink != NULL ? sink : "", -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(st, 3, s->blocks ? "block" : "skip", -1, SQLITE_STATIC);
    (void)sqlite3_step(st);
    rc = sqlite3_reset(st);
    if (rc == SQLITE_OK && cursor->is_other_policy)
        rc = outrider__sqlite_mend_lanes(s->db, s->config->name, s->blocks, now.wall_us);
    return rc;
}

/* A replay has no cursor: it begins where it was told to and leaves no trace. */
static enum step begin_replay(struct sqlite_source *s)
{
    int64_t from = s->config->replay_from_seq;
    s->position = s->read_seq = from > 0 ? from - 1 : 0;
    return STEP_DONE;
}

enum step outrider__sqlite_take_over(struct sqlite_source *s, struct instant now,
                                     struct outrider_error *err)
{
    struct cursor cursor;
    if (s->config->replay)
        return begin_replay(s);
    int rc = outrider__sqlite_run(s, ST_BEGIN_IMMEDIATE);
    if (rc != SQLITE_OK)
        return outrider__sqlite_stumble(s, rc, "cannot take over the pipeline", err);
    enum step step = read_cursor(s, &cursor, err);
    if (step == STEP_DONE)
        step = outrider__sqlite_intent_take(s, err);
    if (step != STEP_DONE) {
        outrider__sqlite_rollback(s);
        return step;
    }
    rc = write_cursor(s, &cursor, now);
    if (rc == SQLITE_OK)
        rc = outrider__sqlite_read_due(s);
    if (rc == SQLITE_OK)
        rc = outrider__sqlite_run(s, ST_COMMIT);
    if (rc != SQLITE_OK)
        return outrider__sqlite_stumble(s, rc, "cannot take over the pipeline", err);
    s->epoch++;
    return STEP_DONE;
}
