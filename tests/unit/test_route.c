/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "core/options.h"
#include "core/route.h"

struct fixture {
    struct arena arena;
    struct pipeline_config config;
    struct batch batch;
    struct event *event;
    struct router *router;
    struct outrider_error err;
};

static int make(void **state)
{
    static struct fixture f;
    memset(&f, 0, sizeof f);
    outrider__arena_init(&f.arena, 4096);
    assert_int_equal(outrider__config_init(&f.config, &f.arena, "default", NULL), 0);
    assert_int_equal(outrider__batch_init(&f.batch, 10, 1 << 20, NULL), 0);
    struct event *e = outrider__batch_slot(&f.batch);
    e->id = BYTES_LIT("0190a5b0-0000-7000-8000-000000000001");
    e->aggregate_type = BYTES_LIT("order");
    e->aggregate_id = BYTES_LIT("42");
    e->event_type = BYTES_LIT("OrderCreated");
    e->payload = BYTES_LIT("{\"total\": 10.50}");
    e->occurred_at_us = INT64_C(1767323045678000);
    f.event = e;
    *state = &f;
    return 0;
}

static int drop(void **state)
{
    struct fixture *f = *state;
    outrider__router_free(f->router);
    outrider__batch_release(&f->batch);
    outrider__arena_release(&f->arena);
    return 0;
}

static void set(struct fixture *f, const char *name, const char *value)
{
    if (outrider__config_set(&f->config, bytes_str(name), bytes_str(value), &f->err) < 0)
        fail_msg("%s", f->err.message);
}

static void compile(struct fixture *f)
{
    outrider__router_free(f->router);
    f->router = NULL;
    if (outrider__router_new(&f->config, &f->router, &f->err) < 0)
        fail_msg("%s", f->err.message);
}

static void route(struct fixture *f)
{
    compile(f);
    if (outrider__router_route(f->router, f->event, true, &f->err) < 0)
        fail_msg("%s", f->err.message);
}

static void assert_text(struct bytes have, const char *want)
{
    if (!bytes_eq_str(have, want))
        fail_msg("'%.*s' is not '%s'", (int)have.len, have.data ? have.data : "", want);
}

static const struct header *header_named(const struct delivery *d, const char *name)
{
    const struct header *found = NULL;
    for (size_t i = 0; i < d->n_headers; i++) {
        if (!bytes_eq_str(d->headers[i].name, name))
            continue;
        if (found != NULL)
            fail_msg("header %s stands there twice", name);
        found = &d->headers[i];
    }
    return found;
}

static void assert_header(const struct delivery *d, const char *name, const char *value)
{
    const struct header *h = header_named(d, name);
    if (value == NULL) {
        assert_null(h);
        return;
    }
    if (h == NULL)
        fail_msg("no header %s", name);
    else
        assert_text(h->value, value);
}

static void a_plain_event_goes_out_untouched(void **state)
{
    struct fixture *f = *state;
    route(f);
    const struct delivery *d = &f->event->delivery;
    assert_text(d->topic, "order.OrderCreated");
    assert_text(d->key, "42");
    assert_ptr_equal(d->payload.data, f->event->payload.data);
    assert_int_equal(d->payload.len, f->event->payload.len);
    assert_int_equal(d->partition, -1);
    assert_int_equal(d->timestamp_us, f->event->occurred_at_us);
    assert_int_equal(d->n_headers, 3);
    assert_header(d, "event-id", "0190a5b0-0000-7000-8000-000000000001");
    assert_header(d, "event-type", "OrderCreated");
    assert_header(d, "aggregate-type", "order");
}

static void headers_are_built_only_when_asked_for(void **state)
{
    struct fixture *f = *state;
    f->event->headers = BYTES_LIT("not json");
    compile(f);
    assert_int_equal(outrider__router_route(f->router, f->event, false, &f->err), 0);
    assert_int_equal(f->event->delivery.n_headers, 0);
}

