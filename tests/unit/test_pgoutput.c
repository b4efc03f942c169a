/* SPDX-License-Identifier: MIT */
/* The decoder of pgoutput, over bytes; what a real server sends is in tests/fuzz/corpus. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/strbuf.h"
#include "postgres/cdc/decode.h"
#include "postgres/wire/wire.h"

#define OID 16400u

struct fixture {
    struct cdc_decoder d;
    struct batch b;
    struct strbuf m; /* the message under construction */
    struct outrider_error err;
};

static void put(struct fixture *f, uint64_t v, int n)
{
    for (int i = n - 1; i >= 0; i--)
        strbuf_append_char(&f->m, (char)(v >> (8 * i)));
}

static void put_string(struct fixture *f, const char *text)
{
    outrider__strbuf_append(&f->m, bytes_of(text, strlen(text) + 1));
}

static void put_cell(struct fixture *f, char form, struct bytes value)
{
    put(f, (unsigned char)form, 1);
    if (form == 't' || form == 'b') {
        put(f, value.len, 4);
        outrider__strbuf_append(&f->m, value);
    }
}

static int setup(void **state)
{
    static struct fixture f;
    static struct cdc_outbox outbox;
    outbox = outrider__cdc_own_outbox(OID, "public", "outbox");
    f = (struct fixture){
        .d = {.outboxes = &outbox, .n_outboxes = 1, .max = {100, 100, 16384, 16384}}};
    outrider__strbuf_init(&f.m, 1 << 20);
    assert_int_equal(outrider__batch_init(&f.b, 16, 1 << 20, &f.err), 0);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    outrider__cdc_decoder_release(&f->d);
    outrider__strbuf_release(&f->m);
    outrider__batch_release(&f->b);
    return 0;
}

/* What the message is; it is an error if decoding fails. */
static struct cdc_message decode(struct fixture *f)
{
    struct cdc_message m = {0};
    int rc = outrider__cdc_decode(&f->d, strbuf_bytes(&f->m), &m, &f->err);
    if (rc < 0)
        fail_msg("%s", f->err.message);
    return m;
}

static void expect_broken(struct fixture *f)
{
    struct cdc_message m;
    assert_int_equal(outrider__cdc_decode(&f->d, strbuf_bytes(&f->m), &m, &f->err), -1);
    assert_int_equal(f->err.disposition, OUTRIDER_RETRY);
}

static void begin(struct fixture *f, uint64_t lsn)
{
    outrider__strbuf_clear(&f->m);
    put(f, 'B', 1);
    put(f, lsn, 8);
    put(f, 1000000, 8);
    put(f, 7, 4);
    assert_int_equal(decode(f).kind, CDC_BEGIN);
    outrider__strbuf_clear(&f->m);
}

struct column {
    const char *name;
    uint32_t type;
};

static void relation(struct fixture *f, uint32_t oid, const char *schema, const char *table,
                     const struct column *columns, size_t n)
{
    outrider__strbuf_clear(&f->m);
    put(f, 'R', 1);
    put(f, oid, 4);
    put_string(f, schema);
    put_string(f, table);
    put(f, 'd', 1);
    put(f, n, 2);
    for (size_t i = 0; i < n; i++) {
        put(f, 0, 1);
        put_string(f, columns[i].name);
        put(f, columns[i].type, 4);
        put(f, UINT32_MAX, 4);
    }
    assert_int_equal(decode(f).kind, CDC_NOTHING);
    outrider__strbuf_clear(&f->m);
}

static const struct column usual[] = {{"id", PG_TEXT},
                                      {"aggregate_type", PG_TEXT},
                                      {"aggregate_id", PG_TEXT},
                                      {"event_type", PG_TEXT},
                                      {"payload", PG_TEXT}};
#define N_USUAL (sizeof usual / sizeof *usual)

static void insert_begin(struct fixture *f, uint32_t oid, size_t n)
{
    outrider__strbuf_clear(&f->m);
    put(f, 'I', 1);
    put(f, oid, 4);
    put(f, 'N', 1);
    put(f, n, 2);
}

