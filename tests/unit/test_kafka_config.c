/* SPDX-License-Identifier: MIT */
#include "core/options.h"
#include "sink/kafka/kafka.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct made {
    struct arena arena;
    struct pipeline_config config;
    rd_kafka_conf_t *conf;
    struct kafka_settings settings;
    struct outrider_error err;
};

/* NULL-ended pairs of option and value. */
static int make(struct made *m, const char *url, const char *const *options)
{
    *m = (struct made){0};
    outrider__arena_init(&m->arena, 4096);
    assert_int_equal(outrider__config_init(&m->config, &m->arena, "default", &m->err), 0);
    assert_int_equal(
        outrider__config_set(&m->config, BYTES_LIT("sink.url"), bytes_str(url), &m->err), 0);
    for (; options != NULL && *options != NULL; options += 2)
        if (outrider__config_set(&m->config, bytes_str(options[0]), bytes_str(options[1]),
                                 &m->err) < 0)
            fail_msg("%s", m->err.message);
    return outrider__kafka_conf(&m->config, false, &m->conf, &m->settings, &m->err);
}

static void release(struct made *m)
{
    if (m->conf != NULL)
        rd_kafka_conf_destroy(m->conf);
    outrider__kafka_settings_release(&m->settings);
    outrider__arena_release(&m->arena);
}

static void check_property(struct made *m, const char *name, const char *value)
{
    char text[256];
    size_t size = sizeof text;
    assert_int_equal(rd_kafka_conf_get(m->conf, name, text, &size), RD_KAFKA_CONF_OK);
    assert_string_equal(text, value);
}

static void the_producer_is_idempotent_and_puts_keys_where_java_does(void **state)
{
    struct made m;
    (void)state;
    assert_int_equal(make(&m, "kafka://a:1,b:2", NULL), 0);
    check_property(&m, "bootstrap.servers", "a:1,b:2");
    check_property(&m, "enable.idempotence", "true");
    check_property(&m, "acks", "-1");
    check_property(&m, "message.timeout.ms", "0");
    check_property(&m, "partitioner", "murmur2_random");
    check_property(&m, "enable.gapless.guarantee", "true");
    assert_int_equal(m.settings.max_bytes, 32 << 20);
    release(&m);
}

static void any_property_of_librdkafka_can_be_set(void **state)
{
    static const char *const options[] = {
        "sink.kafka", "{compression.type: lz4}", "sink.kafka.linger.ms",
        "20",         "kafka.batch.size",        "5000",
        NULL};
    struct made m;
    (void)state;
    assert_int_equal(make(&m, "kafka://a:1?client.id=me", options), 0);
    check_property(&m, "compression.type", "lz4");
    check_property(&m, "linger.ms", "20");
    check_property(&m, "batch.size", "5000");
    check_property(&m, "client.id", "me");
    release(&m);
}

