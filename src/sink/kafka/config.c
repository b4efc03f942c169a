/* SPDX-License-Identifier: MIT */
/*
 * From a pipeline's configuration to librdkafka's: our defaults, then the URL,
 * then sink.kafka, which may change everything but what order and safety rest
 * on.
 */
#include "sink/kafka/kafka.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/url.h"
#include "base/words.h"

struct property {
    const char *name, *value;
};

/* What people may change. */
static const struct property defaults[] = {
    {"client.id", "outrider"},
    /* Where Java's producer puts a key. */
    {"partitioner", "murmur2_random"},
    /* Long enough to fill a batch under load; nobody waits for it otherwise. */
    {"linger.ms", "1"},
    {"socket.nagle.disable", "true"},
    {"socket.keepalive.enable", "true"},
    {"queue.buffering.max.messages", "100000"},
    {"queue.buffering.max.kbytes", "32768"},
    /* Below the broker's default for a message, so that a batch of small ones
     * is never refused for its size. */
    {"batch.size", "1000000"},
    /* A broker that is back is noticed within half a second. */
    {"reconnect.backoff.ms", "50"},
    {"reconnect.backoff.max.ms", "500"},
    /* How long a topic may be unknown before that is an error. */
    {"topic.metadata.propagation.max.ms", "2000"},
};

/* What they may not: each is a promise of ours. */
static const struct property ours[] = {
    {"enable.idempotence", "true"},        {"acks", "all"},
    {"message.timeout.ms", "0"},           {"enable.gapless.guarantee", "true"},
    {"allow.auto.create.topics", "false"},
};

/* Other names of the same, and what only makes sense elsewhere. */
static const char *const reserved[] = {
    "request.required.acks", "delivery.timeout.ms",  "message.send.max.retries", "retries",
    "bootstrap.servers",     "metadata.broker.list", "transactional.id",
};

#define COUNT(a) (sizeof(a) / sizeof *(a))

static bool config_is_ours(const char *name)
{
    for (size_t i = 0; i < COUNT(ours); i++)
        if (strcmp(name, ours[i].name) == 0)
            return true;
    for (size_t i = 0; i < COUNT(reserved); i++)
        if (strcmp(name, reserved[i]) == 0)
            return true;
    return false;
}

/*
 * librdkafka has no list of its properties but a table that it prints: name,
 * "C", "P" or "*" (of whom), and more, between bars.
 */
static void config_consider(char *line, const char *typed, unsigned *best, char *buffer,
                            size_t size)
{
    char *bar = strchr(line, '|');
    if (bar == NULL || strspn(bar + 1, " ") != strcspn(bar + 1, "P*"))
        return;
    size_t n = strcspn(line, " |");
    unsigned d = outrider__name_distance(bytes_str(typed), bytes_of(line, n));
    if (n > 0 && d < *best && strchr(line, '.') != NULL) {
        *best = d;
        (void)snprintf(buffer, size, "%.*s", (int)n, line);
    }
}

const char *outrider__kafka_nearest(const char *name, char *buffer, size_t size)
{
    unsigned best = (unsigned)strlen(name) / 3 + 1;
    char *text = NULL, *save = NULL;
    size_t len;
    buffer[0] = '\0';
    FILE *out = open_memstream(&text, &len);
    if (out == NULL)
        return NULL;
    rd_kafka_conf_properties_show(out);
    (void)fclose(out);
    for (char *line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save))
        config_consider(line, name, &best, buffer, size);
    free(text);
    return buffer[0] != '\0' ? buffer : NULL;
}

static int config_unknown(const char *name, struct outrider_error *err)
{
    char buffer[128];
    const char *near = outrider__kafka_nearest(name, buffer, sizeof buffer);
    if (near != NULL)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "sink.kafka: librdkafka has no property '%.80s' (did you mean "
                              "'%s'?)",
                              name, near);
    return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                          "sink.kafka: librdkafka has no property '%.80s'", name);
}

static int config_set(rd_kafka_conf_t *conf, const char *name, const char *value,
                      struct outrider_error *err)
{
    char why[256];
    switch (rd_kafka_conf_set(conf, name, value, why, sizeof why)) {
    case RD_KAFKA_CONF_OK:
        return 0;
    case RD_KAFKA_CONF_UNKNOWN:
        return config_unknown(name, err);
    default:
        /* librdkafka's text holds the value. */
        if (outrider__name_is_secret(bytes_str(name)))
            (void)snprintf(why, sizeof why, "the value is not accepted");
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP, "sink.kafka.%.80s: %s", name,
                              why);
    }
}

