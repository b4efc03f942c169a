/* SPDX-License-Identifier: MIT */
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

static struct config_file file;
static struct outrider_error err;

static int parse(const char *text)
{
    memset(&err, 0, sizeof err);
    return outrider__config_parse(bytes_str(text), "outrider.yaml", &file, NULL, &err);
}

static void must_parse(const char *text)
{
    if (parse(text) < 0)
        fail_msg("%s", err.message);
}

static int drop(void **state)
{
    (void)state;
    outrider__config_release(&file);
    return 0;
}

static void the_file_of_the_design_is_read(void **state)
{
    (void)state;
    must_parse(
        "pipelines:\n"
        "  - name: orders\n"
        "    source:\n"
        "      url: postgresql://relay@db/shop\n"
        "      mode: poll                  # or cdc\n"
        "      tables: [outbox]\n"
        "      poll_interval: 250ms        # ceiling of the adaptive probe\n"
        "      batch: 500\n"
        "    sink:\n"
        "      url: kafka://broker:9092\n"
        "    route: {topic: \"${aggregate_type}.${event_type}\", by_type: {A: one, B.c: two}}\n"
        "    retry: {delays: [1s, 5s, 30s], max_attempts: 4}\n"
        "    cleanup: {retention: 14d, every: 1h}\n"
        "  - name: payments\n"
        "    source.url: sqlite:pay.db\n"
        "    sink: {url: \"file:out\"}\n"
        "    on_dead: block\n"
        "    form: envelope\n"
        "log: {level: debug, format: json}\n");
    assert_int_equal(file.n, 2);
    const struct pipeline_config *c = &file.pipelines[0];
    assert_string_equal(c->name, "orders");
    assert_string_equal(c->source.url, "postgresql://relay@db/shop");
    assert_int_equal(c->source.poll_interval_us, 250000);
    assert_int_equal(c->source.batch, 500);
    assert_int_equal(c->source.tables.n, 1);
    assert_string_equal(c->source.tables.items[0], "outbox");
    assert_string_equal(c->route.topic, "${aggregate_type}.${event_type}");
    assert_int_equal(c->route.by_type.n, 2);
    assert_string_equal(c->route.by_type.items[1].name, "B.c");
    assert_string_equal(c->route.by_type.items[1].value, "two");
    assert_int_equal(c->retry.delays.n, 3);
    assert_int_equal(c->retry.max_attempts, 4);
    assert_int_equal(c->cleanup.retention_us, INT64_C(14) * 86400 * 1000000);
    assert_ptr_equal(c->arena, &file.arena);
    c = &file.pipelines[1];
    assert_string_equal(c->name, "payments");
    assert_string_equal(c->source.url, "sqlite:pay.db");
    assert_int_equal(c->retry.on_dead, ON_DEAD_BLOCK);
    assert_int_equal(c->form, FORM_ENVELOPE);
    assert_int_equal(c->retry.delays.n, 5);
    assert_int_equal(file.program.log.level, LOG_LEVEL_DEBUG);
    assert_int_equal(file.program.log.format, LOG_FORMAT_JSON);
}

static void a_single_pipeline_may_stand_at_the_top(void **state)
{
    (void)state;
    must_parse("source: {url: \"sqlite:a.db\"}\nsink: {url: \"null:\"}\nlog: {level: warn}\n"
               "retry:\n  # everything here is commented out\nmax_attempts: 2\n");
    assert_int_equal(file.n, 1);
    assert_string_equal(file.pipelines[0].name, "default");
    assert_int_equal(file.pipelines[0].retry.max_attempts, 2);
    assert_int_equal(outrider__config_check(&file.pipelines[0], &err), 0);
}

