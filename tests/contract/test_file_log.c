/* SPDX-License-Identifier: MIT */
/* What the event log of `file:` promises beyond the contract of every sink. */
#include "contract/sink_contract.h"
#include "sink/builtin.h"
#include "sink/file/options.h"
#include "sink/file/reader.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[256], root[300];

static void set_up(char *ret_url, size_t size)
{
    make_temp_dir(dir, sizeof dir);
    (void)snprintf(root, sizeof root, "%s/log", dir);
    (void)snprintf(ret_url, size, "file:%s", root);
}

static void tear_down(void)
{
    remove_tree(dir);
}

static const struct sink_fixture fixture = {
    .ops = &outrider__sink_file,
    .set_up = set_up,
    .tear_down = tear_down,
};

static void begin(struct rig *r)
{
    struct outrider_error err = {0};
    rig_init(r, &fixture);
    if (rig_open(r, &err) < 0)
        fail_msg("%s", err.message);
}

static void path_in(char *ret_path, size_t size, const char *name)
{
    (void)snprintf(ret_path, size, "%s/%s", root, name);
}

static char *slurp(const char *name, size_t *ret_len)
{
    char path[600];
    struct stat st;
    path_in(path, sizeof path, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    char *text = malloc((size_t)st.st_size + 1);
    assert_non_null(text);
    assert_int_equal(read(fd, text, (size_t)st.st_size), st.st_size);
    text[st.st_size] = '\0';
    close(fd);
    *ret_len = (size_t)st.st_size;
    return text;
}

static void spill(const char *name, const char *text, size_t n)
{
    char path[600];
    path_in(path, sizeof path, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, n), n);
    close(fd);
}

static size_t count_lines(const char *topic)
{
    return count_log_lines(root, topic);
}

static size_t count_segments(const char *topic)
{
    char path[600];
    size_t n = 0;
    path_in(path, sizeof path, topic);
    DIR *d = opendir(path);
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        n += strstr(e->d_name, ".jsonl") != NULL;
    closedir(d);
    return n;
}

static void reopen(struct rig *r)
{
    struct outrider_error err = {0};
    rig_close(r);
    rig_clear(r);
    if (rig_open(r, &err) < 0)
        fail_msg("%s", err.message);
}

static void offsets_go_on_after_a_restart(void **state)
{
    (void)state;
    struct rig r;
    begin(&r);
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < 5; k++) {
            rig_deliver(&r, "t", "k", "{\"n\":1}");
            rig_deliver(&r, "u", "k", "{\"n\":1}");
        }
        reopen(&r);
    }
    assert_int_equal(count_lines("t"), 20);
    assert_int_equal(count_lines("u"), 20);
    rig_release(&r);
}

static const struct adapter_place file_place[] = {{"file", 0}, {NULL, 0}};

static void rotate_at(struct rig *r, int64_t size)
{
    r->config.places = file_place;
    memcpy(r->config.own.bytes, &(struct file_options){.rotate_size = size},
           sizeof(struct file_options));
}

static void a_segment_ends_when_it_is_large_enough(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, &fixture);
    rotate_at(&r, 1000);
    assert_int_equal(rig_open(&r, NULL), 0);
    for (int i = 0; i < 100; i++) {
        rig_deliver(&r, "t", "k", "{\"n\":1}");
        if (i % 30 == 29)
            reopen(&r);
    }
    assert_int_equal(count_lines("t"), 100);
    assert_true(count_segments("t") > 5);
    /* Each segment is named after the offset of its first line. */
    size_t n;
    char *text = slurp("t/00000000000000000000.jsonl", &n);
    size_t lines = 0;
    for (size_t i = 0; i < n; i++)
        lines += text[i] == '\n';
    free(text);
    char name[64], start[64];
    (void)snprintf(name, sizeof name, "t/%020zu.jsonl", lines);
    (void)snprintf(start, sizeof start, "{\"offset\":%zu,", lines);
    text = slurp(name, &n);
    assert_memory_equal(text, start, strlen(start));
    free(text);
    rig_release(&r);
}

/* A crash can end the file at any byte: what is whole stays, the rest goes. */
static void a_tail_torn_at_any_byte_is_repaired(void **state)
{
    (void)state;
    static const char segment[] = "t/00000000000000000000.jsonl";
    struct rig r;
    size_t n, m;
    begin(&r);
    rig_deliver(&r, "t", "k", "{\"n\":1}");
    rig_deliver(&r, "t", "k", "{\"n\":2}");
    rig_deliver(&r, "t", "k", "plain");
    char *whole = slurp(segment, &n);
    for (size_t cut = 0; cut <= n; cut++) {
        rig_close(&r);
        spill(segment, whole, cut);
        size_t lines = 0, kept = 0;
        for (size_t i = 0; i < cut; i++) {
            if (whole[i] == '\n') {
                lines++;
                kept = i + 1;
            }
        }
        reopen(&r);
        rig_deliver(&r, "t", "k", "{\"n\":4}");
        assert_int_equal(count_lines("t"), lines + 1);
        char *after = slurp(segment, &m);
        assert_true(m > kept);
        assert_memory_equal(after, whole, kept);
        free(after);
    }
    free(whole);
    rig_release(&r);
}

