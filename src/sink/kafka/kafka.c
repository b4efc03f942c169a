/* SPDX-License-Identifier: MIT */
/*
 * kafka://host:port,...: an idempotent producer with acknowledgements of all
 * replicas in sync. sink/kafka/kafka.h says how order is kept.
 */
#include "sink/kafka/kafka.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/failpoint.h"

static int kafka_open(struct sink *s, const struct pipeline_config *config, struct instant now,
                      struct outrider_error *err)
{
    struct kafka_sink *k = kafka_of(s);
    rd_kafka_conf_t *conf;
    k->config = config;
    k->now = now;
    k->event_fd = -1;
    /* Also checks what the careful producer will be asked for later. */
    if (outrider__kafka_conf(config, false, &conf, &k->settings, err) < 0)
        return -1;
    rd_kafka_conf_destroy(conf);
    outrider__order_init(&k->order, s, &outrider__kafka_order_ops, k, k->settings.ordered);
    k->order.is_atomic = s->identity != NULL;
    k->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (k->event_fd < 0)
        return outrider__fail_errno(err, errno, "cannot make an event descriptor");
    if (s->identity != NULL && outrider__kafka_exact_open(k, err) < 0)
        return -1;
    if (outrider__kafka_producer_open(k, &k->fast, false, err) < 0)
        return -1;
    if (s->identity != NULL && outrider__kafka_exact_start(k, err) < 0)
        return -1;
    s->wants_headers = true;
    s->lane_depth = 0;
    s->wake_us = CLOCK_NEVER;
    (void)snprintf(s->description, sizeof s->description, "kafka://%.200s", k->settings.servers);
    return 0;
}

/* Finds what no broker would take; the error is DEAD. */
static int kafka_check_delivery(const struct kafka_sink *k, const struct delivery *d,
                                struct outrider_error *err)
{
    size_t size = d->payload.len + d->key.len;
    if (!outrider__kafka_topic_is_valid(d->topic))
        return outrider__fail(err, OUTRIDER_TOPIC, OUTRIDER_DEAD,
                              "'%.*s' is not a name for a Kafka topic: 1 to 249 letters, digits, "
                              "'.', '_' and '-'",
                              d->topic.len > 100 ? 100 : (int)d->topic.len,
                              d->topic.len > 0 ? d->topic.data : "");
    if (size > k->settings.max_bytes)
        return outrider__fail(err, OUTRIDER_TOO_LARGE, OUTRIDER_DEAD,
                              "%zu bytes are more than sink.kafka.queue.buffering.max.kbytes holds",
                              size);
    return 0;
}

static bool kafka_has_room(const struct kafka_sink *k, const struct delivery *d)
{
    const struct order *o = &k->order;
    return o->n_messages == 0 ||
           (o->n_messages < k->settings.max_records &&
            o->n_bytes + d->payload.len + d->key.len <= k->settings.max_bytes);
}

static int kafka_take(struct kafka_sink *k, struct delivery *d)
{
    struct outrider_error why;
    if (kafka_check_delivery(k, d, &why) < 0)
        return outrider__order_reject(&k->order, NULL, d, SINK_DEAD, &why);
    struct kafka_topic *t = outrider__kafka_topic_get(k, d->topic);
    if (t == NULL)
        return -1;
    if (!t->is_denied)
        return outrider__order_submit(&k->order, &t->group, d);
    const rd_kafka_resp_err_t denied = RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    outrider__kafka_explain(outrider__kafka_verdict(denied), denied, t->name, &why);
    k->exact.n_verdicts++;
    return outrider__order_reject(&k->order, &t->group, d, SINK_RETRY, &why);
}

static size_t kafka_submit(struct sink *s, struct delivery **d, size_t n, struct instant now)
{
    struct kafka_sink *k = kafka_of(s);
    size_t taken = 0;
    k->now = now;
    if (s->is_busy)
        return 0;
    k->order.now_us = now.mono_us;
    if (k->order.n_messages == 0)
        k->progress_us = now.mono_us;
    while (taken < n && !k->fast.is_dying && !k->is_full && kafka_has_room(k, d[taken]) &&
           kafka_take(k, d[taken]) == 0)
        taken++;
    return taken;
}