static const struct {
    const char *text, *message; /* message: how it begins */
} bad_files[] = {
    {"pipelines:\n  - name: a\n    retry:\n      delay: [1s]\n",
     "outrider.yaml:4: unknown option 'retry.delay' (did you mean 'retry.delays'?)"},
    {"pipelines:\n- max_attempt: 3\n",
     "outrider.yaml:2: unknown option 'max_attempt' (did you mean 'retry.max_attempts'?)"},
    {"pipelines:\n- retri: {delays: [1s]}\n",
     "outrider.yaml:2: unknown option 'retri' (did you mean 'retry'?)"},
    {"pipelines:\n- batch: 10\n",
     "outrider.yaml:2: option 'batch' is not unique: write 'source.batch' or 'cleanup.batch'"},
    {"pipelines:\n- retry:\n    max_attempts: 0\n",
     "outrider.yaml:3: option 'retry.max_attempts': '0' is not a whole number from 1"},
    {"pipelines:\n- retry:\n    max_attempts: [1, 2]\n",
     "outrider.yaml:3: option 'retry.max_attempts' takes one value, not a list"},
    {"pipelines:\n- retry:\n    max_attempts: {a: b}\n",
     "outrider.yaml:3: option 'retry.max_attempts' takes one value, not a map"},
    {"pipelines:\n- route:\n    by_type: [a]\n",
     "outrider.yaml:3: option 'route.by_type' takes a map, not a list"},
    {"pipelines:\n- retry:\n    delays: {a: 1s}\n",
     "outrider.yaml:3: option 'retry.delays' takes a list, not a map"},
    {"pipelines:\n- retry:\n    delays:\n    - 1s\n    - soon\n",
     "outrider.yaml:5: option 'retry.delays': 'soon' is not a list of durations"},
    {"pipelines:\n- source:\n    tables: [[a]]\n",
     "outrider.yaml:3: option 'source.tables' takes plain values"},
    {"pipelines:\n- source:\n    batch:\n", "outrider.yaml:3: option 'source.batch' has no value"},
    {"pipelines:\n- retry:\n    max_attempts: 1\n    max_attempts: 2\n",
     "outrider.yaml:4: option 'retry.max_attempts' is given twice (first in line 3)"},
    {"pipelines:\n- retry: {max_attempts: 1}\n  max_attempts: 2\n",
     "outrider.yaml:3: option 'retry.max_attempts' is given twice (first in line 2)"},
    {"pipelines:\n- retry: {max_attempts: 1}\n  retry: {factor: 2}\n",
     "outrider.yaml:3: section 'retry' is given twice (first in line 2)"},
    {"pipelines:\n- route:\n    by_type:\n      A: a\n      A: b\n",
     "outrider.yaml:5: option 'route.by_type' holds 'A' twice"},
    {"pipelines:\n- name: a\n- name: a\n",
     "outrider.yaml:3: two pipelines are named 'a' (the other one in line 2)"},
    {"pipelines:\n- name: a\n  name: b\n", "outrider.yaml:3: 'name' is given twice"},
    {"pipelines:\n- name: a\n- ordered: true\n", "outrider.yaml:3: a pipeline without 'name'"},
    {"pipelines:\n- name: a b\n", "outrider.yaml:2: 'a b' is not a name for a pipeline"},
    {"pipelines:\n- name: [a]\n", "outrider.yaml:2: 'name' takes one value"},
    {"pipelines: x\n", "outrider.yaml:1: 'pipelines' is a list"},
    {"pipelines: [x]\n", "outrider.yaml:1: a pipeline has options"},
    {"pipelines: []\n", "outrider.yaml: no pipeline in it"},
    {"pipelines: [{}]\npipelines: [{}]\n", "outrider.yaml:2: 'pipelines' is given twice"},
    {"pipelines: [{}]\nordered: true\n", "outrider.yaml:2: 'ordered' stands beside 'pipelines'"},
    {"ordered: true\npipelines: [{}]\n", "outrider.yaml:2: 'pipelines' stands beside options"},
    {"pipeline: [{}]\n", "outrider.yaml:1: unknown option 'pipeline' (did you mean 'pipelines'?)"},
    {"frobs: [{}]\n", "outrider.yaml:1: unknown option 'frobs' (at the top stand"},
    {"source: sqlite:a.db\n", "outrider.yaml:1: 'source' is a section"},
    {"log: {level: loud}\npipelines: [{}]\n",
     "outrider.yaml:1: option 'log.level': 'loud' is not one of error, warn, info, debug"},
    {"log: {colour: red}\n", "outrider.yaml:1: unknown option 'log.colour'"},
    {"log: {level: info, level: info}\n", "outrider.yaml:1: option 'log.level' is given twice"},
    {"log: {level: [a]}\n", "outrider.yaml:1: option 'log.level' takes one value"},
    {"log: info\n", "outrider.yaml:1: 'log' is a section"},
    {"log: {}\nlog: {}\n", "outrider.yaml:2: 'log' is given twice"},
    {"", "outrider.yaml: no pipeline in it"},
    {"# nothing\n", "outrider.yaml: no pipeline in it"},
    {"---\n...\n", "outrider.yaml: no pipeline in it"},
    {"- a\n", "outrider.yaml:1: a configuration is a map"},
    {"text\n", "outrider.yaml:1: a configuration is a map"},
    {"a: [\n", "outrider.yaml:"},
    {"pipelines:\n\t- x\n", "outrider.yaml:2: not YAML: "},
    {"? [a]\n: b\n", "outrider.yaml:1: a key must be a plain name"},
    {"pipelines: [{}]\n---\npipelines: [{}]\n", "outrider.yaml:2: a second document"},
    {"pipelines:\n- &a {name: x}\n- *a\n", "outrider.yaml:3: aliases (*name) are not supported"},
    {"pipelines:\n- name: !ENV x\n", "outrider.yaml:2: tags (!ENV) are not supported"},
    {"pipelines:\n- route:\n    topic: ${aggregate}\n",
     "outrider.yaml:3: option 'route.topic': at character 1: unknown variable 'aggregate'"},
    {"pipelines:\n- route: {regex: '('}\n",
     "outrider.yaml:2: option 'route.regex': not a regular expression: "},
    {"a\xff: b\n", "outrider.yaml: not a text file: "},
};

