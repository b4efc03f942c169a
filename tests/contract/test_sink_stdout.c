/* SPDX-License-Identifier: MIT */
/* Standard output is a temporary file while the contract is tried; what cmocka
 * has to say goes to standard error. */
#include "contract/sink_contract.h"
#include "sink/builtin.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[256], path[300];

static void redirect(int fd)
{
    assert_true(fd >= 0);
    assert_int_equal(dup2(fd, STDOUT_FILENO), STDOUT_FILENO);
    close(fd);
}

static void set_up(char *ret_url, size_t size)
{
    make_temp_dir(dir, sizeof dir);
    (void)snprintf(path, sizeof path, "%s/out", dir);
    redirect(open(path, O_CREAT | O_RDWR | O_APPEND | O_CLOEXEC, 0600));
    (void)snprintf(ret_url, size, "stdout:");
}

static void tear_down(void)
{
    remove_tree(dir);
}

static void read_back(void (*add)(void *ctx, json_t *line), void *ctx)
{
    FILE *in = fopen(path, "re");
    assert_non_null(in);
    rig_read_lines(in, add, ctx);
    (void)fclose(in);
}

/* Contract 1: a reader that reads nothing stops the writing thread only. */
static void a_full_pipe_blocks_neither_submit_nor_close(void **state)
{
    struct rig r;
    struct outrider_error err;
    int ends[2];
    rig_init(&r, *state);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    redirect(ends[1]);
    assert_int_equal(rig_open(&r, &err), 0);
    struct delivery **list = calloc(RIG_MAX, sizeof(struct delivery *));
    for (size_t i = 0; i < RIG_MAX; i++)
        list[i] = rig_add(&r, "t", "k", BYTES_LIT("{\"n\":1}"));
    size_t done = 0, took;
    do {
        took = r.sink->ops->submit(r.sink, list + done, RIG_MAX - done, outrider__clock_now());
        r.sink->ops->flush(r.sink, outrider__clock_now());
        done += took;
    } while (took > 0);
    assert_true(done < RIG_MAX);
    rig_close(&r);
    close(ends[0]);
    free(list);
    rig_release(&r);
}

/* Contract 5: STOP, since a reader that is gone does not come back. */
static void a_closed_pipe_stops_the_pipeline(void **state)
{
    struct rig r;
    struct outrider_error err;
    int ends[2];
    rig_init(&r, *state);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    redirect(ends[1]);
    close(ends[0]);
    assert_int_equal(rig_open(&r, &err), 0);
    (void)rig_add(&r, "t", "k", BYTES_LIT("1"));
    rig_submit(&r, 0, 1);
    rig_wait(&r, 1);
    assert_int_equal(r.told[0].result, SINK_STOP);
    assert_int_equal(r.told[0].why.disposition, OUTRIDER_STOP);
    assert_non_null(strstr(r.told[0].why.message, "standard output"));
    rig_release(&r);
}

/* A limit on the size of files fails in the middle of a line. */
static void a_line_torn_by_a_full_disk_is_completed(void **state)
{
    struct rig r;
    struct outrider_error err;
    struct rlimit limit = {1000, RLIM_INFINITY};
    (void)signal(SIGXFSZ, SIG_IGN);
    rig_init(&r, *state);
    assert_int_equal(rig_open(&r, &err), 0);
    for (size_t i = 0; i < 20; i++)
        (void)rig_add(&r, i % 2 ? "t" : "u", "k", BYTES_LIT("{\"n\":1}"));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    rig_submit(&r, 0, 20);
    rig_wait(&r, 20);
    size_t first_down = 0;
    while (r.told[first_down].result == SINK_DELIVERED)
        first_down++;
    assert_true(first_down > 0 && first_down < 19);
    for (size_t i = first_down; i < 20; i++)
        assert_int_equal(r.told[i].result, SINK_DOWN);
    /* Still full: nothing changes. */
    memset(r.told + first_down, 0, (20 - first_down) * sizeof *r.told);
    r.n_told = first_down;
    rig_submit(&r, first_down, 20);
    rig_wait(&r, 20);
    assert_int_equal(r.told[first_down].result, SINK_DOWN);

    limit.rlim_cur = RLIM_INFINITY;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    memset(r.told + first_down, 0, (20 - first_down) * sizeof *r.told);
    r.n_told = first_down;
    rig_submit(&r, first_down, 20);
    rig_wait(&r, 20);
    rig_close(&r);
    rig_read_back(&r);
    /* Every line is whole; the one that was torn came twice; offsets have no gap. */
    assert_int_equal(r.n_seen, 21);
    json_int_t next[2] = {0};
    for (size_t k = 0; k < r.n_seen; k++) {
        json_int_t offset = json_integer_value(json_object_get(r.seen[k].line, "offset"));
        assert_int_equal(offset, next[r.seen[k].topic[0] == 't']++);
    }
    rig_release(&r);
}

static int run_own(struct sink_fixture *f)
{
    void *state = f;
    const struct CMUnitTest sink_stdout[] = {
        cmocka_unit_test_prestate(a_full_pipe_blocks_neither_submit_nor_close, state),
        cmocka_unit_test_prestate(a_closed_pipe_stops_the_pipeline, state),
        cmocka_unit_test_prestate(a_line_torn_by_a_full_disk_is_completed, state),
    };
    return cmocka_run_group_tests(sink_stdout, NULL, NULL);
}

int main(void)
{
    static struct sink_fixture fixture = {
        .ops = &outrider__sink_stdout,
        .set_up = set_up,
        .tear_down = tear_down,
        .read_back = read_back,
    };
    (void)signal(SIGPIPE, SIG_IGN);
    /* cmocka prints to stdout's stream: let that be another descriptor. */
    FILE *talk = fdopen(dup(STDERR_FILENO), "w");
    if (talk == NULL)
        return 1;
    stdout = talk;
    return sink_contract_run("stdout", &fixture) + run_own(&fixture);
}
