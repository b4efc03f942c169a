/* SPDX-License-Identifier: MIT */
#include "base/session.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/event_check.h"
#include "base/uuid.h"

struct outrider_session {
    void *conn;
    const struct session_ops *ops;
    struct session_inserter inserter; /* insert NULL: there is none */
    size_t max_payload;
    struct outrider_session_callbacks *callbacks;
    size_t n_callbacks;
    bool is_open;
    bool is_calling; /* back: the transaction's end is under way */
    struct arena arena;
    struct outrider_event *events; /* their bytes are in the arena */
    size_t n_events, capacity;
};

static int fail_no_session(struct outrider_error *err)
{
    return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP, "no session was given");
}

int outrider__session_new(void *conn, const struct session_ops *ops, size_t max_payload,
                          struct outrider_session **ret_session, struct outrider_error *err)
{
    if (conn == NULL || ret_session == NULL)
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP, "no connection was given");
    struct outrider_session *s = calloc(1, sizeof *s);
    if (s == NULL)
        return outrider__fail_nomem(err);
    s->conn = conn;
    s->ops = ops;
    s->max_payload = max_payload;
    outrider__arena_init(&s->arena, 16384);
    *ret_session = s;
    return 0;
}

static int session_check_idle(const struct outrider_session *s, struct outrider_error *err)
{
    if (s == NULL)
        return fail_no_session(err);
    if (s->is_calling)
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP,
                              "a callback of a session neither begins, commits nor rolls back");
    if (s->is_open)
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP,
                              "the session has a transaction open; commit or roll back first");
    return 0;
}

static int session_check_open(const struct outrider_session *s, struct outrider_error *err)
{
    if (s == NULL)
        return fail_no_session(err);
    if (!s->is_open)
        return outrider__fail(err, OUTRIDER_NO_TRANSACTION, OUTRIDER_STOP,
                              "the session has no transaction open; begin one first");
    return 0;
}

void *outrider__session_lend(struct outrider_session *s, const struct session_ops **ret_ops,
                             struct outrider_error *err)
{
    if (session_check_idle(s, err) < 0)
        return NULL;
    if (s->inserter.insert != NULL) {
        (void)outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP,
                             "the session publishes by itself already");
        return NULL;
    }
    *ret_ops = s->ops;
    return s->conn;
}

void outrider__session_insert_by(struct outrider_session *s,
                                 const struct session_inserter *inserter)
{
    s->inserter = *inserter;
}

static const struct grown callbacks_grown = {
    .what = "the session's callbacks",
    .unset = "no callbacks were given, or their size is not set: begin with "
             "OUTRIDER_SESSION_CALLBACKS_INIT",
    .first = GROWN_FIRST(struct outrider_session_callbacks, after_completion),
    .now = sizeof(struct outrider_session_callbacks),
    .align = _Alignof(struct outrider_session_callbacks),
    .disposition = OUTRIDER_STOP,
};

int outrider_session_add(struct outrider_session *session,
                         const struct outrider_session_callbacks *callbacks,
                         struct outrider_error *err)
{
    if (session_check_idle(session, err) < 0)
        return -1;
    if (outrider__grown_check(&callbacks_grown, callbacks, err) < 0)
        return -1;
    struct outrider_session_callbacks *grown =
        reallocarray(session->callbacks, session->n_callbacks + 1, sizeof *grown);
    if (grown == NULL)
        return outrider__fail_nomem(err);
    outrider__grown_copy(&callbacks_grown, &grown[session->n_callbacks++], callbacks);
    session->callbacks = grown;
    return 0;
}

int outrider_session_begin(struct outrider_session *session, struct outrider_error *err)
{
    if (session_check_idle(session, err) < 0 || session->ops->begin(session->conn, err) < 0)
        return -1;
    session->is_open = true;
    return 0;
}

static int session_copy_text(struct arena *a, const char **text)
{
    struct bytes copy;
    if (*text == NULL)
        return 0;
    int r = outrider__arena_dup(a, bytes_str(*text), &copy);
    if (r == 0)
        *text = copy.data;
    return r;
}

static int session_copy_event(struct arena *a, struct outrider_event *e)
{
    struct bytes payload;
    if (session_copy_text(a, &e->id) < 0 || session_copy_text(a, &e->aggregate_type) < 0 ||
        session_copy_text(a, &e->aggregate_id) < 0 || session_copy_text(a, &e->event_type) < 0 ||
        session_copy_text(a, &e->headers) < 0 || session_copy_text(a, &e->topic) < 0 ||
        session_copy_text(a, &e->partition_key) < 0 ||
        outrider__arena_dup(a, bytes_of(e->payload, e->payload_len), &payload) < 0)
        return -1;
    e->payload = payload.data;
    return 0;
}

