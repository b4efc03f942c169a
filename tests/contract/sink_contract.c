/* SPDX-License-Identifier: MIT */
#include "contract/sink_contract.h"

#include "sink/file/reader.h"

#include <ftw.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

void make_temp_dir(char *ret_path, size_t size)
{
    /* In memory where possible: hundreds of fsyncs on a busy disk take minutes. */
    const char *base = getenv("TMPDIR");
    if (base == NULL)
        base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    (void)snprintf(ret_path, size, "%s/outrider-test-XXXXXX", base);
    assert_non_null(mkdtemp(ret_path));
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

void remove_tree(const char *path)
{
    (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* (2): once each, from poll() only. (13): no answer without a decision of the receiver. */
static void on_report(void *ctx, struct delivery *d, const struct sink_report *report)
{
    struct rig *r = ctx;
    enum sink_result result = report->result;
    assert_true(r->in_poll);
    assert_true(d >= r->d && d < r->d + r->n);
    struct told *t = &r->told[d - r->d];
    assert_int_equal(t->times, 0);
    t->times++;
    t->result = result;
    assert_true((report->why == NULL) == (result == SINK_DELIVERED));
    if (report->why != NULL)
        t->why = *report->why;
    if (result == SINK_DOWN || result == SINK_UNTRIED || result == SINK_STOP)
        assert_null(report->answer);
    r->n_told++;
}

void rig_init(struct rig *r, const struct sink_fixture *f)
{
    *r = (struct rig){.fixture = f};
    f->set_up(r->url, sizeof r->url);
    r->config.name = "default";
    r->config.sink.url = r->url;
    r->config.sink.send_timeout_us = 30000000;
    r->config.source.max_payload = 1 << 20;
    r->config.source.max_headers = 1 << 16;
    r->config.ordered = true;
    r->sink = calloc(1, f->ops->size);
    r->d = calloc(RIG_MAX, sizeof *r->d);
    r->headers = calloc(RIG_MAX, sizeof *r->headers);
    r->told = calloc(RIG_MAX, sizeof *r->told);
    r->ids = calloc(RIG_MAX, sizeof *r->ids);
    r->seen = calloc(RIG_MAX, sizeof *r->seen);
    if (!r->sink || !r->d || !r->headers || !r->told || !r->ids || !r->seen)
        abort();
}

int rig_open(struct rig *r, struct outrider_error *err)
{
    memset(r->sink, 0, r->fixture->ops->size);
    r->sink->ops = r->fixture->ops;
    r->sink->reported = on_report;
    r->sink->reported_ctx = r;
    r->is_open = true;
    r->sink->identity = r->identity;
    return r->sink->ops->open(r->sink, &r->config, outrider__clock_now(), err);
}

void rig_close(struct rig *r)
{
    if (r->is_open)
        r->fixture->ops->close(r->sink);
    r->is_open = false;
}

static void forget_seen(struct rig *r)
{
    for (size_t i = 0; i < r->n_seen; i++)
        json_decref(r->seen[i].line);
    r->n_seen = 0;
}

void rig_clear(struct rig *r)
{
    memset(r->told, 0, RIG_MAX * sizeof *r->told);
    r->n = r->n_told = 0;
}

void rig_release(struct rig *r)
{
    rig_close(r);
    forget_seen(r);
    r->fixture->tear_down();
    free(r->sink);
    free(r->d);
    free(r->headers);
    free(r->told);
    free(r->ids);
    free(r->seen);
}

struct delivery *rig_add(struct rig *r, const char *topic, const char *key, struct bytes payload)
{
    assert_true(r->n < RIG_MAX);
    size_t i = r->n++;
    (void)snprintf(r->ids[i], sizeof r->ids[i], "%zu", i);
    r->headers[i] = (struct header){BYTES_LIT("event-id"), bytes_str(r->ids[i])};
    r->d[i] = (struct delivery){.topic = bytes_str(topic),
                                .key = bytes_str(key),
                                .payload = payload,
                                .partition = -1,
                                .timestamp_us = 1767322245678000};
    if (r->sink->wants_headers) {
        r->d[i].headers = &r->headers[i];
        r->d[i].n_headers = 1;
    }
    return &r->d[i];
}

static void poll_once(struct rig *r)
{
    struct outrider_error err;
    r->in_poll = true;
    if (r->sink->ops->poll(r->sink, outrider__clock_now(), &err) < 0)
        fail_msg("poll: %s", err.message);
    r->in_poll = false;
}

/* As the engine does it: wait for what the sink names, then poll. */
void rig_poll(struct rig *r, int64_t deadline_us)
{
    struct pollfd fds[8];
    int n = r->sink->ops->fds(r->sink, fds, 8);
    struct instant now = outrider__clock_now();
    int64_t until = r->sink->wake_us < deadline_us ? r->sink->wake_us : deadline_us;
    int64_t ms = until <= now.mono_us ? 0 : (until - now.mono_us) / 1000 + 1;
    (void)poll(fds, (nfds_t)n, (int)ms);
    poll_once(r);
}

void rig_wait(struct rig *r, size_t n_told)
{
    int64_t deadline = outrider__clock_now().mono_us + RIG_TIMEOUT_MS * 1000;
    while (r->n_told < n_told && outrider__clock_now().mono_us < deadline)
        rig_poll(r, deadline);
    assert_true(r->n_told >= n_told);
}

void rig_submit(struct rig *r, size_t from, size_t to)
{
    int64_t deadline = outrider__clock_now().mono_us + RIG_TIMEOUT_MS * 1000;
    struct delivery **list = calloc(to - from + 1, sizeof(struct delivery *));
    assert_non_null(list);
    for (size_t i = from; i < to; i++)
        list[i - from] = &r->d[i];
    size_t done = 0, n = to - from;
    while (done < n && outrider__clock_now().mono_us < deadline) {
        size_t took = r->sink->ops->submit(r->sink, list + done, n - done, outrider__clock_now());
        assert_true(took <= n - done);
        done += took;
        r->sink->ops->flush(r->sink, outrider__clock_now());
        if (took == 0)
            rig_poll(r, deadline);
    }
    free(list);
    assert_int_equal(done, n);
}

void rig_deliver(struct rig *r, const char *topic, const char *key, const char *payload)
{
    (void)rig_add(r, topic, key, bytes_str(payload));
    rig_submit(r, r->n - 1, r->n);
    rig_wait(r, r->n);
    assert_int_equal(r->told[r->n - 1].result, SINK_DELIVERED);
}

static void add_seen(void *ctx, json_t *line)
{
    struct rig *r = ctx;
    assert_true(r->n_seen < RIG_MAX);
    struct seen *s = &r->seen[r->n_seen++];
    s->line = line;
    s->topic = json_string_value(json_object_get(line, "topic"));
    s->id = json_string_value(json_object_get(json_object_get(line, "headers"), "event-id"));
}

void rig_read_back(struct rig *r)
{
    forget_seen(r);
    r->fixture->read_back(add_seen, r);
}

void rig_read_lines(FILE *in, void (*add)(void *ctx, json_t *line), void *ctx)
{
    char *text = NULL;
    size_t size = 0;
    ssize_t n;
    while ((n = getline(&text, &size, in)) > 0) {
        assert_int_equal(text[n - 1], '\n');
        json_error_t why;
        json_t *line = json_loadb(text, (size_t)n, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &why);
        if (line == NULL)
            fail_msg("not JSON: %s in %.200s", why.text, text);
        add(ctx, line);
    }
    free(text);
}

size_t count_log_lines(const char *root, const char *topic)
{
    struct file_reader *r;
    struct outrider_error err = {0};
    struct bytes line;
    struct arena arena;
    size_t n = 0;
    int got;
    outrider__arena_init(&arena, 4096);
    assert_int_equal(outrider__file_reader_open(root, bytes_str(topic), false, &r, &err), 0);
    while ((got = outrider__file_reader_next(r, &line, &err)) > 0) {
        struct file_line l;
        assert_int_equal(outrider__file_line_parse(line, &arena, &l, &err), 0);
        assert_int_equal(l.offset, n);
        n++;
        outrider__arena_reset(&arena);
    }
    if (got < 0)
        fail_msg("%s", err.message);
    outrider__file_reader_close(r);
    outrider__arena_release(&arena);
    return n;
}

static void setup_open(struct rig *r, void **state)
{
    struct outrider_error err = {0};
    rig_init(r, *state);
    if (rig_open(r, &err) < 0)
        fail_msg("open: %s", err.message);
}

static void all_are(const struct rig *r, size_t from, size_t to, enum sink_result result)
{
    for (size_t i = from; i < to; i++) {
        assert_int_equal(r->told[i].times, 1);
        if (r->told[i].result != result)
            fail_msg("delivery %zu: result %d, not %d: %s", i, (int)r->told[i].result, (int)result,
                     r->told[i].why.message);
    }
}

/* The delivery of each seen line, which must be one of ours. */
static size_t number_of(const struct rig *r, const struct seen *s)
{
    assert_non_null(s->id);
    size_t i = strtoul(s->id, NULL, 10);
    assert_true(i < r->n);
    return i;
}

static const struct seen *find_seen(const struct rig *r, size_t i)
{
    const struct seen *found = NULL;
    for (size_t k = 0; k < r->n_seen; k++) {
        if (number_of(r, &r->seen[k]) == i) {
            assert_null(found);
            found = &r->seen[k];
        }
    }
    assert_non_null(found);
    return found;
}

/* Contract 1. */
static void submit_takes_from_the_front_and_is_bounded(void **state)
{
    struct rig r;
    setup_open(&r, state);
    struct delivery **list = calloc(RIG_MAX, sizeof(struct delivery *));
    for (size_t i = 0; i < RIG_MAX; i++)
        list[i] = rig_add(&r, "t", "k", BYTES_LIT("{\"n\":1}"));
    size_t took = r.sink->ops->submit(r.sink, list, RIG_MAX, outrider__clock_now());
    assert_true(took > 0 && took <= RIG_MAX);
    assert_int_equal(r.sink->ops->submit(r.sink, list, 0, outrider__clock_now()), 0);
    r.sink->ops->flush(r.sink, outrider__clock_now());
    rig_wait(&r, took);
    all_are(&r, 0, took, SINK_DELIVERED);
    for (size_t i = took; i < RIG_MAX; i++)
        assert_int_equal(r.told[i].times, 0);
    free(list);
    rig_release(&r);
}

/* Contract 2; the callback itself checks that it is called from poll(). */
static void each_delivery_taken_is_reported_once_and_only_from_poll(void **state)
{
    struct rig r;
    setup_open(&r, state);
    for (size_t i = 0; i < 10000; i++)
        (void)rig_add(&r, i % 3 ? "t" : "u", "k", BYTES_LIT("{\"n\":1}"));
    for (size_t i = 0; i < 10000; i += 100)
        rig_submit(&r, i, i + 100);
    rig_wait(&r, 10000);
    poll_once(&r);
    assert_int_equal(r.n_told, 10000);
    all_are(&r, 0, 10000, SINK_DELIVERED);
    rig_close(&r);
    if (r.fixture->read_back != NULL) {
        rig_read_back(&r);
        assert_int_equal(r.n_seen, 10000);
    }
    rig_release(&r);
}

/* Contract 2: nothing to say is no reason to be called, and no harm. */
static void polling_an_idle_sink_reports_nothing(void **state)
{
    struct rig r;
    struct pollfd fds[8];
    setup_open(&r, state);
    for (int i = 0; i < 3; i++) {
        poll_once(&r);
        r.sink->ops->flush(r.sink, outrider__clock_now());
    }
    assert_int_equal(r.n_told, 0);
    assert_true(r.sink->wake_us > outrider__clock_now().mono_us);
    int n = r.sink->ops->fds(r.sink, fds, 8);
    assert_int_equal(poll(fds, (nfds_t)n, 0), 0);
    rig_release(&r);
}

/* Contract 4. */
static void closing_with_deliveries_in_flight_reports_nothing_more(void **state)
{
    struct rig r;
    setup_open(&r, state);
    for (size_t i = 0; i < 5000; i++)
        (void)rig_add(&r, "t", "k", BYTES_LIT("{\"n\":1}"));
    struct delivery *list[1000];
    for (size_t i = 0; i < 1000; i++)
        list[i] = &r.d[i];
    size_t took = r.sink->ops->submit(r.sink, list, 1000, outrider__clock_now());
    assert_true(took > 0);
    r.sink->ops->flush(r.sink, outrider__clock_now());
    rig_close(&r);
    assert_int_equal(r.n_told, 0);
    /* The bytes are the caller's again at once. */
    memset(r.d, 0xee, took * sizeof *r.d);
    rig_release(&r);
}

static void closing_what_was_submitted_but_not_flushed_is_legal(void **state)
{
    struct rig r;
    setup_open(&r, state);
    struct delivery *d = rig_add(&r, "t", "k", BYTES_LIT("1"));
    assert_int_equal(r.sink->ops->submit(r.sink, &d, 1, outrider__clock_now()), 1);
    rig_close(&r);
    assert_int_equal(r.n_told, 0);
    rig_release(&r);
}

/* Contract 4. */
static void closing_after_a_failed_open_is_legal(void **state)
{
    struct rig r;
    struct outrider_error err = {0};
    rig_init(&r, *state);
    if (r.fixture->bad_url != NULL) {
        r.config.sink.url = r.fixture->bad_url;
        assert_int_equal(rig_open(&r, &err), -1);
        assert_int_not_equal(err.code, OUTRIDER_OK);
        assert_true(strlen(err.message) > 0);
    }
    rig_release(&r);
}

static void a_closed_sink_can_be_opened_again(void **state)
{
    struct rig r;
    struct outrider_error err = {0};
    setup_open(&r, state);
    rig_deliver(&r, "t", "k", "{\"n\":1}");
    rig_close(&r);
    assert_int_equal(rig_open(&r, &err), 0);
    rig_deliver(&r, "t", "k", "{\"n\":2}");
    rig_release(&r);
}

/* Contract 6: the order of submission is the order of the receiver. */
static void deliveries_of_a_key_become_visible_in_order(void **state)
{
    static char keys[20][8];
    struct rig r;
    setup_open(&r, state);
    for (size_t i = 0; i < 20; i++)
        (void)snprintf(keys[i], sizeof keys[i], "k%zu", i);
    for (size_t i = 0; i < 12000; i++)
        (void)rig_add(&r, i % 7 < 3 ? "orders" : "payments", keys[i % 20], BYTES_LIT("{\"n\":1}"));
    for (size_t i = 0; i < 12000; i += 300)
        rig_submit(&r, i, i + 300);
    rig_wait(&r, 12000);
    all_are(&r, 0, 12000, SINK_DELIVERED);
    rig_close(&r);
    if (r.fixture->read_back != NULL) {
        size_t last[2][20] = {0};
        rig_read_back(&r);
        assert_int_equal(r.n_seen, 12000);
        for (size_t k = 0; k < r.n_seen; k++) {
            size_t i = number_of(&r, &r.seen[k]);
            size_t *before = &last[i % 7 < 3][i % 20];
            assert_true(i + 1 > *before);
            *before = i + 1;
        }
    }
    rig_release(&r);
}

/* Contracts 5 and 6: DOWN is nobody's fault; everything behind it comes back
 * too, and the order survives the second try. */
static void what_was_down_is_delivered_in_order_when_submitted_again(void **state)
{
    struct rig r;
    rig_init(&r, *state);
    if (r.fixture->break_it == NULL) {
        rig_release(&r);
        skip();
        return;
    }
    struct outrider_error err;
    assert_int_equal(rig_open(&r, &err), 0);
    for (size_t i = 0; i < 9000; i++)
        (void)rig_add(&r, "t", "k", BYTES_LIT("{\"n\":1}"));
    rig_submit(&r, 0, 10);
    rig_wait(&r, 10);
    all_are(&r, 0, 10, SINK_DELIVERED);
    r.fixture->break_it("t");
    rig_submit(&r, 10, 9000);
    rig_wait(&r, 9000);
    bool is_down = false;
    for (size_t i = 10; i < 9000; i++) {
        is_down = is_down || r.told[i].result == SINK_DOWN;
        assert_int_equal(r.told[i].result, is_down ? SINK_DOWN : SINK_DELIVERED);
        if (is_down) {
            assert_int_equal(r.told[i].why.disposition, OUTRIDER_RETRY);
            assert_true(strlen(r.told[i].why.message) > 0);
        }
    }
    assert_true(is_down);
    r.fixture->heal_it();
    size_t first_down = 10;
    while (r.told[first_down].result == SINK_DELIVERED)
        first_down++;
    memset(r.told + first_down, 0, (9000 - first_down) * sizeof *r.told);
    r.n_told = first_down;
    rig_submit(&r, first_down, 9000);
    rig_wait(&r, 9000);
    all_are(&r, 0, 9000, SINK_DELIVERED);
    rig_close(&r);
    rig_read_back(&r);
    assert_int_equal(r.n_seen, 9000);
    for (size_t k = 0; k < r.n_seen; k++)
        assert_int_equal(number_of(&r, &r.seen[k]), k);
    rig_release(&r);
}

static void many_topics_are_kept_apart(void **state)
{
    static char topics[100][16];
    struct rig r;
    setup_open(&r, state);
    for (size_t i = 0; i < 100; i++)
        (void)snprintf(topics[i], sizeof topics[i], "topic-%zu", i);
    for (size_t i = 0; i < 1000; i++)
        (void)rig_add(&r, topics[i % 100], NULL, BYTES_LIT("{}"));
    rig_submit(&r, 0, 1000);
    rig_wait(&r, 1000);
    all_are(&r, 0, 1000, SINK_DELIVERED);
    rig_close(&r);
    if (r.fixture->read_back != NULL) {
        rig_read_back(&r);
        assert_int_equal(r.n_seen, 1000);
        for (size_t k = 0; k < r.n_seen; k++) {
            size_t i = number_of(&r, &r.seen[k]);
            assert_string_equal(r.seen[k].topic, topics[i % 100]);
            /* Ten to a topic, in order. */
            json_t *offset = json_object_get(r.seen[k].line, "offset");
            if (offset != NULL)
                assert_int_equal(json_integer_value(offset), i / 100);
        }
    }
    rig_release(&r);
}

static struct bytes nested(size_t depth)
{
    char *p = malloc(2 * depth);
    assert_non_null(p);
    memset(p, '[', depth);
    memset(p + depth, ']', depth);
    return bytes_of(p, 2 * depth);
}

static void check_member(const struct rig *r, size_t i, const char *member, const char *text)
{
    json_t *value = json_object_get(find_seen(r, i)->line, member);
    assert_non_null(value);
    assert_string_equal(json_string_value(value), text);
}

static void any_payload_arrives_as_it_was(void **state)
{
    struct rig r;
    static const char binary[] = {(char)0xff, 0, (char)0x80};
    struct bytes deep = nested(512), deeper = nested(100000);
    setup_open(&r, state);
    (void)rig_add(&r, "t", "k", bytes_of("", 0));
    (void)rig_add(&r, "t", "k", BYTES_NULL);
    (void)rig_add(&r, "t", "k", bytes_of(binary, sizeof binary));
    (void)rig_add(&r, "t", "k", BYTES_LIT("plain \"text\"\n\x01 \xc3\xa9"));
    (void)rig_add(&r, "t", "k", BYTES_LIT(" { \"a b\" : [ 1.50 , \" x \" , 1e40 ] } "));
    (void)rig_add(&r, "t", "k", deep);
    (void)rig_add(&r, "t", "k", deeper);
    (void)rig_add(&r, "t", NULL, BYTES_LIT("\"last\""));
    rig_submit(&r, 0, r.n);
    rig_wait(&r, r.n);
    all_are(&r, 0, r.n, SINK_DELIVERED);
    rig_close(&r);
    if (r.fixture->read_back != NULL) {
        rig_read_back(&r);
        assert_int_equal(r.n_seen, r.n);
        check_member(&r, 0, "payload_text", "");
        assert_true(json_is_null(json_object_get(find_seen(&r, 1)->line, "payload")));
        check_member(&r, 2, "payload_base64", "/wCA");
        check_member(&r, 3, "payload_text", "plain \"text\"\n\x01 \xc3\xa9");
        json_t *list = json_object_get(json_object_get(find_seen(&r, 4)->line, "payload"), "a b");
        assert_int_equal(json_array_size(list), 3);
        assert_string_equal(json_string_value(json_array_get(list, 1)), " x ");
        check_member(&r, 7, "payload", "last");
        assert_true(json_is_null(json_object_get(find_seen(&r, 7)->line, "key")));
    }
    free((char *)deep.data);
    free((char *)deeper.data);
    rig_release(&r);
}

static void payloads_of_a_megabyte_arrive_whole(void **state)
{
    const size_t size = (size_t)1 << 20;
    struct rig r;
    char *text = malloc(size);
    assert_non_null(text);
    memset(text, 'x', size);
    text[0] = text[size - 1] = '"';
    setup_open(&r, state);
    for (size_t i = 0; i < 12; i++)
        (void)rig_add(&r, "t", "k", bytes_of(text, size));
    rig_submit(&r, 0, 12);
    rig_wait(&r, 12);
    all_are(&r, 0, 12, SINK_DELIVERED);
    rig_close(&r);
    if (r.fixture->read_back != NULL && !r.fixture->keeps_little) {
        rig_read_back(&r);
        assert_int_equal(r.n_seen, 12);
        for (size_t i = 0; i < 12; i++) {
            json_t *payload = json_object_get(r.seen[i].line, "payload");
            assert_int_equal(json_string_length(payload), size - 2);
        }
    }
    free(text);
    rig_release(&r);
}

/* Contract 5: an event that can never work is dead, and holds up nobody. */
static void an_impossible_topic_is_dead_and_the_others_go_on(void **state)
{
    struct rig r;
    rig_init(&r, *state);
    if (!r.fixture->refuses_empty_topic) {
        rig_release(&r);
        skip();
        return;
    }
    struct outrider_error err;
    assert_int_equal(rig_open(&r, &err), 0);
    (void)rig_add(&r, "t", "k", BYTES_LIT("1"));
    (void)rig_add(&r, "", "k", BYTES_LIT("2"));
    (void)rig_add(&r, "t", "k", BYTES_LIT("3"));
    rig_submit(&r, 0, 3);
    rig_wait(&r, 3);
    assert_int_equal(r.told[0].result, SINK_DELIVERED);
    assert_int_equal(r.told[1].result, SINK_DEAD);
    assert_int_equal(r.told[1].why.code, OUTRIDER_TOPIC);
    assert_int_equal(r.told[1].why.disposition, OUTRIDER_DEAD);
    assert_int_equal(r.told[2].result, SINK_DELIVERED);
    rig_release(&r);
}

int sink_contract_run(const char *name, struct sink_fixture *f)
{
    void *state = f;
    const struct CMUnitTest sink_contract[] = {
        cmocka_unit_test_prestate(submit_takes_from_the_front_and_is_bounded, state),
        cmocka_unit_test_prestate(each_delivery_taken_is_reported_once_and_only_from_poll, state),
        cmocka_unit_test_prestate(polling_an_idle_sink_reports_nothing, state),
        cmocka_unit_test_prestate(closing_with_deliveries_in_flight_reports_nothing_more, state),
        cmocka_unit_test_prestate(closing_what_was_submitted_but_not_flushed_is_legal, state),
        cmocka_unit_test_prestate(closing_after_a_failed_open_is_legal, state),
        cmocka_unit_test_prestate(a_closed_sink_can_be_opened_again, state),
        cmocka_unit_test_prestate(deliveries_of_a_key_become_visible_in_order, state),
        cmocka_unit_test_prestate(what_was_down_is_delivered_in_order_when_submitted_again, state),
        cmocka_unit_test_prestate(many_topics_are_kept_apart, state),
        cmocka_unit_test_prestate(any_payload_arrives_as_it_was, state),
        cmocka_unit_test_prestate(payloads_of_a_megabyte_arrive_whole, state),
        cmocka_unit_test_prestate(an_impossible_topic_is_dead_and_the_others_go_on, state),
    };
    return cmocka_run_group_tests_name(name, sink_contract, NULL, NULL);
}
