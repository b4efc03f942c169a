/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/failpoint.h"

/* The environment is read once for a process, so each case is a process. It
 * passes the point `passes` times and exits with a digest of what it got. */
static int run(const char *points, const char *name, int passes, char *ret_stderr, size_t size)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    (void)fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)dup2(fds[1], STDERR_FILENO);
        (void)close(fds[0]);
        (void)close(fds[1]);
        /* cmocka catches SIGABRT in the parent's memory, which the child shares. */
        (void)signal(SIGABRT, SIG_DFL);
        if (points != NULL)
            (void)setenv("OUTRIDER_FAILPOINTS", points, 1);
        else
            (void)unsetenv("OUTRIDER_FAILPOINTS");
        int result = 0;
        for (int i = 0; i < passes; i++)
            if (FAILPOINT(name) != 0)
                result = result * 10 + i + 1;
        _exit(result);
    }
    (void)close(fds[1]);
    size_t n = 0;
    ssize_t got;
    while (n + 1 < size && (got = read(fds[0], ret_stderr + n, size - 1 - n)) > 0)
        n += (size_t)got;
    ret_stderr[n] = '\0';
    (void)close(fds[0]);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    if (WIFSTOPPED(status)) {
        (void)kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
    }
    return status;
}

/* Which passes failed, as digits: 13 for the first and the third of three. */
static int failed_passes(const char *points, const char *name)
{
    char text[512];
    int status = run(points, name, 3, text, sizeof text);
    assert_true(WIFEXITED(status));
    assert_string_equal(text, "");
    return WEXITSTATUS(status);
}

static void without_the_variable_no_point_fails(void **state)
{
    (void)state;
    assert_int_equal(failed_passes(NULL, "file.write"), 0);
    assert_int_equal(failed_passes("", "file.write"), 0);
    assert_int_equal(failed_passes(",", "file.write"), 0);
}

static void only_the_named_point_fails(void **state)
{
    (void)state;
    assert_int_equal(failed_passes("file.write=eio", "file.sync"), 0);
    assert_int_equal(failed_passes("file.write=eio", "file.write.more"), 0);
    assert_int_equal(failed_passes("file.write=eio", "file.writ"), 0);
    assert_int_equal(failed_passes("x=eio,file.write=eio", "file.write"), 1);
}

static void the_pass_that_fails_can_be_chosen(void **state)
{
    (void)state;
    assert_int_equal(failed_passes("p=enospc", "p"), 1);
    assert_int_equal(failed_passes("p=ENOSPC@2", "p"), 2);
    assert_int_equal(failed_passes("p=eio@*", "p"), 123);
    assert_int_equal(failed_passes("p=eio@4", "p"), 0);
    assert_int_equal(failed_passes("p=eio@1,p=enospc@3", "p"), 13);
}

static void a_point_reports_the_errno_that_was_asked_for(void **state)
{
    (void)state;
    (void)setenv("OUTRIDER_FAILPOINTS", "here=enospc@*", 1);
    assert_int_equal(FAILPOINT("here"), ENOSPC);
    assert_int_equal(FAILPOINT("there"), 0);
}

static void kill_ends_the_process_at_the_chosen_pass(void **state)
{
    (void)state;
    char text[512];
    int status = run("p=kill@2", "p", 1, text, sizeof text);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    status = run("p=kill@2", "p", 2, text, sizeof text);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void stop_leaves_the_process_there_to_be_continued(void **state)
{
    (void)state;
    (void)fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)setenv("OUTRIDER_FAILPOINTS", "p=stop", 1);
        _exit(FAILPOINT("p") == 0 ? 7 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    assert_int_equal(kill(pid, SIGCONT), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

static void delay_takes_at_least_its_time_and_is_no_error(void **state)
{
    (void)state;
    struct instant before = outrider__clock_now();
    assert_int_equal(failed_passes("p=delay:20ms@2", "p"), 0);
    assert_true(outrider__clock_now().mono_us - before.mono_us >= 20000);
}

static void a_point_that_makes_no_sense_ends_the_process_with_a_reason(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "p",      "p=",      "=kill",     "p=explode", "p=eio@0",          "p=eio@x",
        "p=eio@", "p=delay", "p=delay:5", "p=kill:1",  "ok=eio,p=nonsense"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[512];
        int status = run(bad[i], "p", 1, text, sizeof text);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT)
            fail_msg("%s: status %d", bad[i], status);
        assert_memory_equal(text, "OUTRIDER_FAILPOINTS: '", 22);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_the_variable_no_point_fails),
        cmocka_unit_test(only_the_named_point_fails),
        cmocka_unit_test(the_pass_that_fails_can_be_chosen),
        cmocka_unit_test(kill_ends_the_process_at_the_chosen_pass),
        cmocka_unit_test(stop_leaves_the_process_there_to_be_continued),
        cmocka_unit_test(delay_takes_at_least_its_time_and_is_no_error),
        cmocka_unit_test(a_point_that_makes_no_sense_ends_the_process_with_a_reason),
        /* Last: it reads the environment into this process. */
        cmocka_unit_test(a_point_reports_the_errno_that_was_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
