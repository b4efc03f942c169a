/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/adapter.h"
#include "core/option_value.h"
#include "sink/file/options.h"

struct fixture {
    struct arena arena;
    struct pipeline_config config;
    struct outrider_error err;
    struct strbuf text;
};

static int make(void **state)
{
    static struct fixture f;
    memset(&f, 0, sizeof f);
    outrider__arena_init(&f.arena, 4096);
    outrider__strbuf_init(&f.text, 1024 * 1024);
    if (outrider__config_init(&f.config, &f.arena, "default", &f.err) < 0)
        fail_msg("%s", f.err.message);
    *state = &f;
    return 0;
}

static int drop(void **state)
{
    struct fixture *f = *state;
    outrider__strbuf_release(&f->text);
    outrider__arena_release(&f->arena);
    return 0;
}

static int set(struct fixture *f, const char *name, const char *value)
{
    return outrider__config_set(&f->config, bytes_str(name), bytes_str(value), &f->err);
}

static void must_set(struct fixture *f, const char *name, const char *value)
{
    if (set(f, name, value) < 0)
        fail_msg("%s", f->err.message);
}

static const char *get(struct fixture *f, const char *name)
{
    const struct option *o = outrider__option_find(bytes_str(name));
    assert_non_null(o);
    outrider__strbuf_clear(&f->text);
    assert_int_equal(outrider__config_get(&f->config, o, &f->text), 0);
    return strbuf_cstr(&f->text);
}

/* Something that the option takes and that is not its default. */
static const char *other_value(const struct option *o)
{
    switch (o->type) {
    case OPTION_SECRET_URL:
        return "sqlite:other.db";
    case OPTION_BOOL:
        return strcmp(o->initial, "true") == 0 ? "false" : "true";
    case OPTION_INT:
        return "17";
    case OPTION_NUMBER:
        return o->max == 1 ? "0.125" : "3.5";
    case OPTION_SIZE:
        return "12KiB";
    case OPTION_DURATION:
        return "1234ms";
    case OPTION_ENUM:
        return strchr(o->values, '|') + 1;
    case OPTION_STRINGS:
        return "[one, \"two, three\", \"say \\\"hi\\\"\"]";
    case OPTION_DURATIONS:
        return "[250ms, 1m, 7d]";
    case OPTION_MAP:
        return "{A: one, \"B: x\": two.three}";
    case OPTION_STRING:
        break;
    }
    if (strcmp(o->name, "cleanup.at") == 0)
        return "02:00";
    return strcmp(o->name, "route.regex_field") == 0 ? "aggregate_id" : "another";
}

static void every_default_is_a_value_that_the_option_takes(void **state)
{
    struct fixture *f = *state;
    size_t n;
    const struct option *options = outrider__options(&n);
    for (size_t i = 0; i < n; i++) {
        const char *before = options[i].initial != NULL ? options[i].initial : "";
        assert_string_equal(get(f, options[i].name), before);
        must_set(f, options[i].name, before);
        assert_string_equal(get(f, options[i].name), before);
    }
}

static void every_option_gives_back_what_was_set(void **state)
{
    struct fixture *f = *state;
    size_t n;
    const struct option *options = outrider__options(&n);
    for (size_t i = 0; i < n; i++) {
        char value[200], again[200];
        const char *last = other_value(&options[i]);
        (void)snprintf(value, sizeof value, "%.*s", (int)strcspn(last, "|"), last);
        must_set(f, options[i].name, value);
        (void)snprintf(again, sizeof again, "%s", get(f, options[i].name));
        assert_string_equal(again, value);
        assert_string_not_equal(again, options[i].initial != NULL ? options[i].initial : "");
        must_set(f, options[i].name, again);
        assert_string_equal(get(f, options[i].name), value);
    }
}

