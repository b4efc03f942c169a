/* SPDX-License-Identifier: MIT */
/* Producers: beginning one, ending one, and what goes wrong with one as a whole. */
#include "sink/kafka/kafka.h"

#include <stdio.h>
#include <stdlib.h>

/* No broker and no delivery for this long is an outage. */
#define TROUBLE_US 1000000
/* How long a producer that is at its end waits for its last answers. */
#define DYING_US 10000000

int outrider__kafka_producer_open(struct kafka_sink *k, struct kafka_producer *s, bool careful,
                                  struct outrider_error *err)
{
    static const uint64_t one = 1;
    struct kafka_settings settings;
    rd_kafka_conf_t *conf;
    char why[256];
    if (outrider__kafka_conf(k->config, careful, &conf, &settings, err) < 0)
        return -1;
    outrider__kafka_settings_release(&settings);
    rd_kafka_conf_set_events(conf, RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR);
    *s = (struct kafka_producer){.is_careful = careful, .is_exact = k->exact.is_on};
    if (s->is_exact) {
        outrider__kafka_exact_events(k, conf);
        if (outrider__kafka_exact_conf(k, conf, err) < 0) {
            rd_kafka_conf_destroy(conf);
            return -1;
        }
    }
    if (!careful && (s->trusted = calloc(KAFKA_TRUST, sizeof *s->trusted)) == NULL) {
        rd_kafka_conf_destroy(conf);
        return outrider__fail_nomem(err);
    }
    s->rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
    if (s->rk == NULL) {
        (void)outrider__kafka_no_handle(conf, "producer", why, err);
        rd_kafka_conf_destroy(conf);
        free(s->trusted);
        s->trusted = NULL;
        return -1;
    }
    s->queue = rd_kafka_queue_get_main(s->rk);
    rd_kafka_queue_io_event_enable(s->queue, k->event_fd, &one, sizeof one);
    return 0;
}

void outrider__kafka_producer_close(struct kafka_sink *k, struct kafka_producer *s)
{
    if (s->rk == NULL)
        return;
    outrider__kafka_topics_forget(k, s);
    rd_kafka_queue_io_event_enable(s->queue, -1, NULL, 0);
    if (s->is_exact) {
        outrider__kafka_exact_close(k, s);
    } else {
        if (s->n_out > 0)
            (void)rd_kafka_purge(s->rk, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT |
                                            RD_KAFKA_PURGE_F_NON_BLOCKING);
        rd_kafka_queue_destroy(s->queue);
        /* Joins the producer's threads: after this call no thread reads a payload. */
        rd_kafka_destroy(s->rk);
    }
    free(s->trusted);
    *s = (struct kafka_producer){0};
}

static void producer_keep_text(struct kafka_producer *s, const char *text)
{
    outrider__kafka_reason(text != NULL ? text : "", s->last_error, sizeof s->last_error);
}

static int producer_fatal(struct kafka_sink *k, struct kafka_producer *s,
                          struct outrider_error *err)
{
    char text[256] = "";
    rd_kafka_resp_err_t code = rd_kafka_fatal_error(s->rk, text, sizeof text);
    if (code == RD_KAFKA_RESP_ERR__GAPLESS_GUARANTEE) {
        if (!s->is_dying)
            s->dying_since_us = k->now.mono_us;
        s->is_dying = true;
        return 0;
    }
    if (s->is_exact)
        return outrider__kafka_exact_fail(&k->exact, code, "go on", text, err);
    const struct kafka_verdict *v = outrider__kafka_verdict(code);
    bool must_stop = v->result == SINK_STOP;
    outrider__fail(err, must_stop ? v->code : OUTRIDER_SINK_DOWN,
                   must_stop ? OUTRIDER_STOP : OUTRIDER_RETRY, "Kafka at %.200s: %s%s",
                   k->settings.servers, text,
                   code == RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED
                       ? " (allow this user IdempotentWrite on the cluster)"
                       : "");
    outrider__error_origin(err, rd_kafka_err2name(code));
    return -1;
}

int outrider__kafka_producer_error(struct kafka_sink *k, struct kafka_producer *s,
                                   rd_kafka_resp_err_t error, const char *text,
                                   struct outrider_error *err)
{
    switch (error) {
    case RD_KAFKA_RESP_ERR__FATAL:
        return producer_fatal(k, s, err);
    case RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN:
        if (s->down_since_us == 0)
            s->down_since_us = k->now.mono_us;
        return 0;
    case RD_KAFKA_RESP_ERR__AUTHENTICATION:
    case RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED:
        outrider__fail(
            err, OUTRIDER_AUTH, OUTRIDER_STOP,
            "Kafka at %.200s refuses these credentials (user, password, sasl.mechanism): "
            "%s",
            k->settings.servers, text);
        outrider__error_origin(err, rd_kafka_err2name(error));
        return -1;
    default:
        producer_keep_text(s, text);
        return 0;
    }
}

static int64_t producer_earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Sets base.trouble once nothing has moved for a while. */
static void producer_check_trouble(struct kafka_sink *k, const struct kafka_producer *s)
{
    if (s->down_since_us == 0 || k->order.n_messages == 0 || k->base.trouble[0] != '\0')
        return;
    int64_t since = s->down_since_us > k->progress_us ? s->down_since_us : k->progress_us;
    if (k->now.mono_us < since + TROUBLE_US) {
        k->base.wake_us = producer_earlier(k->base.wake_us, since + TROUBLE_US);
        return;
    }
    (void)snprintf(k->base.trouble, sizeof k->base.trouble, "no broker of %.70s answers%s%.150s",
                   k->settings.servers, s->last_error[0] != '\0' ? ": " : "", s->last_error);
}

static int producer_renew(struct kafka_sink *k, struct kafka_producer *s,
                          struct outrider_error *err)
{
    if (!s->is_dying)
        return 0;
    if (s->n_out > 0) {
        if (k->now.mono_us >= s->dying_since_us + DYING_US)
            return outrider__fail(err, OUTRIDER_SINK_DOWN, OUTRIDER_RETRY,
                                  "Kafka at %.200s does not answer after it rejected a message",
                                  k->settings.servers);
        /* Wait for what is in flight: only the answer tells whether it arrived. librdkafka may
         * put it back into its queue, so the queue is emptied more than once. */
        (void)rd_kafka_purge(s->rk, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_NON_BLOCKING);
        k->base.wake_us = producer_earlier(k->base.wake_us, k->now.mono_us + ORDER_STUCK_US);
        return 0;
    }
    bool careful = s->is_careful;
    outrider__kafka_producer_close(k, s);
    if (outrider__kafka_producer_open(k, s, careful, err) < 0)
        return -1;
    outrider__kafka_create_again(k);
    outrider__kafka_advance(k);
    return 0;
}

int outrider__kafka_producers_check(struct kafka_sink *k, struct outrider_error *err)
{
    struct kafka_producer *all[] = {&k->fast, &k->careful};
    for (size_t i = 0; i < 2; i++) {
        if (all[i]->rk == NULL)
            continue;
        if (producer_renew(k, all[i], err) < 0)
            return -1;
        producer_check_trouble(k, all[i]);
    }
    k->base.wake_us = producer_earlier(k->base.wake_us, outrider__order_wake_us(&k->order));
    return 0;
}
