/* SPDX-License-Identifier: MIT */
/*
 * The contract of sinks over librdkafka's mock cluster, and what the mock can
 * be told to reject: order per key is looked at from a consumer's side.
 */
#include "base/strbuf.h"
#include "contract/sink_contract.h"

#include "sink/kafka/kafka.h"

#include <librdkafka/rdkafka_mock.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PARTITIONS 4 /* the mock's default */

static rd_kafka_t *host; /* has the cluster inside it */
static rd_kafka_mock_cluster_t *cluster;

static rd_kafka_t *client(rd_kafka_type_t type, const char *const *properties)
{
    char why[256];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    for (; properties != NULL && *properties != NULL; properties += 2)
        assert_int_equal(rd_kafka_conf_set(conf, properties[0], properties[1], why, sizeof why), 0);
    rd_kafka_t *rk = rd_kafka_new(type, conf, why, sizeof why);
    if (rk == NULL)
        fail_msg("%s", why);
    return rk;
}

/* By asking for it: the mock makes what is missing, and its own call takes long. */
static void make_topic(const char *name)
{
    const struct rd_kafka_metadata *answer;
    rd_kafka_topic_t *topic = rd_kafka_topic_new(host, name, NULL);
    assert_int_equal(rd_kafka_metadata(host, 0, topic, &answer, 30000), 0);
    assert_int_equal(answer->topics[0].partition_cnt, PARTITIONS);
    rd_kafka_metadata_destroy(answer);
    rd_kafka_topic_destroy(topic);
}

static void set_up(char *ret_url, size_t size)
{
    static const char *const names[] = {"t", "u", "orders", "payments"};
    static const char *const mock[] = {"test.mock.num.brokers", "1", "log_level", "0", NULL};
    host = client(RD_KAFKA_PRODUCER, mock);
    cluster = rd_kafka_handle_mock_cluster(host);
    assert_non_null(cluster);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        make_topic(names[i]);
    for (int i = 0; i < 100; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "topic-%d", i);
        make_topic(name);
    }
    (void)snprintf(ret_url, size, "kafka://%s?topic.metadata.propagation.max.ms=300",
                   rd_kafka_mock_cluster_bootstraps(cluster));
}

static void tear_down(void)
{
    rd_kafka_destroy(host);
}
/* A message in the form of the file sink's lines, which the contract reads. */
static json_t *as_line(const rd_kafka_message_t *m)
{
    rd_kafka_headers_t *headers = NULL;
    json_t *line = json_object(), *all = json_object();
    (void)rd_kafka_message_headers(m, &headers);
    for (size_t i = 0; headers != NULL; i++) {
        const char *name;
        const void *value;
        size_t size;
        if (rd_kafka_header_get_all(headers, i, &name, &value, &size) != 0)
            break;
        json_object_set_new(all, name, json_stringn(value, size));
    }
    json_object_set_new(line, "topic", json_string(rd_kafka_topic_name(m->rkt)));
    json_object_set_new(line, "partition", json_integer(m->partition));
    json_object_set_new(line, "timestamp_ms", json_integer(rd_kafka_message_timestamp(m, NULL)));
    json_object_set_new(line, "headers", all);
    json_object_set_new(line, "key",
                        m->key != NULL ? json_stringn(m->key, m->key_len) : json_null());
    if (m->payload == NULL) {
        json_object_set_new(line, "payload", json_null());
        return line;
    }
    json_t *payload = json_loadb(m->payload, m->len,
                                 JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
    struct bytes bytes = bytes_of(m->payload, m->len);
    if (payload != NULL) {
        json_object_set_new(line, "payload", payload);
    } else if (outrider__bytes_is_utf8(bytes)) {
        json_object_set_new(line, "payload_text", json_stringn(m->payload, m->len));
    } else {
        struct strbuf text;
        outrider__strbuf_init(&text, 100000);
        outrider__strbuf_append_base64(&text, bytes);
        json_object_set_new(line, "payload_base64", json_string(strbuf_cstr(&text)));
        outrider__strbuf_release(&text);
    }
    return line;
}

static rd_kafka_topic_partition_list_t *all_partitions(rd_kafka_t *rk)
{
    const struct rd_kafka_metadata *all;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1000);
    assert_int_equal(rd_kafka_metadata(rk, 1, NULL, &all, 30000), 0);
    for (int i = 0; i < all->topic_cnt; i++)
        for (int p = 0; p < all->topics[i].partition_cnt; p++)
            rd_kafka_topic_partition_list_add(list, all->topics[i].topic, p)->offset =
                RD_KAFKA_OFFSET_BEGINNING;
    rd_kafka_metadata_destroy(all);
    return list;
}