static void the_event_decides_key_partition_and_time(void **state)
{
    struct fixture *f = *state;
    f->event->partition_key = BYTES_LIT("customer-7");
    f->event->partition = 3;
    f->event->occurred_at_us = 0;
    f->event->created_at_us = 77;
    route(f);
    assert_text(f->event->delivery.key, "customer-7");
    assert_int_equal(f->event->delivery.partition, 3);
    assert_int_equal(f->event->delivery.timestamp_us, 77);
}

static void templates_are_filled_in(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *template, *topic;
    } cases[] = {
        {"${aggregate_type}.${event_type}", "order.OrderCreated"},
        {"${aggregateType}.${eventType}", "order.OrderCreated"},
        {"outbox.event.${routedByValue}", "outbox.event.order"},
        {"plain", "plain"},
        {"${aggregate_id}/${partition_key}", "42/42"},
        {"$$${aggregate_id}$$", "$42$"},
        {"${event_type:lower}|${event_type:upper}", "ordercreated|ORDERCREATED"},
        {"${event_type:kebab}|${event_type:snake}", "order-created|order_created"},
        {"${header:tenant}.x", "acme.x"},
        {"${header:http name:kebab}", "http-request-v2-done"},
    };
    f->event->headers =
        BYTES_LIT("{\"tenant\": \"ac\\u006de\", \"http name\": \"HTTPRequestV2Done\"}");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        set(f, "route.topic", cases[i].template);
        route(f);
        assert_text(f->event->delivery.topic, cases[i].topic);
    }
}

static void malformed_templates_are_refused_with_their_place(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *template, *part;
    } cases[] = {
        {"a.${nope}", "at character 3: unknown variable 'nope' (known: aggregate_type"},
        {"${}", "unknown variable ''"},
        {"${topic}", "unknown variable 'topic'"},
        {"${event_type:loud}", "unknown form 'loud' (known: lower, upper, kebab, snake)"},
        {"${header:}", "unknown variable 'header:'"},
        {"${event_type", "'${' at character 1 is not closed"},
        {"a$", "'$' at character 2 begins no variable"},
        {"$1", "'$' at character 1 begins no variable"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        f->config.route.topic = cases[i].template;
        assert_int_equal(outrider__router_new(&f->config, &f->router, &f->err), -1);
        assert_int_equal(f->err.code, OUTRIDER_CONFIG);
        assert_non_null(strstr(f->err.message, "route.topic"));
        if (strstr(f->err.message, cases[i].part) == NULL)
            fail_msg("%s", f->err.message);
    }
}

static void a_missing_header_in_a_template_is_the_events_error(void **state)
{
    struct fixture *f = *state;
    set(f, "route.topic", "${header:tenant}");
    compile(f);
    assert_int_equal(outrider__router_route(f->router, f->event, true, &f->err), -1);
    assert_int_equal(f->err.code, OUTRIDER_ROUTE);
    assert_int_equal(f->err.disposition, OUTRIDER_DEAD);
    assert_null(f->event->delivery.topic.data);
}

static void topics_take_precedence_in_the_documented_order(void **state)
{
    struct fixture *f = *state;
    route(f);
    assert_text(f->event->delivery.topic, "order.OrderCreated");
    set(f, "route.regex_field", "event_type");
    set(f, "route.regex", "^(?<noun>[A-Z][a-z]+)(Created|Paid)$");
    set(f, "route.replacement", "${noun}s-${2}-$1-${aggregate_id}-$0-$$");
    route(f);
    assert_text(f->event->delivery.topic, "Orders-Created-Order-42-OrderCreated-$");
    set(f, "route.by_type", "{OrderPaid: paid, OrderCreated: \"made.${aggregate_type}\"}");
    route(f);
    assert_text(f->event->delivery.topic, "made.order");
    f->event->topic = BYTES_LIT("own");
    route(f);
    assert_text(f->event->delivery.topic, "own");
}

