/* SPDX-License-Identifier: MIT */
/* The SQLite store: init, put, status, dead letters, clean-up, doctor, resync. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/config.h"
#include "sqlite/conn.h"
#include "sqlite/sqlite.h"
#include "support/sqlite_fixture.h"

struct rig {
    struct sqlite_fixture f;
    struct pipeline_config config;
    struct store *store;
    struct strbuf text;
};

static int set_up_with(void **state, void (*make)(struct sqlite_fixture *f))
{
    struct rig *r = calloc(1, sizeof *r);
    assert_non_null(r);
    make(&r->f);
    r->config = (struct pipeline_config){
        .name = "default",
        .source = {.url = r->f.url,
                   .max_payload = 1000,
                   .max_headers = 1000,
                   .connect_timeout_us = 5000000},
        .cleanup = {.retention_us = 1},
    };
    r->store = calloc(1, outrider__store_sqlite.size);
    assert_non_null(r->store);
    r->store->ops = &outrider__store_sqlite;
    assert_int_equal(r->store->ops->open(r->store, &r->config, NULL), 0);
    outrider__strbuf_init(&r->text, 1 << 20);
    *state = r;
    return 0;
}

static int set_up(void **state)
{
    return set_up_with(state, sqlite_fixture_init);
}

static int set_up_empty(void **state)
{
    return set_up_with(state, sqlite_fixture_make);
}

static int tear_down(void **state)
{
    struct rig *r = *state;
    r->store->ops->close(r->store);
    free(r->store);
    outrider__strbuf_release(&r->text);
    sqlite_fixture_remove(&r->f);
    free(r);
    return 0;
}

static struct outrider_event event_of_key(const char *key, const char *payload)
{
    struct outrider_event e = OUTRIDER_EVENT_INIT;
    e.aggregate_type = "order";
    e.aggregate_id = key;
    e.event_type = "OrderCreated";
    e.payload = payload;
    e.payload_len = strlen(payload);
    return e;
}

static int put(struct rig *r, const char *payload, struct outrider_error *err)
{
    struct outrider_event e = event_of_key("1", payload);
    char id[OUTRIDER_ID_SIZE];
    if (r->store->ops->put_begin(r->store, err) < 0)
        return -1;
    if (r->store->ops->put(r->store, &e, id, err) < 0) {
        r->store->ops->put_rollback(r->store);
        return -1;
    }
    return r->store->ops->put_commit(r->store, err);
}

/* init */

static void init_makes_the_file_and_says_what_it_did(void **state)
{
    struct rig *r = *state;
    struct init_options o = {0};
    char path[sizeof r->f.path + 8], url[sizeof path + 8];
    (void)snprintf(path, sizeof path, "%s-new", r->f.path);
    (void)snprintf(url, sizeof url, "sqlite:%s", path);
    r->store->ops->close(r->store);
    r->config.source.url = url;
    assert_int_equal(r->store->ops->open(r->store, &r->config, NULL), 0);
    o.dry_run = true;
    assert_int_equal(r->store->ops->init(r->store, &o, &r->text, NULL), 0);
    assert_non_null(strstr(strbuf_cstr(&r->text), "CREATE TABLE IF NOT EXISTS outbox"));
    assert_null(strstr(strbuf_cstr(&r->text), "@PAYLOAD@"));
    assert_int_equal(access(path, F_OK), -1);
    o.dry_run = false;
    assert_int_equal(r->store->ops->init(r->store, &o, &r->text, NULL), 0);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(put(r, "{}", NULL), 0);
}

static void what_a_dry_run_prints_makes_the_outbox(void **state)
{
    struct rig *r = *state;
    struct init_options o = {.dry_run = true};
    assert_int_equal(r->store->ops->init(r->store, &o, &r->text, NULL), 0);
    assert_int_equal(sqlite_value(r->f.db, "SELECT count(*) FROM sqlite_master"), 0);
    sqlite_must(r->f.db, strbuf_cstr(&r->text));
    assert_int_equal(put(r, "{}", NULL), 0);
}

