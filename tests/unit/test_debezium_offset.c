/* SPDX-License-Identifier: MIT */
/* A Debezium connector's stored offset. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/debezium_offset.h"

static struct stream_offset offset;
static struct outrider_error err;

static int read_it(const char *json)
{
    err = (struct outrider_error){0};
    return outrider__debezium_offset(bytes_str(json), &offset, &err);
}

/* As Debezium 3.4 wrote them. */
#define INSERT                                                                           \
    "{\"lsn_proc\":26737848,\"messageType\":\"INSERT\",\"lsn_commit\":26737704,\"lsn\":" \
    "26737848,\"txId\":752,\"ts_usec\":1763468601234567}"

static void a_value_and_an_answer_of_kafka_connect_are_the_same(void **state)
{
    static const char *const texts[] = {
        INSERT,
        " { \"offsets\" : [ {\"partition\":{\"server\":\"shop\"},\"offset\":" INSERT "} ] }\n",
        "{\"partition\":{\"server\":\"shop\"},\"offset\":" INSERT "}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(read_it(texts[i]), 0);
        assert_int_equal(offset.commit_lsn, 26737704);
        assert_int_equal(offset.event_lsn, 26737848);
        assert_int_equal(offset.xid, 752);
        assert_true(offset.is_sure);
        assert_false(offset.is_begin);
    }
}

static void a_beginning_is_no_change(void **state)
{
    (void)state;
    assert_int_equal(read_it("{\"lsn_proc\":5,\"lsn\":5,\"messageType\":\"BEGIN\"}"), 0);
    assert_true(offset.is_begin);
    assert_int_equal(read_it("{\"lsn_proc\":5,\"lsn\":5}"), 0);
    assert_false(offset.is_sure);
}

static void the_first_snapshot_must_be_over(void **state)
{
    (void)state;
    assert_int_equal(read_it("{\"lsn\":5,\"snapshot\":\"INITIAL\",\"snapshot_completed\":true}"),
                     0);
    assert_int_equal(offset.commit_lsn, 0);
    assert_int_equal(offset.event_lsn, 0);
    assert_int_equal(read_it("{\"lsn\":5,\"snapshot\":true,\"last_snapshot_record\":true}"), 0);
    assert_int_equal(read_it("{\"lsn\":5,\"snapshot\":\"INITIAL\",\"snapshot_completed\":false}"),
                     -1);
    assert_non_null(strstr(err.message, "snapshot"));
    assert_int_equal(read_it("{\"lsn\":5,\"snapshot\":null}"), 0);
}

static void anything_else_is_refused(void **state)
{
    static const char *const texts[] = {
        "",
        "x",
        "[]",
        "1",
        "{}",
        "{\"offsets\":[]}",
        "{\"offsets\":{}}",
        "{\"offsets\":[{\"offset\":{\"lsn\":1}},{\"offset\":{\"lsn\":2}}]}",
        "{\"offsets\":[{\"offset\":{\"file\":\"binlog.1\",\"pos\":4}}]}",
        "{\"offsets\":[{}]}",
        "{\"offset\":7}",
        "{\"lsn_proc\":\"x\"}",
        "{\"lsn_proc\":-1}",
        "{\"lsn_proc\":1.5}",
        "{\"lsn_proc\":99999999999999999999999999}",
        "{\"lsn\":1,\"txId\":[1]}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (read_it(texts[i]) == 0)
            fail_msg("taken: %s", texts[i]);
        assert_int_equal(err.code, OUTRIDER_CONFIG);
        assert_int_equal(strncmp(err.message, "--offset: ", 10), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_and_an_answer_of_kafka_connect_are_the_same),
        cmocka_unit_test(a_beginning_is_no_change),
        cmocka_unit_test(the_first_snapshot_must_be_over),
        cmocka_unit_test(anything_else_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
