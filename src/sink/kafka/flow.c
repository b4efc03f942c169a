/* SPDX-License-Identifier: MIT */
/* Messages to a producer and back: what sink/common/order.h asks of Kafka. */
#include "sink/kafka/kafka.h"

static rd_kafka_headers_t *flow_headers(const struct delivery *d)
{
    if (d->n_headers == 0)
        return NULL;
    rd_kafka_headers_t *h = rd_kafka_headers_new(d->n_headers);
    for (size_t i = 0; i < d->n_headers; i++)
        (void)rd_kafka_header_add(h, d->headers[i].name.data, (ssize_t)d->headers[i].name.len,
                                  d->headers[i].value.data, (ssize_t)d->headers[i].value.len);
    return h;
}

/* librdkafka reads the payload where it is: its bytes outlive the report (contract 3 of
 * core/sink.h). */
static rd_kafka_resp_err_t flow_produce(struct order_message *m, rd_kafka_topic_t *rkt)
{
    const struct delivery *d = m->d;
    bool is_null = bytes_is_null(d->payload);
    rd_kafka_headers_t *headers = flow_headers(d);
    rd_kafka_resp_err_t err = rd_kafka_producev(
        topic_of(m->group)->producer->rk, RD_KAFKA_V_RKT(rkt),
        RD_KAFKA_V_PARTITION(d->partition < 0 ? RD_KAFKA_PARTITION_UA : d->partition),
        RD_KAFKA_V_MSGFLAGS(0),
        RD_KAFKA_V_VALUE(is_null ? NULL : (void *)d->payload.data, is_null ? 0 : d->payload.len),
        RD_KAFKA_V_KEY(d->key.data, d->key.len), RD_KAFKA_V_TIMESTAMP(d->timestamp_us / 1000),
        RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_OPAQUE(m), RD_KAFKA_V_END);
    if (err != RD_KAFKA_RESP_ERR_NO_ERROR && headers != NULL)
        rd_kafka_headers_destroy(headers);
    return err;
}

static enum order_blame flow_blame(const struct kafka_verdict *v, rd_kafka_resp_err_t err)
{
    if (v->scope == KAFKA_BATCH)
        return ORDER_BLAME_BATCH;
    /* A positive code is the broker's, and a rejection by the broker ends the fast producer. */
    bool is_rejection = err > 0 && (v->result == SINK_RETRY || v->result == SINK_DEAD);
    return is_rejection && v->code != OUTRIDER_NOT_FOUND ? ORDER_BLAME_GROUP : ORDER_BLAME_MESSAGE;
}

static void flow_judge(const struct kafka_verdict *v, rd_kafka_resp_err_t err,
                       const struct kafka_topic *t, struct order_verdict *ret_verdict)
{
    ret_verdict->result = v->result;
    ret_verdict->blame = flow_blame(v, err);
    ret_verdict->answer = NULL;
    outrider__kafka_explain(v, err, t->name, &ret_verdict->why);
}

static enum order_send flow_not_now(struct kafka_sink *k, const struct kafka_topic *t)
{
    k->is_full = k->is_full || !t->group.is_careful;
    return ORDER_NOT_NOW;
}

static enum order_send flow_send(void *ctx, struct order_message *m,
                                 struct order_verdict *ret_verdict)
{
    struct kafka_sink *k = ctx;
    struct kafka_topic *t = topic_of(m->group);
    if (k->settings.new_partitions != 0 && t->making == MAKE_NOT)
        outrider__kafka_create_begin(k, t);
    if (t->making == MAKE_ASKED)
        return ORDER_PAUSED;
    rd_kafka_topic_t *rkt = outrider__kafka_topic_handle(k, t);
    if (rkt == NULL)
        return flow_not_now(k, t);
    rd_kafka_resp_err_t err = flow_produce(m, rkt);
    if (err == RD_KAFKA_RESP_ERR__QUEUE_FULL || err == RD_KAFKA_RESP_ERR__FATAL)
        return flow_not_now(k, t);
    if (err == RD_KAFKA_RESP_ERR_NO_ERROR) {
        t->producer->n_out++;
        return ORDER_SENT;
    }
    const struct kafka_verdict *v = outrider__kafka_verdict(err);
    flow_judge(v, err, t, ret_verdict);
    if (v->scope == KAFKA_TOPIC)
        t->making = MAKE_NOT;
    return ORDER_REFUSED;
}

/* Whether the broker knows the fast producer's sequence in the lane's partition. */
static bool flow_may_follow(void *ctx, const struct order_lane *l)
{
    const struct kafka_producer *fast = &((struct kafka_sink *)ctx)->fast;
    return fast->is_exact ||
           (fast->trusted != NULL && fast->trusted[l->hash % KAFKA_TRUST] == l->hash);
}

const struct order_ops outrider__kafka_order_ops = {
    .send = flow_send,
    .may_follow = flow_may_follow,
};

static void flow_delivered(struct kafka_sink *k, struct kafka_producer *s, struct order_message *m)
{
    k->progress_us = k->now.mono_us;
    s->down_since_us = 0;
    k->base.trouble[0] = '\0';
    if (m->lane != NULL && s->trusted != NULL)
        s->trusted[m->lane->hash % KAFKA_TRUST] = m->lane->hash;
    (void)outrider__order_returned(&k->order, m, NULL);
}

static void flow_failed(struct kafka_sink *k, struct order_message *m, rd_kafka_resp_err_t err)
{
    const struct kafka_verdict *v = outrider__kafka_verdict(err);
    struct kafka_topic *t = topic_of(m->group);
    struct order_verdict verdict;
    if (v->code == OUTRIDER_NOT_FOUND)
        t->making = MAKE_NOT;
    flow_judge(v, err, t, &verdict);
    enum sink_result result = outrider__order_returned(&k->order, m, &verdict);
    k->exact.n_verdicts += result == SINK_RETRY || result == SINK_DEAD || t->group.is_careful;
}

void outrider__kafka_returned(struct kafka_sink *k, struct kafka_producer *s,
                              struct order_message *m, rd_kafka_resp_err_t err)
{
    s->n_out--;
    if (err == RD_KAFKA_RESP_ERR_NO_ERROR)
        flow_delivered(k, s, m);
    else
        flow_failed(k, m, err);
}

void outrider__kafka_advance(struct kafka_sink *k)
{
    k->is_full = false;
    k->order.now_us = k->now.mono_us;
    outrider__order_advance(&k->order);
}
