/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "sink/file/reader.h"

static char root[256];

static int make_root(void **state)
{
    (void)state;
    const char *base = getenv("TMPDIR");
    (void)snprintf(root, sizeof root, "%s/outrider-test-XXXXXX", base ? base : "/tmp");
    return mkdtemp(root) != NULL ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

static int remove_root(void **state)
{
    (void)state;
    return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void make_topic(const char *name)
{
    char path[300];
    (void)snprintf(path, sizeof path, "%s/%s", root, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

/* Appends to a segment of topic t. */
static void append_bytes(unsigned long first, struct bytes text)
{
    char path[300];
    (void)snprintf(path, sizeof path, "%s/t/%020lu.jsonl", root, first);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text.data, text.len), text.len);
    close(fd);
}

static void append(unsigned long first, const char *text)
{
    append_bytes(first, bytes_str(text));
}

static struct file_reader *open_reader(bool follow)
{
    struct file_reader *r;
    struct outrider_error err = {0};
    if (outrider__file_reader_open(root, BYTES_LIT("t"), follow, &r, &err) < 0)
        fail_msg("%s", err.message);
    return r;
}

static void expect_line(struct file_reader *r, const char *text)
{
    struct bytes line;
    struct outrider_error err = {0};
    int n = outrider__file_reader_next(r, &line, &err);
    if (n < 0)
        fail_msg("%s", err.message);
    assert_int_equal(n, 1);
    assert_true(bytes_eq_str(line, text));
}

static void expect_nothing(struct file_reader *r)
{
    struct bytes line;
    assert_int_equal(outrider__file_reader_next(r, &line, NULL), 0);
}

static void expect_error(struct file_reader *r, const char *part)
{
    struct bytes line;
    struct outrider_error err = {0};
    assert_int_equal(outrider__file_reader_next(r, &line, &err), -1);
    if (strstr(err.message, part) == NULL)
        fail_msg("'%s' is not in '%s'", part, err.message);
}

static bool is_readable(const struct file_reader *r)
{
    struct pollfd p = {.fd = outrider__file_reader_fd(r), .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

static void lines_come_in_order_across_segments(void **state)
{
    (void)state;
    make_topic("t");
    append(2, "{\"offset\":2}\n{\"offset\":3}\n");
    append(0, "{\"offset\":0}\n{\"offset\":1}\n");
    append(4, "");
    struct file_reader *r = open_reader(false);
    assert_int_equal(outrider__file_reader_fd(r), -1);
    expect_line(r, "{\"offset\":0}");
    expect_line(r, "{\"offset\":1}");
    expect_line(r, "{\"offset\":2}");
    expect_line(r, "{\"offset\":3}");
    expect_nothing(r);
    append(4, "{\"offset\":4}\n");
    expect_line(r, "{\"offset\":4}");
    expect_nothing(r);
    outrider__file_reader_close(r);
}

static void half_a_line_is_not_there_yet(void **state)
{
    (void)state;
    make_topic("t");
    struct file_reader *r = open_reader(false);
    expect_nothing(r);
    append(0, "{\"off");
    expect_nothing(r);
    append(0, "set\":0}");
    expect_nothing(r);
    append(0, "\n{");
    expect_line(r, "{\"offset\":0}");
    expect_nothing(r);
    outrider__file_reader_close(r);
}

static void a_follower_is_woken_across_rotation(void **state)
{
    (void)state;
    make_topic("t");
    struct file_reader *r = open_reader(true);
    expect_nothing(r);
    assert_false(is_readable(r));
    append(0, "{\"offset\":0}\n");
    assert_true(is_readable(r));
    expect_line(r, "{\"offset\":0}");
    expect_nothing(r);
    assert_false(is_readable(r));
    append(0, "{\"offset\":1}\n");
    append(2, "{\"offset\":2}\n");
    assert_true(is_readable(r));
    expect_line(r, "{\"offset\":1}");
    expect_line(r, "{\"offset\":2}");
    expect_nothing(r);
    assert_false(is_readable(r));
    append(2, "{\"offset\":3}\n");
    assert_true(is_readable(r));
    expect_line(r, "{\"offset\":3}");
    outrider__file_reader_close(r);
}

static void a_follower_waits_for_a_topic_that_is_not_there_yet(void **state)
{
    (void)state;
    struct file_reader *r = open_reader(true);
    expect_nothing(r);
    assert_false(is_readable(r));
    make_topic("t");
    assert_true(is_readable(r));
    expect_nothing(r);
    append(0, "{\"offset\":0}\n");
    assert_true(is_readable(r));
    expect_line(r, "{\"offset\":0}");
    outrider__file_reader_close(r);
}

static void without_follow_a_missing_topic_is_an_error(void **state)
{
    (void)state;
    struct file_reader *r = NULL;
    struct outrider_error err = {0};
    assert_int_equal(outrider__file_reader_open(root, BYTES_LIT("t"), false, &r, &err), -1);
    assert_int_equal(err.code, OUTRIDER_NOT_FOUND);
    assert_non_null(strstr(err.message, "no topic 't'"));
    assert_null(r);
    assert_int_equal(outrider__file_reader_open("/nonexistent", BYTES_LIT("t"), true, &r, &err),
                     -1);
    assert_int_equal(err.code, OUTRIDER_NOT_FOUND);
    assert_int_equal(outrider__file_reader_open(root, BYTES_LIT(""), true, &r, &err), -1);
    assert_int_equal(err.code, OUTRIDER_TOPIC);
}

static void garbage_is_an_error_with_its_place_and_reading_goes_on(void **state)
{
    (void)state;
    make_topic("t");
    append(0, "{\"offset\":0}\nhello\n\n[1]\n");
    append_bytes(0, BYTES_LIT("\0\0\xff\n{\"offset\":1}\n"));
    append(0, "{\"half");
    append(2, "{\"offset\":2}\n");
    struct file_reader *r = open_reader(false);
    expect_line(r, "{\"offset\":0}");
    expect_error(r, "/t/00000000000000000000.jsonl:2: not a JSON object");
    expect_error(r, "jsonl:3: ");
    expect_error(r, "jsonl:4: ");
    expect_error(r, "jsonl:5: ");
    expect_line(r, "{\"offset\":1}");
    expect_error(r, "jsonl:7: the segment ends in half a line");
    expect_line(r, "{\"offset\":2}");
    expect_nothing(r);
    outrider__file_reader_close(r);
}

static void a_line_without_end_is_refused_when_it_ends(void **state)
{
    (void)state;
    make_topic("t");
    size_t n = FILE_LINE_MAX / 4 + 1000;
    char *text = malloc(n);
    assert_non_null(text);
    memset(text, 'x', n);
    struct file_reader *r = open_reader(false);
    for (int i = 0; i < 5; i++) {
        append_bytes(0, bytes_of(text, n));
        expect_nothing(r);
    }
    free(text);
    append(0, "\n{\"offset\":0}\n");
    expect_error(r, "jsonl:1: the line is too long");
    expect_line(r, "{\"offset\":0}");
    outrider__file_reader_close(r);
}

static void a_long_line_is_read_whole(void **state)
{
    (void)state;
    make_topic("t");
    size_t n = (size_t)3 << 20;
    char *text = malloc(n + 1);
    assert_non_null(text);
    memset(text, 'x', n);
    memcpy(text, "{\"a\":\"", 6);
    memcpy(text + n - 3, "\"}\n", 4);
    append_bytes(0, bytes_of(text, n));
    append(0, "{\"offset\":1}\n");
    text[n - 1] = '\0';
    struct file_reader *r = open_reader(false);
    expect_line(r, text);
    expect_line(r, "{\"offset\":1}");
    outrider__file_reader_close(r);
    free(text);
}

static void what_the_writer_takes_back_comes_again(void **state)
{
    (void)state;
    char path[300];
    make_topic("t");
    append(0, "{\"offset\":0}\n{\"offset\":1}\n{\"off");
    struct file_reader *r = open_reader(false);
    expect_line(r, "{\"offset\":0}");
    expect_line(r, "{\"offset\":1}");
    expect_nothing(r);
    (void)snprintf(path, sizeof path, "%s/t/%020d.jsonl", root, 0);
    assert_int_equal(truncate(path, 13), 0);
    expect_nothing(r);
    append(0, "{\"offset\":1,\"again\":true}\n");
    expect_line(r, "{\"offset\":1,\"again\":true}");
    outrider__file_reader_close(r);
}

static void seeking_begins_at_the_offset(void **state)
{
    (void)state;
    make_topic("t");
    append(0, "{\"offset\":0}\n{\"offset\":1}\n");
    append(2, "{\"offset\":2}\n{\"offset\":3}\n");
    struct file_reader *r = open_reader(false);
    assert_int_equal(outrider__file_reader_seek(r, 3, NULL), 0);
    expect_line(r, "{\"offset\":3}");
    expect_nothing(r);
    assert_int_equal(outrider__file_reader_seek(r, 1, NULL), 0);
    expect_line(r, "{\"offset\":1}");
    expect_line(r, "{\"offset\":2}");
    assert_int_equal(outrider__file_reader_seek(r, 9, NULL), 0);
    expect_nothing(r);
    outrider__file_reader_close(r);
}

static void topics_are_listed_by_their_own_names(void **state)
{
    (void)state;
    struct arena arena;
    struct file_topics topics;
    outrider__arena_init(&arena, 1024);
    make_topic("z");
    make_topic("a%2Fb");
    make_topic(".hidden");
    make_topic("not a topic");
    make_topic("%2E.");
    char path[300];
    (void)snprintf(path, sizeof path, "%s/file", root);
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    assert_int_equal(outrider__file_topics(root, &arena, &topics, NULL), 0);
    assert_int_equal(topics.n, 3);
    assert_true(bytes_eq_str(topics.names[0], ".."));
    assert_true(bytes_eq_str(topics.names[1], "a/b"));
    assert_true(bytes_eq_str(topics.names[2], "z"));
    outrider__arena_release(&arena);
}

static void a_line_is_taken_apart(void **state)
{
    (void)state;
    struct arena arena;
    struct file_line l;
    outrider__arena_init(&arena, 1024);
    assert_int_equal(
        outrider__file_line_parse(BYTES_LIT("{\"offset\":7,\"topic\":\"t\",\"key\":\"k\\n\","
                                            "\"partition\":3,\"timestamp\":\"x\","
                                            "\"headers\":{\"a\":\"b\",\"event-id\":\"id\"},"
                                            "\"payload\":{\"key\":\"inner\"}}"),
                                  &arena, &l, NULL),
        0);
    assert_int_equal(l.offset, 7);
    assert_int_equal(l.partition, 3);
    assert_true(bytes_eq_str(l.topic, "t"));
    assert_true(bytes_eq_str(l.key, "k\n"));
    assert_true(bytes_eq_str(l.timestamp, "x"));
    assert_true(bytes_eq_str(l.event_id, "id"));
    assert_int_equal(l.payload_is, FILE_PAYLOAD_JSON);
    assert_true(bytes_eq_str(l.payload, "{\"key\":\"inner\"}"));

    assert_int_equal(
        outrider__file_line_parse(
            BYTES_LIT("{\"offset\":0,\"key\":null,\"payload_text\":\"a\\\"b\"}"), &arena, &l, NULL),
        0);
    assert_true(bytes_is_null(l.key));
    assert_true(bytes_is_null(l.event_id));
    assert_int_equal(l.partition, -1);
    assert_int_equal(l.payload_is, FILE_PAYLOAD_TEXT);
    assert_true(bytes_eq_str(l.payload, "a\"b"));
    outrider__arena_release(&arena);
}

static void a_line_that_no_relay_writes_is_refused(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "",
        "x",
        "[]",
        "{}",
        "{\"offset\":-1}",
        "{\"offset\":1.5}",
        "{\"offset\":\"1\"}",
        "{\"offset\":18446744073709551616}",
        "{\"offset\":1,\"partition\":4294967296}",
        "{\"offset\":1,\"topic\":5}",
        "{\"offset\":1,\"headers\":[]}",
        "{\"offset\":1,\"headers\":{\"event-id\":5}}",
        "{\"offset\":1,\"payload_text\":{}}",
    };
    struct arena arena;
    outrider__arena_init(&arena, 1024);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct file_line l;
        struct outrider_error err = {0};
        if (outrider__file_line_parse(bytes_str(lines[i]), &arena, &l, &err) != -1)
            fail_msg("taken: %s", lines[i]);
        assert_int_not_equal(err.code, OUTRIDER_OK);
    }
    outrider__arena_release(&arena);
}

#define IN_ROOT(test) cmocka_unit_test_setup_teardown(test, make_root, remove_root)

int main(void)
{
    const struct CMUnitTest file_reader[] = {
        IN_ROOT(lines_come_in_order_across_segments),
        IN_ROOT(half_a_line_is_not_there_yet),
        IN_ROOT(a_follower_is_woken_across_rotation),
        IN_ROOT(a_follower_waits_for_a_topic_that_is_not_there_yet),
        IN_ROOT(without_follow_a_missing_topic_is_an_error),
        IN_ROOT(garbage_is_an_error_with_its_place_and_reading_goes_on),
        IN_ROOT(a_line_without_end_is_refused_when_it_ends),
        IN_ROOT(a_long_line_is_read_whole),
        IN_ROOT(what_the_writer_takes_back_comes_again),
        IN_ROOT(seeking_begins_at_the_offset),
        IN_ROOT(topics_are_listed_by_their_own_names),
        cmocka_unit_test(a_line_is_taken_apart),
        cmocka_unit_test(a_line_that_no_relay_writes_is_refused),
    };
    return cmocka_run_group_tests(file_reader, NULL, NULL);
}