static void a_pattern_that_is_not_found_leaves_the_template(void **state)
{
    struct fixture *f = *state;
    set(f, "route.regex", "^Payment");
    set(f, "route.replacement", "payments");
    route(f);
    assert_text(f->event->delivery.topic, "order.OrderCreated");
    set(f, "route.regex_field", "header:tenant");
    route(f);
    assert_text(f->event->delivery.topic, "order.OrderCreated");
    f->event->headers = BYTES_LIT("{\"tenant\":\"Payments\"}");
    route(f);
    assert_text(f->event->delivery.topic, "payments");
}

static void a_pattern_cannot_hang_the_relay(void **state)
{
    struct fixture *f = *state;
    static const char *const patterns[] = {"^(a+)+$(?!)|^(?:(a|aa)+)+\\d$", "(a+)+\\d",
                                           "(?:a?){30}a{30}\\d", "(a|aa)*b|(a*)*c"};
    char foreign[5000];
    int given_up = 0;
    memset(foreign, 'a', sizeof foreign);
    set(f, "route.replacement", "x");
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        f->event->event_type = bytes_of(foreign, 4000);
        set(f, "route.regex", patterns[i]);
        compile(f);
        /* PCRE2 may see that it cannot match; otherwise it gives up. */
        if (outrider__router_route(f->router, f->event, true, &f->err) == 0)
            continue;
        assert_int_equal(f->err.code, OUTRIDER_ROUTE);
        assert_int_equal(f->err.disposition, OUTRIDER_DEAD);
        assert_non_null(strstr(f->err.message, "route.regex gave up on the event's event_type"));
        given_up++;
    }
    assert_true(given_up > 0);
    f->event->event_type = bytes_of(foreign, sizeof foreign);
    assert_int_equal(outrider__router_route(f->router, f->event, true, &f->err), -1);
    assert_non_null(strstr(f->err.message, "longer than the 4096 bytes"));
}

static void groups_that_do_not_exist_are_refused(void **state)
{
    struct fixture *f = *state;
    set(f, "route.regex", "(a)(?<b>c)?");
    static const char *const bad[] = {"$3", "${3}", "${c}", "$99999999999", "${"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        set(f, "route.replacement", bad[i]);
        assert_int_equal(outrider__router_new(&f->config, &f->router, &f->err), -1);
        assert_non_null(strstr(f->err.message, "route.replacement"));
    }
    set(f, "route.replacement", "<${b}>");
    route(f);
    assert_text(f->event->delivery.topic, "<>");
}

static void an_empty_topic_is_the_events_error(void **state)
{
    struct fixture *f = *state;
    set(f, "route.topic", "");
    set(f, "route.by_type", "{Other: x}");
    compile(f);
    assert_int_equal(outrider__router_route(f->router, f->event, true, &f->err), -1);
    assert_int_equal(f->err.code, OUTRIDER_ROUTE);
    assert_int_equal(f->err.disposition, OUTRIDER_DEAD);
}

static void select_leaves_others_out(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *aggregate_types, *event_types;
        bool selected;
    } cases[] = {
        {"[]", "[]", true},
        {"[order]", "[]", true},
        {"[payment]", "[]", false},
        {"[a, b, c, d, e, f, g, h, order]", "[]", true},
        {"[]", "[OrderCreated, OrderPaid]", true},
        {"[]", "[OrderPaid]", false},
        {"[order]", "[OrderPaid]", false},
        {"[Order]", "[]", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        set(f, "select.aggregate_types", cases[i].aggregate_types);
        set(f, "select.event_types", cases[i].event_types);
        compile(f);
        assert_int_equal(outrider__router_selects(f->router, f->event), cases[i].selected);
    }
}

static void own_headers_follow_untouched(void **state)
{
    struct fixture *f = *state;
    f->event->headers =
        BYTES_LIT(" {\"traceparent\": \"00-ab\", \"n\": 1.50, \"o\":{\"a\" : [1, 2]}, \"t\":true, "
                  "\"z\":null, \"q\":\"a\\\"b\\n\\u00e9\"} ");
    route(f);
    const struct delivery *d = &f->event->delivery;
    assert_int_equal(d->n_headers, 9);
    assert_header(d, "event-id", "0190a5b0-0000-7000-8000-000000000001");
    assert_header(d, "traceparent", "00-ab");
    assert_header(d, "n", "1.50");
    assert_header(d, "o", "{\"a\" : [1, 2]}");
    assert_header(d, "t", "true");
    assert_header(d, "z", "null");
    assert_header(d, "q", "a\"b\n\xc3\xa9");
}

