/* SPDX-License-Identifier: MIT */
/*
 * Exactly once, clauses (8) to (12) of core/sink.h, over librdkafka's mock
 * cluster. It has no transactions to read by, so what a consumer sees of them is
 * proven elsewhere, with a real broker; here it is who is told what.
 */
#include "contract/sink_contract.h"
#include "sink/kafka/kafka.h"

#include <librdkafka/rdkafka_mock.h>
#include <poll.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define ADD_PARTITIONS 24 /* numbers of requests */
#define END_TXN 26
#define CLOSES 40
#define ENDINGS 8    /* as many as may wait */
#define STALLS 10000 /* 20 ms each */
#define CLOSES_US 1500

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

static void prepare(struct rig *r)
{
    rig_init(r, &fixture);
    r->config.ordered = true;
    r->config.source.max_payload = 1 << 20;
    r->config.source.max_headers = 1 << 16;
}

static void begin(struct rig *r)
{
    prepare(r);
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
    r.identity = "shop/orders";
    assert_int_equal(rd_kafka_mock_broker_set_down(cluster, 1), 0);
    assert_int_equal(rig_open(&r, &err), 0);
    rig_release(&r);
}

static void is_not_reported(void *ctx, struct delivery *d, const struct sink_report *report)
{
    (void)ctx;
    (void)d;
    (void)report;
    fail_msg("reported by something else than poll()");
}

static struct sink *another_sink(const struct rig *r, const char *identity)
{
    struct outrider_error err = {0};
    struct sink *s = calloc(1, r->fixture->ops->size);
    assert_non_null(s);
    *s = (struct sink){.ops = r->fixture->ops, .reported = is_not_reported, .identity = identity};
    if (s->ops->open(s, &r->config, outrider__clock_now(), &err) < 0)
        fail_msg("open: %s", err.message);
    return s;
}

static void wait_until_us(int64_t us)
{
    while (outrider__clock_now().mono_us < us)
        continue;
}

/* Opens some at once: each takes a second of the mock's time. */
static void close_some(struct rig *r, int first, int n)
{
    struct sink *all[CLOSES];
    char names[CLOSES][24];
    for (int i = 0; i < n; i++) {
        (void)snprintf(names[i], sizeof names[i], "shop/%d", first + i);
        all[i] = another_sink(r, names[i]);
    }
    for (int i = 0; i < n; i++) {
        struct rig one = {.fixture = r->fixture, .sink = all[i]};
        must_settle_down(&one);
        struct delivery *d[] = {rig_add(r, "t", "k", BYTES_LIT("{}")),
                                rig_add(r, "u", "k", BYTES_LIT("{}"))};
        int64_t now = outrider__clock_now().mono_us;
        assert_int_equal(all[i]->ops->submit(all[i], d, 2, outrider__clock_now()), 2);
        wait_until_us(now + (int64_t)(first + i) * CLOSES_US / CLOSES);
        all[i]->ops->close(all[i]);
        free(all[i]);
    }
}

/*
 * librdkafka registers the partitions of a transaction a moment after their first
 * record, on a timer. A producer that is destroyed in that moment ends the process
 * (sink/kafka_end.c), so the closes are spread over it.
 */
static void a_transaction_is_closed_at_any_moment_4(void **state)
{
    (void)state;
    struct rig r;
    begin(&r);
    for (int i = 0; i < CLOSES; i += CLOSES / 4)
        close_some(&r, i, CLOSES / 4);
    assert_int_equal(outrider__kafka_endings(), 0);
    rig_release(&r);
}

/* The record of progress cannot be registered for as long as the broker is busy. */
static void stall_partitions(void)
{
    static rd_kafka_resp_err_t errors[STALLS];
    for (size_t i = 0; i < STALLS; i++)
        errors[i] = RD_KAFKA_RESP_ERR_CONCURRENT_TRANSACTIONS;
    rd_kafka_mock_push_request_errors_array(cluster, ADD_PARTITIONS, STALLS, errors);
}

/* Asks for a commit, and returns once librdkafka has begun with it: it takes no more then. */
static void begin_commit(struct sink *s)
{
    s->ops->seal(s, (struct commit_mark){1, 1}, outrider__clock_now());
    s->ops->commit(s, outrider__clock_now());
    while (rd_kafka_producev(kafka_of(s)->fast.rk, RD_KAFKA_V_TOPIC("t"), RD_KAFKA_V_END) ==
           RD_KAFKA_RESP_ERR_NO_ERROR)
        continue;
}

