/* SPDX-License-Identifier: MIT */
/* Contracts of cli/secrets.h. The word hush is the secret. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cli/secrets.h"
#include "core/option_value.h"

static const struct {
    const char *arg, *shown;
} cases[] = {
    {"sink.kafka.sasl.password=hush", "sink.kafka.sasl.password=****"},
    {"--set=sink.kafka.sasl.password=hush", "--set=sink.kafka.sasl.password=****"},
    {"kafka.ssl.key.password=hush", "kafka.ssl.key.password=****"},
    {"sink.kafka={sasl.password: hush}", "sink.kafka=*********************"},
    {"sink.kafka={linger.ms: 5}", "sink.kafka={linger.ms: 5}"},
    {"sink.kafka.linger.ms=5", "sink.kafka.linger.ms=5"},
    /* No such option: the name sounds secret. */
    {"sink.kafak.sasl.password=hush", "sink.kafak.sasl.password=****"},
    {"sink.token=hush", "sink.token=****"},
    /* An option that says that it has no secrets. */
    {"route.by_type={PasswordChanged: password}", "route.by_type={PasswordChanged: password}"},
    {"--set=route.by_type.PasswordChanged=accounts",
     "--set=route.by_type.PasswordChanged=accounts"},
    {"source.url=postgresql://me:hush@h/d", "source.url=postgresql://me:***@h/d"},
    {"--from=postgresql://me:hush@h/d", "--from=postgresql://me:***@h/d"},
    {"kafka://me:hush@h", "kafka://me:***@h"},
    {"--once", "--once"},
    {"", ""},
};

static void what_an_option_says_is_secret_leaves_the_command_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arena arena;
        char arg[128];
        outrider__arena_init(&arena, 1024);
        (void)snprintf(arg, sizeof arg, "%s", cases[i].arg);
        outrider__hide_secrets(arg, &arena);
        assert_string_equal(arg, cases[i].shown);
        outrider__arena_release(&arena);
    }
}

static void a_secret_of_any_type_is_never_given_back(void **state)
{
    static const struct option password = {
        "sink.secret", OPTION_STRING, 0, .example = "x", .has_secrets = true, .text = "A secret."};
    const char *value = "hush", *none = NULL;
    struct strbuf text;
    (void)state;
    outrider__strbuf_init(&text, 100);
    assert_int_equal(outrider__value_get(&password, &value, &text), 0);
    assert_string_equal(strbuf_cstr(&text), "***");
    outrider__strbuf_clear(&text);
    assert_int_equal(outrider__value_get(&password, &none, &text), 0);
    assert_string_equal(strbuf_cstr(&text), "");
    outrider__strbuf_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_an_option_says_is_secret_leaves_the_command_line),
        cmocka_unit_test(a_secret_of_any_type_is_never_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