static void an_own_header_gives_way_to_ours(void **state)
{
    struct fixture *f = *state;
    f->event->headers = BYTES_LIT("{\"Event-ID\":\"forged\",\"x\":\"y\"}");
    route(f);
    assert_int_equal(f->event->delivery.n_headers, 4);
    assert_header(&f->event->delivery, "Event-ID", NULL);
    assert_header(&f->event->delivery, "event-id", "0190a5b0-0000-7000-8000-000000000001");
    assert_header(&f->event->delivery, "x", "y");
}

static void header_names_can_be_changed_and_switched_off(void **state)
{
    struct fixture *f = *state;
    set(f, "headers.event_id", "X-Event-Id");
    set(f, "headers.event_type", "");
    set(f, "headers.aggregate_type", "aggregateType");
    f->event->headers = BYTES_LIT("{\"event-type\":\"mine\"}");
    route(f);
    const struct delivery *d = &f->event->delivery;
    assert_int_equal(d->n_headers, 3);
    assert_header(d, "X-Event-Id", "0190a5b0-0000-7000-8000-000000000001");
    assert_header(d, "aggregateType", "order");
    assert_header(d, "event-type", "mine");
}

static void malformed_headers_are_the_events_error(void **state)
{
    struct fixture *f = *state;
    static const char *const bad[] = {"[]", "{", "x", "{\"a\":}", "\"a\"", "{} {}", "{'a':1}"};
    compile(f);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        f->event->headers = bytes_str(bad[i]);
        assert_int_equal(outrider__router_route(f->router, f->event, true, &f->err), -1);
        assert_int_equal(f->err.code, OUTRIDER_NOT_JSON);
        assert_int_equal(f->err.disposition, OUTRIDER_DEAD);
        assert_null(f->event->delivery.topic.data);
    }
    static const char *const none[] = {"{}", "", " { } "};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        f->event->headers = bytes_str(none[i]);
        assert_int_equal(outrider__router_route(f->router, f->event, true, &f->err), 0);
        assert_int_equal(f->event->delivery.n_headers, 3);
    }
}

