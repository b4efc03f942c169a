/* SPDX-License-Identifier: MIT */
/* `outrider doctor --to kafka://...`: looks, and publishes nothing. */
#include "sink/kafka/kafka.h"

#include <stdio.h>

#include <jansson.h>

struct look {
    const struct pipeline_config *config;
    struct kafka_settings settings;
    rd_kafka_t *rk;
    struct finder to;
    bool is_refused; /* credentials */
    char last_error[256];
    char idempotence[64]; /* librdkafka's state: "Assigned" when it may write */
    char fatal[256];
};

static void doctor_on_error(rd_kafka_t *rk, int error, const char *reason, void *opaque)
{
    struct look *l = opaque;
    if (error == RD_KAFKA_RESP_ERR__FATAL)
        (void)rd_kafka_fatal_error(rk, l->fatal, sizeof l->fatal);
    else if (error == RD_KAFKA_RESP_ERR__AUTHENTICATION)
        l->is_refused = true;
    if (error != RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN)
        outrider__kafka_reason(reason, l->last_error, sizeof l->last_error);
}

static int doctor_on_stats(rd_kafka_t *rk, char *json, size_t len, void *opaque)
{
    struct look *l = opaque;
    (void)rk;
    json_t *root = json_loadb(json, len, 0, NULL);
    const char *state =
        json_string_value(json_object_get(json_object_get(root, "eos"), "idemp_state"));
    if (state != NULL)
        (void)snprintf(l->idempotence, sizeof l->idempotence, "%s", state);
    json_decref(root);
    return 0;
}

static int doctor_open_producer(struct look *l, struct outrider_error *err)
{
    rd_kafka_conf_t *conf;
    char why[256];
    if (outrider__kafka_conf(l->config, true, &conf, &l->settings, err) < 0)
        return -1;
    rd_kafka_conf_set_opaque(conf, l);
    rd_kafka_conf_set_error_cb(conf, doctor_on_error);
    rd_kafka_conf_set_stats_cb(conf, doctor_on_stats);
    (void)rd_kafka_conf_set(conf, "statistics.interval.ms", "100", NULL, 0);
    l->rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
    if (l->rk != NULL)
        return 0;
    (void)outrider__kafka_no_handle(conf, "producer", why, err);
    rd_kafka_conf_destroy(conf);
    outrider__kafka_settings_release(&l->settings);
    return -1;
}

static int64_t doctor_deadline_of(const struct look *l)
{
    return outrider__clock_now().mono_us + l->config->source.connect_timeout_us;
}

/* Asks for metadata until somebody answers; rd_kafka_metadata itself waits. */
static rd_kafka_resp_err_t doctor_ask(struct look *l, rd_kafka_topic_t *topic,
                                      const struct rd_kafka_metadata **ret_answer)
{
    int64_t deadline = doctor_deadline_of(l);
    rd_kafka_resp_err_t r;
    do {
        r = rd_kafka_metadata(l->rk, 0, topic, ret_answer, 500);
        (void)rd_kafka_poll(l->rk, 0);
    } while (r != RD_KAFKA_RESP_ERR_NO_ERROR && !l->is_refused && l->fatal[0] == '\0' &&
             outrider__clock_now().mono_us < deadline);
    return r;
}

static bool doctor_look_at_connection(struct look *l)
{
    const struct rd_kafka_metadata *answer;
    rd_kafka_resp_err_t r = doctor_ask(l, NULL, &answer);
    if (l->is_refused) {
        outrider__find(
            &l->to, FINDING_PROBLEM, "check user, password, sasl.mechanism and security.protocol",
            "Kafka at %.200s refuses these credentials: %s", l->settings.servers, l->last_error);
        return false;
    }
    if (r != RD_KAFKA_RESP_ERR_NO_ERROR) {
        outrider__find(
            &l->to, FINDING_PROBLEM,
            "check host, port, and security.protocol (a password goes over TLS unless it says "
            "sasl_plaintext)",
            "no broker of %.200s answers: %s", l->settings.servers,
            l->last_error[0] != '\0' ? l->last_error : "not a word within connect_timeout");
        return false;
    }
    outrider__find(&l->to, FINDING_OK, NULL, "Kafka at %.200s answers: %d broker%s",
                   l->settings.servers, answer->broker_cnt, answer->broker_cnt == 1 ? "" : "s");
    rd_kafka_metadata_destroy(answer);
    return true;
}

static void doctor_look_at_idempotence(struct look *l)
{
    int64_t deadline = doctor_deadline_of(l);
    while (strcmp(l->idempotence, "Assigned") != 0 && l->fatal[0] == '\0' &&
           outrider__clock_now().mono_us < deadline)
        (void)rd_kafka_poll(l->rk, 100);
    if (l->fatal[0] != '\0')
        outrider__find(&l->to, FINDING_PROBLEM, "allow this user IdempotentWrite on the cluster",
                       "the cluster refuses an idempotent producer: %s", l->fatal);
    else if (strcmp(l->idempotence, "Assigned") != 0)
        outrider__find(&l->to, FINDING_PROBLEM, "look at the brokers' logs",
                       "the cluster gives no producer id (state '%s')", l->idempotence);
    else
        outrider__find(&l->to, FINDING_OK, NULL, "this user may write as an idempotent producer");
}