static void a_damaged_tail_is_cut_off(void **state)
{
    (void)state;
    static const char segment[] = "t/00000000000000000000.jsonl";
    static const char zeros[5000];
    static const struct {
        const char *what;
        struct bytes tail;
    } table[] = {
        {"zeros", {zeros, sizeof zeros}},
        {"zeros and a line behind them", BYTES_LIT("\0\0\0\n{\"offset\":3,\"topic\":\"t\"}\n")},
        {"not JSON", BYTES_LIT("{\"offset\":2,\"topic\":\n")},
        {"no offset", BYTES_LIT("{\"topic\":\"t\"}\n")},
        {"text", BYTES_LIT("hello\nworld\n")},
        {"empty lines", BYTES_LIT("\n\n\n")},
        {"an offset without end", BYTES_LIT("{\"offset\":99999999999999999999999}\n")},
    };
    struct rig r;
    size_t n;
    begin(&r);
    rig_deliver(&r, "t", "k", "{\"n\":1}");
    rig_deliver(&r, "t", "k", "{\"n\":2}");
    char *good = slurp(segment, &n);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        rig_close(&r);
        char *bad = malloc(n + table[i].tail.len);
        memcpy(bad, good, n);
        memcpy(bad + n, table[i].tail.data, table[i].tail.len);
        spill(segment, bad, n + table[i].tail.len);
        free(bad);
        reopen(&r);
        rig_deliver(&r, "t", "k", "{\"n\":3}");
        if (count_lines("t") != 3)
            fail_msg("%s", table[i].what);
    }
    free(good);
    rig_release(&r);
}

static void a_line_whose_offset_is_not_the_segments_is_cut_off(void **state)
{
    (void)state;
    struct rig r;
    begin(&r);
    rig_deliver(&r, "t", "k", "1");
    rig_close(&r);
    spill("t/00000000000000000000.jsonl", "{\"offset\":5}\n", 13);
    reopen(&r);
    rig_deliver(&r, "t", "k", "1");
    assert_int_equal(count_lines("t"), 1);
    rig_release(&r);
}

/* A file that no crash of ours can have left is not destroyed. */
static void a_file_that_is_not_ours_is_refused_and_left_alone(void **state)
{
    (void)state;
    static const char segment[] = "t/00000000000000000000.jsonl";
    struct rig r;
    size_t n = 100000, m;
    char *text = malloc(n);
    for (size_t i = 0; i < n; i++)
        text[i] = i % 10 == 9 ? '\n' : 'x';
    begin(&r);
    rig_deliver(&r, "t", "k", "1");
    rig_close(&r);
    spill(segment, text, n);
    reopen(&r);
    (void)rig_add(&r, "t", "k", BYTES_LIT("1"));
    rig_submit(&r, 0, 1);
    rig_wait(&r, 1);
    assert_int_equal(r.told[0].result, SINK_STOP);
    assert_non_null(strstr(r.told[0].why.message, segment));
    char *after = slurp(segment, &m);
    assert_int_equal(m, n);
    assert_memory_equal(after, text, n);
    free(after);
    free(text);
    rig_release(&r);
}

static void a_topic_that_another_relay_writes_is_waited_for(void **state)
{
    (void)state;
    struct rig r, other = {0};
    char pid[32];
    begin(&r);
    rig_deliver(&r, "t", "k", "1");
    rig_init(&other, &fixture);
    remove_tree(dir); /* the second rig's own place is not used */
    other.config.sink.url = r.url;
    (void)snprintf(root, sizeof root, "%.290s", r.url + strlen("file:"));
    assert_int_equal(rig_open(&other, NULL), 0);

    (void)rig_add(&other, "t", "k", BYTES_LIT("2"));
    rig_submit(&other, 0, 1);
    rig_wait(&other, 1);
    assert_int_equal(other.told[0].result, SINK_DOWN);
    (void)snprintf(pid, sizeof pid, "pid %ld", (long)getpid());
    assert_non_null(strstr(other.told[0].why.message, pid));
    assert_non_null(strstr(other.told[0].why.message, "/t"));
    /* Another topic of the same directory is free. */
    rig_clear(&other);
    rig_deliver(&other, "u", "k", "1");

    rig_close(&r);
    rig_clear(&other);
    rig_deliver(&other, "t", "k", "2");
    assert_int_equal(count_lines("t"), 2);
    (void)snprintf(dir, sizeof dir, "%.*s", (int)(strlen(root) - 4), root);
    rig_release(&other);
    rig_release(&r);
}