static void no_two_options_share_a_field_or_a_name(void **state)
{
    (void)state;
    size_t n;
    const struct option *options = outrider__options(&n);
    for (size_t i = 0; i < n; i++) {
        assert_true(options[i].text != NULL && options[i].text[strlen(options[i].text) - 1] == '.');
        assert_true(options[i].initial != NULL || options[i].example != NULL);
        assert_true(options[i].type != OPTION_ENUM || options[i].values != NULL);
        for (size_t j = 0; j < i; j++) {
            assert_int_not_equal(options[i].offset, options[j].offset);
            assert_string_not_equal(options[i].name, options[j].name);
        }
        struct bytes name = bytes_str(options[i].name);
        const char *dot = strchr(options[i].name, '.');
        if (dot != NULL)
            assert_true(
                outrider__option_is_section(bytes_of(name.data, (size_t)(dot - name.data))));
        assert_ptr_equal(outrider__option_find(name), &options[i]);
    }
}

static void every_row_of_an_adapter_is_in_the_table(void **state)
{
    size_t n, n_core, n_adapters = 0;
    (void)state;
    (void)outrider__options(&n);
    (void)outrider__core_options(&n_core);
    for (const struct adapter_entry *e = outrider__adapters; e->adapter != NULL; e++) {
        n_adapters += e->adapter->n_options;
        for (size_t i = 0; i < e->adapter->n_options; i++)
            assert_non_null(outrider__option_find(bytes_str(e->adapter->options[i].name)));
    }
    assert_int_equal(n, n_core + n_adapters);
}

static void adapters_are_found_by_any_of_their_schemes(void **state)
{
    (void)state;
    assert_string_equal(outrider__adapter_find("postgresql")->adapter->name, "postgres");
    assert_string_equal(outrider__adapter_find("postgres")->adapter->name, "postgres");
    assert_string_equal(outrider__adapter_of_url("file:events")->adapter->name, "file");
    assert_null(outrider__adapter_find("amqp"));
    assert_null(outrider__adapter_find(""));
    assert_null(outrider__adapter_of_url(NULL));
    for (const struct adapter_entry *e = outrider__adapters; e->adapter != NULL; e++) {
        assert_true(e->adapter->is_source || e->adapter->is_sink);
        assert_ptr_equal(outrider__adapter_of_url(e->adapter->example), e);
        assert_ptr_equal(outrider__adapter_of_url(e->adapter->form), e);
    }
}

static void a_copied_configuration_has_adapter_options_of_its_own(void **state)
{
    struct fixture *f = *state;
    struct pipeline_config other = f->config;
    must_set(f, "sink.rotate_size", "1MiB");
    assert_int_equal(file_options(&f->config)->rotate_size, 1 << 20);
    assert_int_equal(file_options(&other)->rotate_size, 64 << 20);
    assert_true(outrider__config_differs(&f->config, &other,
                                         outrider__option_find(BYTES_LIT("rotate_size"))));
    other.places = NULL; /* made by hand */
    assert_int_equal(file_options(&other)->rotate_size, 0);
}

static void examples_and_defaults_of_the_design_hold(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(f->config.source.poll_interval_us, 100000);
    assert_int_equal(f->config.source.batch, 1000);
    assert_int_equal(f->config.source.max_payload, 1 << 20);
    assert_int_equal(f->config.sink.send_timeout_us, 30000000);
    assert_int_equal(file_options(&f->config)->rotate_size, 64 << 20);
    assert_int_equal(f->config.retry.delays.n, 5);
    assert_int_equal(f->config.retry.delays.items[4], INT64_C(1800000000));
    assert_int_equal(f->config.retry.max_attempts, 6);
    assert_int_equal(f->config.retry.on_dead, ON_DEAD_SKIP);
    assert_int_equal(f->config.cleanup.retention_us, INT64_C(7) * 86400 * 1000000);
    assert_true(f->config.ordered);
    assert_null(f->config.dead_letter.topic);
    assert_string_equal(f->config.route.topic, "${aggregate_type}.${event_type}");
    assert_string_equal(f->config.headers.event_id, "event-id");
}