static void insert_usual(struct fixture *f, struct bytes payload)
{
    insert_begin(f, OID, N_USUAL);
    for (size_t i = 0; i + 1 < N_USUAL; i++)
        put_cell(f, 't', bytes_str(usual[i].name));
    put_cell(f, bytes_is_null(payload) ? 'n' : 't', payload);
}

static const struct event *take(struct fixture *f)
{
    struct cdc_message m = decode(f);
    assert_int_equal(m.kind, CDC_EVENT);
    assert_int_equal(outrider__cdc_event(&f->d, &m, &f->b, &f->err), 0);
    return &f->b.events[f->b.n - 1];
}

static void message(struct fixture *f, int flags, const char *prefix, struct bytes content)
{
    outrider__strbuf_clear(&f->m);
    put(f, 'M', 1);
    put(f, (unsigned)flags, 1);
    put(f, 99, 8);
    put_string(f, prefix);
    put(f, content.len, 4);
    outrider__strbuf_append(&f->m, content);
}

static void an_insert_into_the_outbox_is_an_event_with_its_place(void **state)
{
    struct fixture *f = *state;
    begin(f, 0x500);
    relation(f, OID, "public", "outbox", usual, N_USUAL);
    insert_usual(f, BYTES_LIT("{}"));
    (void)take(f);
    insert_usual(f, BYTES_LIT("[1]"));
    struct cdc_message m = decode(f);
    assert_int_equal(m.commit_lsn, 0x500);
    assert_int_equal(m.number, 2);
    assert_int_equal(outrider__cdc_event(&f->d, &m, &f->b, &f->err), 0);
    assert_true(bytes_eq_str(f->b.events[1].payload, "[1]"));
    assert_true(bytes_eq_str(f->b.events[1].id, "id"));
    begin(f, 0x600);
    insert_usual(f, BYTES_LIT("{}"));
    assert_int_equal(decode(f).number, 1);
}

static void other_tables_and_other_changes_are_nothing(void **state)
{
    struct fixture *f = *state;
    begin(f, 1);
    relation(f, 5, "public", "other", usual, N_USUAL);
    insert_begin(f, 5, 0);
    assert_int_equal(decode(f).kind, CDC_NOTHING);
    for (const char *p = "UDTOY"; *p != '\0'; p++) {
        outrider__strbuf_clear(&f->m);
        put(f, (unsigned char)*p, 1);
        assert_int_equal(decode(f).kind, CDC_NOTHING);
    }
    assert_int_equal(f->d.n_events, 0);
}

static void a_table_that_was_renamed_away_is_found_by_its_oid(void **state)
{
    struct fixture *f = *state;
    begin(f, 1);
    relation(f, OID, "odd \"schema", "renamed", usual, N_USUAL);
    insert_usual(f, BYTES_LIT("1"));
    (void)take(f);
}

static void a_table_of_that_name_with_another_oid_is_ours_too(void **state)
{
    struct fixture *f = *state;
    begin(f, 1);
    relation(f, 77, "public", "outbox", usual, N_USUAL);
    insert_begin(f, 77, N_USUAL);
    for (size_t i = 0; i < N_USUAL; i++)
        put_cell(f, 't', BYTES_LIT("x"));
    (void)take(f);
}

