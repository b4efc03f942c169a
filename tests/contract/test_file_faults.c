/* SPDX-License-Identifier: MIT */
/*
 * The event log when the disk fails, or the process dies, at each step. The
 * failpoints are read once per process, so each case runs this program again
 * as a worker.
 */
#include "contract/sink_contract.h"
#include "sink/builtin.h"
#include "sink/file/options.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define EVENTS 100
#define ROUNDS 3 /* a worker gives up after so many */

static const char *worker_url;

static void worker_set_up(char *ret_url, size_t size)
{
    (void)snprintf(ret_url, size, "%s", worker_url);
}

static void worker_tear_down(void)
{
}

static const struct sink_fixture worker_fixture = {
    .ops = &outrider__sink_file,
    .set_up = worker_set_up,
    .tear_down = worker_tear_down,
};

/* What a worker tells: how often something was DOWN, and with which code. */
struct report {
    unsigned rounds_down;
    enum outrider_code code;
    bool is_delivered;
};

static const struct adapter_place file_place[] = {{"file", 0}, {NULL, 0}};

static void rotate_at(struct rig *r, int64_t size)
{
    r->config.places = file_place;
    memcpy(r->config.own.bytes, &(struct file_options){.rotate_size = size},
           sizeof(struct file_options));
}

/* Delivers EVENTS events in groups of 20, submitting again what was DOWN. */
static int worker(const char *url, long rotate_size)
{
    struct rig r;
    struct report report = {0};
    worker_url = url;
    rig_init(&r, &worker_fixture);
    rotate_at(&r, rotate_size);
    if (rig_open(&r, NULL) < 0)
        return 1;
    for (int i = 0; i < EVENTS; i++)
        (void)rig_add(&r, "t", "k", BYTES_LIT("{\"some\":\"payload\"}"));
    size_t done = 0;
    while (done < EVENTS && report.rounds_down < ROUNDS) {
        size_t to = done + 20 < EVENTS ? done + 20 : EVENTS;
        rig_submit(&r, done, to);
        rig_wait(&r, to);
        while (done < to && r.told[done].result == SINK_DELIVERED)
            done++;
        if (done < to) {
            report.rounds_down++;
            report.code = r.told[done].why.code;
            memset(r.told + done, 0, (to - done) * sizeof *r.told);
            r.n_told = done;
        }
    }
    report.is_delivered = done == EVENTS;
    rig_release(&r);
    return write(STDOUT_FILENO, &report, sizeof report) == sizeof report ? 0 : 1;
}

static char dir[256], root[300];

static int make_place(void **state)
{
    (void)state;
    make_temp_dir(dir, sizeof dir);
    (void)snprintf(root, sizeof root, "%s/log", dir);
    return 0;
}

static int remove_place(void **state)
{
    (void)state;
    remove_tree(dir);
    return 0;
}

static _Noreturn void exec_worker(int out, const char *failpoints, const char *rotate_size)
{
    char url[400];
    (void)snprintf(url, sizeof url, "file:%s", root);
    if (dup2(out, STDOUT_FILENO) >= 0 && setenv("OUTRIDER_FAILPOINTS", failpoints, 1) == 0)
        (void)execl("/proc/self/exe", "worker", url, rotate_size, (char *)NULL);
    _exit(127);
}

/* Runs a worker to its end; its wait status. */
static int run_worker(const char *failpoints, const char *rotate_size, struct report *ret_report)
{
    int ends[2], status;
    *ret_report = (struct report){0};
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        exec_worker(ends[1], failpoints, rotate_size);
    close(ends[1]);
    ssize_t n = read(ends[0], ret_report, sizeof *ret_report);
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) || n == (ssize_t)sizeof *ret_report);
    return status;
}

static const char *const points[] = {"file.before_write", "file.torn_write", "file.after_write",
                                     "file.before_sync", "file.after_sync"};
#define N_POINTS (sizeof points / sizeof *points)

/* What failed is cut off and delivered again: once, and without a gap. */
static void a_failure_at_any_step_leaves_no_trace(void **state)
{
    for (size_t i = 0; i < N_POINTS; i++) {
        for (int pass = 1; pass <= 5; pass += 2) {
            char list[64];
            struct report report;
            (void)snprintf(list, sizeof list, "%s=%s@%d", points[i], pass == 3 ? "eio" : "enospc",
                           pass);
            assert_int_equal(run_worker(list, "0", &report), 0);
            assert_true(report.is_delivered);
            assert_int_equal(report.rounds_down, 1);
            assert_int_equal(report.code, pass == 3 ? OUTRIDER_IO : OUTRIDER_NO_SPACE);
            assert_int_equal(count_log_lines(root, "t"), EVENTS);
            (void)remove_place(state);
            (void)make_place(state);
        }
    }
}

static void a_disk_that_stays_full_keeps_what_was_confirmed_and_nothing_else(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_POINTS; i++) {
        char list[64];
        struct report report;
        (void)snprintf(list, sizeof list, "%s=enospc@*", points[i]);
        assert_int_equal(run_worker(list, "0", &report), 0);
        assert_false(report.is_delivered);
        assert_int_equal(report.rounds_down, ROUNDS);
        assert_int_equal(count_log_lines(root, "t"), 0);
    }
    struct report report;
    assert_int_equal(run_worker("", "0", &report), 0);
    assert_true(report.is_delivered);
    assert_int_equal(count_log_lines(root, "t"), EVENTS);
}

/* The first pass of file.before_cut is the one at open. */
static void what_cannot_be_cut_off_at_once_is_cut_off_before_the_next_write(void **state)
{
    (void)state;
    struct report report;
    assert_int_equal(run_worker("file.before_sync=eio@2,file.before_cut=eio@2", "0", &report), 0);
    assert_true(report.is_delivered);
    assert_int_equal(report.rounds_down, 1);
    assert_int_equal(count_log_lines(root, "t"), EVENTS);
}

static void a_death_at_any_step_loses_and_tears_nothing(void **state)
{
    for (size_t i = 0; i < N_POINTS; i++) {
        for (int pass = 1; pass <= 5; pass += 2) {
            char list[64];
            struct report report;
            (void)snprintf(list, sizeof list, "%s=kill@%d", points[i], pass);
            int status = run_worker(list, "2000", &report);
            assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
            assert_int_equal(run_worker("", "2000", &report), 0);
            assert_true(report.is_delivered);
            size_t n = count_log_lines(root, "t");
            assert_true(n >= EVENTS && n <= 2 * EVENTS);
            (void)remove_place(state);
            (void)make_place(state);
        }
    }
}

int main(int argc, char **argv)
{
    if (argc == 3)
        return worker(argv[1], strtol(argv[2], NULL, 10));
    const struct CMUnitTest file_faults[] = {
        cmocka_unit_test_setup_teardown(a_failure_at_any_step_leaves_no_trace, make_place,
                                        remove_place),
        cmocka_unit_test_setup_teardown(
            a_disk_that_stays_full_keeps_what_was_confirmed_and_nothing_else, make_place,
            remove_place),
        cmocka_unit_test_setup_teardown(
            what_cannot_be_cut_off_at_once_is_cut_off_before_the_next_write, make_place,
            remove_place),
        cmocka_unit_test_setup_teardown(a_death_at_any_step_loses_and_tears_nothing, make_place,
                                        remove_place),
    };
    return cmocka_run_group_tests(file_faults, NULL, NULL);
}
