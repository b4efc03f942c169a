/* SPDX-License-Identifier: MIT */
/*
 * The topic in which exactly once keeps the number of each pipeline's last
 * transaction: a record {"no":17,"stamp":"..."} in partition 0, whose key is
 * the pipeline's identity. Compacted, so that a number lives as long as nobody
 * writes a newer one. All of this runs on the thread of kafka/exact.c.
 */
#include "sink/kafka/kafka.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ANSWER_MS 5000
#define STEP_MS 100
#define ENDS_STEP_MS 500
/* A server that does not know how to be asked for a topic's policy says nothing. */
#define POLICY_MS 1000

static int progress_stopped(struct outrider_error *err)
{
    (void)outrider__fail(err, OUTRIDER_CANCELLED, OUTRIDER_RETRY, "the sink is being closed");
    return -1;
}

/* "{"no":17,"stamp":"4711"}" */
static int progress_parse(const char *data, size_t len, struct commit_mark *ret)
{
    char text[96], *end;
    static const char first[] = "{\"no\":", second[] = ",\"stamp\":\"";
    if (data == NULL || len >= sizeof text)
        return -1;
    memcpy(text, data, len);
    text[len] = '\0';
    if (strncmp(text, first, sizeof first - 1) != 0)
        return -1;
    ret->no = strtoull(text + sizeof first - 1, &end, 10);
    if (strncmp(end, second, sizeof second - 1) != 0)
        return -1;
    ret->stamp = strtoull(end + sizeof second - 1, &end, 10);
    return strcmp(end, "\"}") == 0 ? 0 : -1;
}

/* Small segments: what a start has to read is what compaction has left. */
static const struct {
    const char *name, *value;
} topic_config[] = {
    {"cleanup.policy", "compact"},
    {"segment.bytes", "4194304"},
    {"segment.ms", "3600000"},
    {"min.cleanable.dirty.ratio", "0.1"},
};

/* *ret_event is NULL if no answer came in time. */
static int progress_wait_for(struct kafka_exact *x, rd_kafka_queue_t *queue, int timeout_ms,
                             rd_kafka_event_t **ret_event, struct outrider_error *err)
{
    *ret_event = NULL;
    for (int waited = 0; *ret_event == NULL && waited < timeout_ms; waited += STEP_MS) {
        *ret_event = rd_kafka_queue_poll(queue, STEP_MS);
        if (*ret_event == NULL && outrider__kafka_exact_is_closing(x))
            return progress_stopped(err);
    }
    return 0;
}

static int progress_create(struct kafka_exact *x, rd_kafka_queue_t *queue,
                           struct outrider_error *err)
{
    const char *name = kafka_options(x->config)->progress_topic;
    char why[256];
    rd_kafka_NewTopic_t *topic = rd_kafka_NewTopic_new(name, 1, x->replication, why, sizeof why);
    if (topic == NULL)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "sink.progress_topic '%.249s': %s", name, why);
    for (size_t i = 0; i < sizeof topic_config / sizeof *topic_config; i++)
        (void)rd_kafka_NewTopic_set_config(topic, topic_config[i].name, topic_config[i].value);
    rd_kafka_CreateTopics(x->rk, &topic, 1, NULL, queue);
    rd_kafka_NewTopic_destroy(topic);
    rd_kafka_event_t *event = NULL;
    if (progress_wait_for(x, queue, ANSWER_MS, &event, err) < 0)
        return -1;
    if (event == NULL)
        return outrider__kafka_exact_fail(x, RD_KAFKA_RESP_ERR__TIMED_OUT,
                                          "create the topic for progress", "no answer", err);
    rd_kafka_resp_err_t code = rd_kafka_event_error(event);
    size_t n = 0;
    const rd_kafka_topic_result_t **topics = NULL;
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
        topics = rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event), &n);
    if (n > 0)
        code = rd_kafka_topic_result_error(topics[0]);
    rd_kafka_event_destroy(event);
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR || code == RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS)
        return 0;
    bool must_stop = code == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED ||
                     code == RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED ||
                     code == RD_KAFKA_RESP_ERR_POLICY_VIOLATION;
    outrider__fail(err, must_stop ? OUTRIDER_AUTH : OUTRIDER_SINK_DOWN,
                   must_stop ? OUTRIDER_STOP : OUTRIDER_RETRY,
                   "exactly_once: topic '%.249s' is missing and cannot be created: %s (create it "
                   "with one partition and cleanup.policy=compact)",
                   name, rd_kafka_err2str(code));
    outrider__error_origin(err, rd_kafka_err2name(code));
    return -1;
}

