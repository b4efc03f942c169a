/* SPDX-License-Identifier: MIT */
/* Debezium's connectors as options of ours. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/debezium.h"
#include "cli/debezium_props.h"
#include "core/route.h"

#define ROUTER "\"transforms.outbox.type\":\"io.debezium.transforms.outbox.EventRouter\""
#define POSTGRES "\"connector.class\":\"io.debezium.connector.postgresql.PostgresConnector\""
#define BASE \
    POSTGRES ",\"transforms\":\"outbox\"," ROUTER ",\"table.include.list\":\"public.outbox\""
#define SMT(name) ",\"transforms.outbox." name "\":"

static struct config_file file;
static struct strbuf warnings;
static struct outrider_error err;

static int read_it(const char *json)
{
    outrider__strbuf_init(&warnings, 65536);
    err = (struct outrider_error){0};
    return outrider__debezium_parse(bytes_str(json), "c.json", NULL, &file, &warnings, NULL, &err);
}

static void forget(void)
{
    outrider__config_release(&file);
    outrider__strbuf_release(&warnings);
}

static void assert_option(const char *option, const char *value)
{
    struct strbuf text;
    outrider__strbuf_init(&text, 65536);
    assert_int_equal(
        outrider__config_get(&file.pipelines[0], outrider__option_find(bytes_str(option)), &text),
        0);
    assert_string_equal(strbuf_cstr(&text), value);
    outrider__strbuf_release(&text);
}

static void the_defaults_are_debeziums(void **state)
{
    static const char *const expected[][2] = {
        {"map.id", "id"},
        {"map.aggregate_type", "aggregatetype"},
        {"map.aggregate_id", "aggregateid"},
        {"map.payload", "payload"},
        {"map.partition_key", "-"},
        {"map.topic", "-"},
        {"map.headers", "-"},
        {"route.topic", "outbox.event.${aggregate_type}"},
        {"headers.event_id", "id"},
        {"headers.event_type", ""},
        {"headers.aggregate_type", ""},
        {"source.mode", "cdc"},
        {"source.tables", "[public.outbox]"},
        {"form", "raw"},
        {"sink.empty_is_tombstone", "false"},
    };
    (void)state;
    assert_int_equal(read_it("{\"name\":\"my orders\",\"config\":{" BASE "}}"), 0);
    assert_string_equal(file.pipelines[0].name, "my-orders");
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        assert_option(expected[i][0], expected[i][1]);
    assert_string_equal(strbuf_cstr(&warnings), "");
    forget();
}

/* One property more than the base, and what becomes of it. */
static const struct {
    const char *json, *option, *value;
} cases[] = {
    {SMT("table.field.event.id") "\"uid\"", "map.id", "uid"},
    {SMT("table.field.event.key") "\"customer\"", "map.aggregate_id", "customer"},
    {SMT("table.field.payload.id") "\"customer\"", "map.aggregate_id", "customer"},
    {SMT("table.field.event.type") "\"kind\"", "map.event_type", "kind?"},
    {SMT("table.field.event.payload") "\"body\"", "map.payload", "body"},
    {SMT("table.field.payload") "\"body\"", "map.payload", "body"},
    {SMT("table.field.event.timestamp") "\"at\"", "map.occurred_at", "at"},
    {SMT("table.field.event.timestamp") "\"at\"", "map.epoch", "ms"},
    {SMT("route.by.field") "\"type\"", "map.aggregate_type", "type"},
    {SMT("route.topic.replacement") "\"${routedByValue}.events\"", "route.topic",
     "${aggregate_type}.events"},
    {SMT("route.topic.replacement") "\"pay\\\\$.$1\"", "route.topic", "pay$$.${aggregate_type}"},
    {SMT("route.topic.regex") "\"(?<domain>[a-z]+)-.*\"" SMT(
         "route.topic.replacement") "\"${domain}.$1\"",
     "route.replacement", "${domain}.${1}"},
    {SMT("route.topic.regex") "\"(?<domain>[a-z]+)-.*\"" SMT(
         "route.topic.replacement") "\"${domain}\"",
     "route.regex", "\\A(?:(?<domain>[a-z]+)-.*)\\z"},
    {SMT("route.topic.regex") "\"(x).*\"" SMT("route.topic.replacement") "\"$12\"",
     "route.replacement", "${1}2"},
    {SMT("route.topic.regex") "\"(x).*\"" SMT("route.topic.replacement") "\"y\"", "route.topic",
     "${aggregate_type}"},
    {SMT("table.fields.additional.placement") "\"type:header:eventType , tenant:header\"",
     "map.header_columns", "{eventType: type, tenant: tenant}"},
    {SMT("table.fields.additional.placement") "\"type:envelope:eventType,v:header\"",
     "object.members", "[eventType]"},
    {SMT("table.fields.additional.placement") "\"type:envelope\"", "form", "object"},
    {SMT("table.fields.additional.placement") "\"type:envelope\"", "object.payload", "string"},
    {SMT("table.fields.additional.placement") "\"type:envelope\"" SMT(
         "table.expand.json.payload") "true",
     "object.payload", "json"},
    {SMT("table.fields.additional.placement") "\"part:partition\"", "map.partition", "part"},
    {SMT("table.fields.additional.placement") "\"type : HEADER : kind,part:Partition:ignored\"",
     "map.header_columns", "{kind: type}"},
    {SMT("table.op.invalid.behavior") "\"ERROR\"", "sink.empty_is_tombstone", "false"},
    {SMT("route.tombstone.on.empty.payload") "\"TRUE\"", "sink.empty_is_tombstone", "true"},
    {SMT("table.fields.additional.error.on.missing") "\"false\"", "map.missing_columns", "ignore"},
    {SMT("table.field.additional.missing") "\"ignore\"", "map.missing_columns", "ignore"},
    {SMT("table.field.additional.missing") "\"error\"", "map.missing_columns", "error"},
    {SMT("table.fields.additional.error.on.missing") "\"false\"" SMT(
         "table.fields.additional.placement") "\"part:partition\"",
     "map.partition", "part?"},
    {SMT("table.fields.additional.placement") "\"type:header,type:envelope\"", "map.header_columns",
     "{type: type, envelope.type: type}"},
    {SMT("table.fields.additional.placement") "\"b:envelope:x,a:header:x,a:header:x\"",
     "map.header_columns", "{x: a, envelope.x: b}"},
    {SMT("table.fields.additional.placement") "\"type:envelope,n:envelope,type:header\"",
     "object.members", "[envelope.type=type, n]"},
    {SMT("table.json.payload.null.behavior") "\"optional_bytes\"", "form", "raw"},
    {SMT("table.json.payload.empty.array.behavior") "\"optional_string\"", "form", "raw"},
    {SMT("route.tombstone.on.empty.payload") "\"true\"", "sink.empty_is_tombstone", "true"},
    {",\"database.hostname\":\"db\"", "source.url", "postgresql://db/"},
    {",\"database.hostname\":\"/var/run/post gres\",\"database.port\":5433", "source.url",
     "postgresql://%2Fvar%2Frun%2Fpost%20gres:5433/"},
    {",\"database.hostname\":\"a, b:5434,::1,[fe80::1]\",\"database.port\":5433", "source.url",
     "postgresql://a:5433,b:5434,[::1]:5433,[fe80::1]:5433/"},
    {",\"slot.failover\":\"true\"", "source.slot_failover", "true"},
    {",\"database.hostname\":\"db\",\"database.port\":5433,\"database.dbname\":\"shop\","
     "\"database.user\":\"a@b\",\"database.password\":\"p/w\",\"database.sslmode\":\"require\"",
     "source.url", "postgresql://a%40b:***@db:5433/shop?sslmode=require"},
    {",\"table.include.list\":\"public\\\\.a, other.b\"", "source.tables", "[public.a, other.b]"},
    {",\"publication.name\":\"dbz_publication\"", "source.publication", "dbz_publication"},
    {",\"exactly.once.support\":\"required\"", "exactly_once", "true"},
    {",\"exactly.once.support\":\"requested\"", "exactly_once", "false"},
    {",\"max.batch.size\":\"4096\"", "source.batch", "4096"},
    {",\"producer.override.compression.type\":\"lz4\"", "sink.kafka", "{compression.type: lz4}"},
    {",\"topic.creation.default.partitions\":6,\"topic.creation.default.replication.factor\":-1",
     "sink.create_topics", "{partitions: 6}"},
    {",\"tombstones.on.delete\":\"false\"", "sink.create_topics", "{auto: true}"},
};