static void the_payload_is_json_text_or_bytes(void **state)
{
    static const struct {
        const char *option, *payload;
        enum outrider_code code;
        const char *type;
    } cases[] = {
        {NULL, "{\"a\":1}", OUTRIDER_OK, "text"},       {"jsonb", "[1,", OUTRIDER_NOT_JSON, NULL},
        {"text", "no json", OUTRIDER_OK, "text"},       {"text", "\xff", OUTRIDER_INVALID, NULL},
        {"bytea", "\xff no json", OUTRIDER_OK, "blob"},
    };
    struct rig *r = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct init_options o = {.payload = cases[i].option};
        struct outrider_error err = {.code = OUTRIDER_OK};
        assert_int_equal(r->store->ops->init(r->store, &o, &r->text, &err), 0);
        int rc = put(r, cases[i].payload, &err);
        assert_int_equal(err.code, cases[i].code);
        assert_int_equal(rc, cases[i].code == OUTRIDER_OK ? 0 : -1);
        if (rc == 0)
            assert_string_equal(sqlite_text(r->f.db, "SELECT typeof(payload) FROM outbox"),
                                cases[i].type);
        sqlite_must(r->f.db, "DROP TABLE outbox; DROP TABLE outrider_schema;"
                             "DROP TABLE outrider_cursor; DROP TABLE outrider_parked");
    }
}

static void options_that_sqlite_has_not_are_refused(void **state)
{
    struct rig *r = *state;
    struct outrider_error err = {0};
    struct init_options status = {.layout = "status"}, day = {.partition = "day"},
                        xml = {.payload = "xml"};
    assert_int_equal(r->store->ops->init(r->store, &status, NULL, &err), -1);
    assert_int_equal(err.code, OUTRIDER_UNSUPPORTED);
    assert_int_equal(r->store->ops->init(r->store, &day, NULL, &err), -1);
    assert_int_equal(err.code, OUTRIDER_UNSUPPORTED);
    assert_int_equal(r->store->ops->init(r->store, &xml, NULL, &err), -1);
    assert_int_equal(err.code, OUTRIDER_CONFIG);
}

#define AT_ONCE 4

static void *init_from_a_thread(void *arg)
{
    const struct pipeline_config *config = arg;
    struct init_options o = {0};
    struct store *store = calloc(1, outrider__store_sqlite.size);
    struct outrider_error *err = calloc(1, sizeof *err);
    if (store == NULL || err == NULL)
        abort();
    if (outrider__store_sqlite.open(store, config, err) == 0 &&
        outrider__store_sqlite.init(store, &o, NULL, err) == 0) {
        free(err);
        err = NULL;
    }
    outrider__store_sqlite.close(store);
    free(store);
    return err;
}

static void several_may_init_at_once(void **state)
{
    struct rig *r = *state;
    pthread_t threads[AT_ONCE];
    r->config.source.connect_timeout_us = 20000000;
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < AT_ONCE; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, init_from_a_thread, &r->config), 0);
        for (int i = 0; i < AT_ONCE; i++) {
            void *err;
            assert_int_equal(pthread_join(threads[i], &err), 0);
            if (err != NULL)
                fail_msg("%s", ((struct outrider_error *)err)->message);
        }
        assert_int_equal(sqlite_value(r->f.db, "SELECT count(*) FROM outrider_schema"), 1);
        sqlite_must(r->f.db, "DROP TABLE outbox; DROP TABLE outrider_schema;"
                             "DROP TABLE outrider_cursor; DROP TABLE outrider_parked;"
                             "PRAGMA journal_mode = DELETE");
    }
}

/* put */