static int progress_judge_policy(const rd_kafka_event_t *event, const char *name,
                                 struct outrider_error *err)
{
    size_t n = 0, m = 0;
    const rd_kafka_DescribeConfigs_result_t *result =
        rd_kafka_event_DescribeConfigs_result((rd_kafka_event_t *)event);
    const rd_kafka_ConfigResource_t **r = rd_kafka_DescribeConfigs_result_resources(result, &n);
    /* Who may not look may write all the same. */
    const rd_kafka_ConfigEntry_t **all = n > 0 ? rd_kafka_ConfigResource_configs(r[0], &m) : NULL;
    for (size_t i = 0; i < m; i++) {
        const char *value = rd_kafka_ConfigEntry_value(all[i]);
        if (strcmp(rd_kafka_ConfigEntry_name(all[i]), "cleanup.policy") == 0 && value != NULL &&
            strcmp(value, "compact") != 0)
            return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                                  "exactly_once: topic '%.249s' has cleanup.policy=%.40s and would "
                                  "lose the numbers it is for; set it to compact, or name another "
                                  "one as sink.progress_topic",
                                  name, value);
    }
    return 0;
}

static int progress_check_policy(struct kafka_exact *x, rd_kafka_queue_t *queue,
                                 struct outrider_error *err)
{
    const char *name = kafka_options(x->config)->progress_topic;
    rd_kafka_ConfigResource_t *resource =
        rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, name);
    rd_kafka_event_t *event = NULL;
    rd_kafka_DescribeConfigs(x->rk, &resource, 1, NULL, queue);
    rd_kafka_ConfigResource_destroy(resource);
    if (progress_wait_for(x, queue, POLICY_MS, &event, err) < 0)
        return -1;
    if (event == NULL)
        return 0;
    int r = rd_kafka_event_error(event) == RD_KAFKA_RESP_ERR_NO_ERROR
                ? progress_judge_policy(event, name, err)
                : 0;
    rd_kafka_event_destroy(event);
    return r;
}

/* Where the partition begins and ends, transactions that are open included. In steps:
 * who closes the sink waits for the end of one. */
static rd_kafka_resp_err_t progress_find_ends(struct kafka_exact *x, int64_t *ret_begin,
                                              int64_t *ret_end)
{
    rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR__TIMED_OUT;
    for (int waited = 0; code == RD_KAFKA_RESP_ERR__TIMED_OUT && waited < ANSWER_MS &&
                         !outrider__kafka_exact_is_closing(x);
         waited += ENDS_STEP_MS)
        code = rd_kafka_query_watermark_offsets(x->rk, kafka_options(x->config)->progress_topic, 0,
                                                ret_begin, ret_end, ENDS_STEP_MS);
    return code;
}

static int progress_prepare(struct kafka_exact *x, int64_t *ret_begin, int64_t *ret_end,
                            struct outrider_error *err)
{
    rd_kafka_queue_t *queue = rd_kafka_queue_new(x->rk);
    rd_kafka_resp_err_t code = progress_find_ends(x, ret_begin, ret_end);
    int r = 0;
    if (code == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION || code == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC ||
        code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART) {
        r = progress_create(x, queue, err);
        for (int i = 0; r == 0 && i < ANSWER_MS / STEP_MS; i++) {
            code = progress_find_ends(x, ret_begin, ret_end);
            if (code == RD_KAFKA_RESP_ERR_NO_ERROR || outrider__kafka_exact_is_closing(x))
                break;
            usleep(STEP_MS * 1000);
        }
    } else if (code == RD_KAFKA_RESP_ERR_NO_ERROR) {
        r = progress_check_policy(x, queue, err);
    }
    rd_kafka_queue_destroy(queue);
    if (r == 0 && code != RD_KAFKA_RESP_ERR_NO_ERROR)
        r = outrider__kafka_exact_fail(x, code, "find the end of the topic for progress",
                                       rd_kafka_err2str(code), err);
    return r;
}