static void each_option_becomes_one_of_ours(void **state)
{
    char json[2048];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        (void)snprintf(json, sizeof json, "{" BASE "%s}", cases[i].json);
        if (read_it(json) < 0)
            fail_msg("%s: %s", cases[i].json, err.message);
        assert_option(cases[i].option, cases[i].value);
        assert_string_equal(strbuf_cstr(&warnings), "");
        forget();
    }
}

static void what_has_no_meaning_here_is_named(void **state)
{
    static const char *const named[][2] = {
        {",\"topic.prefix\":\"x\",\"tasks.max\":\"1\"", "topic.prefix, tasks.max"},
        {",\"heartbeat.interval.ms\":100", "heartbeat.interval.ms"},
        {",\"a.name.nobody.knows\":\"1\",\"tasks.max\":1",
         "known to Debezium 3.4, and left out: a.name.nobody.knows\n"},
        {SMT("table.field.event.tpye") "\"x\"", "table.field.event.tpye"},
        {SMT("tracing.span.context.field") "\"span\"", "span:header"},
        {SMT("tracing.operation.name") "\"span\"", "tracing.operation.name"},
        {SMT("tracing.with.context.field.only") "\"true\"", "tracing.with.context.field.only"},
        {",\"post.processors\":\"p\",\"p.type\":\"io.debezium.processors.reselect."
         "ReselectColumnsPostProcessor\",\"p.x\":1",
         "post.processors"},
        {SMT("predicate") "\"isOutbox\"", "transforms.outbox.predicate"},
        {SMT("table.field.event.schema.version") "\"v\"", "schema.version"},
        {SMT("table.op.invalid.behavior") "\"fatal\"", "table.op.invalid.behavior"},
        {",\"slot.name\":\"debezium\"", "'debezium' is left alone"},
        {",\"plugin.name\":\"decoderbufs\"", "plugin.name"},
        {",\"value.converter\":\"org.apache.kafka.connect.json.JsonConverter\"", "JsonConverter"},
        {",\"key.converter\":\"org.apache.kafka.connect.json.JsonConverter\"", "the key is"},
    };
    char json[2048];
    (void)state;
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        (void)snprintf(json, sizeof json, "{" BASE "%s}", named[i][0]);
        assert_int_equal(read_it(json), 0);
        if (strstr(strbuf_cstr(&warnings), named[i][1]) == NULL)
            fail_msg("%s: %s", named[i][1], strbuf_cstr(&warnings));
        forget();
    }
}

