/* SPDX-License-Identifier: MIT */
#include "support/pg_layouts.h"

#include <inttypes.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "outrider/postgres.h"
#include "postgres/postgres.h"
#include "support/pg_fixture.h"
#include "support/pg_server.h"

#define TURNS_MAX 20000

/* A table, and how its application and its operator speak to it. */
struct shape {
    const char *layout; /* of `outrider init`; NULL: a table of the application's */
    const char *seed;   /* that makes it */
    const char *insert; /* $1 id, $2 type and $3 id of the aggregate, $4 event type, $5 payload,
                           $6 headers, $7 topic, $8 partition key */
    const char *table;
    const char *age;                      /* makes all rows older by $1 seconds */
    const char *parked, *dead, *make_due; /* conditions of the first two */
};

static const struct shape log_shape = {
    .layout = "log",
    .table = "outbox",
    .age = "UPDATE outbox SET created_at = now() - $1 * interval '1 second'",
};

static const struct shape status_shape = {
    .layout = "status",
    .table = "outbox",
    .age = "UPDATE outbox SET (created_at, updated_at, published_at) = (SELECT t, t, CASE WHEN "
           "status = 'PUBLISHED' THEN t END FROM (SELECT now() - $1 * interval '1 second' AS t) t)",
    .parked = "status = 'FAILED'",
    .dead = "status = 'DEAD_LETTER'",
    .make_due = "UPDATE outbox SET next_attempt_at = now() WHERE next_attempt_at > now()",
};

static const struct shape states_shape = {
    .seed = "003_event_outbox",
    .table = "event_outbox",
    .insert = "INSERT INTO event_outbox (id, aggregate_type, aggregate_id, event_type, payload, "
              "headers, topic, partition_key, status, created_at) VALUES (coalesce($1::uuid, "
              "gen_random_uuid()), $2, $3::text, $4, $5, $6, coalesce($7, 'orders'), coalesce($8, "
              "$3::text), "
              "'PENDING', clock_timestamp())",
    .age = "UPDATE event_outbox SET created_at = now() - $1 * interval '1 second', processed_at = "
           "CASE WHEN status = 'PUBLISHED' THEN now() - $1 * interval '1 second' END",
    .parked = "status = 'FAILED'",
    .dead = "status = 'DEAD_LETTER'",
    .make_due = "UPDATE event_outbox SET next_retry_at = now() WHERE next_retry_at > now()",
};

static const struct shape mark_shape = {
    .seed = "000_outbox",
    .table = "outbox",
    .insert = "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, created_at) "
              "SELECT $2, $3, $4, $5, clock_timestamp() WHERE ($1 || $6 || $7 || $8) IS NULL",
    .age = "UPDATE outbox SET created_at = now() - $1 * interval '1 second', processed_at = CASE "
           "WHEN status = 'PUBLISHED' THEN now() - $1 * interval '1 second' END",
    .make_due = "UPDATE outrider_parked SET next_attempt_at = now() WHERE next_attempt_at > now()",
};

static const struct shape *shape;
static char url[512];

/* Slots keep a database from being emptied, and a reader keeps its slot. */
static void drop_slots(void)
{
    pg_fixture_sql(1, "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE "
                      "active_pid IS NOT NULL");
    for (int i = 0; pg_fixture_value(1, "SELECT count(*) FROM pg_replication_slots") > 0; i++) {
        assert_in_range(i, 0, TURNS_MAX);
        pg_fixture_sql(1, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
                          "WHERE active_pid IS NULL");
        (void)poll(NULL, 0, 1);
    }
}

static void empty_database(void)
{
    drop_slots();
    pg_fixture_sql(1, "SET client_min_messages = warning");
    pg_fixture_sql(1, "DO $$ DECLARE name text; BEGIN FOR name IN SELECT pubname FROM "
                      "pg_publication LOOP EXECUTE format('DROP PUBLICATION %I', name); END LOOP; "
                      "END $$");
    pg_fixture_sql(1, "DROP SCHEMA public CASCADE");
    pg_fixture_sql(1, "CREATE SCHEMA public");
}