static void an_error_names_file_line_and_way_out(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_files / sizeof *bad_files; i++) {
        struct config_file before = file;
        if (parse(bad_files[i].text) == 0)
            fail_msg("taken: %s", bad_files[i].text);
        assert_int_equal(err.code, OUTRIDER_CONFIG);
        assert_int_equal(err.disposition, OUTRIDER_STOP);
        if (strncmp(err.message, bad_files[i].message, strlen(bad_files[i].message)) != 0)
            fail_msg("%s\n  is not\n%s", err.message, bad_files[i].message);
        assert_memory_equal(&before, &file, sizeof file);
    }
}

static void variables_come_from_the_environment(void **state)
{
    (void)state;
    (void)setenv("OUTRIDER_TEST_SECRET", "hunter2${HOME}", 1);
    (void)setenv("OUTRIDER_TEST_NAME", "orders", 1);
    must_parse("pipelines:\n"
               "- name: ${OUTRIDER_TEST_NAME}\n"
               "  source: {url: \"sqlite:${OUTRIDER_TEST_NAME}.db?x=${OUTRIDER_TEST_SECRET}\"}\n"
               "  cloudevents.source: $${OUTRIDER_TEST_NAME} ${lower} $5 $$ ${\n"
               "  select: {event_types: [\"${OUTRIDER_TEST_NAME}\"]}\n");
    const struct pipeline_config *c = &file.pipelines[0];
    assert_string_equal(c->name, "orders");
    /* What was put in is not looked at again. */
    assert_string_equal(c->source.url, "sqlite:orders.db?x=hunter2${HOME}");
    assert_string_equal(c->source_uri, "${OUTRIDER_TEST_NAME} ${lower} $5 $$ ${");
    assert_string_equal(c->select.event_types.items[0], "orders");
}

static void an_unset_variable_is_an_error_that_names_it(void **state)
{
    (void)state;
    (void)unsetenv("OUTRIDER_TEST_UNSET");
    assert_int_equal(parse("sink:\n  url: kafka://${OUTRIDER_TEST_UNSET}\n"), -1);
    assert_non_null(strstr(
        err.message, "outrider.yaml:2: the environment has no variable 'OUTRIDER_TEST_UNSET'"));
    assert_int_equal(parse("sink:\n  url: kafka://${OUTRIDER_TEST_UNSET:-x}\n"), -1);
    assert_non_null(strstr(err.message, "outrider.yaml:2: '${OUTRIDER_TEST_UNSET' is not closed"));
}