static void the_mode_of_the_snapshot_says_whether_rows_come_first(void **state)
{
    static const char *const modes[][2] = {
        {"initial", "deliver"},
        {"when_needed", "deliver"},
        {"no_data", "skip"},
        {"never", "skip"},
    };
    char json[2048];
    (void)state;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        (void)snprintf(json, sizeof json, "{" BASE ",\"snapshot.mode\":\"%s\"}", modes[i][0]);
        assert_int_equal(read_it(json), 0);
        assert_option("source.existing_rows", modes[i][1]);
        assert_string_equal(strbuf_cstr(&warnings), "");
        forget();
    }
}

/* A line that is said has about a thousand bytes. */
static void no_name_is_cut_off_however_many_there_are(void **state)
{
    struct strbuf json;
    char name[64];
    (void)state;
    outrider__strbuf_init(&json, 65536);
    strbuf_append_str(&json, "{" BASE);
    for (int i = 0; i < 100; i++)
        outrider__strbuf_appendf(&json, ",\"%s.property.number.%d\":1", i % 2 ? "internal" : "x",
                                 i);
    strbuf_append_str(&json, "}");
    assert_int_equal(read_it(strbuf_cstr(&json)), 0);
    for (int i = 0; i < 100; i++) {
        (void)snprintf(name, sizeof name, "%s.property.number.%d", i % 2 ? "internal" : "x", i);
        const char *at = strstr(strbuf_cstr(&warnings), name);
        assert_non_null(at);
    }
    for (const char *p = strbuf_cstr(&warnings); *p != '\0'; p += strcspn(p, "\n") + 1)
        assert_in_range(strcspn(p, "\n"), 1, 800);
    outrider__strbuf_release(&json);
    forget();
}