/* The four kinds of payload in each form that wraps them. */
static void forms_wrap_every_kind_of_payload(void **state)
{
    struct fixture *f = *state;
#define ENVELOPE                                                                            \
    "{\"eventId\":\"0190a5b0-0000-7000-8000-000000000001\",\"eventType\":\"OrderCreated\"," \
    "\"aggregateId\":\"42\",\"aggregateType\":\"order\","                                   \
    "\"occurredAt\":\"2026-01-02T03:04:05.678Z\",\"version\":\"1.0.0\""
#define CLOUDEVENT                                                                 \
    "{\"specversion\":\"1.0\",\"id\":\"0190a5b0-0000-7000-8000-000000000001\","    \
    "\"source\":\"/shop \\\"x\\\"\",\"type\":\"OrderCreated\",\"subject\":\"42\"," \
    "\"time\":\"2026-01-02T03:04:05.678Z\""
    static const struct {
        const char *form;
        struct bytes payload;
        const char *message;
    } cases[] = {
        {"envelope",
         {"{\"total\": 10.50, \"a\": [1, 2]}", 29},
         ENVELOPE ",\"payload\":{\"total\":10.50,\"a\":[1,2]}}"},
        {"envelope", {" null ", 6}, ENVELOPE ",\"payload\":null}"},
        {"envelope",
         {"hello \"you\"\n\x01", 13},
         ENVELOPE ",\"payload\":\"hello \\\"you\\\"\\n\\u0001\"}"},
        {"envelope", {"{broken \xc3\xa9", 10}, ENVELOPE ",\"payload\":\"{broken \xc3\xa9\"}"},
        {"envelope", {"\xff\x00\x01\x02", 4}, ENVELOPE ",\"payloadBase64\":\"/wABAg==\"}"},
        {"envelope", {"", 0}, ENVELOPE ",\"payload\":\"\"}"},
        {"envelope", {NULL, 0}, ENVELOPE ",\"payload\":null}"},
        {"cloudevents",
         {"{\"a\": 1}", 8},
         CLOUDEVENT ",\"datacontenttype\":\"application/json\",\"data\":{\"a\":1}}"},
        {"cloudevents",
         {"text", 4},
         CLOUDEVENT ",\"datacontenttype\":\"text/plain; charset=utf-8\",\"data\":\"text\"}"},
        {"cloudevents",
         {"\xff", 1},
         CLOUDEVENT ",\"datacontenttype\":\"application/octet-stream\",\"data_base64\":\"/w==\"}"},
        {"cloudevents", {NULL, 0}, CLOUDEVENT "}"},
    };
    set(f, "cloudevents.source", "/shop \"x\"");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        set(f, "form", cases[i].form);
        f->event->payload = cases[i].payload;
        route(f);
        assert_text(f->event->delivery.payload, cases[i].message);
        assert_true(outrider__json_is_valid(f->event->delivery.payload));
        assert_header(&f->event->delivery, "content-type",
                      strcmp(cases[i].form, "cloudevents") == 0 ? "application/cloudevents+json"
                                                                : NULL);
    }
}

static void strange_names_are_escaped_in_an_envelope(void **state)
{
    struct fixture *f = *state;
    set(f, "form", "envelope");
    f->event->aggregate_id = BYTES_LIT("a\"\\\b\f\n\r\t\x1f\x7f");
    f->event->event_type = BYTES_LIT("x\xffy\"");
    route(f);
    assert_true(outrider__json_is_valid(f->event->delivery.payload));
    static const char want[] = "\"eventType\":\"x\xef\xbf\xbdy\\\"\",\"aggregateId\":"
                               "\"a\\\"\\\\\\b\\f\\n\\r\\t\\u001f\x7f\"";
    assert_non_null(memmem(f->event->delivery.payload.data, f->event->delivery.payload.len, want,
                           sizeof want - 1));
}

static void a_binary_cloudevent_is_all_in_headers(void **state)
{
    struct fixture *f = *state;
    static const struct {
        struct bytes payload;
        const char *headers, *type;
    } cases[] = {
        {{"{\"a\": 1}", 8}, NULL, "application/json"},
        {{"text", 4}, NULL, "text/plain; charset=utf-8"},
        {{"\xff", 1}, NULL, "application/octet-stream"},
        {{NULL, 0}, NULL, NULL},
        {{"\x0a\x01", 2},
         "{\"content-type\":\"application/protobuf\",\"ce-id\":\"forged\"}",
         "application/protobuf"},
    };
    set(f, "form", "cloudevents-binary");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        f->event->payload = cases[i].payload;
        f->event->headers = bytes_str(cases[i].headers);
        route(f);
        const struct delivery *d = &f->event->delivery;
        assert_ptr_equal(d->payload.data, cases[i].payload.data);
        assert_header(d, "ce-specversion", "1.0");
        assert_header(d, "ce-id", "0190a5b0-0000-7000-8000-000000000001");
        assert_header(d, "ce-source", "outrider");
        assert_header(d, "ce-type", "OrderCreated");
        assert_header(d, "ce-subject", "42");
        assert_header(d, "ce-time", "2026-01-02T03:04:05.678Z");
        assert_header(d, "content-type", cases[i].type);
        assert_header(d, "event-id", "0190a5b0-0000-7000-8000-000000000001");
    }
}

static void a_null_payload_is_a_tombstone(void **state)
{
    struct fixture *f = *state;
    f->event->payload = BYTES_NULL;
    route(f);
    assert_null(f->event->delivery.payload.data);
    f->event->payload = BYTES_LIT("");
    route(f);
    assert_non_null(f->event->delivery.payload.data);
}

