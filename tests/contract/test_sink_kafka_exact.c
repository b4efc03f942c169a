/* SPDX-License-Identifier: MIT */
/*
 * Exactly once, clauses (8) to (12) of core/sink.h, over librdkafka's mock
 * cluster. It has no transactions to read by, so what a consumer sees of them is
 * proven elsewhere, with a real broker; here it is who is told what.
 */
#include "contract/sink_contract.h"
#include "sink/kafka.h"

#include <librdkafka/rdkafka_mock.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define ADD_PARTITIONS 24 /* numbers of requests */
#define END_TXN 26

static rd_kafka_t *host; /* has the cluster inside it */
static rd_kafka_mock_cluster_t *cluster;

static void make_topic(const char *name)
{
    const struct rd_kafka_metadata *answer;
    rd_kafka_topic_t *topic = rd_kafka_topic_new(host, name, NULL);
    assert_int_equal(rd_kafka_metadata(host, 0, topic, &answer, 30000), 0);
    rd_kafka_metadata_destroy(answer);
    rd_kafka_topic_destroy(topic);
}

static void set_up(char *ret_url, size_t size)
{
    char why[256];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    (void)rd_kafka_conf_set(conf, "test.mock.num.brokers", "1", NULL, 0);
    (void)rd_kafka_conf_set(conf, "log_level", "0", NULL, 0);
    host = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
    assert_non_null(host);
    cluster = rd_kafka_handle_mock_cluster(host);
    make_topic("t");
    make_topic("u");
    make_topic("outrider.progress");
    (void)snprintf(ret_url, size, "kafka://%s", rd_kafka_mock_cluster_bootstraps(cluster));
}

static void tear_down(void)
{
    rd_kafka_destroy(host);
}

static const struct sink_fixture fixture = {
    .ops = &outrider__sink_kafka, .set_up = set_up, .tear_down = tear_down};

/* Polls until the sink is not busy: 0, or its error. */
static int settle_down(struct rig *r, struct outrider_error *err)
{
    int64_t deadline = outrider__clock_now().mono_us + 30000000;
    for (;;) {
        r->in_poll = true;
        int rc = r->sink->ops->poll(r->sink, outrider__clock_now(), err);
        r->in_poll = false;
        if (rc < 0 || !r->sink->is_busy)
            return rc;
        assert_true(outrider__clock_now().mono_us < deadline);
        struct pollfd fds[4];
        int n = r->sink->ops->fds(r->sink, fds, 4);
        (void)poll(fds, (nfds_t)n, 10);
    }
}

static void must_settle_down(struct rig *r)
{
    struct outrider_error err = {0};
    if (settle_down(r, &err) < 0)
        fail_msg("%s", err.message);
}

static void open_as(struct rig *r, const char *identity)
{
    struct outrider_error err = {0};
    r->identity = identity;
    if (rig_open(r, &err) < 0)
        fail_msg("open: %s", err.message);
    assert_true(r->sink->is_busy);
    must_settle_down(r);
}

static void begin(struct rig *r)
{
    rig_init(r, &fixture);
    r->config.ordered = true;
    r->config.source.max_payload = 1 << 20;
    r->config.sink.progress_topic = "outrider.progress";
    open_as(r, "shop/orders");
}

static void commit(struct rig *r, struct commit_mark p)
{
    r->sink->ops->seal(r->sink, p, outrider__clock_now());
    r->sink->ops->commit(r->sink, outrider__clock_now());
    assert_true(r->sink->is_busy);
}

static void assert_progress(const struct rig *r, uint64_t no, uint64_t stamp)
{
    assert_int_equal(r->sink->progress.no, no);
    assert_int_equal(r->sink->progress.stamp, stamp);
}

static void what_was_committed_is_what_the_next_one_finds_8_10(void **state)
{
    (void)state;
    struct rig r;
    begin(&r);
    assert_progress(&r, 0, 0);
    rig_deliver(&r, "t", "k", "{}");
    commit(&r, (struct commit_mark){1, 4711});
    must_settle_down(&r);
    assert_progress(&r, 1, 4711);
    commit(&r, (struct commit_mark){2, UINT64_MAX >> 1}); /* of nothing but the number */
    must_settle_down(&r);
    rig_close(&r);
    open_as(&r, "shop/orders");
    assert_progress(&r, 2, UINT64_MAX >> 1);
    rig_release(&r);
}

static void another_identity_is_another_count_8(void **state)
{
    (void)state;
    struct rig r;
    begin(&r);
    commit(&r, (struct commit_mark){1, 4711});
    must_settle_down(&r);
    rig_close(&r);
    open_as(&r, "shop/order");
    assert_progress(&r, 0, 0);
    rig_release(&r);
}