static void what_would_change_the_data_is_refused(void **state)
{
    static const char *const refused[][2] = {
        {BASE ",\"value.converter\":\"io.confluent.connect.avro.AvroConverter\"",
         "value.converter"},
        {BASE ",\"key.converter\":\"io.confluent.connect.avro.AvroConverter\"", "key.converter"},
        {BASE ",\"binary.handling.mode\":\"base64\"", "binary.handling.mode"},
        {BASE ",\"snapshot.mode\":\"always\"", "snapshot.mode"},
        {BASE ",\"snapshot.mode\":\"initial_only\"", "snapshot.mode"},
        {BASE ",\"column.mask.hash.SHA-256.with.salt.x\":\"public.outbox.payload\"", "column.mask"},
        {BASE ",\"skipped.operations\":\"c,u\"", "skipped.operations"},
        {BASE SMT("table.fields.additional.placement") "\"type:body\"", "'body' is no place"},
        {BASE SMT("table.fields.additional.placement") "\"type\"", "'type' is not"},
        {BASE SMT("table.fields.additional.placement") "\"a:header:x,b:header:x\"", "two columns"},
        {BASE SMT("table.fields.additional.placement") "\"a:envelope:x,b:envelope:x\"",
         "two columns"},
        {BASE SMT("table.fields.additional.placement") "\"a:envelope:payload\"", "'payload'"},
        {BASE SMT("table.field.additional.missing") "\"perhaps\"",
         "table.field.additional.missing"},
        {BASE SMT("table.json.payload.null.behavior") "\"perhaps\"",
         "table.json.payload.null.behavior"},
        {BASE SMT("table.json.payload.empty.array.behavior") "\"perhaps\"",
         "table.json.payload.empty.array.behavior"},
        {BASE ",\"post.processors\":\"p\",\"p.type\":\"org.example.Own\"", "post.processors"},
        {BASE ",\"snapshot.include.collection.list\":\"public.other\"",
         "snapshot.include.collection.list"},
        {BASE SMT("table.fields.additional.placement") "\"a:envelope\",\"value.converter\":"
                                                       "\"org.apache.kafka.connect.storage."
                                                       "StringConverter\"",
         "StringConverter"},
        {BASE SMT("route.topic.regex") "\"(\"", "route.topic.regex"},
        {BASE SMT("route.topic.regex") "\"[a-z&&[^b]]\"", "intersection"},
        {BASE SMT("route.topic.replacement") "\"$7\"", "route.topic.replacement"},
        {BASE SMT("route.topic.replacement") "\"$x\"", "route.topic.replacement"},
        {BASE SMT("table.expand.json.payload") "\"perhaps\"", "table.expand.json.payload"},
        {BASE ",\"table.include.list\":\"public.outbox_.*\"", "is a pattern"},
        {BASE ",\"database.password\":\"${file:/secrets:pw}\"", "database.password"},
        {POSTGRES, "no outbox connector"},
        {POSTGRES ",\"transforms\":\"outbox,unwrap\"," ROUTER, "'unwrap'"},
        {"\"connector.class\":\"io.debezium.connector.mongodb.MongoDbConnector\"", "MongoDb"},
        {BASE ",\"x\":{\"y\":1}", "'x'"},
    };
    char json[2048];
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        (void)snprintf(json, sizeof json, "{%s}", refused[i][0]);
        assert_int_equal(read_it(json), -1);
        if (strstr(err.message, refused[i][1]) == NULL)
            fail_msg("%s: %s", refused[i][1], err.message);
        assert_int_equal(strncmp(err.message, "c.json: ", 8), 0);
        assert_int_equal(err.code, OUTRIDER_CONFIG);
        outrider__strbuf_release(&warnings);
    }
}