static void a_blank_payload_is_a_tombstone_where_asked(void **state)
{
    struct fixture *f = *state;
    static const struct {
        struct bytes payload;
        bool is_tombstone;
    } cases[] = {
        {{"", 0}, true},    {{" \t\r\n", 4}, true}, {{" x", 2}, false},
        {{"{}", 2}, false}, {{"\"\"", 2}, false},   {{"\xc2\xa0", 2}, false},
    };
    set(f, "sink.empty_is_tombstone", "true");
    for (int is_object = 0; is_object < 2; is_object++) {
        set(f, "form", is_object ? "object" : "raw");
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            f->event->payload = cases[i].payload;
            route(f);
            assert_int_equal(bytes_is_null(f->event->delivery.payload), cases[i].is_tombstone);
        }
    }
}

static void an_object_holds_the_payload_and_some_headers(void **state)
{
    struct fixture *f = *state;
    static const struct {
        struct bytes payload;
        const char *as, *want;
    } cases[] = {
        {{"{\"a\": 1}", 8},
         "json",
         "{\"payload\":{\"a\":1},\"kind\":\"x\\\"y\",\"n\":7,\"no\":null}"},
        {{"{\"a\": 1}", 8},
         "string",
         "{\"payload\":\"{\\\"a\\\": 1}\",\"kind\":\"x\\\"y\",\"n\":7,\"no\":null}"},
        {{"text", 4}, "json", "{\"payload\":\"text\",\"kind\":\"x\\\"y\",\"n\":7,\"no\":null}"},
        {{"\xff", 1}, "json", "{\"payload\":\"/w==\",\"kind\":\"x\\\"y\",\"n\":7,\"no\":null}"},
        {{NULL, 0}, "json", "{\"payload\":null,\"kind\":\"x\\\"y\",\"n\":7,\"no\":null}"},
    };
    f->event->headers = BYTES_LIT("{\"kind\":\"x\\\"y\",\"n\":7,\"trace\":\"t\"}");
    set(f, "form", "object");
    set(f, "object.members", "[kind, n, no]");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        set(f, "object.payload", cases[i].as);
        f->event->payload = cases[i].payload;
        route(f);
        assert_text(f->event->delivery.payload, cases[i].want);
        assert_header(&f->event->delivery, "trace", "t");
        assert_header(&f->event->delivery, "kind", NULL);
    }
    set(f, "sink.empty_is_tombstone", "true");
    route(f);
    assert_null(f->event->delivery.payload.data);
}

/* Parked rows and reads by SQL bring them in other orders; consumers see one. */
static void headers_from_columns_keep_the_order_of_the_configuration(void **state)
{
    struct fixture *f = *state;
    static const struct {
        struct bytes headers;
        const char *want;
    } cases[] = {
        {BYTES_LIT("{\"b\":\"1\",\"Z\":\"2\",\"a\":3,\"own\":\"x\"}"), "Z=2 a=3 b=1 own=x "},
        {BYTES_LIT("{\"own\":\"x\",\"a\":3,\"b\":\"1\",\"Z\":\"2\"}"), "Z=2 a=3 b=1 own=x "},
        {BYTES_LIT("{\"z\":\"own\",\"a\":null,\"b\":\"1\",\"y\":null}"), "b=1 z=own y=null "},
        {BYTES_LIT("{}"), ""},
    };
    set(f, "map.header_columns", "{Z: one, a: two, b: three}");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256] = "";
        f->event->headers = cases[i].headers;
        route(f);
        const struct delivery *d = &f->event->delivery;
        for (size_t k = 3; k < d->n_headers; k++) /* behind those of ours */
            (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%.*s=%.*s ",
                           (int)d->headers[k].name.len, d->headers[k].name.data,
                           (int)d->headers[k].value.len, d->headers[k].value.data);
        assert_string_equal(text, cases[i].want);
    }
}