static void columns_are_found_by_name_after_each_change(void **state)
{
    static const struct column moved[] = {{"event_type", PG_TEXT},     {"new", PG_BOOL},
                                          {"payload", PG_BYTEA},       {"aggregate_id", PG_INT8},
                                          {"aggregate_type", PG_TEXT}, {"id", PG_UUID}};
    static const unsigned char id[16] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,
                                         0x0f, 0x1e, 0x2d, 0x3c, 0x4b, 0x5a, 0x69, 0x78};
    static const unsigned char number[8] = {0, 0, 0, 0, 0, 0, 1, 2};
    struct fixture *f = *state;
    begin(f, 1);
    relation(f, OID, "public", "outbox", usual, N_USUAL);
    insert_usual(f, BYTES_LIT("1"));
    (void)take(f);
    relation(f, OID, "public", "outbox", moved, 6);
    insert_begin(f, OID, 6);
    put_cell(f, 'b', BYTES_LIT("e"));
    put_cell(f, 'b', BYTES_LIT("\1"));
    put_cell(f, 'b', BYTES_LIT("\0\xff"));
    put_cell(f, 'b', bytes_of(number, 8));
    put_cell(f, 'b', BYTES_LIT("t"));
    put_cell(f, 'b', bytes_of(id, 16));
    const struct event *e = take(f);
    assert_false(e->is_malformed);
    assert_true(bytes_eq_str(e->id, "01234567-89ab-cdef-0f1e-2d3c4b5a6978"));
    assert_true(bytes_eq_str(e->aggregate_id, "258"));
    assert_true(bytes_eq(e->payload, BYTES_LIT("\0\xff")));
    assert_true(bytes_eq_str(e->event_type, "e"));
}

static void a_missing_a_null_and_an_unsent_column_make_an_event_malformed(void **state)
{
    static const struct {
        char form;
        const char *said;
    } cases[] = {{'n', "aggregate_id is NULL"}, {'u', "aggregate_id was not sent"}};
    struct fixture *f = *state;
    begin(f, 9);
    relation(f, OID, "public", "outbox", usual, 2);
    insert_begin(f, OID, 2);
    put_cell(f, 't', BYTES_LIT("i"));
    put_cell(f, 't', BYTES_LIT("a"));
    const struct event *e = take(f);
    assert_true(e->is_malformed);
    assert_string_equal(e->failure->message, "aggregate_id is missing");
    relation(f, OID, "public", "outbox", usual, N_USUAL);
    for (size_t i = 0; i < 2; i++) {
        insert_begin(f, OID, N_USUAL);
        for (size_t k = 0; k < N_USUAL; k++)
            put_cell(f, k == 2 ? cases[i].form : 't', BYTES_LIT("x"));
        e = take(f);
        assert_true(e->is_malformed);
        assert_string_equal(e->failure->message, cases[i].said);
    }
}

static void an_event_without_an_id_gets_the_same_one_each_time(void **state)
{
    char first[OUTRIDER_ID_SIZE] = "";
    struct fixture *f = *state;
    for (int round = 0; round < 2; round++) {
        begin(f, 0x1122334455667788);
        message(f, 1, CDC_PREFIX,
                BYTES_LIT("{\"aggregate_type\":\"a\",\"aggregate_id\":\"b\",\"event_type\":\"c\","
                          "\"payload\":{}}"));
        const struct event *e = take(f);
        assert_false(e->is_malformed);
        assert_true(outrider__bytes_is_utf8(e->id));
        assert_int_equal(e->id.len, 36);
        if (round == 0)
            memcpy(first, e->id.data, 36);
        assert_memory_equal(first, e->id.data, 36);
        assert_int_equal(first[14], '8');
    }
    message(f, 1, CDC_PREFIX, BYTES_LIT("{}"));
    assert_memory_not_equal(first, take(f)->id.data, 36);
}

static void payloads_null_empty_and_too_large(void **state)
{
    char large[101];
    struct fixture *f = *state;
    memset(large, 'x', sizeof large);
    begin(f, 1);
    relation(f, OID, "public", "outbox", usual, N_USUAL);
    insert_usual(f, BYTES_NULL);
    assert_true(bytes_is_null(take(f)->payload));
    insert_usual(f, BYTES_LIT(""));
    const struct event *e = take(f);
    assert_false(bytes_is_null(e->payload));
    assert_int_equal(e->payload.len, 0);
    insert_usual(f, bytes_of(large, 100));
    assert_false(take(f)->is_oversize);
    size_t used = f->b.arena.used;
    insert_usual(f, bytes_of(large, 101));
    e = take(f);
    assert_true(e->is_oversize);
    assert_int_equal(e->payload_len, 101);
    assert_true(bytes_is_null(e->payload));
    assert_true(f->b.arena.used - used < 600);
}