static const struct {
    const char *name, *value, *message;
} bad_values[] = {
    {"source.batch", "0",
     "option 'source.batch': '0' is not a whole number from 1 to 100000, for example '1000'"},
    {"source.batch", "many",
     "option 'source.batch': 'many' is not a whole number from 1 to 100000, for example "
     "'1000'"},
    {"source.batch", "100001", NULL},
    {"source.batch", "-1", NULL},
    {"source.batch", "1.5", NULL},
    {"source.batch", "", NULL},
    {"source.batch", "99999999999999999999", NULL},
    {"poll_interval", "100",
     "option 'source.poll_interval': '100' is not a duration from 1ms to 1h, for example "
     "'100ms'"},
    {"poll_interval", "0", NULL},
    {"poll_interval", "2h", NULL},
    {"source.max_payload", "1TiB", NULL},
    {"source.max_payload", "1.5MiB", NULL},
    {"source.max_payload", "MiB", NULL},
    {"source.max_payload", "99999999999GiB", NULL},
    {"retry.on_dead", "stop",
     "option 'retry.on_dead': 'stop' is not one of skip, block, for example 'skip'"},
    {"retry.on_dead", "", NULL},
    {"retry.factor", "0.5", NULL},
    {"retry.factor", "2,5", NULL},
    {"retry.factor", ".5", NULL},
    {"retry.factor", "1.1234567", NULL},
    {"retry.jitter", "1.5", NULL},
    {"retry.delays", "[1s, 5]",
     "option 'retry.delays': '5' is not a list of durations from 0 to 365d, for example '[1s, "
     "5s, 30s, 5m, 30m]'"},
    {"retry.delays", "[1s", NULL},
    {"retry.delays", "1s,,2s", NULL},
    {"source.tables", "[a, ]", NULL},
    {"source.tables", "['a]", NULL},
    {"source.tables", "[\"a\" b]", NULL},
    {"source.tables", "['']", "option 'source.tables' holds an empty item"},
    {"route.by_type", "{A}", NULL},
    {"route.by_type", "{: b}", NULL},
    {"route.by_type", "{A: b, A: c}", "option 'route.by_type' holds 'A' twice"},
    {"route.topic", "${agregate}",
     "option 'route.topic': at character 1: unknown variable 'agregate' (known: "
     "aggregate_type, event_type, aggregate_id, partition_key, header:NAME)"},
    {"route.topic", "a${", NULL},
    {"route.regex", "(", NULL},
    {"route.regex_field", "colour", NULL},
    {"cleanup.at", "25:00", NULL},
    {"cleanup.at", "noon", NULL},
    {"headers.event_id", "event id", NULL},
    {"headers.event_id", "event\nid", NULL},
    {"ordered", "maybe", "option 'ordered': 'maybe' is not true or false, for example 'true'"},
    {"cloudevents.source", "\xff\xfe", "option 'cloudevents.source' is not UTF-8"},
    {"cloudevents.source", "a\tb",
     "option 'cloudevents.source' contains a control character (0x09)"},
};

static void wrong_values_are_refused_with_range_and_example(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof bad_values / sizeof *bad_values; i++) {
        char before[200];
        (void)snprintf(before, sizeof before, "%s", get(f, bad_values[i].name));
        memset(&f->err, 0, sizeof f->err);
        if (set(f, bad_values[i].name, bad_values[i].value) == 0)
            fail_msg("%s took '%s'", bad_values[i].name, bad_values[i].value);
        assert_int_equal(f->err.code, OUTRIDER_CONFIG);
        assert_int_equal(f->err.disposition, OUTRIDER_STOP);
        if (bad_values[i].message != NULL)
            assert_string_equal(f->err.message, bad_values[i].message);
        assert_non_null(
            strstr(f->err.message, outrider__option_find(bytes_str(bad_values[i].name))->name));
        assert_string_equal(get(f, bad_values[i].name), before);
    }
}

static void a_bad_url_is_refused_without_being_shown(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(set(f, "sink.url", "hunter2 no scheme"), -1);
    assert_null(strstr(f->err.message, "hunter2"));
    assert_non_null(strstr(f->err.message, "sink.url"));
}