static void read_back(void (*add)(void *ctx, json_t *line), void *ctx)
{
    const char *const properties[] = {"bootstrap.servers",
                                      rd_kafka_mock_cluster_bootstraps(cluster),
                                      "group.id",
                                      "reader",
                                      "fetch.wait.max.ms",
                                      "10",
                                      "enable.partition.eof",
                                      "true",
                                      NULL};
    rd_kafka_t *rk = client(RD_KAFKA_CONSUMER, properties);
    rd_kafka_topic_partition_list_t *list = all_partitions(rk);
    assert_int_equal(rd_kafka_assign(rk, list), 0);
    for (int left = list->cnt; left > 0;) {
        rd_kafka_message_t *m = rd_kafka_consumer_poll(rk, 30000);
        assert_non_null(m);
        if (m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF)
            left--;
        else if (m->err != 0)
            fail_msg("%s", rd_kafka_message_errstr(m));
        else
            add(ctx, as_line(m));
        rd_kafka_message_destroy(m);
    }
    rd_kafka_topic_partition_list_destroy(list);
    (void)rd_kafka_consumer_close(rk);
    rd_kafka_destroy(rk);
}

static struct sink_fixture fixture = {
    .ops = &outrider__sink_kafka,
    .set_up = set_up,
    .tear_down = tear_down,
    .read_back = read_back,
    .bad_url = "kafka://127.0.0.1:1?no.such.property=1",
    .refuses_empty_topic = true,
    .keeps_little = true,
};

static void setup_open_with(struct rig *r, const char *properties)
{
    struct outrider_error err = {0};
    rig_init(r, &fixture);
    size_t len = strlen(r->url);
    (void)snprintf(r->url + len, sizeof r->url - len, "%s", properties);
    r->config.ordered = true;
    r->config.source.max_payload = 1 << 20;
    r->config.source.max_headers = 1 << 16;
    if (rig_open(r, &err) < 0)
        fail_msg("open: %s", err.message);
}

static void setup_open(struct rig *r)
{
    setup_open_with(r, "");
}

/* The next produce requests are answered with this error. */
static void reject(size_t n, rd_kafka_resp_err_t err)
{
    rd_kafka_resp_err_t list[16];
    for (size_t i = 0; i < n; i++)
        list[i] = err;
    rd_kafka_mock_push_request_errors_array(cluster, 0 /* Produce */, n, list);
}

/* As the engine does it: what came back untried is offered again before
 * anything behind it. */
static void deliver_from(struct rig *r, size_t from)
{
    int64_t deadline = outrider__clock_now().mono_us + RIG_TIMEOUT_MS * 1000;
    bool *is_out = calloc(r->n, sizeof *is_out);
    assert_non_null(is_out);
    while (outrider__clock_now().mono_us < deadline) {
        bool has_room = true;
        size_t left = 0;
        for (size_t i = from; i < r->n; i++) {
            struct delivery *d = &r->d[i];
            if (r->told[i].times > 0 && r->told[i].result == SINK_UNTRIED) {
                r->told[i] = (struct told){0};
                is_out[i] = false;
            }
            left += r->told[i].times == 0;
            if (has_room && !is_out[i])
                is_out[i] = has_room =
                    r->sink->ops->submit(r->sink, &d, 1, outrider__clock_now()) == 1;
        }
        if (left == 0)
            break;
        rig_poll(r, deadline);
    }
    free(is_out);
    for (size_t i = from; i < r->n; i++)
        assert_int_equal(r->told[i].times, 1);
}