/* Every column of text is one of N, all of them larger than a bound: one at a time. */
static void texts_and_headers_above_their_bounds_are_cut_or_left_out(void **state)
{
    static const char two_dots[] = {'\xc3', '\xbc'}; /* u with two dots */
    static const struct column columns[] = {{"id", PG_TEXT},
                                            {"aggregate_type", PG_TEXT},
                                            {"aggregate_id", PG_TEXT},
                                            {"event_type", PG_TEXT},
                                            {"payload", PG_TEXT},
                                            {"topic", PG_TEXT},
                                            {"partition_key", PG_TEXT},
                                            {"headers", PG_TEXT}};
    enum { N = sizeof columns / sizeof *columns, LARGE = 16386 };
    static char large[LARGE];
    struct fixture *f = *state;
    for (int i = 0; i + 1 < LARGE; i += 2)
        memcpy(large + i, two_dots, sizeof two_dots);
    f->d.max.text = f->d.max.id = LARGE - 2;
    begin(f, 1);
    relation(f, OID, "public", "outbox", columns, N);
    for (int which = 0; which < N; which++) {
        bool is_headers = which == N - 1, is_payload = which == 4;
        insert_begin(f, OID, N);
        for (int i = 0; i < N; i++)
            put_cell(f, 't', i == which ? bytes_of(large, LARGE) : BYTES_LIT("{}"));
        size_t used = f->b.arena.used;
        const struct event *e = take(f);
        const struct bytes found[N] = {
            e->id,      e->aggregate_type, e->aggregate_id,  e->event_type,
            e->payload, e->topic,          e->partition_key, e->headers};
        assert_true(e->is_oversize && !e->is_malformed);
        assert_string_equal(e->large_column, columns[which].name);
        assert_int_equal(e->large_len, LARGE);
        assert_true(f->b.arena.used - used < 6000);
        for (int i = 0; i < N; i++) {
            if (i == which && (is_headers || is_payload))
                assert_true(bytes_is_null(found[i]));
            else
                assert_int_equal(found[i].len, i == which ? 2 * EVENT_TEXT_CUT : 2);
        }
    }
}

static void a_message_whose_headers_or_key_are_too_large(void **state)
{
    struct fixture *f = *state;
    struct strbuf content;
    begin(f, 1);
    outrider__strbuf_init(&content, 1 << 20);
    outrider__strbuf_appendf(&content,
                             "{\"aggregate_type\":\"a\",\"aggregate_id\":\"b\",\"event_type\":"
                             "\"c\",\"payload\":1,\"headers\":{\"h\":\"%0*d\"}}",
                             200, 1);
    message(f, 1, CDC_PREFIX, strbuf_bytes(&content));
    const struct event *e = take(f);
    assert_true(e->is_oversize);
    assert_string_equal(e->large_column, "headers");
    assert_true(bytes_is_null(e->headers));
    assert_true(bytes_eq_str(e->payload, "1"));
    outrider__strbuf_clear(&content);
    outrider__strbuf_appendf(&content,
                             "{\"aggregate_type\":\"a\",\"aggregate_id\":\"%0*d\","
                             "\"event_type\":\"c\",\"payload\":1}",
                             16385, 1);
    message(f, 1, CDC_PREFIX, strbuf_bytes(&content));
    size_t used = f->b.arena.used;
    e = take(f);
    assert_true(e->is_oversize);
    assert_string_equal(e->large_column, "aggregate_id");
    assert_int_equal(e->aggregate_id.len, EVENT_TEXT_CUT);
    assert_true(f->b.arena.used - used < 4000);
    outrider__strbuf_release(&content);
}