static void a_password_is_never_given_back(void **state)
{
    struct fixture *f = *state;
    must_set(f, "source.url", "postgresql://relay:hunter2@db/shop");
    assert_null(strstr(get(f, "source.url"), "hunter2"));
    assert_non_null(strstr(get(f, "source.url"), "db/shop"));
}

static void a_changed_password_is_a_difference(void **state)
{
    struct fixture *f = *state;
    struct pipeline_config other = f->config;
    const struct option *o = outrider__option_find(BYTES_LIT("source.url"));
    must_set(f, "source.url", "postgresql://relay:one@db/shop");
    assert_true(outrider__config_differs(&f->config, &other, o));
    other = f->config;
    assert_false(outrider__config_differs(&f->config, &other, o));
    must_set(f, "source.url", "postgresql://relay:two@db/shop");
    assert_true(outrider__config_differs(&f->config, &other, o));
}

static void lists_are_taken_in_several_spellings(void **state)
{
    struct fixture *f = *state;
    static const char *const spellings[] = {"[a, b]", "a,b", " [ a ,b ] ", "['a', \"b\"]",
                                            "a , 'b'"};
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        must_set(f, "source.tables", spellings[i]);
        assert_string_equal(get(f, "source.tables"), "[a, b]");
    }
    must_set(f, "source.tables", "");
    assert_int_equal(f->config.source.tables.n, 0);
    must_set(f, "source.tables", "['it''s', '\\']");
    assert_string_equal(f->config.source.tables.items[0], "it's");
    assert_string_equal(f->config.source.tables.items[1], "\\");
}

static void a_copied_configuration_keeps_its_lists(void **state)
{
    struct fixture *f = *state;
    const struct option *o = outrider__option_find(BYTES_LIT("source.tables"));
    must_set(f, "source.tables", "[a]");
    struct pipeline_config other = f->config;
    assert_int_equal(outrider__config_add(&f->config, o, BYTES_NULL, BYTES_LIT("b"), &f->err), 0);
    assert_int_equal(outrider__config_add(&other, o, BYTES_NULL, BYTES_LIT("c"), &f->err), 0);
    assert_string_equal(get(f, "source.tables"), "[a, b]");
    assert_string_equal(other.source.tables.items[1], "c");
}

static void a_list_is_bounded(void **state)
{
    struct fixture *f = *state;
    const struct option *o = outrider__option_find(BYTES_LIT("source.tables"));
    for (int i = 0; i < OPTION_ITEMS_MAX; i++)
        assert_int_equal(outrider__config_add(&f->config, o, BYTES_NULL, BYTES_LIT("x"), &f->err),
                         0);
    assert_int_equal(outrider__config_add(&f->config, o, BYTES_NULL, BYTES_LIT("x"), &f->err), -1);
    assert_non_null(strstr(f->err.message, "1024"));
}

static void sizes_are_read_and_shown(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t bytes;
        const char *shown;
    } cases[] = {
        {"1", 1, "1B"},
        {"512B", 512, "512B"},
        {"4KiB", 4096, "4KiB"},
        {"1MiB", 1 << 20, "1MiB"},
        {"1 GiB", 1 << 30, "1GiB"},
        {"64KB", 64000, "64000B"},
        {"2MB", 2000000, "2000000B"},
        {"1024", 1024, "1KiB"},
        {"0", 0, "0B"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t bytes;
        char text[CLOCK_TEXT_SIZE];
        assert_int_equal(outrider__size_parse(bytes_str(cases[i].text), &bytes), 0);
        assert_int_equal(bytes, cases[i].bytes);
        outrider__size_format(bytes, text);
        assert_string_equal(text, cases[i].shown);
    }
}