static void an_unknown_property_is_an_error_with_the_nearest_name(void **state)
{
    static const struct {
        const char *typed, *meant;
    } cases[] = {
        {"lingr.ms", "'linger.ms'"},         {"compresion.type", "'compression.type'"},
        {"sasl.pasword", "'sasl.password'"}, {"message_max_bytes", "'message.max.bytes'"},
        {"entirely-unheard-of-zzz", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[80];
        struct made m;
        (void)snprintf(name, sizeof name, "sink.kafka.%s", cases[i].typed);
        const char *const options[] = {name, "hunter2", NULL};
        assert_int_equal(make(&m, "kafka://a:1", options), -1);
        assert_int_equal(m.err.code, OUTRIDER_CONFIG);
        assert_int_equal(m.err.disposition, OUTRIDER_STOP);
        assert_non_null(strstr(m.err.message, cases[i].typed));
        assert_null(strstr(m.err.message, "hunter2"));
        if (cases[i].meant != NULL && strstr(m.err.message, cases[i].meant) == NULL)
            fail_msg("%s", m.err.message);
        if (cases[i].meant == NULL)
            assert_null(strstr(m.err.message, "did you mean"));
        release(&m);
    }
}

static void what_order_and_safety_rest_on_cannot_be_changed(void **state)
{
    static const char *const names[] = {"acks",    "enable.idempotence", "message.timeout.ms",
                                        "retries", "bootstrap.servers",  "transactional.id"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[80];
        struct made m;
        (void)snprintf(name, sizeof name, "sink.kafka.%s", names[i]);
        const char *const options[] = {name, "1", NULL};
        assert_int_equal(make(&m, "kafka://a:1", options), -1);
        assert_non_null(strstr(m.err.message, names[i]));
        assert_non_null(strstr(m.err.message, "leave it out"));
        release(&m);
    }
}

static void a_bad_value_is_an_error_and_no_secret_is_shown(void **state)
{
    static const char *const options[] = {"sink.kafka.linger.ms", "soon", NULL};
    struct made m;
    (void)state;
    assert_int_equal(make(&m, "kafka://a:1", options), -1);
    assert_non_null(strstr(m.err.message, "linger.ms"));
    release(&m);
}

static void user_and_password_mean_sasl_over_tls_unless_told_otherwise(void **state)
{
    static const char *const plain[] = {"sink.kafka.security.protocol", "sasl_plaintext",
                                        "sink.kafka.sasl.mechanism", "SCRAM-SHA-256", NULL};
    struct made m;
    (void)state;
    assert_int_equal(make(&m, "kafka://me:p%40ss@a:1", NULL), 0);
    check_property(&m, "security.protocol", "sasl_ssl");
    check_property(&m, "sasl.mechanism", "PLAIN");
    check_property(&m, "sasl.username", "me");
    check_property(&m, "sasl.password", "p@ss");
    release(&m);
    assert_int_equal(make(&m, "kafka://me:x@a:1", plain), 0);
    check_property(&m, "security.protocol", "sasl_plaintext");
    check_property(&m, "sasl.mechanism", "SCRAM-SHA-256");
    release(&m);
}

static void a_password_among_the_properties_is_shown_only_redacted(void **state)
{
    static const char *const options[] = {"sink.kafka.sasl.password", "hunter2",
                                          "sink.kafka.linger.ms", "5", NULL};
    struct made m;
    struct strbuf text;
    (void)state;
    assert_int_equal(make(&m, "kafka://a:1", options), 0);
    outrider__strbuf_init(&text, 1000);
    assert_int_equal(
        outrider__config_get(&m.config, outrider__option_find(BYTES_LIT("sink.kafka")), &text), 0);
    assert_null(strstr(strbuf_cstr(&text), "hunter2"));
    assert_non_null(strstr(strbuf_cstr(&text), "linger.ms: 5"));
    outrider__strbuf_release(&text);
    release(&m);
}

static void a_url_without_brokers_or_with_a_topic_is_refused(void **state)
{
    static const char *const urls[] = {"kafka:", "kafka://", "kafka://a:1/orders"};
    (void)state;
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        struct made m;
        assert_int_equal(make(&m, urls[i], NULL), -1);
        assert_int_equal(m.err.code, OUTRIDER_URL);
        release(&m);
    }
}

static void topics_are_created_only_if_asked_for(void **state)
{
    static const char *const asked[] = {"sink.create_topics", "{partitions: 6, replication: 3}",
                                        NULL};
    static const char *const bad[][3] = {{"sink.create_topics", "{partition: 6}", NULL},
                                         {"sink.create_topics", "{partitions: 0}", NULL},
                                         {"sink.create_topics", "{replication: many}", NULL}};
    struct made m;
    (void)state;
    assert_int_equal(make(&m, "kafka://a:1", NULL), 0);
    assert_int_equal(m.settings.new_partitions, 0);
    release(&m);
    assert_int_equal(make(&m, "kafka://a:1", asked), 0);
    assert_int_equal(m.settings.new_partitions, 6);
    assert_int_equal(m.settings.new_replication, 3);
    release(&m);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(make(&m, "kafka://a:1", bad[i]), -1);
        assert_non_null(strstr(m.err.message, "sink.create_topics"));
        release(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_producer_is_idempotent_and_puts_keys_where_java_does),
        cmocka_unit_test(any_property_of_librdkafka_can_be_set),
        cmocka_unit_test(an_unknown_property_is_an_error_with_the_nearest_name),
        cmocka_unit_test(what_order_and_safety_rest_on_cannot_be_changed),
        cmocka_unit_test(a_bad_value_is_an_error_and_no_secret_is_shown),
        cmocka_unit_test(user_and_password_mean_sasl_over_tls_unless_told_otherwise),
        cmocka_unit_test(a_password_among_the_properties_is_shown_only_redacted),
        cmocka_unit_test(a_url_without_brokers_or_with_a_topic_is_refused),
        cmocka_unit_test(topics_are_created_only_if_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
