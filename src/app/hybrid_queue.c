/* SPDX-License-Identifier: MIT */
#include "app/hybrid_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

void outrider__hybrid_list_init(struct hybrid_list *l)
{
    l->first = NULL;
    l->last = &l->first;
}

static size_t queue_text_size(const char *text)
{
    return text != NULL ? strlen(text) + 1 : 0;
}

static void queue_put_text(char **at, const char **text)
{
    size_t size = queue_text_size(*text);
    if (size == 0)
        return;
    memcpy(*at, *text, size);
    *text = *at;
    *at += size;
}

size_t outrider__hybrid_event_size(const struct outrider_event *e)
{
    return sizeof(struct hybrid_event) + queue_text_size(e->id) +
           queue_text_size(e->aggregate_type) + queue_text_size(e->aggregate_id) +
           queue_text_size(e->event_type) + queue_text_size(e->headers) +
           queue_text_size(e->topic) + queue_text_size(e->partition_key) + e->payload_len;
}

int outrider__hybrid_list_add(struct hybrid_list *l, const struct outrider_event *e,
                              struct outrider_error *err)
{
    size_t size = outrider__hybrid_event_size(e);
    struct hybrid_event *h = malloc(size);
    if (h == NULL)
        return outrider__fail_nomem(err);
    *h = (struct hybrid_event){.event = *e, .bytes = size};
    char *at = (char *)(h + 1);
    queue_put_text(&at, &h->event.id);
    queue_put_text(&at, &h->event.aggregate_type);
    queue_put_text(&at, &h->event.aggregate_id);
    queue_put_text(&at, &h->event.event_type);
    queue_put_text(&at, &h->event.headers);
    queue_put_text(&at, &h->event.topic);
    queue_put_text(&at, &h->event.partition_key);
    if (e->payload_len > 0)
        memcpy(at, e->payload, e->payload_len);
    h->event.payload = at;
    *l->last = h;
    l->last = &h->next;
    return 0;
}

void outrider__hybrid_list_clear(struct hybrid_list *l)
{
    while (l->first != NULL) {
        struct hybrid_event *h = l->first;
        l->first = h->next;
        free(h);
    }
    l->last = &l->first;
}

int outrider__hybrid_queue_init(struct hybrid_queue *q, size_t n_slots, struct outrider_error *err)
{
    pthread_condattr_t attr;
    *q = (struct hybrid_queue){.n_slots = n_slots,
                               .wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (q->wake_fd < 0)
        return outrider__fail_errno(err, errno, "cannot make an event descriptor");
    outrider__hybrid_list_init(&q->events);
    pthread_mutex_init(&q->mutex, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&q->emptied, &attr);
    pthread_condattr_destroy(&attr);
    return 0;
}

void outrider__hybrid_queue_release(struct hybrid_queue *q)
{
    outrider__hybrid_list_clear(&q->events);
    close(q->wake_fd);
    pthread_cond_destroy(&q->emptied);
    pthread_mutex_destroy(&q->mutex);
}

static bool queue_is_open_locked(const struct hybrid_queue *q)
{
    return !q->is_closed && q->is_connected && (q->is_sink_up || q->n_used == 0);
}

bool outrider__hybrid_is_open(struct hybrid_queue *q, char ret_place[HYBRID_PLACE_SIZE])
{
    pthread_mutex_lock(&q->mutex);
    bool is_open = queue_is_open_locked(q) && q->n_used < q->n_slots;
    memcpy(ret_place, q->place, HYBRID_PLACE_SIZE);
    pthread_mutex_unlock(&q->mutex);
    return is_open;
}

bool outrider__hybrid_reserve(struct hybrid_queue *q, size_t n, size_t bytes)
{
    pthread_mutex_lock(&q->mutex);
    bool has_room = queue_is_open_locked(q) && n <= q->n_slots - q->n_used &&
                    bytes <= HYBRID_BYTES_MAX - q->n_bytes;
    q->n_used += has_room ? n : 0;
    q->n_bytes += has_room ? bytes : 0;
    pthread_mutex_unlock(&q->mutex);
    return has_room;
}

void outrider__hybrid_unreserve(struct hybrid_queue *q, size_t n, size_t bytes)
{
    pthread_mutex_lock(&q->mutex);
    q->n_used -= n;
    q->n_bytes -= bytes;
    if (q->n_used == 0)
        pthread_cond_broadcast(&q->emptied);
    pthread_mutex_unlock(&q->mutex);
}

void outrider__hybrid_push(struct hybrid_queue *q, struct hybrid_list *list,
                           const struct hybrid_tally *tally)
{
    const uint64_t one = 1;
    bool is_empty = list->first == NULL;
    pthread_mutex_lock(&q->mutex);
    q->tally.claimed += tally->claimed;
    q->tally.busy += tally->busy;
    q->tally.full += tally->full;
    q->tally.unsuitable += tally->unsuitable;
    if (!is_empty) {
        *q->events.last = list->first;
        q->events.last = list->last;
    }
    pthread_mutex_unlock(&q->mutex);
    if (is_empty)
        return;
    outrider__hybrid_list_init(list);
    while (write(q->wake_fd, &one, sizeof one) < 0 && errno == EINTR)
        continue;
}

struct hybrid_event *outrider__hybrid_pop(struct hybrid_queue *q)
{
    pthread_mutex_lock(&q->mutex);
    struct hybrid_event *h = q->events.first;
    if (h != NULL) {
        q->events.first = h->next;
        q->n_bytes -= h->bytes;
        if (q->events.first == NULL)
            q->events.last = &q->events.first;
    }
    pthread_mutex_unlock(&q->mutex);
    return h;
}

bool outrider__hybrid_has_events(struct hybrid_queue *q)
{
    pthread_mutex_lock(&q->mutex);
    bool has = q->events.first != NULL;
    pthread_mutex_unlock(&q->mutex);
    return has;
}

void outrider__hybrid_drain(struct hybrid_queue *q, int64_t timeout_us)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    int64_t ns = t.tv_nsec + timeout_us % 1000000 * 1000;
    t.tv_sec += timeout_us / 1000000 + ns / 1000000000;
    t.tv_nsec = ns % 1000000000;
    int waited = 0;
    pthread_mutex_lock(&q->mutex);
    q->is_closed = true;
    while (q->n_used > 0 && q->is_connected && q->is_sink_up && waited != ETIMEDOUT)
        waited = pthread_cond_timedwait(&q->emptied, &q->mutex, &t);
    pthread_mutex_unlock(&q->mutex);
}