static int progress_new_reader(const struct kafka_exact *x, rd_kafka_t **ret_rk,
                               struct outrider_error *err)
{
    static const char *const all[][2] = {{"isolation.level", "read_committed"},
                                         {"enable.partition.eof", "true"},
                                         {"auto.offset.reset", "earliest"},
                                         {"fetch.wait.max.ms", "10"}};
    struct kafka_settings settings;
    rd_kafka_conf_t *conf;
    char why[256] = "";
    if (outrider__kafka_conf(x->config, false, &conf, &settings, err) < 0)
        return -1;
    outrider__kafka_settings_release(&settings);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        (void)rd_kafka_conf_set(conf, all[i][0], all[i][1], NULL, 0);
    *ret_rk = rd_kafka_new(RD_KAFKA_CONSUMER, conf, why, sizeof why);
    if (*ret_rk != NULL)
        return 0;
    (void)outrider__kafka_no_handle(conf, "consumer", why, err);
    rd_kafka_conf_destroy(conf);
    return -1;
}

/* One message, or the news that there is none. *ret_at is where reading goes on. */
static int progress_take(struct kafka_exact *x, const rd_kafka_message_t *m,
                         struct commit_mark *found, int64_t *ret_at, struct outrider_error *err)
{
    if (m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
        *ret_at = m->offset;
        return 0;
    }
    if (m->err != RD_KAFKA_RESP_ERR_NO_ERROR)
        return outrider__kafka_exact_fail(x, m->err, "read the progress", rd_kafka_err2str(m->err),
                                          err);
    *ret_at = m->offset + 1;
    if (m->key_len != strlen(x->key) || memcmp(m->key, x->key, m->key_len) != 0)
        return 0;
    if (progress_parse(m->payload, m->len, found) < 0)
        return outrider__fail(
            err, OUTRIDER_HISTORY, OUTRIDER_STOP,
            "exactly_once: the record of '%.200s' at offset %lld of topic '%.100s' "
            "is none of ours; see who wrote it",
            x->key, (long long)m->offset, kafka_options(x->config)->progress_topic);
    return 0;
}

/*
 * Up to the end and not just up to the first open transaction, which is where a
 * reader of committed records stops: behind another pipeline's may be our own.
 */
static int progress_read_to(struct kafka_exact *x, rd_kafka_topic_t *topic, int64_t end,
                            struct commit_mark *found, struct outrider_error *err)
{
    int64_t at = 0;
    while (at < end) {
        if (outrider__kafka_exact_is_closing(x))
            return progress_stopped(err);
        rd_kafka_message_t *m = rd_kafka_consume(topic, 0, STEP_MS);
        if (m == NULL)
            continue;
        bool is_end = m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF;
        int r = progress_take(x, m, found, &at, err);
        rd_kafka_message_destroy(m);
        if (r < 0)
            return -1;
        if (is_end && at < end)
            outrider__kafka_exact_trouble(x, "another pipeline's transaction is open in the topic "
                                             "for progress; waiting for its end");
    }
    return 0;
}

int outrider__kafka_progress_read(struct kafka_exact *x, struct commit_mark *ret_found,
                                  struct outrider_error *err)
{
    struct commit_mark found = {0};
    rd_kafka_t *rk;
    int64_t begin = 0, end = 0;
    if (progress_prepare(x, &begin, &end, err) < 0 || progress_new_reader(x, &rk, err) < 0)
        return -1;
    rd_kafka_topic_t *topic =
        rd_kafka_topic_new(rk, kafka_options(x->config)->progress_topic, NULL);
    int r = 0;
    if (end > begin) {
        /* By its number: asked for the beginning as such, librdkafka would look for it
         * before it knows whom to ask, and again after half a second. */
        if (rd_kafka_consume_start(topic, 0, begin) < 0)
            r = outrider__kafka_exact_fail(x, rd_kafka_last_error(), "read the progress",
                                           rd_kafka_err2str(rd_kafka_last_error()), err);
        else
            r = progress_read_to(x, topic, end, &found, err);
        (void)rd_kafka_consume_stop(topic, 0);
    }
    rd_kafka_topic_destroy(topic);
    rd_kafka_destroy(rk);
    if (r == 0)
        *ret_found = found;
    return r;
}