static int config_set_theirs(rd_kafka_conf_t *conf, const char *name, const char *value,
                             struct outrider_error *err)
{
    if (config_is_ours(name))
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "sink.kafka: '%s' cannot be changed: order and safety rest on it, or "
                              "the URL says it; leave it out",
                              name);
    return config_set(conf, name, value, err);
}

static const char *config_find_property(const struct pipeline_config *c, const struct url *u,
                                        const char *name)
{
    const struct string_map *given = &kafka_options(c)->properties;
    for (size_t i = 0; i < given->n; i++)
        if (strcmp(given->items[i].name, name) == 0)
            return given->items[i].value;
    for (size_t i = 0; i < u->n_params; i++)
        if (bytes_eq_str(u->params[i].name, name))
            return u->params[i].value.data;
    return NULL;
}

/* user:password@ means SASL; a password goes over TLS unless told otherwise. */
static int config_set_credentials(rd_kafka_conf_t *conf, const struct pipeline_config *c,
                                  const struct url *u, struct outrider_error *err)
{
    if (bytes_is_null(u->user))
        return 0;
    if (config_find_property(c, u, "security.protocol") == NULL &&
        config_set(conf, "security.protocol", "sasl_ssl", err) < 0)
        return -1;
    if (config_find_property(c, u, "sasl.mechanism") == NULL &&
        config_find_property(c, u, "sasl.mechanisms") == NULL &&
        config_set(conf, "sasl.mechanism", "PLAIN", err) < 0)
        return -1;
    if (config_set(conf, "sasl.username", u->user.data, err) < 0)
        return -1;
    return bytes_is_null(u->password) ? 0
                                      : config_set(conf, "sasl.password", u->password.data, err);
}

static int config_set_url(rd_kafka_conf_t *conf, const struct pipeline_config *c,
                          struct arena *arena, struct kafka_settings *s, struct url *ret_url,
                          struct outrider_error *err)
{
    struct url u;
    if (outrider__url_parse(bytes_str(c->sink.url), arena, &u, err) < 0)
        return -1;
    if (bytes_is_null(u.hosts) || (u.path.len > 0 && !bytes_eq_str(u.path, "/")))
        return outrider__fail(err, OUTRIDER_URL, OUTRIDER_STOP,
                              "a Kafka URL names brokers and no topic: kafka://host:9092,host:9092 "
                              "(topics come from route.topic)");
    s->servers = strdup(u.hosts.data);
    if (s->servers == NULL)
        return outrider__fail_nomem(err);
    if (config_set(conf, "bootstrap.servers", s->servers, err) < 0 ||
        config_set_credentials(conf, c, &u, err) < 0)
        return -1;
    for (size_t i = 0; i < u.n_params; i++)
        if (config_set_theirs(conf, u.params[i].name.data, u.params[i].value.data, err) < 0)
            return -1;
    *ret_url = u;
    return 0;
}

static int config_number_of(const char *name, const char *value, int *ret,
                            struct outrider_error *err)
{
    char *end;
    long n = strtol(value, &end, 10);
    if (*value == '\0' || *end != '\0' || n < 1 || n > 10000)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "sink.create_topics: %s must be a number from 1 to 10000", name);
    *ret = (int)n;
    return 0;
}

static bool config_leaves_topics_to_broker(const struct pipeline_config *c)
{
    const struct string_map *m = &kafka_options(c)->create_topics;
    return m->n == 1 && strcmp(m->items[0].name, "auto") == 0 &&
           strcmp(m->items[0].value, "true") == 0;
}

static int config_read_create(const struct pipeline_config *c, struct kafka_settings *s,
                              struct outrider_error *err)
{
    const struct string_map *m = &kafka_options(c)->create_topics;
    s->new_partitions = m->n > 0 ? -1 : 0;
    s->new_replication = -1;
    for (size_t i = 0; i < m->n; i++) {
        const char *name = m->items[i].name;
        if (config_leaves_topics_to_broker(c)) {
            s->new_partitions = 0;
            continue;
        }
        int *field = strcmp(name, "partitions") == 0    ? &s->new_partitions
                     : strcmp(name, "replication") == 0 ? &s->new_replication
                                                        : NULL;
        if (field == NULL)
            return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                                  "sink.create_topics: unknown name '%.60s' (known: partitions "
                                  "and replication, or auto: true alone)",
                                  name);
        if (config_number_of(name, m->items[i].value, field, err) < 0)
            return -1;
    }
    return 0;
}