static void json_and_bytea_lose_what_only_the_wire_needs(void **state)
{
    static const struct column columns[] = {{"id", PG_TEXT},           {"aggregate_type", PG_TEXT},
                                            {"aggregate_id", PG_TEXT}, {"event_type", PG_TEXT},
                                            {"payload", PG_BYTEA},     {"headers", PG_JSONB}};
    struct fixture *f = *state;
    begin(f, 1);
    relation(f, OID, "public", "outbox", columns, 6);
    insert_begin(f, OID, 6);
    for (int i = 0; i < 4; i++)
        put_cell(f, 't', BYTES_LIT("x"));
    put_cell(f, 't', BYTES_LIT("\\x00ff41"));
    put_cell(f, 'b', BYTES_LIT("\1{\"a\":1}"));
    const struct event *e = take(f);
    assert_true(bytes_eq(e->payload, BYTES_LIT("\0\xff"
                                               "A")));
    assert_true(bytes_eq_str(e->headers, "{\"a\":1}"));
}

static const struct event *take_bytes(struct fixture *f, char form, struct bytes id,
                                      struct bytes type, struct bytes key, struct bytes payload)
{
    insert_begin(f, OID, N_USUAL);
    put_cell(f, form, id);
    put_cell(f, form, type);
    put_cell(f, form, key);
    put_cell(f, 't', BYTES_LIT("changed"));
    put_cell(f, form, payload);
    return take(f);
}

static void bytes_are_the_same_in_every_form_in_which_they_are_sent(void **state)
{
    static const struct column columns[] = {{"id", PG_BYTEA},
                                            {"aggregate_type", PG_BYTEA},
                                            {"aggregate_id", PG_BYTEA},
                                            {"event_type", PG_TEXT},
                                            {"payload", PG_BYTEA}};
    static const struct {
        char form;
        struct bytes id, type, key, payload;
    } sent[] = {
        {'b', BYTES_LIT("\x01\xff"), BYTES_LIT("order"), BYTES_LIT("a\\\xff\0"), BYTES_LIT("\0\1")},
        {'t', BYTES_LIT("\\x01ff"), BYTES_LIT("\\x6f72646572"), BYTES_LIT("\\x615cff00"),
         BYTES_LIT("\\x0001")},
        {'t', BYTES_LIT("\\001\\377"), BYTES_LIT("order"), BYTES_LIT("a\\\\\\377\\000"),
         BYTES_LIT("\\000\\001")},
    };
    struct fixture *f = *state;
    f->d.max.payload = 2; /* of bytes, not of what is sent */
    relation(f, OID, "public", "outbox", columns, N_USUAL);
    for (size_t i = 0; i < sizeof sent / sizeof *sent; i++) {
        begin(f, 100);
        const struct event *e =
            take_bytes(f, sent[i].form, sent[i].id, sent[i].type, sent[i].key, sent[i].payload);
        assert_false(e->is_malformed);
        assert_false(e->is_oversize);
        assert_true(bytes_eq_str(e->id, "\\x01ff"));
        assert_true(bytes_eq_str(e->aggregate_type, "order"));
        assert_true(bytes_eq(e->aggregate_id, BYTES_LIT("a\\\xff\0")));
        assert_true(bytes_eq(e->payload, BYTES_LIT("\0\1")));
    }
}

/* As the server sends bytea: binary, hex, and under bytea_output = escape. */
static struct bytes bytea_cell(struct strbuf *out, int form, size_t n)
{
    outrider__strbuf_clear(out);
    strbuf_append_str(out, form == 1 ? "\\x" : "");
    for (size_t i = 0; i < n; i++)
        outrider__strbuf_append(out, form == 0   ? BYTES_LIT("\x80")
                                     : form == 1 ? BYTES_LIT("80")
                                                 : BYTES_LIT("\\200"));
    return strbuf_bytes(out);
}

