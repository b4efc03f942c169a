/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cli/args.h"

#define MAX_WORDS 16

/* Parses words separated by blanks, as a shell would hand them over. */
static int parse(const char *line, struct args *ret, struct outrider_error *err)
{
    static char copy[512];
    char *argv[MAX_WORDS] = {NULL}, *save = NULL;
    int n = 0;
    snprintf(copy, sizeof(copy), "%s", line);
    for (char *w = strtok_r(copy, " ", &save); w && n < MAX_WORDS; w = strtok_r(NULL, " ", &save))
        argv[n++] = w;
    assert_true(n > 0);
    const struct command *c = outrider__command_find(argv[0]);
    assert_non_null(c);
    *err = (struct outrider_error){0};
    return outrider__args_parse(c, n - 1, argv + 1, ret, err);
}

static void a_value_stands_behind_its_flag_or_behind_an_equals_sign(void **state)
{
    struct outrider_error err;
    struct args a;
    (void)state;
    assert_int_equal(parse("relay --from sqlite:a --to=null:", &a, &err), 0);
    assert_string_equal(outrider__args_text(&a, F_DB), "sqlite:a");
    assert_string_equal(outrider__args_text(&a, F_TO), "null:");
    assert_false(outrider__args_has(&a, F_ONCE));
    outrider__args_release(&a);
    assert_int_equal(parse("relay -c x.yaml --once", &a, &err), 0);
    assert_string_equal(outrider__args_text(&a, F_CONFIG), "x.yaml");
    assert_true(outrider__args_has(&a, F_ONCE));
    outrider__args_release(&a);
    assert_int_equal(parse("relay -cx.yaml", &a, &err), 0);
    assert_string_equal(outrider__args_text(&a, F_CONFIG), "x.yaml");
    outrider__args_release(&a);
}

static void db_and_from_are_the_same_flag_in_every_command_that_has_one(void **state)
{
    static const char *const names[] = {"init",    "put",    "relay",  "status", "dead",
                                        "cleanup", "replay", "resync", "doctor"};
    struct outrider_error err;
    struct args a;
    char line[80];
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        for (int k = 0; k < 2; k++) {
            snprintf(line, sizeof(line), "%s --%s sqlite:x --name p", names[i], k ? "db" : "from");
            assert_int_equal(parse(line, &a, &err), 0);
            assert_string_equal(outrider__args_text(&a, F_DB), "sqlite:x");
            outrider__args_release(&a);
        }
    }
}

static void flags_that_repeat_keep_their_order(void **state)
{
    struct outrider_error err;
    struct args a;
    (void)state;
    assert_int_equal(parse("dead list --db x:y --id one --id two", &a, &err), 0);
    assert_string_equal(a.operands[0], "list");
    assert_string_equal(outrider__args_at(&a, F_ID, 0), "one");
    assert_string_equal(outrider__args_at(&a, F_ID, 1), "two");
    assert_null(outrider__args_at(&a, F_ID, 2));
    outrider__args_release(&a);
}

static void behind_two_dashes_everything_is_an_operand(void **state)
{
    struct outrider_error err;
    struct args a;
    (void)state;
    assert_int_equal(parse("tail -- -dir --topic", &a, &err), 0);
    assert_int_equal(a.n_operands, 2);
    assert_string_equal(a.operands[0], "-dir");
    assert_string_equal(a.operands[1], "--topic");
    outrider__args_release(&a);
}