/* Of each key, the first visible ones stand in the order of submission. */
static void check_order(struct rig *r, size_t n_keys)
{
    size_t next[32];
    assert_true(n_keys > 0 && n_keys <= 32);
    rig_read_back(r);
    for (size_t i = 0; i < n_keys; i++)
        next[i] = i;
    for (size_t k = 0; k < r->n_seen; k++) {
        size_t i = strtoul(r->seen[k].id, NULL, 10), key = i % n_keys;
        while (next[key] < i && r->told[next[key]].result == SINK_DEAD)
            next[key] += n_keys;
        if (i > next[key])
            fail_msg("%zu came before %zu", i, next[key]);
        if (i == next[key])
            next[key] += n_keys;
    }
    for (size_t i = 0; i < n_keys; i++) {
        while (next[i] < r->n && r->told[next[i]].result == SINK_DEAD)
            next[i] += n_keys;
        assert_true(next[i] >= r->n);
    }
}

/* Contract 6. What shared a batch with a rejected record is neither lost nor
 * overtaken by what was in flight behind it. */
static void a_rejected_batch_is_not_overtaken(void **state)
{
    static const rd_kafka_resp_err_t errors[] = {
        RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, RD_KAFKA_RESP_ERR_INVALID_RECORD,
        RD_KAFKA_RESP_ERR_POLICY_VIOLATION, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED};
    static const char *const keys[] = {"a", "b", "c", "d", "e"};
    (void)state;
    for (size_t e = 0; e < sizeof errors / sizeof *errors; e++) {
        struct rig r;
        /* One request at a time: the mock broker does not check the producer's sequence, as a
         * real one does, and would take what is in flight behind the rejected batch. */
        setup_open_with(&r, "&max.in.flight.requests.per.connection=1");
        /* One each: the producer's sequence is known in every partition. */
        for (size_t i = 0; i < 2000; i++)
            (void)rig_add(&r, "t", keys[i % 5], BYTES_LIT("{\"n\":1}"));
        rig_submit(&r, 0, 5);
        rig_wait(&r, 5);
        reject(1, errors[e]);
        deliver_from(&r, 5);
        size_t retried = 0;
        for (size_t i = 0; i < r.n; i++) {
            retried += r.told[i].result == SINK_RETRY;
            assert_true(r.told[i].result == SINK_DELIVERED || r.told[i].result == SINK_RETRY);
        }
        /* What lacks the right may come back to be retried; or untried, if what
         * was behind it in the ended producer came back first. */
        if (errors[e] != RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED)
            assert_int_equal(retried, 0);
        if (retried == 0)
            check_order(&r, 5);
        rig_release(&r);
    }
}

/* Contract 5: alone and rejected again, it is the culprit; what is behind it follows. */
static void the_culprit_is_found_and_the_others_go_on(void **state)
{
    struct rig r;
    (void)state;
    setup_open(&r);
    for (size_t i = 0; i < 30; i++)
        (void)rig_add(&r, "t", "k", BYTES_LIT("{\"n\":1}"));
    /* The first one is always sent alone of its lane, then alone of its topic. */
    reject(2, RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE);
    deliver_from(&r, 0);
    assert_int_equal(r.told[0].result, SINK_DEAD);
    assert_int_equal(r.told[0].why.code, OUTRIDER_TOO_LARGE);
    for (size_t i = 1; i < r.n; i++)
        assert_int_equal(r.told[i].result, SINK_DELIVERED);
    check_order(&r, 1);
    rig_release(&r);
}