static size_t config_number_in(rd_kafka_conf_t *conf, const char *name)
{
    char text[64];
    size_t size = sizeof text;
    if (rd_kafka_conf_get(conf, name, text, &size) != RD_KAFKA_CONF_OK)
        return 0;
    return strtoul(text, NULL, 10);
}

static void config_read_settings(const struct pipeline_config *c, rd_kafka_conf_t *conf,
                                 struct kafka_settings *s)
{
    s->ordered = c->ordered;
    s->is_mock = config_number_in(conf, "test.mock.num.brokers") > 0;
    s->max_records = config_number_in(conf, "queue.buffering.max.messages");
    s->max_bytes = config_number_in(conf, "queue.buffering.max.kbytes") * 1024;
}

static int config_set_all(rd_kafka_conf_t *conf, const struct pipeline_config *c, bool careful,
                          struct arena *arena, struct kafka_settings *s, struct outrider_error *err)
{
    char text[32];
    struct url u;
    for (size_t i = 0; i < COUNT(defaults); i++)
        if (config_set(conf, defaults[i].name, defaults[i].value, err) < 0)
            return -1;
    /* What the source lets through must reach the broker: it knows the topic's limit. */
    struct event_bounds max = outrider__event_bounds(c);
    int64_t largest = (int64_t)event_bounds_total(&max) + 65536;
    (void)snprintf(text, sizeof text, "%lld",
                   (long long)(largest < 1000000      ? 1000000
                               : largest > 1000000000 ? 1000000000
                                                      : largest));
    if (config_set(conf, "message.max.bytes", text, err) < 0 ||
        config_set_url(conf, c, arena, s, &u, err) < 0)
        return -1;
    const struct string_map *given = &kafka_options(c)->properties;
    for (size_t i = 0; i < given->n; i++)
        if (config_set_theirs(conf, given->items[i].name, given->items[i].value, err) < 0)
            return -1;
    for (size_t i = 0; i < COUNT(ours); i++)
        if (config_set(conf, ours[i].name, ours[i].value, err) < 0)
            return -1;
    if (careful && config_set(conf, "enable.gapless.guarantee", "false", err) < 0)
        return -1;
    if (config_leaves_topics_to_broker(c) &&
        config_set(conf, "allow.auto.create.topics", "true", err) < 0)
        return -1;
    return config_read_create(c, s, err);
}

/* A library does not write to a stream of its host; what matters comes as an event. */
static void config_no_log(const rd_kafka_t *rk, int level, const char *fac, const char *buf)
{
    (void)rk;
    (void)level;
    (void)fac;
    (void)buf;
}

int outrider__kafka_conf(const struct pipeline_config *c, bool careful, rd_kafka_conf_t **ret_conf,
                         struct kafka_settings *ret_settings, struct outrider_error *err)
{
    struct kafka_settings s = {0};
    struct arena arena;
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    outrider__arena_init(&arena, 1024);
    int r = config_set_all(conf, c, careful, &arena, &s, err);
    outrider__arena_release(&arena);
    if (r < 0) {
        rd_kafka_conf_destroy(conf);
        outrider__kafka_settings_release(&s);
        return -1;
    }
    rd_kafka_conf_set_log_cb(conf, config_no_log);
    config_read_settings(c, conf, &s);
    *ret_conf = conf;
    *ret_settings = s;
    return 0;
}

int outrider__kafka_check(const struct pipeline_config *c, struct outrider_error *err)
{
    struct kafka_settings s;
    rd_kafka_conf_t *conf;
    if (outrider__kafka_conf(c, false, &conf, &s, err) < 0)
        return -1;
    rd_kafka_conf_destroy(conf);
    outrider__kafka_settings_release(&s);
    return 0;
}

void outrider__kafka_settings_release(struct kafka_settings *s)
{
    free(s->servers);
    s->servers = NULL;
}