static void wrong_lines_are_refused_with_what_is_wrong(void **state)
{
    static const struct {
        const char *line, *says;
    } cases[] = {
        {"relay --form sqlite:x", "unknown flag --form for 'relay' (did you mean --from?)"},
        {"relay --zzzzzzzz=secret",
         "unknown flag --zzzzzzzz for 'relay'; see outrider relay --help"},
        {"relay -x", "unknown flag -x"},
        {"relay --from", "--from needs a value: --from URL"},
        {"relay --from --once", "--from needs a value: --from URL"},
        {"relay --from a:b --db a:b", "--from is given twice (--db is the same)"},
        {"relay --to a:b --to a:b", "--to is given twice"},
        {"relay --once=yes", "--once takes no value"},
        {"relay --set max_attempts", "--set takes KEY=VALUE"},
        {"relay --set =3", "--set takes KEY=VALUE"},
        {"relay --mode push", "--mode takes one of poll|cdc, not 'push'"},
        {"relay extra", "'relay' does not know what to do with 'extra'"},
        {"put --batch ten", "--batch takes a whole number from 1 to 1000000"},
        {"put --batch 0", "--batch takes a whole number from 1 to 1000000"},
        {"put --batch 99999999999999999999", "--batch takes a whole number from 1 to 1000000"},
        {"put --partition=-1", "--partition takes a whole number from 0 to"},
        {"replay --from-seq 1.5", "--from-seq takes a whole number of at least 1"},
        {"replay --since yesterday", "--since takes a time such as"},
        {"cleanup --retention 7", "--retention takes a duration such as"},
        {"dead bury", "'dead' takes one of list|show|retry|discard, not 'bury'"},
        {"dead list show", "'dead' does not know what to do with 'show'"},
        {"status --db=", "--db takes a value that is not empty"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct outrider_error err;
        struct args a;
        assert_int_equal(parse(cases[i].line, &a, &err), -1);
        assert_int_equal(err.code, OUTRIDER_INVALID);
        if (strncmp(err.message, cases[i].says, strlen(cases[i].says)) != 0)
            fail_msg("%s: '%s' instead of '%s'", cases[i].line, err.message, cases[i].says);
    }
}

static void a_time_is_a_date_or_a_duration_before_now(void **state)
{
    struct outrider_error err;
    struct args a;
    int64_t now = 1800000000000000;
    (void)state;
    assert_int_equal(parse("replay --since 1h", &a, &err), 0);
    assert_int_equal(outrider__args_time(&a, F_SINCE, now), now - 3600000000);
    outrider__args_release(&a);
    assert_int_equal(parse("replay --since 2026-01-31T08:00:00Z", &a, &err), 0);
    assert_int_equal(outrider__args_time(&a, F_SINCE, now), 1769846400000000);
    outrider__args_release(&a);
}

static void numbers_and_durations_have_a_value_where_they_are_not_given(void **state)
{
    struct outrider_error err;
    struct args a;
    (void)state;
    assert_int_equal(parse("put --batch 7", &a, &err), 0);
    assert_int_equal(outrider__args_number(&a, F_BATCH, 1), 7);
    assert_int_equal(outrider__args_number(&a, F_PARTITION, -1), -1);
    assert_int_equal(outrider__args_duration(&a, F_RETENTION, 5), 5);
    outrider__args_release(&a);
}

static void every_flag_belongs_to_a_command_and_has_a_text(void **state)
{
    size_t n, m;
    const struct flag *flags = outrider__flags(&n);
    const struct command *commands = outrider__commands(&m);
    (void)state;
    for (size_t i = 0; i < n; i++) {
        bool used = false;
        for (size_t k = 0; k < m; k++)
            used |= outrider__flag_belongs(&flags[i], &commands[k]);
        assert_true(used);
        assert_true(strlen(flags[i].text) > 4);
        assert_true((flags[i].kind == FLAG_SWITCH) == (flags[i].value == NULL));
        assert_true((flags[i].kind == FLAG_CHOICE) == (flags[i].choices != NULL));
    }
}

static void no_command_has_two_flags_of_one_name_or_one_id(void **state)
{
    size_t n, m;
    const struct flag *flags = outrider__flags(&n);
    const struct command *commands = outrider__commands(&m);
    (void)state;
    for (size_t k = 0; k < m; k++) {
        for (size_t i = 0; i < n; i++) {
            for (size_t j = i + 1; j < n; j++) {
                if (!outrider__flag_belongs(&flags[i], &commands[k]) ||
                    !outrider__flag_belongs(&flags[j], &commands[k]))
                    continue;
                assert_int_not_equal(flags[i].id, flags[j].id);
                assert_string_not_equal(flags[i].name, flags[j].name);
                if (flags[i].alias)
                    assert_string_not_equal(flags[i].alias, flags[j].name);
                assert_true(flags[i].letter == 0 || flags[i].letter != flags[j].letter);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_stands_behind_its_flag_or_behind_an_equals_sign),
        cmocka_unit_test(db_and_from_are_the_same_flag_in_every_command_that_has_one),
        cmocka_unit_test(flags_that_repeat_keep_their_order),
        cmocka_unit_test(behind_two_dashes_everything_is_an_operand),
        cmocka_unit_test(wrong_lines_are_refused_with_what_is_wrong),
        cmocka_unit_test(a_time_is_a_date_or_a_duration_before_now),
        cmocka_unit_test(numbers_and_durations_have_a_value_where_they_are_not_given),
        cmocka_unit_test(every_flag_belongs_to_a_command_and_has_a_text),
        cmocka_unit_test(no_command_has_two_flags_of_one_name_or_one_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
