/* SPDX-License-Identifier: MIT */
/*
 * Taking over a pipeline: its cursor row, its epoch, and the proof that the
 * outbox is still the one that the cursor was saved against.
 */
#include "source.h"

#include "housekeeping.h"

/* What ST_CURSOR_READ returns. */
enum cursor_column {
    CURSOR_SINK,
    CURSOR_POSITION,
    CURSOR_ANCHOR,
    CURSOR_EPOCH,
    CURSOR_ON_DEAD,
    CURSOR_ROW_ID,
    CURSOR_SEQUENCE
};

struct cursor {
    bool exists;
    bool is_other_policy; /* dead letters did not block and now do, or the other way round */
};

struct cursor_place outrider__sqlite_place(const struct sqlite_source *s)
{
    return (struct cursor_place){.config = s->config, .outbox = s->path, .url = s->url};
}

/* A text that is NULL only where the column is. */
static struct bytes sqlite_cursor_text(sqlite3_stmt *st, int i)
{
    const char *text = (const char *)sqlite3_column_text(st, i);
    return text != NULL ? bytes_of(text, (size_t)sqlite3_column_bytes(st, i)) : BYTES_NULL;
}

/* What is compared is read in the same snapshot that the epoch is taken in. */
static int sqlite_cursor_check(const struct sqlite_source *s, sqlite3_stmt *st,
                               struct outrider_error *err)
{
    struct cursor_place at = outrider__sqlite_place(s);
    struct cursor_anchor a = {.position = s->position,
                              .sequence = sqlite3_column_int64(st, CURSOR_SEQUENCE),
                              .stored = sqlite_cursor_text(st, CURSOR_ANCHOR),
                              .found = sqlite_cursor_text(st, CURSOR_ROW_ID)};
    if (outrider__cursor_check_sink(&at, sqlite_cursor_text(st, CURSOR_SINK), err) < 0)
        return -1;
    return outrider__cursor_check_anchor(&at, &a, err);
}

static enum step sqlite_cursor_read(struct sqlite_source *s, struct cursor *ret_cursor,
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
        s->position = sqlite3_column_int64(st, CURSOR_POSITION);
        s->epoch = sqlite3_column_int64(st, CURSOR_EPOCH);
        ret_cursor->is_other_policy =
            cursor_is_other_policy(s->config, sqlite_cursor_text(st, CURSOR_ON_DEAD));
        if (sqlite_cursor_check(s, st, err) < 0)
            return STEP_FAILED;
        outrider__strbuf_clear(&s->read_id);
        outrider__strbuf_append(&s->read_id, sqlite_cursor_text(st, CURSOR_ANCHOR));
        if (s->read_id.failed)
            return (enum step)outrider__fail_nomem(err);
    } else {
        return outrider__sqlite_stumble(s, rc, "cannot read the cursor", err);
    }
    (void)sqlite3_reset(st);
    s->read_seq = s->position;
    return STEP_DONE;
}

static int sqlite_cursor_write(struct sqlite_source *s, const struct cursor *cursor,
                               struct instant now)
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
    (void)sqlite3_bind_text(st, 1, s->config->name, -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(st, 2, cursor_sink(s->config), -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(st, 3, cursor_policy(s->config), -1, SQLITE_STATIC);
    (void)sqlite3_step(st);
    rc = sqlite3_reset(st);
    if (rc == SQLITE_OK && cursor->is_other_policy)
        rc = outrider__sqlite_mend_lanes(s->db, s->config->name, s->blocks, now.wall_us);
    return rc;
}

enum step outrider__sqlite_take_over(struct sqlite_source *s, struct instant now,
                                     struct outrider_error *err)
{
    struct cursor cursor;
    int rc = outrider__sqlite_run(s, ST_BEGIN_IMMEDIATE);
    if (rc != SQLITE_OK)
        return outrider__sqlite_stumble(s, rc, "cannot take over the pipeline", err);
    enum step step = sqlite_cursor_read(s, &cursor, err);
    if (step == STEP_DONE)
        step = outrider__sqlite_intent_take(s, err);
    if (step != STEP_DONE) {
        outrider__sqlite_rollback(s);
        return step;
    }
    rc = sqlite_cursor_write(s, &cursor, now);
    if (rc == SQLITE_OK)
        rc = outrider__sqlite_read_due(s);
    if (rc == SQLITE_OK)
        rc = outrider__sqlite_run(s, ST_COMMIT);
    if (rc != SQLITE_OK)
        return outrider__sqlite_stumble(s, rc, "cannot take over the pipeline", err);
    s->epoch++;
    return STEP_DONE;
}
