/* SPDX-License-Identifier: MIT */
#include "sink/kafka/kafka.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Every row of the table is written down here a second time: a change of a
 * disposition is a change of two files. */
static const struct {
    rd_kafka_resp_err_t err;
    enum sink_result result;
} expected[] = {
#define X(name, result) {RD_KAFKA_RESP_ERR_##name, SINK_##result},
    X(MSG_SIZE_TOO_LARGE, DEAD) X(RECORD_LIST_TOO_LARGE, DEAD) X(INVALID_RECORD, DEAD) X(
        UNSUPPORTED_FOR_MESSAGE_FORMAT, DEAD) X(POLICY_VIOLATION, DEAD) X(TOPIC_EXCEPTION, DEAD)
        X(_INVALID_ARG, DEAD) X(UNKNOWN_TOPIC_OR_PART, RETRY) X(_UNKNOWN_TOPIC, RETRY) X(
            _UNKNOWN_PARTITION, RETRY) X(TOPIC_AUTHORIZATION_FAILED, RETRY)
            X(INVALID_TIMESTAMP, RETRY) X(INVALID_MSG, RETRY) X(INVALID_MSG_SIZE, RETRY) X(
                THROTTLING_QUOTA_EXCEEDED, RETRY) X(_ALL_BROKERS_DOWN, DOWN) X(_TRANSPORT, DOWN)
                X(_RESOLVE, DOWN) X(_SSL, DOWN) X(_TIMED_OUT, DOWN) X(_MSG_TIMED_OUT, DOWN)
                    X(_TIMED_OUT_QUEUE, DOWN) X(LEADER_NOT_AVAILABLE, DOWN) X(
                        NOT_LEADER_FOR_PARTITION, DOWN) X(REQUEST_TIMED_OUT, DOWN)
                        X(BROKER_NOT_AVAILABLE, DOWN) X(REPLICA_NOT_AVAILABLE, DOWN) X(
                            NETWORK_EXCEPTION, DOWN) X(NOT_ENOUGH_REPLICAS, DOWN)
                            X(NOT_ENOUGH_REPLICAS_AFTER_APPEND, DOWN) X(KAFKA_STORAGE_ERROR, DOWN)
                                X(FENCED_LEADER_EPOCH, DOWN) X(UNKNOWN_LEADER_EPOCH, DOWN)
                                    X(_DESTROY, DOWN) X(_PURGE_QUEUE, UNTRIED) X(
                                        _PURGE_INFLIGHT, UNTRIED) X(_FATAL, UNTRIED)
                                        X(_GAPLESS_GUARANTEE, UNTRIED) X(_INCONSISTENT, UNTRIED) X(
                                            OUT_OF_ORDER_SEQUENCE_NUMBER,
                                            UNTRIED) X(DUPLICATE_SEQUENCE_NUMBER,
                                                       UNTRIED) X(UNKNOWN_PRODUCER_ID, UNTRIED)
                                            X(INVALID_PRODUCER_EPOCH,
                                              UNTRIED) X(PRODUCER_FENCED,
                                                         UNTRIED) X(_FENCED, UNTRIED)
                                                X(_STATE, UNTRIED) X(_AUTHENTICATION, STOP) X(
                                                    SASL_AUTHENTICATION_FAILED,
                                                    STOP) X(UNSUPPORTED_SASL_MECHANISM, STOP)
                                                    X(ILLEGAL_SASL_STATE,
                                                      STOP) X(CLUSTER_AUTHORIZATION_FAILED, STOP)
                                                        X(TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                                                          STOP) X(SECURITY_DISABLED,
                                                                  STOP) X(UNSUPPORTED_VERSION, STOP)
                                                            X(UNSUPPORTED_COMPRESSION_TYPE, STOP)
                                                                X(INVALID_REQUIRED_ACKS, STOP)
                                                                    X(_UNSUPPORTED_FEATURE, STOP)
#undef X
};
#define N_EXPECTED (sizeof expected / sizeof *expected)

static void every_row_has_the_disposition_that_is_written_down(void **state)
{
    size_t n;
    (void)state;
    (void)outrider__kafka_verdicts(&n);
    assert_int_equal(n, N_EXPECTED);
    for (size_t i = 0; i < N_EXPECTED; i++) {
        const struct kafka_verdict *v = outrider__kafka_verdict(expected[i].err);
        assert_int_equal(v->err, expected[i].err);
        if (v->result != expected[i].result)
            fail_msg("%s: %d", rd_kafka_err2name(expected[i].err), (int)v->result);
    }
}

