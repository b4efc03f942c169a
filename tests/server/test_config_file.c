/* SPDX-License-Identifier: MIT */
/* The configuration file on disk: cli/config.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/config.h"

static void a_file_is_read_and_a_missing_one_named(void **state)
{
    (void)state;
    struct config_file file;
    struct outrider_error err = {0};
    char path[] = "/tmp/outrider-config-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    static const char text[] = "source: {url: 'sqlite:a.db'}\n";
    assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
    assert_int_equal(outrider__config_load(path, &file, NULL, &err), 0);
    assert_string_equal(file.pipelines[0].source.url, "sqlite:a.db");
    outrider__config_release(&file);
    assert_int_equal(ftruncate(fd, CONFIG_FILE_MAX + 1), 0);
    assert_int_equal(outrider__config_load(path, &file, NULL, &err), -1);
    assert_non_null(strstr(err.message, "larger than 1 MiB"));
    (void)close(fd);
    (void)unlink(path);
    assert_int_equal(outrider__config_load(path, &file, NULL, &err), -1);
    assert_non_null(strstr(err.message, path));
    assert_int_equal(outrider__config_load("/tmp", &file, NULL, &err), -1);
    assert_non_null(strstr(err.message, "/tmp"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_read_and_a_missing_one_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