static void stall_a_commit(struct rig *r)
{
    open_as(r, "shop/orders");
    rig_deliver(r, "t", "k", "{}");
    stall_partitions();
    begin_commit(r->sink);
    rig_close(r);
}

static void wait_for_endings(void)
{
    int64_t deadline = outrider__clock_now().mono_us + RIG_TIMEOUT_MS * 1000LL;
    while (outrider__kafka_endings() > 0) {
        assert_true(outrider__clock_now().mono_us < deadline);
        (void)poll(NULL, 0, 10);
    }
}

static void a_commit_that_is_closed_is_ended_by_a_thread_4(void **state)
{
    (void)state;
    struct rig r;
    prepare(&r);
    stall_a_commit(&r);
    assert_int_equal(outrider__kafka_endings(), 1);
    rd_kafka_mock_clear_request_errors(cluster, ADD_PARTITIONS);
    wait_for_endings();
    open_as(&r, "shop/orders");
    assert_progress(&r, 1, 1);
    rig_release(&r);
}

static void a_commit_whose_broker_never_answers_ends_too_4(void **state)
{
    (void)state;
    struct rig r;
    prepare(&r);
    size_t len = strlen(r.url);
    (void)snprintf(r.url + len, sizeof r.url - len, "?transaction.timeout.ms=3000");
    stall_a_commit(&r);
    assert_int_equal(outrider__kafka_endings(), 1);
    wait_for_endings();
    rig_release(&r);
}

/* A cluster that never answers must not fill the memory with producers. */
static void too_many_commits_that_do_not_end_are_told(void **state)
{
    (void)state;
    struct rig r;
    struct sink *all[ENDINGS];
    struct outrider_error err = {0};
    char names[ENDINGS][24];
    prepare(&r);
    for (int i = 0; i < ENDINGS; i++) {
        (void)snprintf(names[i], sizeof names[i], "shop/%d", i);
        all[i] = another_sink(&r, names[i]);
    }
    for (int i = 0; i < ENDINGS; i++) {
        struct rig one = {.fixture = r.fixture, .sink = all[i]};
        must_settle_down(&one);
    }
    stall_partitions();
    for (int i = 0; i < ENDINGS; i++) {
        begin_commit(all[i]);
        all[i]->ops->close(all[i]);
        free(all[i]);
    }
    assert_int_equal(outrider__kafka_endings(), ENDINGS);
    r.identity = "shop/orders";
    assert_int_equal(rig_open(&r, &err), -1);
    assert_int_equal(err.disposition, OUTRIDER_RETRY);
    assert_non_null(strstr(err.message, "have not ended yet"));
    rig_close(&r);
    rd_kafka_mock_clear_request_errors(cluster, ADD_PARTITIONS);
    wait_for_endings();
    open_as(&r, "shop/orders");
    rig_release(&r);
}

/* `contract_sink_kafka_exact leave`: the program ends while the thread is at work. */
static int leave(void)
{
    static struct rig r;
    prepare(&r);
    stall_a_commit(&r);
    return outrider__kafka_endings() == 1 ? 0 : 1;
}

static void a_program_may_end_before_its_producers_4(void **state)
{
    (void)state;
    char name[] = "contract_sink_kafka_exact", what[] = "leave";
    char *args[] = {name, what, NULL};
    pid_t child;
    int status;
    assert_int_equal(posix_spawn(&child, "/proc/self/exe", NULL, NULL, args, environ), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "leave") == 0)
        return leave();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_committed_is_what_the_next_one_finds_8_10),
        cmocka_unit_test(another_identity_is_another_count_8),
        cmocka_unit_test(an_abort_gives_everything_back_11),
        cmocka_unit_test(a_transaction_is_sealed_before_its_events_are_reported_10),
        cmocka_unit_test(a_busy_sink_takes_nothing_8),
        cmocka_unit_test(a_topic_that_may_not_be_written_to_is_told_9),
        cmocka_unit_test(whoever_is_shut_out_is_told_so_12),
        cmocka_unit_test(a_sink_is_closed_while_it_opens_4),
        cmocka_unit_test(a_transaction_is_closed_at_any_moment_4),
        cmocka_unit_test(a_commit_that_is_closed_is_ended_by_a_thread_4),
        cmocka_unit_test(a_commit_whose_broker_never_answers_ends_too_4),
        cmocka_unit_test(too_many_commits_that_do_not_end_are_told),
        cmocka_unit_test(a_program_may_end_before_its_producers_4),
    };
    return cmocka_run_group_tests_name("sink_kafka, exactly once", tests, NULL, NULL);
}