static void a_section_may_be_left_out_where_the_rest_is_unique(void **state)
{
    (void)state;
    static const struct {
        const char *typed, *name;
    } cases[] = {
        {"poll_interval", "source.poll_interval"},
        {"max_attempts", "retry.max_attempts"},
        {"on_dead", "retry.on_dead"},
        {"form", "form"},
        {"retention", "cleanup.retention"},
        {"batch", NULL},
        {"url", NULL},
        {"topic", NULL},
        {"source", NULL}, /* a section, not cloudevents.source */
        {"", NULL},
        {"retry.", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct option *o = outrider__option_find(bytes_str(cases[i].typed));
        if (cases[i].name == NULL)
            assert_null(o);
        else
            assert_string_equal(o->name, cases[i].name);
    }
}

static void a_slip_finds_what_was_meant(void **state)
{
    (void)state;
    static const struct {
        const char *typed, *name;
    } cases[] = {
        {"retry.delay", "retry.delays"},
        {"max_attempt", "retry.max_attempts"},
        {"retry.maxAttempts", "retry.max_attempts"},
        {"retry.max-attempts", "retry.max_attempts"},
        {"source.retention", "cleanup.retention"},
        {"poll_intervall", "source.poll_interval"},
        {"source.ulr", "source.url"},
        {"sink.sendtimeout", "sink.send_timeout"},
        {"deadletter.topic", "dead_letter.topic"},
        {"retri", "retry"},
        {"selects", "select"},
        {"sources", "source"},
        {"Source", "source"},
        {"headerss", "headers"},
        {"frobnicate", NULL},
        {"a", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *near = outrider__option_nearest(bytes_str(cases[i].typed));
        if (cases[i].name == NULL)
            assert_null(near);
        else if (near == NULL)
            fail_msg("nothing is near %s", cases[i].typed);
        else
            assert_string_equal(near, cases[i].name);
    }
    char longest[5000];
    memset(longest, 'x', sizeof longest);
    assert_null(outrider__option_nearest(bytes_of(longest, sizeof longest)));
}

static void an_unknown_name_says_what_to_write(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *name, *message;
    } cases[] = {
        {"retry.delay", "unknown option 'retry.delay' (did you mean 'retry.delays'?)"},
        {"batch", "option 'batch' is not unique: write 'source.batch' or 'cleanup.batch'"},
        {"source", "'source' is a section, not an option"},
        {"frobnicate", "unknown option 'frobnicate'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(set(f, cases[i].name, "1"), -1);
        assert_string_equal(f->err.message, cases[i].message);
    }
}

static void what_does_not_fit_together_is_refused(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *name, *value, *part; /* part of the message; NULL: fits */
    } cases[] = {
        {"form", "raw", NULL},
        {"source.url", "", "source.url is missing"},
        {"sink.url", "", "sink.url is missing"},
        {"retry.delays", "[]", "retry.delays is empty"},
        {"retry.base", "2h", "retry.max is shorter"},
        {"retry.base", "5s", NULL},
        {"route.topic", "", "route.topic is empty"},
        {"route.regex", "x", "route.regex needs route.replacement"},
        {"route.replacement", "x", "route.replacement needs route.regex"},
        {"headers.event_id", "Event-Type", "are the same"},
        {"headers.event_id", "", NULL},
    };
    struct pipeline_config good;
    must_set(f, "source.url", "sqlite:a.db");
    must_set(f, "sink.url", "null:");
    good = f->config;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        f->config = good;
        must_set(f, cases[i].name, cases[i].value);
        int r = outrider__config_check(&f->config, &f->err);
        assert_int_equal(r, cases[i].part == NULL ? 0 : -1);
        if (cases[i].part != NULL && strstr(f->err.message, cases[i].part) == NULL)
            fail_msg("%s", f->err.message);
    }
    f->config = good;
    must_set(f, "retry.base", "5s");
    must_set(f, "retry.delays", "[3s]");
    assert_int_equal(outrider__config_check(&f->config, &f->err), -1);
    f->config = good;
    must_set(f, "form", "cloudevents");
    must_set(f, "cloudevents.source", "");
    assert_int_equal(outrider__config_check(&f->config, &f->err), -1);
    f->config = good;
    must_set(f, "route.regex", "(a)");
    must_set(f, "route.replacement", "$2");
    assert_int_equal(outrider__config_check(&f->config, &f->err), -1);
    assert_non_null(strstr(f->err.message, "route.replacement"));
}

