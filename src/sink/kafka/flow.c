/* SPDX-License-Identifier: MIT */
/* Records on their way: to a producer, back from it, and to a verdict. */
#include "sink/kafka/kafka.h"

#include <stdlib.h>

/* How long a topic in which something was rejected is treated with care. */
#define CALM_US 60000000
#define WINDOW_MAX 1000000

void outrider__kafka_judge(struct kafka_sink *k, struct kafka_record *r, enum sink_result result,
                           const struct outrider_error *why)
{
    r->result = result;
    r->why = malloc(sizeof *r->why);
    if (r->why != NULL)
        *r->why = *why;
    kafka_push(&k->verdicts, r);
    k->base.wake_us = k->now.mono_us;
}

static void judge_untried(struct kafka_sink *k, struct kafka_record *r)
{
    struct outrider_error why;
    outrider__fail(&why, OUTRIDER_CANCELLED, OUTRIDER_RETRY,
                   "not tried: an earlier event of its key is tried again first");
    outrider__kafka_judge(k, r, SINK_UNTRIED, &why);
}

static rd_kafka_headers_t *headers_of(const struct delivery *d)
{
    if (d->n_headers == 0)
        return NULL;
    rd_kafka_headers_t *h = rd_kafka_headers_new(d->n_headers);
    for (size_t i = 0; i < d->n_headers; i++)
        (void)rd_kafka_header_add(h, d->headers[i].name.data, (ssize_t)d->headers[i].name.len,
                                  d->headers[i].value.data, (ssize_t)d->headers[i].value.len);
    return h;
}

/* The payload stays where it is: it outlives the report (contract 3 of core/sink.h). */
static rd_kafka_resp_err_t produce(struct kafka_record *r, rd_kafka_topic_t *rkt)
{
    const struct delivery *d = r->d;
    bool is_null = bytes_is_null(d->payload);
    rd_kafka_headers_t *headers = headers_of(d);
    rd_kafka_resp_err_t err = rd_kafka_producev(
        r->topic->session->rk, RD_KAFKA_V_RKT(rkt),
        RD_KAFKA_V_PARTITION(d->partition < 0 ? RD_KAFKA_PARTITION_UA : d->partition),
        RD_KAFKA_V_MSGFLAGS(0),
        RD_KAFKA_V_VALUE(is_null ? NULL : (void *)d->payload.data, is_null ? 0 : d->payload.len),
        RD_KAFKA_V_KEY(d->key.data, d->key.len), RD_KAFKA_V_TIMESTAMP(d->timestamp_us / 1000),
        RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_OPAQUE(r), RD_KAFKA_V_END);
    if (err != RD_KAFKA_RESP_ERR_NO_ERROR && headers != NULL)
        rd_kafka_headers_destroy(headers);
    return err;
}

static void break_lane(struct kafka_sink *k, struct kafka_lane *l)
{
    struct kafka_record *r;
    l->is_broken = true;
    while ((r = kafka_pop(&l->held)) != NULL)
        judge_untried(k, r);
}

/* The producer would not even take it. */
static void refused(struct kafka_sink *k, struct kafka_record *r, rd_kafka_resp_err_t err)
{
    const struct kafka_verdict *v = outrider__kafka_verdict(err);
    struct outrider_error why;
    outrider__kafka_explain(v, err, r->topic->name, &why);
    outrider__kafka_judge(k, r, v->result, &why);
    if (v->result != SINK_DEAD && r->lane != NULL)
        break_lane(k, r->lane);
    if (v->scope == KAFKA_TOPIC)
        r->topic->making = MAKE_NOT;
}

/* False: not now. */
static bool pass_on(struct kafka_sink *k, struct kafka_record *r)
{
    struct kafka_topic *t = r->topic;
    rd_kafka_topic_t *rkt = outrider__kafka_topic_handle(k, t);
    if (rkt == NULL)
        return false;
    rd_kafka_resp_err_t err = produce(r, rkt);
    if (err == RD_KAFKA_RESP_ERR__QUEUE_FULL || err == RD_KAFKA_RESP_ERR__FATAL)
        return false;
    if (err != RD_KAFKA_RESP_ERR_NO_ERROR) {
        refused(k, r, err);
        return true;
    }
    r->is_alone = t->is_careful && t->window == 1 && t->n_out == 0;
    t->n_out++;
    t->session->n_out++;
    if (r->lane != NULL)
        r->lane->n_out++;
    return true;
}

