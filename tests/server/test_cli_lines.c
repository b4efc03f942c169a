/* SPDX-License-Identifier: MIT */
/* Lines of a file: cli/lines.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/lines.h"
static void lines_come_whole_however_they_are_cut(void **state)
{
    char path[] = "/tmp/outrider-lines-XXXXXX";
    int fd = mkstemp(path);
    FILE *f = fdopen(fd, "w");
    struct outrider_error err = {0};
    struct bytes line;
    struct lines l;
    (void)state;
    for (int i = 0; i < 3000; i++)
        fprintf(f, "%d:%*s\n", i, i % 97, "");
    fputs("the last one has no end", f);
    fclose(f);
    assert_int_equal(outrider__lines_open(&l, path, 1000, &err), 0);
    for (int i = 0; i < 3000; i++) {
        char head[16];
        int n = snprintf(head, sizeof(head), "%d:", i);
        assert_int_equal(outrider__lines_next(&l, &line, &err), 1);
        assert_memory_equal(line.data, head, (size_t)n);
        assert_int_equal(line.len, n + i % 97);
        assert_int_equal(l.number, i + 1);
    }
    assert_int_equal(outrider__lines_next(&l, &line, &err), 1);
    assert_true(bytes_eq_str(line, "the last one has no end"));
    assert_int_equal(outrider__lines_next(&l, &line, &err), 0);
    outrider__lines_close(&l);
    unlink(path);
}

static void a_line_without_an_end_is_refused_in_bounded_memory(void **state)
{
    struct outrider_error err = {0};
    struct bytes line;
    struct lines l;
    (void)state;
    assert_int_equal(outrider__lines_open(&l, "/dev/zero", 100000, &err), 0);
    assert_int_equal(outrider__lines_next(&l, &line, &err), -1);
    assert_int_equal(err.code, OUTRIDER_TOO_LARGE);
    assert_true(l.size < 1000000);
    outrider__lines_close(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_come_whole_however_they_are_cut),
        cmocka_unit_test(a_line_without_an_end_is_refused_in_bounded_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