static void bytes_above_their_bounds_are_cut_alike_in_every_form(void **state)
{
    static const struct column columns[] = {{"id", PG_BYTEA},
                                            {"aggregate_type", PG_TEXT},
                                            {"aggregate_id", PG_BYTEA},
                                            {"event_type", PG_TEXT},
                                            {"payload", PG_BYTEA}};
    struct fixture *f = *state;
    struct strbuf key, id;
    outrider__strbuf_init(&key, 1 << 20);
    outrider__strbuf_init(&id, 1 << 20);
    f->d.max.text = f->d.max.id = 5000;
    relation(f, OID, "public", "outbox", columns, N_USUAL);
    for (int i = 0; i < 9; i++) {
        size_t n_id = i / 3 == 1 ? 2500 : 2499, n_key = i / 3 == 2 ? 5001 : 5000;
        char form = i % 3 == 0 ? 'b' : 't';
        begin(f, 100);
        insert_begin(f, OID, N_USUAL);
        put_cell(f, form, bytea_cell(&id, i % 3, n_id));
        put_cell(f, 't', BYTES_LIT("order"));
        put_cell(f, form, bytea_cell(&key, i % 3, n_key));
        put_cell(f, 't', BYTES_LIT("changed"));
        put_cell(f, 't', BYTES_LIT("\\x01"));
        const struct event *e = take(f);
        assert_int_equal(e->is_oversize, i >= 3);
        assert_int_equal(e->id.len, i / 3 == 1 ? EVENT_TEXT_CUT : 5000);
        assert_int_equal(e->aggregate_id.len, i / 3 == 2 ? EVENT_TEXT_CUT : 5000);
        assert_memory_equal(e->id.data, "\\x8080", 6);
        assert_memory_equal(e->aggregate_id.data, "\x80\x80", 2);
        if (i >= 3) {
            assert_string_equal(e->large_column, i / 3 == 1 ? "id" : "aggregate_id");
            assert_int_equal(e->large_len, i / 3 == 1 ? 5002 : 5001);
        }
    }
    outrider__strbuf_release(&key);
    outrider__strbuf_release(&id);
}

static void the_beginning_of_what_is_no_text_has_an_end(void **state)
{
    static char bytes[100000];
    (void)state;
    memset(bytes, 0x80, sizeof bytes);
    assert_int_equal(outrider__text_cut(bytes_of(bytes, sizeof bytes)).len, 4 * EVENT_TEXT_CUT);
    assert_int_equal(outrider__bytes_cut(bytes_of(bytes, sizeof bytes)).len, EVENT_TEXT_CUT);
    assert_int_equal(outrider__bytes_cut(bytes_of(bytes, 10)).len, 10);
}

static void bytes_that_must_be_text_and_are_none_make_an_event_malformed(void **state)
{
    static const struct column columns[] = {{"id", PG_TEXT},
                                            {"aggregate_type", PG_BYTEA},
                                            {"aggregate_id", PG_TEXT},
                                            {"event_type", PG_TEXT},
                                            {"payload", PG_BYTEA}};
    struct fixture *f = *state;
    relation(f, OID, "public", "outbox", columns, N_USUAL);
    begin(f, 100);
    const struct event *e =
        take_bytes(f, 'b', BYTES_LIT("1"), BYTES_LIT("\xff"), BYTES_LIT("k"), BYTES_LIT("x"));
    assert_true(e->is_malformed);
    assert_string_equal(e->failure->message, "aggregate_type is not UTF-8 text");
}

static void an_empty_key_in_a_message_is_none(void **state)
{
    struct fixture *f = *state;
    begin(f, 100);
    message(f, 1, "outrider",
            BYTES_LIT("{\"aggregate_type\":\"order\",\"aggregate_id\":\"7\",\"event_type\":\"x\","
                      "\"partition_key\":\"\",\"payload\":1}"));
    const struct event *e = take(f);
    assert_true(bytes_is_null(e->partition_key));
    assert_true(bytes_eq_str(event_key(e), "7"));
}

