/* SPDX-License-Identifier: MIT */
#include "contract/sink_contract.h"
#include "sink/builtin.h"
#include "sink/file/reader.h"

#include <signal.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cmocka.h>

static char dir[256];

static void set_up(char *ret_url, size_t size)
{
    make_temp_dir(dir, sizeof dir);
    (void)snprintf(ret_url, size, "file:%s/log", dir);
}

static void tear_down(void)
{
    remove_tree(dir);
}

/* All topics, one after the other, through the reader of the project. */
static void read_back(void (*add)(void *ctx, json_t *line), void *ctx)
{
    struct arena arena;
    struct file_topics topics;
    char log[300];
    (void)snprintf(log, sizeof log, "%s/log", dir);
    outrider__arena_init(&arena, 4096);
    assert_int_equal(outrider__file_topics(log, &arena, &topics, NULL), 0);
    for (size_t i = 0; i < topics.n; i++) {
        struct file_reader *r;
        struct bytes line;
        struct outrider_error err = {0};
        int n;
        assert_int_equal(outrider__file_reader_open(log, topics.names[i], false, &r, &err), 0);
        while ((n = outrider__file_reader_next(r, &line, &err)) > 0) {
            json_t *value = json_loadb(line.data, line.len, JSON_ALLOW_NUL, NULL);
            assert_non_null(value);
            add(ctx, value);
        }
        if (n < 0)
            fail_msg("%s", err.message);
        outrider__file_reader_close(r);
    }
    outrider__arena_release(&arena);
}

/* A limit on the size of files fails in the middle of a write, as a full disk does. */
static void break_it(const char *topic)
{
    char path[400];
    struct stat st;
    (void)snprintf(path, sizeof path, "%s/log/%s/00000000000000000000.jsonl", dir, topic);
    assert_int_equal(stat(path, &st), 0);
    struct rlimit limit = {(rlim_t)st.st_size + 700000, RLIM_INFINITY};
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void heal_it(void)
{
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

int main(void)
{
    static struct sink_fixture fixture = {
        .ops = &outrider__sink_file,
        .set_up = set_up,
        .tear_down = tear_down,
        .read_back = read_back,
        .break_it = break_it,
        .heal_it = heal_it,
        .bad_url = "file:/nonexistent-parent/log",
        .refuses_empty_topic = true,
    };
    return sink_contract_run("file", &fixture);
}