/* Contract 6: one attempt is spent, not one for each event of the lane. */
static void behind_a_retried_event_the_lane_comes_back_untried(void **state)
{
    struct rig r;
    (void)state;
    setup_open(&r);
    for (size_t i = 0; i < 20; i++)
        (void)rig_add(&r, "missing", i % 2 ? "a" : "b", BYTES_LIT("1"));
    rd_kafka_mock_topic_set_error(cluster, "missing", RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
    rig_submit(&r, 0, 20);
    rig_wait(&r, 20);
    for (size_t i = 0; i < 20; i++) {
        assert_int_equal(r.told[i].result, i < 2 ? SINK_RETRY : SINK_UNTRIED);
        if (i < 2)
            assert_non_null(strstr(r.told[i].why.message, "'missing'"));
    }
    rig_release(&r);
}

static void a_missing_topic_holds_up_no_other(void **state)
{
    struct rig r;
    (void)state;
    setup_open(&r);
    rd_kafka_mock_topic_set_error(cluster, "missing", RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
    (void)rig_add(&r, "missing", "a", BYTES_LIT("1"));
    (void)rig_add(&r, "t", "a", BYTES_LIT("1"));
    rig_submit(&r, 0, 2);
    rig_wait(&r, 1);
    assert_int_equal(r.told[1].result, SINK_DELIVERED);
    rig_wait(&r, 2);
    assert_int_equal(r.told[0].result, SINK_RETRY);
    assert_int_equal(r.told[0].why.code, OUTRIDER_NOT_FOUND);
    /* And it works once the topic is there. */
    rd_kafka_mock_topic_set_error(cluster, "missing", RD_KAFKA_RESP_ERR_NO_ERROR);
    int64_t deadline = outrider__clock_now().mono_us + RIG_TIMEOUT_MS * 1000;
    while (r.told[0].result != SINK_DELIVERED && outrider__clock_now().mono_us < deadline) {
        r.told[0] = (struct told){0};
        r.n_told--;
        rig_submit(&r, 0, 1);
        rig_wait(&r, 2);
    }
    assert_int_equal(r.told[0].result, SINK_DELIVERED);
    rig_release(&r);
}

static void explicit_partition_timestamp_and_tombstone_arrive(void **state)
{
    struct rig r;
    (void)state;
    setup_open(&r);
    for (size_t i = 0; i < 6; i++) {
        struct delivery *d = rig_add(&r, "t", "same", i % 2 ? BYTES_LIT("") : BYTES_NULL);
        d->partition = (int32_t)(i % PARTITIONS);
        d->timestamp_us = 1700000000123456 + (int64_t)i * 1000;
    }
    struct delivery *wrong = rig_add(&r, "t", "same", BYTES_LIT("1"));
    wrong->partition = 77;
    rig_submit(&r, 0, 7);
    rig_wait(&r, 7);
    assert_int_equal(r.told[6].result, SINK_RETRY);
    assert_non_null(strstr(r.told[6].why.message, "no such partition"));
    rig_read_back(&r);
    assert_int_equal(r.n_seen, 6);
    for (size_t k = 0; k < 6; k++) {
        size_t i = strtoul(r.seen[k].id, NULL, 10);
        json_t *line = r.seen[k].line;
        assert_int_equal(json_integer_value(json_object_get(line, "partition")), i % PARTITIONS);
        assert_int_equal(json_integer_value(json_object_get(line, "timestamp_ms")),
                         1700000000123 + (int64_t)i);
        assert_int_equal(json_is_null(json_object_get(line, "payload")), i % 2 == 0);
    }
    rig_release(&r);
}

/* The brokers are away: it says so, keeps what it has, and goes on. */
static void an_outage_is_told_and_what_it_holds_is_delivered_afterwards(void **state)
{
    struct rig r;
    (void)state;
    setup_open(&r);
    rig_deliver(&r, "t", "k", "0");
    assert_int_equal(rd_kafka_mock_broker_set_down(cluster, 1), 0);
    for (size_t i = 1; i < 200; i++)
        (void)rig_add(&r, "t", "k", BYTES_LIT("1"));
    rig_submit(&r, 1, 200);
    int64_t deadline = outrider__clock_now().mono_us + RIG_TIMEOUT_MS * 1000;
    while (r.sink->trouble[0] == '\0' && outrider__clock_now().mono_us < deadline)
        rig_poll(&r, deadline);
    assert_non_null(strstr(r.sink->trouble, "no broker"));
    assert_int_equal(rd_kafka_mock_broker_set_up(cluster, 1), 0);
    rig_wait(&r, 200);
    assert_string_equal(r.sink->trouble, "");
    for (size_t i = 0; i < 200; i++)
        assert_int_equal(r.told[i].result, SINK_DELIVERED);
    check_order(&r, 1);
    rig_release(&r);
}

int main(void)
{
    const struct CMUnitTest own[] = {
        cmocka_unit_test(a_rejected_batch_is_not_overtaken),
        cmocka_unit_test(the_culprit_is_found_and_the_others_go_on),
        cmocka_unit_test(behind_a_retried_event_the_lane_comes_back_untried),
        cmocka_unit_test(a_missing_topic_holds_up_no_other),
        cmocka_unit_test(explicit_partition_timestamp_and_tombstone_arrive),
        cmocka_unit_test(an_outage_is_told_and_what_it_holds_is_delivered_afterwards),
    };
    int failed = sink_contract_run("kafka", &fixture);
    return failed + cmocka_run_group_tests_name("kafka, its own", own, NULL, NULL);
}