/* One that differs from ours in case alone was asked for by name; the event's own was not. */
static void a_column_may_be_a_header_that_differs_from_ours_in_case(void **state)
{
    struct fixture *f = *state;
    set(f, "headers.event_id", "id");
    set(f, "map.header_columns", "{ID: other, id: again}");
    f->event->headers = BYTES_LIT("{\"ID\":\"x\",\"id\":\"y\",\"Id\":\"z\"}");
    route(f);
    assert_header(&f->event->delivery, "ID", "x");
    assert_header(&f->event->delivery, "id", "0190a5b0-0000-7000-8000-000000000001");
    assert_header(&f->event->delivery, "Id", NULL);
}

/* A column that is NULL is there; one that the table does not have is not. */
static void a_member_has_a_name_of_its_own_and_is_absent_where_its_column_is_missing(void **state)
{
    struct fixture *f = *state;
    set(f, "form", "object");
    set(f, "map.header_columns", "{type: kind, envelope.type: kind, gone: gone, none: none}");
    set(f, "object.members", "[envelope.type=type, gone, none, own]");
    f->event->headers = BYTES_LIT("{\"type\":\"a\",\"envelope.type\":\"b\",\"none\":null}");
    route(f);
    assert_text(f->event->delivery.payload,
                "{\"payload\":{\"total\":10.50},\"type\":\"b\",\"none\":null,\"own\":null}");
    assert_header(&f->event->delivery, "type", "a");
    assert_header(&f->event->delivery, "envelope.type", NULL);
    assert_header(&f->event->delivery, "none", NULL);
}

static void two_members_of_one_name_are_refused(void **state)
{
    static const char *const lists[] = {"[a, b=a]", "[payload]", "[a=payload]", "[a=]"};
    struct fixture *f = *state;
    set(f, "form", "object");
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        set(f, "object.members", lists[i]);
        assert_int_equal(outrider__router_new(&f->config, &f->router, &f->err), -1);
        assert_int_equal(f->err.code, OUTRIDER_CONFIG);
        assert_non_null(strstr(f->err.message, "object.members"));
    }
}

static void deliveries_outlive_the_router(void **state)
{
    struct fixture *f = *state;
    set(f, "form", "cloudevents-binary");
    set(f, "route.by_type", "{OrderCreated: fixed}");
    route(f);
    outrider__router_free(f->router);
    f->router = NULL;
    /* The sanitizer would tell. */
    assert_text(f->event->delivery.topic, "fixed");
    assert_header(&f->event->delivery, "aggregate-type", "order");
    assert_header(&f->event->delivery, "ce-source", "outrider");
}

static const struct outrider_error refused = {
    .code = OUTRIDER_REJECTED, .disposition = OUTRIDER_DEAD, .message = "the sink says no"};

static void a_dead_letter_says_what_happened(void **state)
{
    struct fixture *f = *state;
    f->event->headers = BYTES_LIT("{\"x\":\"y\"}");
    f->event->attempts = 6;
    f->event->partition = 2;
    set(f, "form", "envelope");
    set(f, "dead_letter.topic", "${topic}.dead");
    route(f);
    struct bytes payload = f->event->delivery.payload;
    assert_int_equal(outrider__router_dead_letter(f->router, f->event, f->config.dead_letter.topic,
                                                  &refused, true, &f->err),
                     0);
    const struct delivery *d = &f->event->delivery;
    assert_text(d->topic, "order.OrderCreated.dead");
    assert_text(d->key, "42");
    assert_ptr_equal(d->payload.data, payload.data);
    assert_int_equal(d->partition, -1);
    assert_header(d, "event-id", "0190a5b0-0000-7000-8000-000000000001");
    assert_header(d, "x", "y");
    assert_header(d, "x-error-code", "REJECTED");
    assert_header(d, "x-error-message", "the sink says no");
    assert_header(d, "x-attempts", "6");
    assert_header(d, "x-original-topic", "order.OrderCreated");
    assert_header(d, "x-payload-size", NULL);
}