static void put_refuses_what_the_outbox_would(void **state)
{
    struct rig *r = *state;
    struct outrider_error err = {0};
    char large[1100];
    memset(large, '1', sizeof large);
    large[1001] = '\0';
    assert_int_equal(put(r, "no json", &err), -1);
    assert_int_equal(err.code, OUTRIDER_NOT_JSON);
    assert_int_equal(put(r, large, &err), -1);
    assert_int_equal(err.code, OUTRIDER_TOO_LARGE);
    assert_non_null(strstr(err.message, "max_payload"));
    large[1000] = '\0';
    assert_int_equal(put(r, large, &err), 0);
    assert_int_equal(sqlite_value(r->f.db, "SELECT count(*) FROM outbox"), 1);
}

static void put_into_a_locked_or_missing_database_fails(void **state)
{
    struct rig *r = *state;
    struct outrider_error err = {0};
    r->store->ops->close(r->store);
    r->config.source.connect_timeout_us = 50000;
    assert_int_equal(r->store->ops->open(r->store, &r->config, NULL), 0);
    sqlite_must(r->f.db, "BEGIN IMMEDIATE");
    assert_int_equal(put(r, "{}", &err), -1);
    assert_int_equal(err.code, OUTRIDER_DB_LOCKED);
    sqlite_must(r->f.db, "ROLLBACK");
    r->store->ops->close(r->store);
    r->config.source.url = "sqlite:/nonexistent/shop.db";
    assert_int_equal(r->store->ops->open(r->store, &r->config, NULL), 0);
    assert_int_equal(put(r, "{}", &err), -1);
    assert_int_equal(err.code, OUTRIDER_NOT_FOUND);
}

/* status */

struct statuses {
    struct store_status rows[4];
    size_t n;
};

static void add_status(void *ctx, const struct store_status *st)
{
    struct statuses *s = ctx;
    s->rows[s->n++] = *st;
}

static struct statuses status_of(struct rig *r)
{
    struct statuses s = {.n = 0};
    struct outrider_error err = {0};
    if (r->store->ops->status(r->store, add_status, &s, &err) < 0)
        fail_msg("%s", err.message);
    return s;
}

static void before_any_relay_has_run_all_is_pending(void **state)
{
    struct rig *r = *state;
    assert_int_equal(put(r, "{}", NULL), 0);
    struct statuses s = status_of(r);
    assert_int_equal(s.n, 1);
    assert_string_equal(s.rows[0].pipeline, "default");
    assert_int_equal(s.rows[0].pending, 1);
    assert_false(s.rows[0].relay_active);
    assert_true(s.rows[0].oldest_pending_us > 0);
}

/* Five events, three of them settled; lanes a (parked, queued) and b (dead, dead). */
static void make_a_story(struct rig *r)
{
    for (int i = 0; i < 5; i++)
        assert_int_equal(put(r, "{}", NULL), 0);
    sqlite_must(
        r->f.db,
        "INSERT INTO outrider_cursor (pipeline, sink, position, anchor_id, epoch, settled_at, "
        "delivered_total, dead_total, created_at) VALUES ('default', 'null:', 3, "
        "(SELECT id FROM outbox WHERE seq = 3), 1, 4000000000000000, 3, 2, 1);"
        "INSERT INTO outrider_parked (pipeline, lane, state, seq, id, aggregate_type, "
        "aggregate_id, event_type, payload, created_at, attempts, next_attempt_at, error_code, "
        "error_message, parked_at, updated_at) VALUES "
        "('default', 'a', 'parked', 1, 'a1', 't', 'a', 'E', '{}', '2026-01-01', 2, 99, 'IO', "
        "'no', 1, 1),"
        "('default', 'a', 'queued', 2, 'a2', 't', 'a', 'E', '{}', '2026-01-01', 0, NULL, NULL, "
        "NULL, 2, 2),"
        "('default', 'b', 'dead', 3, 'b1', 't', 'b', 'F', '{\"x\":1}', '2026-01-01', 6, NULL, "
        "'REJECTED', 'never', 3, 1000),"
        "('default', 'b', 'dead', 4, 'b2', 't', 'b', 'E', '{}', '2026-01-01', 6, NULL, "
        "'REJECTED', 'never', 4, 2000)");
}

