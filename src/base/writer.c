/* SPDX-License-Identifier: MIT */
#include "base/writer.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/event_check.h"

/* More ids than any database takes in one statement. */
#define IDS_CAP ((size_t)1 << 30)

void outrider__writer_init(struct outrider_writer *w, const struct writer_ops *ops)
{
    w->ops = ops;
    w->pool.next = w->pool.end = 0;
    outrider__strbuf_init(&w->ids, IDS_CAP);
}

void outrider__writer_release(struct outrider_writer *w)
{
    outrider__strbuf_release(&w->ids);
}

void outrider__writer_blame(struct outrider_error *err, size_t i)
{
    static const char word[] = "event:";
    char place[32];
    if (err == NULL || strncmp(err->message, word, strlen(word)) != 0)
        return;
    size_t n = (size_t)snprintf(place, sizeof place, "event %zu:", i);
    size_t rest = strlen(err->message + strlen(word));
    if (n + rest >= sizeof err->message)
        rest = sizeof err->message - 1 - n;
    memmove(err->message + n, err->message + strlen(word), rest);
    err->message[n + rest] = '\0';
    memcpy(err->message, place, n);
}

static int writer_make_id(struct outrider_writer *w, const char *given, writer_id ret_id,
                          struct outrider_error *err)
{
    if (given != NULL)
        memcpy(ret_id, given, OUTRIDER_ID_SIZE);
    else if (outrider__uuid_from(&w->pool, outrider__clock_now().wall_us, ret_id) < 0)
        return outrider__fail(err, OUTRIDER_IO, OUTRIDER_RETRY, "the system has no random bytes");
    return 0;
}

static int writer_check_call(const struct outrider_writer *w, unsigned flags,
                             struct outrider_error *err)
{
    if (w == NULL)
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP, "no writer was given");
    if ((flags & ~OUTRIDER_ENQUEUE_AUTOCOMMIT) != 0)
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP,
                              "the flags 0x%x are not known to this version of the library", flags);
    return 0;
}

int outrider_writer_put(struct outrider_writer *w, const struct outrider_event *event,
                        unsigned flags, char ret_id[OUTRIDER_ID_SIZE], struct outrider_error *err)
{
    writer_id id;
    if (writer_check_call(w, flags, err) < 0 ||
        outrider__event_check(event, w->ops->max_payload, err) < 0 ||
        w->ops->check(w, flags, err) < 0 || writer_make_id(w, event->id, id, err) < 0 ||
        w->ops->insert(w, event, 1, (const writer_id *)&id, err) < 0)
        return -1;
    if (ret_id != NULL)
        memcpy(ret_id, id, sizeof id);
    return 0;
}

static int writer_check_events(const struct outrider_writer *w, const struct outrider_event *events,
                               size_t n, struct outrider_error *err)
{
    if (events == NULL)
        return outrider__event_check(NULL, 0, err);
    for (size_t i = 0; i < n; i++) {
        const struct outrider_event *e =
            (const struct outrider_event *)((const char *)events + i * events->size);
        if (e->size != events->size) {
            (void)outrider__event_fail_field(err, "size", "differs from the first event's");
            outrider__writer_blame(err, i);
            return -1;
        }
        if (outrider__event_check(e, w->ops->max_payload, err) < 0) {
            outrider__writer_blame(err, i);
            return -1;
        }
    }
    return 0;
}

int outrider_writer_put_many(struct outrider_writer *w, const struct outrider_event *events,
                             size_t n, unsigned flags, char (*ret_ids)[OUTRIDER_ID_SIZE],
                             struct outrider_error *err)
{
    if (writer_check_call(w, flags, err) < 0)
        return -1;
    if (n == 0)
        return 0;
    if (n > IDS_CAP / sizeof(writer_id))
        return outrider__fail(err, OUTRIDER_TOO_LARGE, OUTRIDER_STOP,
                              "%zu events are too many for one call; hand them in in portions", n);
    if (writer_check_events(w, events, n, err) < 0 || w->ops->check(w, flags, err) < 0)
        return -1;
    outrider__strbuf_clear(&w->ids);
    writer_id *ids = (writer_id *)outrider__strbuf_reserve(&w->ids, n * sizeof *ids);
    if (ids == NULL)
        return outrider__fail_nomem(err);
    for (size_t i = 0; i < n; i++)
        if (writer_make_id(w, writer_event_at(events, i).id, ids[i], err) < 0)
            return -1;
    if (w->ops->insert(w, events, n, (const writer_id *)ids, err) < 0)
        return -1;
    if (ret_ids != NULL)
        memcpy(ret_ids, ids, n * sizeof *ids);
    return 0;
}

void outrider_writer_free(struct outrider_writer *w)
{
    if (w != NULL)
        w->ops->free(w);
}