static void what_could_not_be_routed_becomes_a_dead_letter_too(void **state)
{
    struct fixture *f = *state;
    f->event->headers = BYTES_LIT("{broken");
    compile(f);
    assert_int_equal(outrider__router_route(f->router, f->event, true, &f->err), -1);
    assert_int_equal(outrider__router_dead_letter(f->router, f->event, "dead", &f->err, true, NULL),
                     0);
    const struct delivery *d = &f->event->delivery;
    assert_text(d->topic, "dead");
    assert_text(d->key, "42");
    assert_text(d->payload, "{\"total\": 10.50}");
    assert_header(d, "x-error-code", "NOT_JSON");
    assert_header(d, "event-type", "OrderCreated");
    assert_header(d, "x-original-topic", NULL);
}

/* Not the room of a header for each of them. */
static void commas_in_a_header_take_little_memory(void **state)
{
    const struct bytes begin = BYTES_LIT("{\"a\":\""), end = BYTES_LIT("\",\"b\":0}");
    struct fixture *f = *state;
    static char headers[60000];
    memset(headers, ',', sizeof headers);
    memcpy(headers, begin.data, begin.len);
    memcpy(headers + sizeof headers - end.len, end.data, end.len);
    f->event->headers = bytes_of(headers, sizeof headers);
    compile(f);
    size_t used = f->event->batch->arena.used;
    assert_int_equal(outrider__router_route(f->router, f->event, true, &f->err), 0);
    assert_true(f->event->batch->arena.used - used < 2 * sizeof headers);
    assert_header(&f->event->delivery, "b", "0");
}

static void an_oversize_dead_letter_is_no_tombstone(void **state)
{
    struct fixture *f = *state;
    f->event->payload = BYTES_NULL;
    f->event->payload_len = 5000000;
    f->event->is_oversize = true;
    set(f, "sink.empty_is_tombstone", "true");
    compile(f);
    assert_int_equal(
        outrider__router_dead_letter(f->router, f->event, "dead", &refused, true, &f->err), 0);
    assert_non_null(f->event->delivery.payload.data);
    assert_int_equal(f->event->delivery.payload.len, 0);
    assert_header(&f->event->delivery, "x-payload-size", "5000000");
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, make, drop)
    const struct CMUnitTest tests[] = {
        T(a_plain_event_goes_out_untouched),
        T(headers_are_built_only_when_asked_for),
        T(the_event_decides_key_partition_and_time),
        T(templates_are_filled_in),
        T(malformed_templates_are_refused_with_their_place),
        T(a_missing_header_in_a_template_is_the_events_error),
        T(topics_take_precedence_in_the_documented_order),
        T(a_pattern_that_is_not_found_leaves_the_template),
        T(a_pattern_cannot_hang_the_relay),
        T(groups_that_do_not_exist_are_refused),
        T(an_empty_topic_is_the_events_error),
        T(select_leaves_others_out),
        T(own_headers_follow_untouched),
        T(an_own_header_gives_way_to_ours),
        T(header_names_can_be_changed_and_switched_off),
        T(malformed_headers_are_the_events_error),
        T(commas_in_a_header_take_little_memory),
        T(forms_wrap_every_kind_of_payload),
        T(strange_names_are_escaped_in_an_envelope),
        T(a_binary_cloudevent_is_all_in_headers),
        T(a_null_payload_is_a_tombstone),
        T(a_blank_payload_is_a_tombstone_where_asked),
        T(an_object_holds_the_payload_and_some_headers),
        T(headers_from_columns_keep_the_order_of_the_configuration),
        T(a_column_may_be_a_header_that_differs_from_ours_in_case),
        T(a_member_has_a_name_of_its_own_and_is_absent_where_its_column_is_missing),
        T(two_members_of_one_name_are_refused),
        T(deliveries_outlive_the_router),
        T(a_dead_letter_says_what_happened),
        T(what_could_not_be_routed_becomes_a_dead_letter_too),
        T(an_oversize_dead_letter_is_no_tombstone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