static void run_seed(const char *name)
{
    char path[1024], sql[16384];
    (void)snprintf(path, sizeof path, "%s/tests/support/seeds/%s.sql", SOURCE_DIR, name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    size_t n = fread(sql, 1, sizeof sql - 1, f);
    assert_in_range(n, 1, sizeof sql - 2);
    sql[n] = '\0';
    (void)fclose(f);
    pg_fixture_sql(1, sql);
}

static void set_up_shape(const struct shape *s, char *ret_url, size_t size)
{
    shape = s;
    if (url[0] == '\0')
        (void)snprintf(url, sizeof url, "%s", pg_fixture_database("contract"));
    else
        empty_database();
    if (s->layout != NULL)
        pg_fixture_init(s->layout);
    else
        run_seed(s->seed);
    (void)snprintf(ret_url, size, "%s", url);
}

static void set_up_log(char *ret_url, size_t size)
{
    set_up_shape(&log_shape, ret_url, size);
}

static void set_up_status(char *ret_url, size_t size)
{
    set_up_shape(&status_shape, ret_url, size);
}

static void set_up_states(char *ret_url, size_t size)
{
    set_up_shape(&states_shape, ret_url, size);
}

static void set_up_mark(char *ret_url, size_t size)
{
    set_up_shape(&mark_shape, ret_url, size);
}

static void insert_row(const struct outrider_event *e)
{
    char *payload = calloc(1, e->payload_len + 1);
    assert_non_null(payload);
    memcpy(payload, e->payload, e->payload_len);
    const char *values[] = {e->id,   e->aggregate_type, e->aggregate_id, e->event_type,
                            payload, e->headers,        e->topic,        e->partition_key};
    PGresult *r =
        PQexecParams(pg_fixture_session(0), shape->insert, 8, NULL, values, NULL, NULL, 0);
    if (PQresultStatus(r) != PGRES_COMMAND_OK)
        fail_msg("insert: %s", PQresultErrorMessage(r));
    assert_string_equal(PQcmdTuples(r), "1");
    PQclear(r);
    free(payload);
}

static void insert(const struct outrider_event *events, size_t n)
{
    struct outrider_error err = {0};
    if (PQtransactionStatus(pg_fixture_session(0)) == PQTRANS_IDLE)
        pg_fixture_sql(0, "BEGIN");
    for (size_t i = 0; i < n; i++) {
        if (shape->insert != NULL)
            insert_row(&events[i]);
        else if (outrider_enqueue_pg(pg_fixture_session(0), &events[i], 0, NULL, &err) < 0)
            fail_msg("enqueue: %s", err.message);
    }
}

static void finish(bool commit)
{
    pg_fixture_sql(0, commit ? "COMMIT" : "ROLLBACK");
}

static int64_t count(const char *table, const char *condition)
{
    char sql[256];
    (void)snprintf(sql, sizeof sql, "SELECT count(*) FROM %s WHERE %s", table, condition);
    return pg_fixture_value(1, sql);
}

static int64_t count_outbox(void)
{
    return count(shape->table, "true");
}

static int64_t count_parked(const char *state)
{
    char condition[128] = "true";
    if (shape->parked == NULL) {
        if (state != NULL)
            (void)snprintf(condition, sizeof condition, "state = '%s'", state);
        return count("outrider_parked", condition);
    }
    if (state == NULL)
        (void)snprintf(condition, sizeof condition, "%s OR %s", shape->parked, shape->dead);
    else
        (void)snprintf(condition, sizeof condition, "%s",
                       strcmp(state, "dead") == 0 ? shape->dead : shape->parked);
    return count(shape->table, condition);
}

static void age_outbox(int64_t age_us)
{
    static const Oid float8 = 701;
    char seconds[32];
    const char *values[] = {seconds};
    (void)snprintf(seconds, sizeof seconds, "%" PRId64, age_us / 1000000);
    PGresult *r =
        PQexecParams(pg_fixture_session(1), shape->age, 1, &float8, values, NULL, NULL, 0);
    if (PQresultStatus(r) != PGRES_COMMAND_OK)
        fail_msg("age: %s", PQresultErrorMessage(r));
    PQclear(r);
}

static void make_due(void)
{
    pg_fixture_sql(1, shape->make_due);
}

static void write_lazily(void)
{
    pg_fixture_sql(0, "SET synchronous_commit = off");
}

static void crash(void)
{
    pg_server_restart("immediate");
    pg_fixture_end_sessions();
}

static void cut(void)
{
    pg_fixture_sql(1, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE "
                      "application_name LIKE 'outrider%' AND pid <> pg_backend_pid()");
}

static void configure(struct pipeline_config *config)
{
    config->source.connect_timeout_us = 10000000;
}

static void configure_table(struct pipeline_config *config)
{
    static const char *tables[1];
    tables[0] = shape->table;
    configure(config);
    config->source.tables = (struct string_list){tables, 1};
    config->cleanup.adopted = true;
}

static void configure_states(struct pipeline_config *config)
{
    static struct string_pair words[] = {{"pending", "PENDING"},
                                         {"published", "PUBLISHED"},
                                         {"failed", "FAILED"},
                                         {"dead", "DEAD_LETTER"}};
    configure_table(config);
    config->map.status_values = (struct string_map){words, 4};
}

static void configure_mark(struct pipeline_config *config)
{
    static struct string_pair words[] = {{"pending", "PENDING"}, {"published", "PUBLISHED"}};
    configure_table(config);
    config->map.status_values = (struct string_map){words, 2};
}

static void configure_cdc(struct pipeline_config *config)
{
    configure(config);
    config->source.mode = MODE_CDC;
}

static void configure_cdc_table(struct pipeline_config *config)
{
    configure_mark(config);
    config->source.mode = MODE_CDC;
    config->source.after_publish = AFTER_PUBLISH_MARK;
}

/* Whether the pipeline's stream has been sent up to a position of the log. */
static bool is_sent(const struct harness *h, int64_t lsn)
{
    char sql[512];
    (void)snprintf(sql, sizeof sql,
                   "SELECT count(*) FROM outrider_cursor c JOIN pg_replication_slots s ON "
                   "s.slot_name = c.slot JOIN pg_stat_replication r ON r.pid = s.active_pid WHERE "
                   "c.pipeline = '%s' AND c.mode = 'cdc' AND r.state = 'streaming' AND r.sent_lsn "
                   "- '0/0' >= %" PRId64,
                   h->config.name, lsn);
    return pg_fixture_value(1, sql) > 0;
}

static void wait_sent(struct harness *h, int64_t lsn)
{
    int64_t deadline = outrider__clock_now().mono_us + HARNESS_TIMEOUT_US;
    while (!is_sent(h, lsn)) {
        assert_true(outrider__clock_now().mono_us < deadline);
        assert_null(harness_poll(h));
        harness_pause(h);
    }
}

static void arrive(struct harness *h)
{
    if (!h->is_replay)
        wait_sent(h, pg_fixture_value(1, "SELECT (pg_current_wal_flush_lsn() - '0/0')::int8"));
}

/* Fetches, as the engine would, until the stream follows. */
static void begin_cdc(struct harness *h)
{
    int64_t deadline = outrider__clock_now().mono_us + HARNESS_TIMEOUT_US;
    harness_activate(h);
    while (!is_sent(h, 0)) {
        assert_true(outrider__clock_now().mono_us < deadline);
        if (h->source->ready) {
            outrider__batch_reset(&h->batch);
            harness_must_do(h, &(struct source_op){.kind = SOURCE_FETCH, .batch = &h->batch});
            assert_int_equal(h->batch.n, 0);
        }
        assert_null(harness_poll(h));
        harness_pause(h);
    }
    harness_close(h);
}

#define COMMON                                                                                 \
    .ops = &outrider__source_postgres, .tear_down = pg_fixture_end_sessions, .insert = insert, \
    .finish = finish, .count_outbox = count_outbox, .count_parked = count_parked,              \
    .age_outbox = age_outbox, .take_over = take_over, .cut = cut, .crash = crash,              \
    .write_lazily = write_lazily, .bad_url = "postgresql://host:port:port/?nonsense=1"

static void take_over(const char *pipeline)
{
    static const char *const tables[] = {"outrider_cursor", "outrider_intent"};
    for (int i = 0; i < 2; i++) {
        char sql[160];
        (void)snprintf(sql, sizeof sql, "UPDATE %s SET epoch = epoch + 1 WHERE pipeline = '%s'",
                       tables[i], pipeline);
        pg_fixture_sql(1, sql);
    }
}

#define NO_OPTIONAL (FIELD_PARTITION | FIELD_OCCURRED_AT | FIELD_EXPIRES_AT)

const struct source_fixture pg_log = {COMMON, .set_up = set_up_log, .configure = configure};

const struct source_fixture pg_status = {
    COMMON,
    .set_up = set_up_status,
    .configure = configure,
    .make_due = make_due,
    .rows_carry_state = true,
    .rows_can_be_claimed = true,
    .marks_rows = true,
};

const struct source_fixture pg_adopted_states = {
    COMMON,
    .set_up = set_up_states,
    .configure = configure_states,
    .make_due = make_due,
    .rows_carry_state = true,
    .marks_rows = true,
    .lacks = FIELD_SEQ | FIELD_LONG_KEY | NO_OPTIONAL,
    .demands = FIELD_TOPIC | FIELD_PARTITION_KEY,
};

const struct source_fixture pg_adopted_mark = {
    COMMON,
    .set_up = set_up_mark,
    .configure = configure_mark,
    .make_due = make_due,
    .rows_carry_state = true,
    .marks_rows = true,
    .lacks = FIELD_UUID | FIELD_SEQ | FIELD_LONG_KEY | FIELD_HEADERS | FIELD_TOPIC |
             FIELD_PARTITION_KEY | NO_OPTIONAL,
};

const struct source_fixture pg_cdc_log = {
    COMMON, .set_up = set_up_log, .configure = configure_cdc, .begin = begin_cdc, .arrive = arrive,
};

const struct source_fixture pg_cdc_table = {
    COMMON,
    .set_up = set_up_mark,
    .configure = configure_cdc_table,
    .begin = begin_cdc,
    .arrive = arrive,
    .marks_rows = true,
    .refuses_intents = true,
    .lacks = FIELD_UUID | FIELD_SEQ | FIELD_LONG_KEY | FIELD_HEADERS | FIELD_TOPIC |
             FIELD_PARTITION_KEY | NO_OPTIONAL,
};