static void no_error_stands_in_two_rows(void **state)
{
    size_t n;
    (void)state;
    const struct kafka_verdict *all = outrider__kafka_verdicts(&n);
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++)
            assert_int_not_equal(all[i].err, all[j].err);
}

static void an_error_that_nobody_thought_of_is_worth_another_try(void **state)
{
    const struct rd_kafka_err_desc *all;
    size_t n;
    (void)state;
    rd_kafka_get_err_descs(&all, &n);
    assert_true(n > 100);
    for (size_t i = 0; i < n; i++) {
        const struct kafka_verdict *v = outrider__kafka_verdict(all[i].code);
        assert_non_null(v);
        if (v->err != all[i].code)
            assert_int_equal(v->result, SINK_RETRY);
    }
}

static void what_is_told_names_the_topic_and_the_code_and_is_one_line(void **state)
{
    static const enum outrider_disposition of[] = {
        [SINK_DOWN] = OUTRIDER_RETRY, [SINK_RETRY] = OUTRIDER_RETRY,   [SINK_DEAD] = OUTRIDER_DEAD,
        [SINK_STOP] = OUTRIDER_STOP,  [SINK_UNTRIED] = OUTRIDER_RETRY,
    };
    size_t n;
    (void)state;
    const struct kafka_verdict *all = outrider__kafka_verdicts(&n);
    for (size_t i = 0; i < n; i++) {
        struct outrider_error why;
        outrider__kafka_explain(&all[i], all[i].err, "orders", &why);
        assert_int_equal(why.code, all[i].code);
        assert_int_equal(why.disposition, of[all[i].result]);
        assert_non_null(strstr(why.message, "'orders'"));
        assert_null(strchr(why.message, '\n'));
        assert_true(strlen(why.origin) > 0);
        assert_memory_equal(why.origin, rd_kafka_err2name(all[i].err), strlen(why.origin));
    }
}

static void topics_have_the_names_that_kafka_allows(void **state)
{
    static char long_name[251];
    (void)state;
    memset(long_name, 'a', 250);
    static const char *const good[] = {"a", "orders", "Orders.v1_x-2", "...", "0"};
    static const char *const bad[] = {"", ".", "..", "a b", "a/b", "\xc3\xa9", "a$", long_name};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(outrider__kafka_topic_is_valid(bytes_str(good[i])));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(outrider__kafka_topic_is_valid(bytes_str(bad[i])));
    assert_true(outrider__kafka_topic_is_valid(bytes_of(long_name, 249)));
    assert_false(outrider__kafka_topic_is_valid(bytes_of("a\0b", 3)));
}

static void why_there_is_no_connection_is_told_in_plain_words(void **state)
{
    static const char *const cases[][2] = {
        {"h:1/bootstrap: Connect to ipv4#1.2.3.4:1 failed: Connection refused (after 0ms in state "
         "CONNECT, 1 identical error(s) suppressed)",
         "h:1/bootstrap: Connect to ipv4#1.2.3.4:1 failed: Connection refused"},
        {"ssl://h:1/bootstrap: SSL handshake failed: error:0A000126:SSL routines::unexpected eof "
         "while reading (after 1ms in state SSL_HANDSHAKE)",
         "the TLS handshake failed: it does not speak TLS on this port (security.protocol)"},
        {"h:1/bootstrap: Receive failed: Invalid response size 1213486160 (0..100000000): increase "
         "receive.message.max.bytes",
         "what answers there is no Kafka broker, or speaks TLS (security.protocol)"},
        {"", ""},
    };
    char text[256], small[8];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        outrider__kafka_reason(cases[i][0], text, sizeof text);
        assert_string_equal(text, cases[i][1]);
    }
    outrider__kafka_reason(cases[0][0], small, sizeof small);
    assert_string_equal(small, "h:1/boo");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_has_the_disposition_that_is_written_down),
        cmocka_unit_test(no_error_stands_in_two_rows),
        cmocka_unit_test(an_error_that_nobody_thought_of_is_worth_another_try),
        cmocka_unit_test(what_is_told_names_the_topic_and_the_code_and_is_one_line),
        cmocka_unit_test(why_there_is_no_connection_is_told_in_plain_words),
        cmocka_unit_test(topics_have_the_names_that_kafka_allows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