/* linger.ms is short, and a broker's thread looks at its queue by itself. */
static void kafka_flush(struct sink *s, struct instant now)
{
    (void)s;
    (void)now;
}

static void kafka_take_reports(struct kafka_sink *k, struct kafka_producer *s,
                               rd_kafka_event_t *event)
{
    const rd_kafka_message_t *m;
    while ((m = rd_kafka_event_message_next(event)) != NULL)
        if (m->_private != NULL) /* NULL: the record of progress, whose commit tells */
            outrider__kafka_returned(k, s, m->_private, m->err);
}

static int kafka_take_event(struct kafka_sink *k, struct kafka_producer *s, rd_kafka_event_t *event,
                            struct outrider_error *err)
{
    switch (rd_kafka_event_type(event)) {
    case RD_KAFKA_EVENT_DR:
        kafka_take_reports(k, s, event);
        return 0;
    case RD_KAFKA_EVENT_ERROR: {
        bool is_fatal = rd_kafka_event_error_is_fatal(event) != 0;
        return outrider__kafka_producer_error(
            k, s, is_fatal ? RD_KAFKA_RESP_ERR__FATAL : rd_kafka_event_error(event),
            rd_kafka_event_error_string(event), err);
    }
    case RD_KAFKA_EVENT_CREATETOPICS_RESULT:
        outrider__kafka_create_done(k, event);
        return 0;
    default:
        return 0;
    }
}

static int kafka_drain(struct kafka_sink *k, struct kafka_producer *s, struct outrider_error *err)
{
    rd_kafka_event_t *event;
    int r = 0;
    while (s->rk != NULL && r == 0 && (event = rd_kafka_queue_poll(s->queue, 0)) != NULL) {
        r = kafka_take_event(k, s, event, err);
        rd_kafka_event_destroy(event);
    }
    return r;
}

static int kafka_poll(struct sink *s, struct instant now, struct outrider_error *err)
{
    struct kafka_sink *k = kafka_of(s);
    uint64_t count;
    k->now = now;
    k->order.now_us = now.mono_us;
    s->wake_us = CLOCK_NEVER;
    /* Emptied first: an event that comes meanwhile wakes us again. */
    while (read(k->event_fd, &count, sizeof count) < 0 && errno == EINTR)
        continue;
    if (kafka_drain(k, &k->fast, err) < 0 || kafka_drain(k, &k->careful, err) < 0)
        return -1;
    (void)FAILPOINT("kafka.after_reports");
    outrider__kafka_advance(k);
    if (outrider__kafka_producers_check(k, err) < 0)
        return -1;
    return outrider__kafka_exact_poll(k, err);
}

static int kafka_fds(struct sink *s, struct pollfd *ret_fds, int max)
{
    if (max < 1)
        return 0;
    ret_fds[0] = (struct pollfd){.fd = kafka_of(s)->event_fd, .events = POLLIN};
    return 1;
}

static void kafka_close(struct sink *s)
{
    struct kafka_sink *k = kafka_of(s);
    outrider__kafka_exact_end(k);
    outrider__kafka_producer_close(k, &k->fast);
    outrider__kafka_producer_close(k, &k->careful);
    outrider__kafka_exact_release(k);
    outrider__kafka_topics_free(k);
    outrider__order_release(&k->order);
    outrider__kafka_settings_release(&k->settings);
    if (k->event_fd >= 0)
        close(k->event_fd);
    k->event_fd = -1;
}

const struct sink_ops outrider__sink_kafka = {
    .scheme = "kafka",
    .size = sizeof(struct kafka_sink),
    .open = kafka_open,
    .submit = kafka_submit,
    .flush = kafka_flush,
    .poll = kafka_poll,
    .fds = kafka_fds,
    .close = kafka_close,
    .check = outrider__kafka_check,
    .seal = outrider__kafka_exact_seal,
    .commit = outrider__kafka_exact_commit,
    .abort = outrider__kafka_exact_abort,
    .doctor = outrider__kafka_doctor,
};