/* Whether one more of the lane may go, after those that are out. */
static bool lane_is_open(const struct kafka_sink *k, const struct kafka_lane *l)
{
    return l == NULL || l->n_out == 0 || (!l->topic->is_careful && kafka_is_trusted(&k->fast, l));
}

static void advance_careful(struct kafka_sink *k, struct kafka_topic *t)
{
    while (t->waiting.head != NULL) {
        struct kafka_record *r = t->waiting.head;
        if (r->lane != NULL && r->lane->is_broken) {
            judge_untried(k, kafka_pop(&t->waiting));
            continue;
        }
        if (t->n_out >= t->window || !lane_is_open(k, r->lane))
            return;
        /* refused() puts it into another list. */
        struct kafka_list rest = {r->next, r->next != NULL ? t->waiting.tail : NULL};
        if (!pass_on(k, r)) {
            k->is_stuck = true;
            return;
        }
        t->waiting = rest;
    }
}

void outrider__kafka_topic_advance(struct kafka_sink *k, struct kafka_topic *t)
{
    struct kafka_record *r;
    if (t->making == MAKE_ASKED)
        return;
    if (t->is_careful)
        advance_careful(k, t);
    else
        while ((r = kafka_pop(&t->waiting)) != NULL)
            outrider__kafka_place(k, r);
}

static void check_calm(const struct kafka_sink *k, struct kafka_topic *t)
{
    if (t->is_careful && t->n_out == 0 && t->waiting.head == NULL && k->now.mono_us >= t->calm_us)
        t->is_careful = false;
}

void outrider__kafka_place(struct kafka_sink *k, struct kafka_record *r)
{
    struct kafka_topic *t = r->topic;
    struct kafka_lane *l = r->lane;
    check_calm(k, t);
    if (k->settings.new_partitions != 0 && t->making == MAKE_NOT)
        outrider__kafka_create_begin(k, t);
    bool is_full = k->overflow.head != NULL;
    if (l != NULL && l->is_broken) {
        judge_untried(k, r);
    } else if (!is_full && (t->is_careful || t->making == MAKE_ASKED)) {
        kafka_push(&t->waiting, r);
        outrider__kafka_topic_advance(k, t);
    } else if (!is_full && l != NULL && (l->held.head != NULL || !lane_is_open(k, l))) {
        kafka_push(&l->held, r);
    } else if (is_full || !pass_on(k, r)) {
        kafka_push(&k->overflow, r);
    }
}

/* What was held behind a record that is back. */
static void release_lane(struct kafka_sink *k, struct kafka_lane *l)
{
    if (l == NULL)
        return;
    if (l->is_broken) {
        break_lane(k, l);
        return;
    }
    while (l->held.head != NULL) {
        bool is_careful = l->topic->is_careful, is_full = k->overflow.head != NULL;
        if (!is_careful && !is_full && !lane_is_open(k, l))
            return;
        struct kafka_record *r = kafka_pop(&l->held);
        if (is_careful)
            kafka_push(&l->topic->waiting, r);
        else if (is_full || !pass_on(k, r))
            kafka_push(&k->overflow, r);
    }
}

/* From now on few of this topic go together. */
static void take_care(struct kafka_sink *k, struct kafka_topic *t, enum kafka_scope scope)
{
    if (!t->is_careful)
        t->window = WINDOW_MAX;
    t->is_careful = true;
    t->calm_us = k->now.mono_us + CALM_US;
    if (scope == KAFKA_BATCH)
        t->window = 1;
}

static void delivered(struct kafka_sink *k, struct kafka_session *s, struct kafka_record *r)
{
    struct kafka_topic *t = r->topic;
    k->progress_us = k->now.mono_us;
    s->down_since_us = 0;
    k->base.trouble[0] = '\0';
    if (r->lane != NULL && s->trusted != NULL)
        s->trusted[r->lane->hash % KAFKA_TRUST] = r->lane->hash;
    /* A transaction begins anew with all of it: one by one is the only way to the end. */
    if (t->is_careful && t->window < WINDOW_MAX && !s->is_exact)
        t->window *= 2;
    k->base.reported(k->base.reported_ctx, r->d, SINK_DELIVERED, NULL);
}