static void status_counts_what_there_is(void **state)
{
    struct rig *r = *state;
    make_a_story(r);
    struct statuses s = status_of(r);
    assert_int_equal(s.n, 1);
    assert_string_equal(s.rows[0].sink, "null:");
    assert_int_equal(s.rows[0].position, 3);
    assert_int_equal(s.rows[0].head, 5);
    assert_int_equal(s.rows[0].pending, 2);
    assert_int_equal(s.rows[0].parked, 1);
    assert_int_equal(s.rows[0].queued, 1);
    assert_int_equal(s.rows[0].dead, 2);
    assert_int_equal(s.rows[0].delivered_total, 3);
    assert_int_equal(s.rows[0].dead_total, 2);
}

static void status_tells_whether_a_relay_is_active(void **state)
{
    struct rig *r = *state;
    struct sqlite_lock lock = {.fd = -1};
    char holder[64];
    make_a_story(r);
    assert_int_equal(
        outrider__sqlite_lock(&lock, r->f.path, "default", holder, sizeof holder, NULL), LOCK_HELD);
    assert_true(status_of(r).rows[0].relay_active);
    outrider__sqlite_unlock(&lock);
    assert_false(status_of(r).rows[0].relay_active);
}

/* dead */

static void add_dead(void *ctx, const struct dead_row *row)
{
    outrider__strbuf_appendf(ctx, "%s %s %.*s %u %s %.*s\n", row->pipeline, row->state,
                             (int)row->event->id.len, row->event->id.data, row->event->attempts,
                             row->error_code, (int)row->event->payload.len,
                             row->event->payload.data);
}

static void dead_letters_are_listed_by_what_is_asked_for(void **state)
{
    const char *ids[] = {"b2", "a1", "nobody"};
    const struct {
        struct dead_filter filter;
        const char *lines;
    } cases[] = {
        {{0}, "default dead b1 6 REJECTED {\"x\":1}\ndefault dead b2 6 REJECTED {}\n"},
        {{.event_type = "F"}, "default dead b1 6 REJECTED {\"x\":1}\n"},
        {{.ids = ids, .n_ids = 3}, "default dead b2 6 REJECTED {}\n"},
        {{.ids = ids, .n_ids = 3, .with_parked = true},
         "default parked a1 2 IO {}\ndefault dead b2 6 REJECTED {}\n"},
        {{.since_us = 1500}, "default dead b2 6 REJECTED {}\n"},
        {{.pipeline = "other"}, ""},
    };
    struct rig *r = *state;
    make_a_story(r);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        outrider__strbuf_clear(&r->text);
        assert_int_equal(
            r->store->ops->dead_list(r->store, &cases[i].filter, add_dead, &r->text, NULL), 0);
        assert_string_equal(strbuf_cstr(&r->text), cases[i].lines);
    }
}

static const char *states(struct rig *r)
{
    return sqlite_text(r->f.db,
                       "SELECT group_concat(id || ':' || state || ':' || attempts || ':' || "
                       "ifnull(next_attempt_at, '-'), ' ') FROM (SELECT * FROM outrider_parked "
                       "ORDER BY arrival)");
}

static void a_retried_dead_letter_is_due_at_once_and_in_order(void **state)
{
    struct rig *r = *state;
    struct dead_filter all = {0};
    uint64_t n = 0;
    make_a_story(r);
    assert_int_equal(r->store->ops->dead_retry(r->store, &all, &n, NULL), 0);
    assert_int_equal(n, 2);
    assert_string_equal(states(r), "a1:parked:2:99 a2:queued:0:- b1:parked:0:0 b2:queued:0:-");
    assert_int_equal(r->store->ops->dead_retry(r->store, &all, &n, NULL), 0);
    assert_int_equal(n, 0);
}