static void a_secret_can_come_from_the_environment_and_is_in_no_message(void **state)
{
    (void)state;
    assert_int_equal(setenv("DEBEZIUM_TEST_PASSWORD", "hunter2", 1), 0);
    assert_int_equal(read_it("{" BASE ",\"database.hostname\":\"h\",\"database.user\":\"u\","
                             "\"database.password\":\"${env:DEBEZIUM_TEST_PASSWORD}\"}"),
                     0);
    assert_string_equal(file.pipelines[0].source.url, "postgresql://u:hunter2@h/");
    assert_option("source.url", "postgresql://u:***@h/");
    assert_null(strstr(strbuf_cstr(&warnings), "hunter2"));
    forget();
}

static void topic_of(const char *json, const char *aggregate_type, const char *want)
{
    struct router *router;
    struct batch batch;
    struct outrider_error why;
    assert_int_equal(read_it(json), 0);
    assert_int_equal(outrider__batch_init(&batch, 1, 4096, NULL), 0);
    struct event *e = outrider__batch_slot(&batch);
    e->batch = &batch;
    e->id = e->aggregate_id = e->event_type = BYTES_LIT("x");
    e->aggregate_type = bytes_str(aggregate_type);
    e->payload = BYTES_LIT("{}");
    assert_int_equal(outrider__router_new(&file.pipelines[0], &router, &why), 0);
    assert_int_equal(outrider__router_route(router, e, true, &why), 0);
    assert_string_equal(strndupa(e->delivery.topic.data, e->delivery.topic.len), want);
    assert_int_equal(e->delivery.n_headers, 1);
    outrider__router_free(router);
    outrider__batch_release(&batch);
    forget();
}

static void topics_are_those_that_java_would_make(void **state)
{
    static const char json[] =
        "{" BASE SMT("route.topic.regex") "\"(?<domain>[a-z]+)-([a-z]+)\"" SMT(
            "route.topic.replacement") "\"${domain}.$2-events\"}";
    (void)state;
    topic_of("{" BASE "}", "order", "outbox.event.order");
    topic_of(json, "shop-order", "shop.order-events");
    /* matches(), not find(): a part is not enough, and the topic stays the value. */
    topic_of(json, "shop-order-2", "shop-order-2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_defaults_are_debeziums),
        cmocka_unit_test(each_option_becomes_one_of_ours),
        cmocka_unit_test(what_has_no_meaning_here_is_named),
        cmocka_unit_test(the_mode_of_the_snapshot_says_whether_rows_come_first),
        cmocka_unit_test(no_name_is_cut_off_however_many_there_are),
        cmocka_unit_test(what_would_change_the_data_is_refused),
        cmocka_unit_test(a_secret_can_come_from_the_environment_and_is_in_no_message),
        cmocka_unit_test(topics_are_those_that_java_would_make),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