static int session_grow(struct outrider_session *s)
{
    if (s->n_events < s->capacity)
        return 0;
    size_t capacity = s->capacity > 0 ? s->capacity * 2 : 8;
    struct outrider_event *events = reallocarray(s->events, capacity, sizeof *events);
    if (events == NULL)
        return -1;
    s->events = events;
    s->capacity = capacity;
    return 0;
}

int outrider_session_enqueue(struct outrider_session *session, const struct outrider_event *event,
                             char ret_id[OUTRIDER_ID_SIZE], struct outrider_error *err)
{
    char id[OUTRIDER_ID_SIZE];
    if (session_check_open(session, err) < 0 ||
        outrider__event_check(event, session->max_payload, err) < 0)
        return -1;
    struct outrider_event copy = event_grown(event);
    if (copy.id == NULL) {
        if (outrider__uuid_new(outrider__clock_now().wall_us, id) < 0)
            return outrider__fail(err, OUTRIDER_IO, OUTRIDER_RETRY,
                                  "the system has no random bytes");
        copy.id = id;
    }
    if (session_grow(session) < 0 || session_copy_event(&session->arena, &copy) < 0)
        return outrider__fail_nomem(err);
    session->events[session->n_events++] = copy;
    if (ret_id != NULL)
        memcpy(ret_id, copy.id, OUTRIDER_ID_SIZE);
    return 0;
}

static void session_call_back(struct outrider_session *s, enum outrider_completion how)
{
    for (size_t i = 0; i < s->n_callbacks; i++) {
        const struct outrider_session_callbacks *c = &s->callbacks[i];
        if (how == OUTRIDER_COMMITTED && c->after_commit != NULL)
            c->after_commit(c->ctx, s);
        if (how == OUTRIDER_ROLLED_BACK && c->after_rollback != NULL)
            c->after_rollback(c->ctx, s);
    }
    for (size_t i = 0; i < s->n_callbacks; i++)
        if (s->callbacks[i].after_completion != NULL)
            s->callbacks[i].after_completion(s->callbacks[i].ctx, s, how);
}

/* The transaction is over: nothing of it remains, and everybody hears of it. */
static void session_complete(struct outrider_session *s, enum outrider_completion how)
{
    s->is_open = false;
    s->is_calling = true;
    if (s->inserter.insert != NULL)
        s->inserter.ended(s->inserter.ctx, how);
    s->n_events = 0;
    outrider__arena_reset(&s->arena);
    session_call_back(s, how);
    s->is_calling = false;
}

static int session_call_before(struct outrider_session *s, struct outrider_error *err)
{
    int r = 0;
    s->is_calling = true;
    for (size_t i = 0; r == 0 && i < s->n_callbacks; i++) {
        const struct outrider_session_callbacks *c = &s->callbacks[i];
        struct outrider_error why = {0};
        if (c->before_commit == NULL || c->before_commit(c->ctx, s, &why) == 0)
            continue;
        r = -1;
        if (why.code == OUTRIDER_OK)
            (void)outrider__fail(&why, OUTRIDER_CANCELLED, OUTRIDER_STOP,
                                 "a before-commit callback refused the commit");
        if (err != NULL)
            *err = why;
    }
    s->is_calling = false;
    return r;
}

static int session_insert(struct outrider_session *s, struct outrider_error *err)
{
    if (s->n_events == 0)
        return 0;
    if (s->inserter.insert != NULL)
        return s->inserter.insert(s->inserter.ctx, s->conn, s->events, s->n_events, err);
    return s->ops->insert(s->conn, s->events, s->n_events, err);
}

static int session_check_end(const struct outrider_session *s, struct outrider_error *err)
{
    if (s == NULL)
        return fail_no_session(err);
    if (s->is_calling)
        return session_check_idle(s, err);
    return 0;
}

int outrider_session_commit(struct outrider_session *session, struct outrider_error *err)
{
    if (session_check_end(session, err) < 0 || session_check_open(session, err) < 0)
        return -1;
    enum outrider_completion how = OUTRIDER_ROLLED_BACK;
    if (session->ops->check(session->conn, &how, err) < 0 ||
        session_call_before(session, err) < 0 || session_insert(session, err) < 0)
        (void)session->ops->rollback(session->conn, NULL);
    else
        how = session->ops->commit(session->conn, err);
    session_complete(session, how);
    return how == OUTRIDER_COMMITTED ? 0 : -1;
}

int outrider_session_rollback(struct outrider_session *session, struct outrider_error *err)
{
    if (session_check_end(session, err) < 0)
        return -1;
    if (!session->is_open)
        return 0;
    int r = session->ops->rollback(session->conn, err);
    session_complete(session, OUTRIDER_ROLLED_BACK);
    return r;
}

void outrider_session_free(struct outrider_session *session)
{
    if (session == NULL)
        return;
    (void)outrider_session_rollback(session, NULL);
    if (session->inserter.insert != NULL)
        session->inserter.release(session->inserter.ctx);
    outrider__arena_release(&session->arena);
    free(session->events);
    free(session->callbacks);
    free(session);
}