static void a_parked_event_can_be_tried_at_once(void **state)
{
    struct rig *r = *state;
    const char *ids[] = {"a1"};
    struct dead_filter filter = {.ids = ids, .n_ids = 1, .with_parked = true};
    uint64_t n = 0;
    make_a_story(r);
    assert_int_equal(r->store->ops->dead_retry(r->store, &filter, &n, NULL), 0);
    assert_int_equal(n, 1);
    assert_string_equal(states(r), "a1:parked:0:0 a2:queued:0:- b1:dead:6:- b2:dead:6:-");
}

static void discarding_the_first_of_a_lane_lets_the_next_go(void **state)
{
    struct rig *r = *state;
    const char *ids[] = {"a1"};
    struct dead_filter filter = {.ids = ids, .n_ids = 1, .with_parked = true};
    uint64_t n = 0;
    make_a_story(r);
    assert_int_equal(r->store->ops->dead_discard(r->store, &filter, &n, NULL), 0);
    assert_int_equal(n, 1);
    assert_string_equal(states(r), "a2:parked:0:0 b1:dead:6:- b2:dead:6:-");
}

static void where_dead_letters_block_only_the_first_is_let_go(void **state)
{
    struct rig *r = *state;
    const char *ids[] = {"b2"};
    struct dead_filter second = {.ids = ids, .n_ids = 1}, all = {0};
    uint64_t n = 0;
    make_a_story(r);
    sqlite_must(r->f.db, "UPDATE outrider_cursor SET on_dead = 'block'");
    assert_int_equal(r->store->ops->dead_retry(r->store, &second, &n, NULL), 0);
    assert_string_equal(states(r), "a1:parked:2:99 a2:queued:0:- b1:dead:6:- b2:queued:0:-");
    assert_int_equal(r->store->ops->dead_discard(r->store, &all, &n, NULL), 0);
    assert_int_equal(n, 1);
    assert_string_equal(states(r), "a1:parked:2:99 a2:queued:0:- b2:parked:0:0");
}

/* cleanup */

static void clean_up_takes_what_is_settled_and_never_an_anchor(void **state)
{
    struct rig *r = *state;
    uint64_t removed = 9;
    int64_t future = outrider__clock_now().wall_us + 3600000000LL;
    make_a_story(r);
    sqlite_must(r->f.db, "CREATE TABLE log (x); CREATE TRIGGER t AFTER DELETE ON outbox BEGIN "
                         "INSERT INTO log VALUES (old.seq); END");
    assert_int_equal(r->store->ops->cleanup(r->store, 0, 100, &removed, NULL), 0);
    assert_int_equal(removed, 0);
    assert_int_equal(r->store->ops->cleanup(r->store, future, 1, &removed, NULL), 0);
    assert_int_equal(removed, 1);
    assert_int_equal(r->store->ops->cleanup(r->store, future, 100, &removed, NULL), 0);
    assert_int_equal(removed, 1);
    assert_string_equal(sqlite_text(r->f.db, "SELECT group_concat(seq) FROM outbox"), "3,4,5");
    assert_int_equal(sqlite_value(r->f.db, "SELECT count(*) FROM log"), 0);
    sqlite_must(r->f.db, "INSERT INTO outrider_cursor (pipeline, created_at) VALUES ('slow', 1);"
                         "UPDATE outrider_cursor SET position = 5 WHERE pipeline = 'default'");
    assert_int_equal(r->store->ops->cleanup(r->store, future, 100, &removed, NULL), 0);
    assert_int_equal(removed, 0);
}