static void only_transactional_messages_with_our_prefix_are_events(void **state)
{
    struct fixture *f = *state;
    begin(f, 1);
    message(f, 0, CDC_PREFIX, BYTES_LIT("{}"));
    assert_int_equal(decode(f).kind, CDC_NOTHING);
    message(f, 1, "outriders", BYTES_LIT("{}"));
    assert_int_equal(decode(f).kind, CDC_NOTHING);
    message(f, 1, CDC_PREFIX, BYTES_LIT("\0\xff not json"));
    const struct event *e = take(f);
    assert_true(e->is_malformed);
    assert_non_null(strstr(e->failure->message, "logical message"));
}

static void a_commit_says_what_may_be_confirmed(void **state)
{
    struct fixture *f = *state;
    begin(f, 0x10);
    put(f, 'C', 1);
    put(f, 0, 1);
    put(f, 0x10, 8);
    put(f, 0x40, 8);
    put(f, 0, 8);
    struct cdc_message m = decode(f);
    assert_int_equal(m.kind, CDC_COMMIT);
    assert_int_equal(m.end_lsn, 0x40);
    assert_false(f->d.in_transaction);
}

static void tables_that_are_made_anew_again_and_again_do_not_fill_the_memory(void **state)
{
    struct fixture *f = *state;
    assert_true(sizeof f->d < 4096);
    for (uint32_t oid = OID; oid < OID + 3 * CDC_RELATIONS_MAX; oid++)
        relation(f, oid, "public", "outbox", usual, N_USUAL);
    assert_int_equal(f->d.n_relations, CDC_RELATIONS_MAX);
    relation(f, OID, "public", "other_by_now", NULL, 0); /* by its oid it is still the outbox */
    relation(f, OID + 3 * CDC_RELATIONS_MAX - 1, "public", "renamed", NULL, 0);
    assert_int_equal(f->d.n_relations, CDC_RELATIONS_MAX - 1);
}

static void every_cut_of_a_message_is_an_error_and_nothing_worse(void **state)
{
    struct fixture *f = *state;
    begin(f, 1);
    relation(f, OID, "public", "outbox", usual, N_USUAL);
    insert_usual(f, BYTES_LIT("payload"));
    size_t whole = f->m.len;
    for (size_t n = 0; n < whole; n++) {
        f->m.len = n;
        expect_broken(f);
    }
}

static void an_insert_outside_a_transaction_is_an_error(void **state)
{
    struct fixture *f = *state;
    begin(f, 1);
    relation(f, OID, "public", "outbox", usual, N_USUAL);
    f->d.in_transaction = false;
    insert_usual(f, BYTES_LIT("1"));
    expect_broken(f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_insert_into_the_outbox_is_an_event_with_its_place),
        TEST(other_tables_and_other_changes_are_nothing),
        TEST(a_table_that_was_renamed_away_is_found_by_its_oid),
        TEST(a_table_of_that_name_with_another_oid_is_ours_too),
        TEST(columns_are_found_by_name_after_each_change),
        TEST(a_missing_a_null_and_an_unsent_column_make_an_event_malformed),
        TEST(an_event_without_an_id_gets_the_same_one_each_time),
        TEST(payloads_null_empty_and_too_large),
        TEST(the_beginning_of_what_is_no_text_has_an_end),
        TEST(bytes_above_their_bounds_are_cut_alike_in_every_form),
        TEST(texts_and_headers_above_their_bounds_are_cut_or_left_out),
        TEST(a_message_whose_headers_or_key_are_too_large),
        TEST(json_and_bytea_lose_what_only_the_wire_needs),
        TEST(bytes_are_the_same_in_every_form_in_which_they_are_sent),
        TEST(bytes_that_must_be_text_and_are_none_make_an_event_malformed),
        TEST(an_empty_key_in_a_message_is_none),
        TEST(only_transactional_messages_with_our_prefix_are_events),
        TEST(a_commit_says_what_may_be_confirmed),
        TEST(every_cut_of_a_message_is_an_error_and_nothing_worse),
        TEST(an_insert_outside_a_transaction_is_an_error),
        TEST(tables_that_are_made_anew_again_and_again_do_not_fill_the_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
