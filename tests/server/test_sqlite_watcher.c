/* SPDX-License-Identifier: MIT */
/* sqlite/watcher.h, with files in a directory of its own. */
#include "sqlite/watcher.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#define MANY 200 /* the kernel gives a user 128 inotify instances */

static char dir[64];

static int make_dir(void **state)
{
    (void)state;
    (void)snprintf(dir, sizeof dir, "/tmp/outrider-watcher-XXXXXX");
    return mkdtemp(dir) != NULL ? 0 : -1;
}

static int remove_dir(void **state)
{
    (void)state;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.')
            (void)unlinkat(dirfd(d), e->d_name, 0);
    (void)closedir(d);
    return rmdir(dir);
}

static const char *file_of(unsigned n, const char *suffix, char ret[128])
{
    (void)snprintf(ret, 128, "%s/%u.db%s", dir, n, suffix);
    return ret;
}

static void append(unsigned n, const char *suffix)
{
    char path[128];
    int fd = open(file_of(n, suffix, path), O_WRONLY | O_CREAT | O_APPEND, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "x", 1), 1);
    close(fd);
}

static void join(struct watched *w, unsigned n)
{
    char path[128];
    append(n, "");
    outrider__sqlite_watcher_join(w, file_of(n, "", path));
    assert_true(w->fd >= 0);
}

static bool is_woken(const struct watched *w, int timeout_ms)
{
    struct pollfd fd = {.fd = w->fd, .events = POLLIN};
    return poll(&fd, 1, timeout_ms) == 1;
}

static void expect_change(struct watched *w)
{
    bool is_watched;
    assert_true(is_woken(w, 10000));
    assert_true(outrider__sqlite_watcher_take(w, &is_watched));
    assert_true(is_watched);
}

/* Takes what the thread still has to say of changes that are over. */
static void settle_all(struct watched *all, unsigned n)
{
    bool any = true, is_watched;
    while (any) {
        any = is_woken(&all[n - 1], 50);
        for (unsigned i = 0; i < n; i++)
            any |= outrider__sqlite_watcher_take(&all[i], &is_watched);
    }
}

static void settle(struct watched *w)
{
    settle_all(w, 1);
}

static void a_change_wakes_the_source_of_that_file_and_no_other(void **state)
{
    struct watched all[MANY];
    bool is_watched;
    (void)state;
    for (unsigned i = 0; i < MANY; i++)
        join(&all[i], i);
    settle_all(all, MANY);
    append(MANY - 1, "");
    expect_change(&all[MANY - 1]);
    append(3, "");
    expect_change(&all[3]);
    for (unsigned i = 0; i < MANY; i++)
        assert_false(is_woken(&all[i], 0));
    assert_false(outrider__sqlite_watcher_take(&all[0], &is_watched));
    assert_true(is_watched);
    for (unsigned i = 0; i < MANY; i++)
        outrider__sqlite_watcher_leave(&all[i]);
}

static void a_wal_file_is_followed_when_it_comes_and_goes(void **state)
{
    struct watched w, neighbour;
    char path[128];
    (void)state;
    join(&w, 1);
    join(&neighbour, 11);
    settle(&w);
    settle(&neighbour);
    for (int round = 0; round < 3; round++) {
        append(1, "-wal");
        expect_change(&w);
        settle(&w);
        append(1, "-wal");
        expect_change(&w);
        settle(&w);
        assert_int_equal(unlink(file_of(1, "-wal", path)), 0);
        expect_change(&w);
        settle(&w);
        append(1, ""); /* without it commits go to the file itself */
        expect_change(&w);
        settle(&w);
    }
    append(1, "-journal");
    assert_false(is_woken(&w, 20));
    assert_false(is_woken(&neighbour, 0));
    outrider__sqlite_watcher_leave(&w);
    outrider__sqlite_watcher_leave(&neighbour);
}

static void two_sources_of_one_file_are_both_woken_until_they_leave(void **state)
{
    struct watched a, b;
    (void)state;
    join(&a, 1);
    join(&b, 1);
    settle(&a);
    settle(&b);
    append(1, "");
    expect_change(&a);
    expect_change(&b);
    outrider__sqlite_watcher_leave(&a);
    outrider__sqlite_watcher_leave(&a);
    settle(&b);
    append(1, "");
    expect_change(&b);
    outrider__sqlite_watcher_leave(&b);
}

static unsigned count_threads(void)
{
    DIR *d = opendir("/proc/self/task");
    const struct dirent *e;
    unsigned n = 0;
    assert_non_null(d);
    while ((e = readdir(d)) != NULL)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static void one_thread_serves_all_and_ends_with_the_last(void **state)
{
    struct watched a, b;
    unsigned before = count_threads();
    (void)state;
    join(&a, 1);
    join(&b, 2);
    assert_int_equal(count_threads(), before + 1);
    outrider__sqlite_watcher_leave(&a);
    assert_int_equal(count_threads(), before + 1);
    outrider__sqlite_watcher_leave(&b);
    assert_int_equal(count_threads(), before);
}

static void *come_and_go(void *arg)
{
    unsigned n = *(const unsigned *)arg;
    for (int i = 0; i < 50; i++) {
        struct watched w;
        bool is_watched;
        join(&w, n);
        append(n, "-wal");
        if (is_woken(&w, 10000))
            (void)outrider__sqlite_watcher_take(&w, &is_watched);
        outrider__sqlite_watcher_leave(&w);
    }
    return NULL;
}

static void sources_may_come_and_go_on_many_threads(void **state)
{
    pthread_t threads[8];
    unsigned numbers[8];
    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, &numbers[i]), 0);
    }
    for (size_t i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
}

static void a_directory_that_is_missing_leaves_the_source_to_poll(void **state)
{
    struct watched w;
    bool is_watched = true;
    (void)state;
    outrider__sqlite_watcher_join(&w, "/nowhere/at/all.db");
    assert_false(outrider__sqlite_watcher_take(&w, &is_watched));
    assert_false(is_watched);
    outrider__sqlite_watcher_leave(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_change_wakes_the_source_of_that_file_and_no_other,
                                        make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(a_wal_file_is_followed_when_it_comes_and_goes, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(two_sources_of_one_file_are_both_woken_until_they_leave,
                                        make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(one_thread_serves_all_and_ends_with_the_last, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(sources_may_come_and_go_on_many_threads, make_dir,
                                        remove_dir),
        cmocka_unit_test(a_directory_that_is_missing_leaves_the_source_to_poll),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
