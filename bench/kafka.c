/* SPDX-License-Identifier: MIT */
/*
 * librdkafka alone: as many events as the relay has, of the same size, with the
 * same key and headers and the same settings, from memory. What it does not do is
 * read them anywhere, keep lanes, and remember what arrived: the limit.
 *
 *     kafka BROKERS TOPIC EVENTS
 */
#include "support/util.h"

#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEYS 1000
#define FILLER 260

static long n_failed;

static void on_report(rd_kafka_t *rk, const rd_kafka_message_t *m, void *opaque)
{
    (void)rk;
    (void)opaque;
    n_failed += m->err != RD_KAFKA_RESP_ERR_NO_ERROR;
}

/* The relay's own: src/sink/kafka/config.c. */
static rd_kafka_t *producer(const char *brokers)
{
    static const char *const settings[][2] = {
        {"enable.idempotence", "true"},          {"acks", "all"},
        {"partitioner", "murmur2_random"},       {"linger.ms", "1"},
        {"socket.nagle.disable", "true"},        {"queue.buffering.max.messages", "100000"},
        {"queue.buffering.max.kbytes", "32768"}, {"batch.size", "1000000"},
    };
    char why[256];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (rd_kafka_conf_set(conf, settings[i][0], settings[i][1], why, sizeof why) != 0)
            bench_die("%s", why);
    if (rd_kafka_conf_set(conf, "bootstrap.servers", brokers, why, sizeof why) != 0)
        bench_die("%s", why);
    rd_kafka_conf_set_dr_msg_cb(conf, on_report);
    rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
    if (rk == NULL)
        bench_die("%s", why);
    return rk;
}

static void produce(rd_kafka_t *rk, const char *topic, long i)
{
    static char filler[FILLER + 1];
    char payload[FILLER + 64], key[16], id[40];
    rd_kafka_resp_err_t err;
    if (filler[0] == '\0')
        memset(filler, 'x', FILLER);
    int len = snprintf(payload, sizeof payload, "{\"n\": %ld, \"filler\": \"%s\"}", i, filler);
    int key_len = snprintf(key, sizeof key, "%ld", i % KEYS);
    int id_len = snprintf(id, sizeof id, "00000000-0000-7000-8000-%012ld", i);
    do {
        err = rd_kafka_producev(rk, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_VALUE(payload, (size_t)len),
                                RD_KAFKA_V_KEY(key, (size_t)key_len),
                                RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                                RD_KAFKA_V_HEADER("event-id", id, id_len),
                                RD_KAFKA_V_HEADER("event-type", "changed", 7),
                                RD_KAFKA_V_HEADER("aggregate-type", "order", 5), RD_KAFKA_V_END);
        if (err == RD_KAFKA_RESP_ERR__QUEUE_FULL)
            (void)rd_kafka_poll(rk, 10);
    } while (err == RD_KAFKA_RESP_ERR__QUEUE_FULL);
    if (err != RD_KAFKA_RESP_ERR_NO_ERROR)
        bench_die("cannot produce: %s", rd_kafka_err2str(err));
}

int main(int argc, char **argv)
{
    if (argc != 4)
        bench_die("usage: kafka BROKERS TOPIC EVENTS");
    long n = strtol(argv[3], NULL, 10);
    rd_kafka_t *rk = producer(argv[1]);
    for (long i = 0; i < n; i++) {
        produce(rk, argv[2], i);
        if (i % 1000 == 0)
            (void)rd_kafka_poll(rk, 0);
    }
    if (rd_kafka_flush(rk, 60000) != RD_KAFKA_RESP_ERR_NO_ERROR || n_failed > 0)
        bench_die("%ld messages failed", n_failed);
    rd_kafka_destroy(rk);
    return 0;
}
