/* SPDX-License-Identifier: MIT */
/*
 * Topics that are made because create_topics asks for it. A topic is asked for
 * once, before its first record: one that exists already is not changed by
 * that, and a user who may not create topics may still write to it.
 */
#include "sink/kafka/kafka.h"

#define CREATE_TIMEOUT_MS 10000

void outrider__kafka_create_begin(struct kafka_sink *k, struct kafka_topic *t)
{
    char why[256];
    rd_kafka_NewTopic_t *topic = rd_kafka_NewTopic_new(
        t->name, k->settings.new_partitions, k->settings.new_replication, why, sizeof why);
    if (topic == NULL || k->fast.rk == NULL) {
        /* The producer will say what is wrong with it. */
        t->making = MAKE_DONE;
        rd_kafka_NewTopic_destroy(topic);
        return;
    }
    rd_kafka_AdminOptions_t *options =
        rd_kafka_AdminOptions_new(k->fast.rk, RD_KAFKA_ADMIN_OP_CREATETOPICS);
    rd_kafka_AdminOptions_set_opaque(options, t);
    (void)rd_kafka_AdminOptions_set_request_timeout(options, CREATE_TIMEOUT_MS, why, sizeof why);
    rd_kafka_CreateTopics(k->fast.rk, &topic, 1, options, k->fast.queue);
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_NewTopic_destroy(topic);
    t->making = MAKE_ASKED;
}

void outrider__kafka_create_again(struct kafka_sink *k)
{
    for (size_t i = 0; i < KAFKA_TOPIC_BUCKETS; i++)
        for (struct kafka_topic *t = k->topics[i]; t != NULL; t = t->chain)
            if (t->making == MAKE_ASKED)
                outrider__kafka_create_begin(k, t);
}

/* Fails all messages that wait for the topic; the next try asks for the topic again. */
static void create_refuse(struct kafka_sink *k, struct kafka_topic *t, enum sink_result result,
                          rd_kafka_resp_err_t code, const char *text)
{
    struct outrider_error why;
    outrider__fail(&why, OUTRIDER_NOT_FOUND, OUTRIDER_RETRY,
                   "topic '%.249s' is missing and cannot be created: %s", t->name, text);
    outrider__error_origin(&why, rd_kafka_err2name(code));
    t->making = MAKE_NOT;
    outrider__order_refuse_waiting(&k->order, &t->group, result, &why);
}

void outrider__kafka_create_done(struct kafka_sink *k, rd_kafka_event_t *event)
{
    struct kafka_topic *t = rd_kafka_event_opaque(event);
    const rd_kafka_CreateTopics_result_t *result = rd_kafka_event_CreateTopics_result(event);
    rd_kafka_resp_err_t code = rd_kafka_event_error(event);
    const char *text = rd_kafka_event_error_string(event);
    size_t n = 0;
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR) {
        /* No answer at all: not the event's fault. */
        create_refuse(k, t, SINK_UNTRIED, code, text);
        return;
    }
    const rd_kafka_topic_result_t **topics = rd_kafka_CreateTopics_result_topics(result, &n);
    if (n > 0) {
        code = rd_kafka_topic_result_error(topics[0]);
        text = rd_kafka_topic_result_error_string(topics[0]);
    }
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR && code != RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS &&
        code != RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED &&
        code != RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED) {
        create_refuse(k, t, SINK_RETRY, code, text != NULL ? text : rd_kafka_err2str(code));
        return;
    }
    t->making = MAKE_DONE;
    outrider__order_resume(&k->order, &t->group);
}