static void names_of_pipelines_are_checked(void **state)
{
    struct fixture *f = *state;
    static const char *const good[] = {"default", "orders-2", "a.b_c", "7"};
    static const char *const bad[] = {
        "",
        "a b",
        "-x",
        ".x",
        "a/b",
        "../x",
        "caf\xc3\xa9",
        "0123456789012345678901234567890123456789012345678901234567890123"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_int_equal(outrider__config_check_name(bytes_str(good[i]), &f->err), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(outrider__config_check_name(bytes_str(bad[i]), &f->err), -1);
}

static void the_program_has_its_own_options(void **state)
{
    struct fixture *f = *state;
    struct program_config p;
    assert_int_equal(outrider__program_init(&p, &f->err), 0);
    assert_int_equal(p.log.level, LOG_LEVEL_INFO);
    assert_int_equal(p.log.format, LOG_FORMAT_LOGFMT);
    assert_int_equal(outrider__program_set(&p, BYTES_LIT("log.level"), BYTES_LIT("debug"), &f->err),
                     0);
    assert_int_equal(outrider__program_set(&p, BYTES_LIT("log.format"), BYTES_LIT("json"), &f->err),
                     0);
    assert_int_equal(p.log.level, LOG_LEVEL_DEBUG);
    assert_int_equal(p.log.format, LOG_FORMAT_JSON);
    assert_int_equal(outrider__program_set(&p, BYTES_LIT("log.level"), BYTES_LIT("loud"), &f->err),
                     -1);
    assert_int_equal(outrider__program_set(&p, BYTES_LIT("log.colour"), BYTES_LIT("x"), &f->err),
                     -1);
}

static void every_option_stands_in_every_rendered_text(void **state)
{
    struct fixture *f = *state;
    static void (*const render[])(struct strbuf *) = {
        outrider__options_markdown, outrider__options_help, outrider__options_sample_yaml};
    size_t n, n_program;
    const struct option *options = outrider__options(&n);
    const struct option *program = outrider__program_options(&n_program);
    for (size_t k = 0; k < 3; k++) {
        outrider__strbuf_clear(&f->text);
        render[k](&f->text);
        assert_false(f->text.failed);
        for (size_t i = 0; i < n + n_program; i++) {
            const struct option *o = i < n ? &options[i] : &program[i - n];
            const char *dot = strchr(o->name, '.');
            const char *key = k == 2 && dot != NULL ? dot + 1 : o->name;
            if (strstr(strbuf_cstr(&f->text), key) == NULL)
                fail_msg("%s is missing in text %zu", o->name, k);
        }
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, make, drop)
    const struct CMUnitTest tests[] = {
        T(every_default_is_a_value_that_the_option_takes),
        T(every_option_gives_back_what_was_set),
        T(no_two_options_share_a_field_or_a_name),
        T(every_row_of_an_adapter_is_in_the_table),
        T(adapters_are_found_by_any_of_their_schemes),
        T(a_copied_configuration_has_adapter_options_of_its_own),
        T(examples_and_defaults_of_the_design_hold),
        T(wrong_values_are_refused_with_range_and_example),
        T(a_bad_url_is_refused_without_being_shown),
        T(a_password_is_never_given_back),
        T(a_changed_password_is_a_difference),
        T(lists_are_taken_in_several_spellings),
        T(a_copied_configuration_keeps_its_lists),
        T(a_list_is_bounded),
        T(sizes_are_read_and_shown),
        T(a_section_may_be_left_out_where_the_rest_is_unique),
        T(a_slip_finds_what_was_meant),
        T(an_unknown_name_says_what_to_write),
        T(what_does_not_fit_together_is_refused),
        T(names_of_pipelines_are_checked),
        T(the_program_has_its_own_options),
        T(every_option_stands_in_every_rendered_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
