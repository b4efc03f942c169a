/* SPDX-License-Identifier: MIT */
#include "support/pg_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/options.h"
#include "core/store.h"
#include "outrider/postgres.h"
#include "postgres/postgres.h"
#include "support/pg_server.h"

#define SESSIONS 8

static char url[512];
static PGconn *sessions[SESSIONS];

PGconn *pg_fixture_session(int i)
{
    if (sessions[i] == NULL || PQstatus(sessions[i]) != CONNECTION_OK) {
        PQfinish(sessions[i]);
        sessions[i] = PQconnectdb(url);
    }
    if (PQstatus(sessions[i]) != CONNECTION_OK)
        fail_msg("%s", PQerrorMessage(sessions[i]));
    return sessions[i];
}

static PGresult *query(int i, const char *sql)
{
    PGresult *r = PQexec(pg_fixture_session(i), sql);
    if (PQresultStatus(r) != PGRES_COMMAND_OK && PQresultStatus(r) != PGRES_TUPLES_OK)
        fail_msg("%s: %s", sql, PQresultErrorMessage(r));
    return r;
}

void pg_fixture_sql(int i, const char *sql)
{
    PQclear(query(i, sql));
}

int64_t pg_fixture_value(int i, const char *sql)
{
    PGresult *r = query(i, sql);
    int64_t v = PQntuples(r) > 0 ? strtoll(PQgetvalue(r, 0, 0), NULL, 10) : -1;
    PQclear(r);
    return v;
}

void pg_fixture_init(const char *layout)
{
    struct outrider_error err = {0};
    struct arena arena;
    struct pipeline_config config;
    /* jsonb would not keep the bytes */
    struct init_options options = {.layout = layout, .payload = "text"};
    struct store *s = calloc(1, outrider__store_postgres.size);
    outrider__arena_init(&arena, 4096);
    assert_int_equal(outrider__config_init(&config, &arena, "default", &err), 0);
    config.source.url = url;
    s->ops = &outrider__store_postgres;
    if (s->ops->open(s, &config, &err) < 0 || s->ops->init(s, &options, NULL, &err) < 0)
        fail_msg("init: %s", err.message);
    s->ops->close(s);
    free(s);
    outrider__arena_release(&arena);
}

const char *pg_fixture_database(const char *name)
{
    pg_server_url(name, true, url, sizeof url);
    return url;
}

static void set_up(char *ret_url, size_t size)
{
    (void)snprintf(ret_url, size, "%s", pg_fixture_database("shop"));
    pg_fixture_init(NULL);
}

void pg_fixture_end_sessions(void)
{
    for (int i = 0; i < SESSIONS; i++) {
        PQfinish(sessions[i]);
        sessions[i] = NULL;
    }
}

static void insert(const struct outrider_event *events, size_t n)
{
    struct outrider_error err = {0};
    if (PQtransactionStatus(pg_fixture_session(0)) == PQTRANS_IDLE)
        pg_fixture_sql(0, "BEGIN");
    for (size_t i = 0; i < n; i++)
        if (outrider_enqueue_pg(sessions[0], &events[i], 0, NULL, &err) < 0)
            fail_msg("enqueue: %s", err.message);
}

static void finish(bool commit)
{
    pg_fixture_sql(0, commit ? "COMMIT" : "ROLLBACK");
}

static int64_t count_outbox(void)
{
    return pg_fixture_value(1, "SELECT count(*) FROM outbox");
}

static int64_t count_parked(const char *state)
{
    char sql[128];
    (void)snprintf(sql, sizeof sql, "SELECT count(*) FROM outrider_parked WHERE %s%s%s",
                   state != NULL ? "state = '" : "true", state != NULL ? state : "",
                   state != NULL ? "'" : "");
    return pg_fixture_value(1, sql);
}

static void age_outbox(int64_t age_us)
{
    char sql[160];
    (void)snprintf(sql, sizeof sql,
                   "UPDATE outbox SET created_at = now() - interval '%lld seconds'",
                   (long long)(age_us / 1000000));
    pg_fixture_sql(1, sql);
}

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

const struct source_fixture pg_fixture = {
    .ops = &outrider__source_postgres,
    .set_up = set_up,
    .tear_down = pg_fixture_end_sessions,
    .insert = insert,
    .finish = finish,
    .count_outbox = count_outbox,
    .count_parked = count_parked,
    .age_outbox = age_outbox,
    .take_over = take_over,
    .bad_url = "postgresql://host:port:port/?nonsense=1",
};