static void failed(struct kafka_sink *k, struct kafka_record *r, rd_kafka_resp_err_t err)
{
    const struct kafka_verdict *v = outrider__kafka_verdict(err);
    struct kafka_topic *t = r->topic;
    enum sink_result result = v->result;
    struct outrider_error why;
    if (v->scope == KAFKA_BATCH && !r->is_alone) {
        result = SINK_UNTRIED;
        take_care(k, t, KAFKA_BATCH);
    } else if (v->code == OUTRIDER_NOT_FOUND) {
        t->making = MAKE_NOT;
    } else if (err > 0 && (result == SINK_RETRY || result == SINK_DEAD)) {
        take_care(k, t, v->scope);
    }
    if (r->lane != NULL && r->lane->is_broken && result != SINK_STOP)
        result = SINK_UNTRIED;
    if (r->lane != NULL && result != SINK_DEAD)
        r->lane->is_broken = true;
    if (k->exact.is_on && r->is_alone && (result == SINK_RETRY || result == SINK_DEAD))
        t->is_careful = false; /* found */
    k->exact.n_verdicts += result == SINK_RETRY || result == SINK_DEAD || t->is_careful;
    outrider__kafka_explain(v, err, t->name, &why);
    k->base.reported(k->base.reported_ctx, r->d, result, &why);
}

void outrider__kafka_returned(struct kafka_sink *k, struct kafka_session *s, struct kafka_record *r,
                              rd_kafka_resp_err_t err)
{
    struct kafka_topic *t = r->topic;
    s->n_out--;
    t->n_out--;
    if (r->lane != NULL)
        r->lane->n_out--;
    if (err == RD_KAFKA_RESP_ERR_NO_ERROR)
        delivered(k, s, r);
    else
        failed(k, r, err);
    release_lane(k, r->lane);
    outrider__kafka_topic_advance(k, t);
    outrider__kafka_record_free(k, r);
}

static void tell_verdicts(struct kafka_sink *k)
{
    struct outrider_error unknown;
    struct kafka_record *r;
    outrider__fail_nomem(&unknown);
    while ((r = kafka_pop(&k->verdicts)) != NULL) {
        k->base.reported(k->base.reported_ctx, r->d, r->result, r->why != NULL ? r->why : &unknown);
        outrider__kafka_record_free(k, r);
    }
}

/* What librdkafka had no room for, or no producer; in order. */
static void drain_overflow(struct kafka_sink *k)
{
    struct kafka_list all = k->overflow;
    struct kafka_record *r;
    bool was_stuck = k->is_stuck;
    k->overflow = (struct kafka_list){0};
    k->is_stuck = false;
    while ((r = kafka_pop(&all)) != NULL)
        outrider__kafka_place(k, r);
    for (size_t i = 0; was_stuck && i < KAFKA_TOPIC_BUCKETS; i++)
        for (struct kafka_topic *t = k->topics[i]; t != NULL; t = t->chain)
            outrider__kafka_topic_advance(k, t);
}

void outrider__kafka_give_back(struct kafka_sink *k)
{
    struct kafka_record *r;
    while ((r = kafka_pop(&k->overflow)) != NULL)
        judge_untried(k, r);
    for (size_t i = 0; i < KAFKA_TOPIC_BUCKETS; i++)
        for (struct kafka_topic *t = k->topics[i]; t != NULL; t = t->chain)
            while ((r = kafka_pop(&t->waiting)) != NULL)
                judge_untried(k, r);
    for (size_t i = 0; i < KAFKA_BUCKETS; i++)
        for (struct kafka_lane *l = k->lanes[i]; l != NULL; l = l->chain)
            break_lane(k, l);
    k->is_stuck = false;
}

void outrider__kafka_deny(struct kafka_sink *k, const char *topic)
{
    for (size_t i = 0; i < KAFKA_TOPIC_BUCKETS; i++)
        for (struct kafka_topic *t = k->topics[i]; t != NULL; t = t->chain)
            t->is_denied = strcmp(t->name, topic) == 0;
}

void outrider__kafka_advance(struct kafka_sink *k)
{
    drain_overflow(k);
    tell_verdicts(k);
}