static void a_log_that_was_removed_is_begun_anew(void **state)
{
    (void)state;
    struct rig r;
    char path[600];
    begin(&r);
    rig_deliver(&r, "t", "k", "1");
    path_in(path, sizeof path, "t/00000000000000000000.jsonl");
    assert_int_equal(unlink(path), 0);
    rig_deliver(&r, "t", "k", "2");
    assert_int_equal(count_lines("t"), 1);
    remove_tree(root);
    rig_deliver(&r, "t", "k", "3");
    assert_int_equal(count_lines("t"), 1);
    rig_release(&r);
}

static void hostile_topics_stay_inside(void **state)
{
    (void)state;
    static const char *const topics[] = {"../x", "a/b", "..", ".", "/etc", "a\x01", ".lock"};
    struct rig r;
    begin(&r);
    for (size_t i = 0; i < sizeof topics / sizeof *topics; i++)
        rig_deliver(&r, topics[i], "k", "1");
    for (size_t i = 0; i < sizeof topics / sizeof *topics; i++)
        assert_int_equal(count_lines(topics[i]), 1);
    DIR *d = opendir(dir);
    size_t n = 0;
    while (readdir(d) != NULL)
        n++;
    closedir(d);
    assert_int_equal(n, 3); /* ".", ".." and the log itself */
    rig_release(&r);
}

/* (4) of file.c: topics that were closed for others are found as they were. */
static void more_topics_than_may_be_open_keep_their_offsets(void **state)
{
    (void)state;
    static char names[150][8];
    struct rig r;
    begin(&r);
    for (size_t i = 0; i < 150; i++)
        (void)snprintf(names[i], sizeof names[i], "t%zu", i);
    for (int round = 0; round < 4; round++) {
        rig_clear(&r);
        for (size_t i = 0; i < 150; i++) {
            (void)rig_add(&r, names[i * 7 % 150], "k", BYTES_LIT("1"));
            (void)rig_add(&r, names[i], "k", BYTES_LIT("2"));
        }
        rig_submit(&r, 0, 300);
        rig_wait(&r, 300);
    }
    for (size_t i = 0; i < 150; i++)
        assert_int_equal(count_lines(names[i]), 8);
    rig_release(&r);
}

static void check_open_fails(struct rig *r, const char *url, enum outrider_code code)
{
    struct outrider_error err = {0};
    r->config.sink.url = url;
    assert_int_equal(rig_open(r, &err), -1);
    if (err.code != code)
        fail_msg("%s: %s", url, err.message);
    assert_int_equal(err.disposition, OUTRIDER_STOP);
    rig_close(r);
}

static void a_directory_that_cannot_be_is_refused_at_open(void **state)
{
    (void)state;
    struct rig r;
    char url[1024], path[600];
    rig_init(&r, &fixture);
    check_open_fails(&r, "file:", OUTRIDER_URL);
    check_open_fails(&r, "file://host/dir", OUTRIDER_URL);
    (void)snprintf(url, sizeof url, "file:%s/no/parent", dir);
    check_open_fails(&r, url, OUTRIDER_NOT_FOUND);
    (void)snprintf(path, sizeof path, "%s/plain", dir);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
    (void)snprintf(url, sizeof url, "file:%s", path);
    check_open_fails(&r, url, OUTRIDER_IO);
    (void)snprintf(url, sizeof url, "file:%s/below", path);
    check_open_fails(&r, url, OUTRIDER_IO);
    if (geteuid() != 0) {
        assert_int_equal(mkdir(root, 0500), 0);
        (void)snprintf(url, sizeof url, "file:%s", root);
        check_open_fails(&r, url, OUTRIDER_AUTH);
    }
    rig_release(&r);
}

int main(void)
{
    const struct CMUnitTest file_log[] = {
        cmocka_unit_test(offsets_go_on_after_a_restart),
        cmocka_unit_test(a_segment_ends_when_it_is_large_enough),
        cmocka_unit_test(a_tail_torn_at_any_byte_is_repaired),
        cmocka_unit_test(a_damaged_tail_is_cut_off),
        cmocka_unit_test(a_line_whose_offset_is_not_the_segments_is_cut_off),
        cmocka_unit_test(a_file_that_is_not_ours_is_refused_and_left_alone),
        cmocka_unit_test(a_topic_that_another_relay_writes_is_waited_for),
        cmocka_unit_test(a_log_that_was_removed_is_begun_anew),
        cmocka_unit_test(hostile_topics_stay_inside),
        cmocka_unit_test(more_topics_than_may_be_open_keep_their_offsets),
        cmocka_unit_test(a_directory_that_cannot_be_is_refused_at_open),
    };
    return cmocka_run_group_tests(file_log, NULL, NULL);
}