static void without_a_pipeline_nothing_is_settled(void **state)
{
    struct rig *r = *state;
    uint64_t removed = 9;
    assert_int_equal(put(r, "{}", NULL), 0);
    assert_int_equal(r->store->ops->cleanup(r->store, CLOCK_NEVER / 2, 100, &removed, NULL), 0);
    assert_int_equal(removed, 0);
}

/* doctor */

static void add_finding(void *ctx, enum finding_level level, const char *what, const char *advice)
{
    static const char *const levels[] = {"ok", "note", "warning", "problem"};
    outrider__strbuf_appendf(ctx, "%s: %s [%s]\n", levels[level], what, advice ? advice : "");
}

static const char *doctor(struct rig *r)
{
    outrider__strbuf_clear(&r->text);
    assert_int_equal(r->store->ops->doctor(r->store, add_finding, &r->text, NULL), 0);
    return strbuf_cstr(&r->text);
}

static void assert_says(const char *text, const char *words)
{
    if (strstr(text, words) == NULL)
        fail_msg("'%s' is not in:\n%s", words, text);
}

static void doctor_finds_a_healthy_outbox_healthy(void **state)
{
    struct rig *r = *state;
    assert_int_equal(put(r, "{}", NULL), 0);
    const char *text = doctor(r);
    assert_null(strstr(text, "warning:"));
    assert_null(strstr(text, "problem:"));
    assert_says(text, "WAL mode");
    assert_says(text, "schema version 1");
    assert_says(text, "pipeline 'default'");
}

static void doctor_finds_what_is_wrong(void **state)
{
    struct rig *r = *state;
    char sql[200];
    make_a_story(r);
    (void)snprintf(sql, sizeof sql,
                   "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) "
                   "VALUES ('a', 'b', 'c', json_quote(hex(zeroblob(1000))))");
    sqlite_must(r->f.db, sql);
    sqlite_must(r->f.db, "UPDATE outrider_cursor SET anchor_id = 'another';"
                         "UPDATE outbox SET created_at = '2020-01-01'");
    r->store->ops->close(r->store); /* the mode changes only for one who is alone */
    sqlite_must(r->f.db, "PRAGMA journal_mode = DELETE");
    assert_int_equal(r->store->ops->open(r->store, &r->config, NULL), 0);
    r->config.cleanup.retention_us = 0;
    const char *text = doctor(r);
    assert_says(text, "warning: the journal is not in WAL mode");
    assert_says(text, "problem: the history of the outbox was rewritten");
    assert_says(text, "warning: a payload of 2002 bytes");
    assert_says(text, "warning: no retention");
    assert_says(text, "warning: pipeline 'default' to null:: position 3 of 6, 3 pending");
    assert_says(text, "2 dead letters");
    assert_says(text, "1 parked, 1 queued");
}

static void doctor_says_what_is_missing(void **state)
{
    struct rig *r = *state;
    assert_says(doctor(r), "problem: ");
    assert_says(doctor(r), "outrider init");
    r->store->ops->close(r->store);
    r->config.source.url = "sqlite:/nonexistent/shop.db";
    assert_int_equal(r->store->ops->open(r->store, &r->config, NULL), 0);
    assert_says(doctor(r), "does not exist");
}

/* resync */