static void templates_keep_their_own_variables(void **state)
{
    (void)state;
    (void)setenv("AGGREGATE_TYPE", "wrong", 1);
    must_parse("route:\n"
               "  topic: ${aggregateType}.${AGGREGATE_TYPE}\n"
               "  by_type: {A: \"${aggregate_id}\"}\n"
               "  regex: ^(?<x>.)$\n"
               "  replacement: ${x}\n"
               "dead_letter: {topic: \"${topic}.dead\"}\n");
    assert_string_equal(file.pipelines[0].route.topic, "${aggregateType}.${AGGREGATE_TYPE}");
    assert_string_equal(file.pipelines[0].route.by_type.items[0].value, "${aggregate_id}");
    assert_string_equal(file.pipelines[0].route.replacement, "${x}");
    assert_string_equal(file.pipelines[0].dead_letter.topic, "${topic}.dead");
    (void)unsetenv("AGGREGATE_TYPE");
}

static void no_secret_stands_in_an_error(void **state)
{
    (void)state;
    (void)setenv("OUTRIDER_TEST_SECRET", "hunter2", 1);
    assert_int_equal(parse("sink:\n  url: ${OUTRIDER_TEST_SECRET}\n"), -1);
    assert_null(strstr(err.message, "hunter2"));
    assert_non_null(strstr(err.message, "outrider.yaml:2: option 'sink.url' is not a URL"));
}

static void null_unsets_what_has_no_default(void **state)
{
    (void)state;
    must_parse("dead_letter: {topic: null}\nroute: {regex: ~}\nheaders: {event_id: \"\"}\n");
    assert_null(file.pipelines[0].dead_letter.topic);
    assert_null(file.pipelines[0].route.regex);
    assert_string_equal(file.pipelines[0].headers.event_id, "");
}

static void nothing_given_is_one_pipeline_of_defaults(void **state)
{
    (void)state;
    assert_int_equal(outrider__config_empty("orders", &file, &err), 0);
    assert_int_equal(file.n, 1);
    assert_string_equal(file.pipelines[0].name, "orders");
    assert_int_equal(outrider__config_set(&file.pipelines[0], BYTES_LIT("source.url"),
                                          BYTES_LIT("sqlite:a.db"), &err),
                     0);
    assert_int_equal(outrider__config_check(&file.pipelines[0], &err), -1);
    assert_non_null(strstr(err.message, "pipeline 'orders': sink.url is missing"));
}

/* The sample with each option's line brought to life. */
static void uncomment(struct strbuf *text)
{
    char *out = text->data;
    for (const char *p = text->data; *p != '\0'; p++)
        if (*p != '#' || p[1] == ' ' || p[1] == '\0' || p[1] == '\n')
            *out++ = *p;
    *out = '\0';
    text->len = (size_t)(out - text->data);
}

static void the_sample_file_is_a_configuration_with_every_default(void **state)
{
    (void)state;
    size_t n;
    const struct option *options = outrider__options(&n);
    struct pipeline_config defaults;
    struct strbuf text;
    outrider__strbuf_init(&text, 1024 * 1024);
    outrider__options_sample_yaml(&text);
    assert_false(text.failed);
    must_parse(strbuf_cstr(&text));
    assert_int_equal(outrider__config_check(&file.pipelines[0], &err), 0);
    outrider__config_release(&file);
    uncomment(&text);
    must_parse(strbuf_cstr(&text));
    assert_int_equal(outrider__config_init(&defaults, &file.arena, "default", &err), 0);
    for (size_t i = 0; i < n; i++) {
        bool differs = outrider__config_differs(&file.pipelines[0], &defaults, &options[i]);
        if (differs != (options[i].initial == NULL))
            fail_msg("%s in the sample file is not its default", options[i].name);
    }
    outrider__strbuf_release(&text);
}

int main(void)
{
#define T(name) cmocka_unit_test_teardown(name, drop)
    const struct CMUnitTest tests[] = {
        T(the_file_of_the_design_is_read),
        T(a_single_pipeline_may_stand_at_the_top),
        T(an_error_names_file_line_and_way_out),
        T(variables_come_from_the_environment),
        T(an_unset_variable_is_an_error_that_names_it),
        T(templates_keep_their_own_variables),
        T(no_secret_stands_in_an_error),
        T(null_unsets_what_has_no_default),
        T(nothing_given_is_one_pipeline_of_defaults),
        T(the_sample_file_is_a_configuration_with_every_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