/* Only exactly once needs them. Nothing is published, but the cluster remembers the
 * name, which begins as the pipelines' own do, for a while. */
static void doctor_look_at_transactions(struct look *l, struct outrider_error *err)
{
    struct kafka_settings settings;
    rd_kafka_conf_t *conf;
    if (outrider__kafka_conf(l->config, true, &conf, &settings, err) < 0)
        return;
    outrider__kafka_settings_release(&settings);
    (void)rd_kafka_conf_set(conf, "transactional.id", "outrider:doctor", NULL, 0);
    (void)rd_kafka_conf_set(conf, "message.timeout.ms", "10000", NULL, 0);
    rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, NULL, 0);
    if (rk == NULL) {
        rd_kafka_conf_destroy(conf);
        return;
    }
    rd_kafka_error_t *why =
        rd_kafka_init_transactions(rk, (int)(l->config->source.connect_timeout_us / 1000));
    if (why == NULL)
        outrider__find(&l->to, FINDING_OK, NULL, "this user may use transactions");
    else
        outrider__find(
            &l->to, l->config->exactly_once ? FINDING_PROBLEM : FINDING_NOTE,
            "exactly_once needs them: allow this user Write and Describe on transactional ids "
            "that begin with outrider:",
            "this user may not use transactions: %s", rd_kafka_error_string(why));
    if (why != NULL)
        rd_kafka_error_destroy(why);
    rd_kafka_destroy(rk);
}

static void doctor_tell_topic(struct look *l, const char *name,
                              const struct rd_kafka_metadata_topic *t)
{
    bool creates = l->settings.new_partitions != 0;
    switch (t->err) {
    case RD_KAFKA_RESP_ERR_NO_ERROR:
        outrider__find(&l->to, FINDING_OK, NULL, "topic '%s' has %d partition%s", name,
                       t->partition_cnt, t->partition_cnt == 1 ? "" : "s");
        break;
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
        outrider__find(&l->to, creates ? FINDING_NOTE : FINDING_PROBLEM,
                       creates ? "it will be created (sink.create_topics)"
                               : "create it, or set sink.create_topics",
                       "topic '%s' is missing", name);
        break;
    default:
        outrider__find(&l->to, FINDING_PROBLEM, "allow this user Write and Describe on it",
                       "topic '%s': %s", name, rd_kafka_err2str(t->err));
        break;
    }
}

/* Only topics that the configuration names outright can be looked for. */
static void doctor_look_at_topic(struct look *l, const char *name)
{
    const struct rd_kafka_metadata *answer;
    if (name == NULL || strchr(name, '$') != NULL ||
        !outrider__kafka_topic_is_valid(bytes_str(name)))
        return;
    rd_kafka_topic_t *topic = rd_kafka_topic_new(l->rk, name, NULL);
    rd_kafka_resp_err_t r = doctor_ask(l, topic, &answer);
    if (r != RD_KAFKA_RESP_ERR_NO_ERROR) {
        outrider__find(&l->to, FINDING_PROBLEM, NULL, "topic '%s': %s", name, rd_kafka_err2str(r));
    } else {
        if (answer->topic_cnt > 0)
            doctor_tell_topic(l, name, &answer->topics[0]);
        rd_kafka_metadata_destroy(answer);
    }
    rd_kafka_topic_destroy(topic);
}

static void doctor_look_at_topics(struct look *l)
{
    const struct pipeline_config *c = l->config;
    doctor_look_at_topic(l, c->route.topic);
    for (size_t i = 0; i < c->route.by_type.n; i++)
        doctor_look_at_topic(l, c->route.by_type.items[i].value);
    doctor_look_at_topic(l, c->dead_letter.topic);
    if (strchr(c->route.topic, '$') != NULL && l->settings.new_partitions == 0)
        outrider__find(
            &l->to, FINDING_NOTE, NULL,
            "topics come from events (%s): one that is missing parks its events until it is "
            "created",
            c->route.topic);
}

/* Kafka tells nobody its time: a person has to compare. */
static void doctor_look_at_clock(const struct look *l)
{
    char text[CLOCK_TEXT_SIZE];
    outrider__clock_format(outrider__clock_now().wall_us, text);
    outrider__find(
        &l->to, FINDING_NOTE,
        "a broker refuses times too far from its own clock (message.timestamp.after.max.ms, an "
        "hour by default)",
        "this machine's clock says %s; messages carry their event's time", text);
}

int outrider__kafka_doctor(const struct pipeline_config *c, finding_fn *found, void *ctx,
                           struct outrider_error *err)
{
    struct look l = {.config = c, .to = {found, ctx}};
    if (doctor_open_producer(&l, err) < 0)
        return -1;
    if (doctor_look_at_connection(&l)) {
        doctor_look_at_idempotence(&l);
        doctor_look_at_transactions(&l, err);
        doctor_look_at_topics(&l);
        doctor_look_at_clock(&l);
    }
    rd_kafka_destroy(l.rk);
    outrider__kafka_settings_release(&l.settings);
    return 0;
}