static void resync_goes_on_from_what_the_table_still_holds(void **state)
{
    static const struct {
        const char *what_happened;
        int64_t position;
        const char *word;
    } cases[] = {
        {"SELECT 1", 3, "intact"},
        {"DELETE FROM outbox WHERE seq = 3", 2, "was removed"},
        {"DELETE FROM outbox WHERE seq <= 3", 0, "was removed"},
        {"UPDATE outbox SET seq = seq + 10", 13, "another seq"},
        {"UPDATE outbox SET id = 'new' || seq", 0, "another one now"},
        {"DELETE FROM outbox; DELETE FROM sqlite_sequence WHERE name = 'outbox'; INSERT INTO "
         "outbox "
         "(aggregate_type, aggregate_id, event_type, payload) VALUES ('a', 'b', 'c', '{}')",
         0, "set back"},
        {"DELETE FROM outbox WHERE seq = 3; UPDATE outrider_cursor SET settled_at = 1000000", 0,
         "newer"},
    };
    struct rig *r = *state;
    make_a_story(r);
    sqlite_must(r->f.db, "CREATE TABLE copy AS SELECT * FROM outbox;"
                         "CREATE TABLE copy_cursor AS SELECT * FROM outrider_cursor");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct outrider_error err = {0};
        outrider__strbuf_clear(&r->text);
        sqlite_must(r->f.db, cases[i].what_happened);
        if (r->store->ops->resync(r->store, &r->text, &err) < 0)
            fail_msg("case %zu: %s", i, err.message);
        assert_says(strbuf_cstr(&r->text), cases[i].word);
        assert_int_equal(sqlite_value(r->f.db, "SELECT position FROM outrider_cursor"),
                         cases[i].position);
        assert_int_equal(sqlite_value(r->f.db,
                                      "SELECT position = 0 OR anchor_id = (SELECT id FROM outbox "
                                      "WHERE seq = position) FROM outrider_cursor"),
                         1);
        sqlite_must(r->f.db, "DELETE FROM outbox; DELETE FROM outrider_cursor;"
                             "INSERT INTO outbox SELECT * FROM copy;"
                             "INSERT INTO outrider_cursor SELECT * FROM copy_cursor;"
                             "UPDATE sqlite_sequence SET seq = 5 WHERE name = 'outbox'");
    }
}

static void resync_leaves_a_pipeline_with_a_relay_alone(void **state)
{
    struct rig *r = *state;
    struct outrider_error err = {0};
    struct sqlite_lock lock = {.fd = -1};
    char holder[64];
    make_a_story(r);
    assert_int_equal(
        outrider__sqlite_lock(&lock, r->f.path, "default", holder, sizeof holder, NULL), LOCK_HELD);
    assert_int_equal(r->store->ops->resync(r->store, &r->text, &err), -1);
    assert_int_equal(err.code, OUTRIDER_STANDBY);
    outrider__sqlite_unlock(&lock);
    r->config.name = "other";
    assert_int_equal(r->store->ops->resync(r->store, &r->text, &err), -1);
    assert_int_equal(err.code, OUTRIDER_NOT_FOUND);
}

#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
#define T_EMPTY(test) cmocka_unit_test_setup_teardown(test, set_up_empty, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T_EMPTY(init_makes_the_file_and_says_what_it_did),
        T_EMPTY(what_a_dry_run_prints_makes_the_outbox),
        T_EMPTY(the_payload_is_json_text_or_bytes),
        T_EMPTY(several_may_init_at_once),
        T_EMPTY(options_that_sqlite_has_not_are_refused),
        T(put_refuses_what_the_outbox_would),
        T(put_into_a_locked_or_missing_database_fails),
        T(before_any_relay_has_run_all_is_pending),
        T(status_counts_what_there_is),
        T(status_tells_whether_a_relay_is_active),
        T(dead_letters_are_listed_by_what_is_asked_for),
        T(a_retried_dead_letter_is_due_at_once_and_in_order),
        T(a_parked_event_can_be_tried_at_once),
        T(discarding_the_first_of_a_lane_lets_the_next_go),
        T(where_dead_letters_block_only_the_first_is_let_go),
        T(clean_up_takes_what_is_settled_and_never_an_anchor),
        T(without_a_pipeline_nothing_is_settled),
        T(doctor_finds_a_healthy_outbox_healthy),
        T(doctor_finds_what_is_wrong),
        T_EMPTY(doctor_says_what_is_missing),
        T(resync_goes_on_from_what_the_table_still_holds),
        T(resync_leaves_a_pipeline_with_a_relay_alone),
    };
    return cmocka_run_group_tests_name("sqlite_store", tests, NULL, NULL);
}