static void an_abort_gives_everything_back_11(void **state)
{
    (void)state;
    struct rig r;
    begin(&r);
    for (int i = 0; i < 200; i++)
        (void)rig_add(&r, i % 2 == 0 ? "t" : "u", "k", BYTES_LIT("{}"));
    rig_submit(&r, 0, 200);
    r.sink->ops->seal(r.sink, (struct commit_mark){1, 4711}, outrider__clock_now());
    r.sink->ops->abort(r.sink, outrider__clock_now());
    must_settle_down(&r);
    assert_int_equal(r.n_told, 200);
    assert_progress(&r, 0, 0);
    rig_deliver(&r, "t", "k", "{}");
    commit(&r, (struct commit_mark){1, 1});
    must_settle_down(&r);
    assert_progress(&r, 1, 1);
    rig_release(&r);
}

static void a_transaction_is_sealed_before_its_events_are_reported_10(void **state)
{
    (void)state;
    struct rig r;
    begin(&r);
    for (int i = 0; i < 200; i++)
        (void)rig_add(&r, "t", "k", BYTES_LIT("{}"));
    rig_submit(&r, 0, 200);
    r.sink->ops->seal(r.sink, (struct commit_mark){1, 4711}, outrider__clock_now());
    assert_false(r.sink->is_busy);
    rig_wait(&r, 200);
    r.sink->ops->commit(r.sink, outrider__clock_now());
    must_settle_down(&r);
    assert_progress(&r, 1, 4711);
    rig_close(&r);
    open_as(&r, "shop/orders");
    assert_progress(&r, 1, 4711);
    rig_release(&r);
}

static void a_busy_sink_takes_nothing_8(void **state)
{
    (void)state;
    struct rig r;
    begin(&r);
    struct delivery *d = rig_add(&r, "t", "k", BYTES_LIT("{}"));
    commit(&r, (struct commit_mark){1, 1});
    assert_int_equal(r.sink->ops->submit(r.sink, &d, 1, outrider__clock_now()), 0);
    must_settle_down(&r);
    assert_int_equal(r.sink->ops->submit(r.sink, &d, 1, outrider__clock_now()), 1);
    rig_wait(&r, 1);
    rig_release(&r);
}

/* The broker refuses a topic for the whole transaction: everything comes back,
 * and in the next try the culprit is told, which spares the others. */
static void a_topic_that_may_not_be_written_to_is_told_9(void **state)
{
    (void)state;
    struct rig r;
    begin(&r);
    rd_kafka_mock_push_request_errors(cluster, ADD_PARTITIONS, 1,
                                      RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
    (void)rig_add(&r, "t", "k", BYTES_LIT("{}"));
    rig_submit(&r, 0, 1);
    rig_wait(&r, 1);
    assert_int_equal(r.told[0].result, SINK_UNTRIED);
    r.sink->ops->abort(r.sink, outrider__clock_now());
    must_settle_down(&r);
    rig_clear(&r);
    (void)rig_add(&r, "t", "k", BYTES_LIT("{}"));
    rig_submit(&r, 0, 1);
    rig_wait(&r, 1);
    assert_int_equal(r.told[0].result, SINK_RETRY);
    assert_int_equal(r.told[0].why.code, OUTRIDER_AUTH);
    r.sink->ops->abort(r.sink, outrider__clock_now());
    must_settle_down(&r);
    rig_clear(&r);
    rig_deliver(&r, "t", "k", "{}"); /* the verdict was told: it is tried again */
    rig_release(&r);
}

static void whoever_is_shut_out_is_told_so_12(void **state)
{
    (void)state;
    struct rig old;
    struct outrider_error err = {0};
    begin(&old);
    rig_deliver(&old, "t", "k", "{}");
    rd_kafka_mock_push_request_errors(cluster, END_TXN, 1, RD_KAFKA_RESP_ERR_PRODUCER_FENCED);
    commit(&old, (struct commit_mark){1, 1});
    assert_int_equal(settle_down(&old, &err), -1);
    assert_int_equal(err.code, OUTRIDER_FENCED);
    assert_int_equal(err.disposition, OUTRIDER_RETRY);
    rig_release(&old);
}

static void a_sink_is_closed_while_it_opens_4(void **state)
{
    (void)state;
    struct rig r;
    struct outrider_error err = {0};
    rig_init(&r, &fixture);
    r.config.ordered = true;
    r.config.sink.progress_topic = "outrider.progress";
    r.identity = "shop/orders";
    assert_int_equal(rd_kafka_mock_broker_set_down(cluster, 1), 0);
    assert_int_equal(rig_open(&r, &err), 0);
    rig_release(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_committed_is_what_the_next_one_finds_8_10),
        cmocka_unit_test(another_identity_is_another_count_8),
        cmocka_unit_test(an_abort_gives_everything_back_11),
        cmocka_unit_test(a_transaction_is_sealed_before_its_events_are_reported_10),
        cmocka_unit_test(a_busy_sink_takes_nothing_8),
        cmocka_unit_test(a_topic_that_may_not_be_written_to_is_told_9),
        cmocka_unit_test(whoever_is_shut_out_is_told_so_12),
        cmocka_unit_test(a_sink_is_closed_while_it_opens_4),
    };
    return cmocka_run_group_tests_name("sink_kafka, exactly once", tests, NULL, NULL);
}
