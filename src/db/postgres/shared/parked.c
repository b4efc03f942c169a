/* SPDX-License-Identifier: MIT */
#include "postgres/shared/parked.h"

#include "common/outcome.h"
#include "postgres/shared/columns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LANE_SHARE 4       /* one lane gets at most this part of a batch */
#define SQL_CAP (2u << 20) /* of many tables with many columns */

/* A key may be longer than an index takes: the indexes hold its hash. */
#define LANE_IS(row, lane) \
    "hashtextextended(" row ".lane, 0) = hashtextextended(" lane ", 0) AND " row ".lane = " lane
#define Q_IN_L LANE_IS("q", "l.lane")
#define Q_IN_F LANE_IS("q", "f.lane")
#define Q_IN_H LANE_IS("q", "h.lane")
#define D_IN_H LANE_IS("d", "h.lane")

/*
 * In these texts $T is the table and $L the condition that a row is live,
 * AND included; $C is the caller's list of columns with its FROM; $E is the columns of
 * an event, with $6 as their bounds, and $B what they take of memory.
 */
static const char *const templates[PARKED_STATEMENTS] = {
    /* arrival is given out above the sort: in the order of the batch. */
    [PARKED_INSERT] =
        "WITH u AS MATERIALIZED (SELECT * FROM unnest($4::int8[], $5::text[], $6::text[], "
        "$7::text[], $8::int4[], $9::timestamptz[], $10::text[], $11::text[], $12::text[]) WITH "
        "ORDINALITY AS u(seq, id, lane, state, attempts, next, code, origin, message, n)) "
        "INSERT INTO $T (pipeline, outbox, parked_at, updated_at, lane, state, seq, attempts, "
        "next_attempt_at, error_code, error_origin, error_message, id, aggregate_type, "
        "aggregate_id, event_type, payload, headers, topic, partition_key, partition, "
        "occurred_at, created_at, expires_at) SELECT $1::text, $2::text, $3::timestamptz, "
        "$3::timestamptz, u.lane, u.state, u.seq, u.attempts, u.next, u.code, u.origin, "
        "u.message, $C ORDER BY u.n",
    [PARKED_REMOVE] = "DELETE FROM $T WHERE pipeline = $1 AND outbox = $2 AND "
                      "arrival = ANY ($3::int8[])",
    /* An operator may have discarded the row meanwhile. */
    [PARKED_UPDATE] =
        "UPDATE $T p SET state = u.state, attempts = u.attempts, next_attempt_at = u.next, "
        "error_code = u.code, error_origin = u.origin, error_message = u.message, "
        "updated_at = $3 FROM unnest($4::int8[], $5::text[], $6::int4[], $7::timestamptz[], "
        "$8::text[], $9::text[], $10::text[]) AS u(arrival, state, attempts, next, code, origin, "
        "message) WHERE p.pipeline = $1 AND p.outbox = $2 AND p.arrival = u.arrival",
    /* The first live row of a lane is parked, no other one is. $4 NULL: all lanes. */
    [PARKED_MEND] =
        "WITH f AS MATERIALIZED (SELECT l.lane, (SELECT q.arrival FROM $T q WHERE q.pipeline = $1 "
        "AND q.outbox = $2 AND " Q_IN_L "$L ORDER BY q.arrival LIMIT 1) AS first FROM "
        "(SELECT unnest($4::text[]) AS lane UNION SELECT q.lane FROM $T q WHERE $4 IS NULL AND "
        "q.pipeline = $1 AND q.outbox = $2) l), s AS MATERIALIZED (SELECT q.arrival, "
        "true AS is_first FROM f JOIN $T q ON q.arrival = f.first AND q.state = 'queued' UNION ALL "
        "SELECT q.arrival, false FROM f JOIN $T q ON q.pipeline = $1 AND q.outbox = $2 AND " Q_IN_F
        " AND q.state = 'parked' AND q.arrival <> f.first) UPDATE $T p SET state = "
        "CASE WHEN s.is_first THEN 'parked' ELSE 'queued' END, next_attempt_at = CASE WHEN "
        "s.is_first THEN to_timestamp(0) END, updated_at = $3 FROM s WHERE p.arrival = s.arrival",
    [PARKED_DUE] = "SELECT min(next_attempt_at) FROM $T WHERE pipeline = $1 AND outbox = $2 AND "
                   "state = 'parked'",
    [PARKED_ANY] = "SELECT EXISTS (SELECT FROM $T q WHERE q.pipeline = $1 AND q.outbox = $2$L)",
    [PARKED_BLOCKED] =
        "SELECT l.n FROM unnest($3::text[]) WITH ORDINALITY AS l(lane, n) WHERE EXISTS (SELECT "
        "FROM $T q WHERE q.pipeline = $1 AND q.outbox = $2 AND " Q_IN_L "$L)",
    /* $4 rows, $5 of one lane, $6 bounds (columns.h), $7 bytes of all but the last. $8: nothing
     * passes a dead letter, and a lane may hold several. */
    [PARKED_FETCH] =
        "SELECT $E, arrival, attempts FROM (SELECT r.*, sum($B) OVER (ORDER BY due, head, arrival "
        "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM (SELECT q.*, "
        "h.next_attempt_at AS due, h.arrival AS head FROM (SELECT arrival, lane, next_attempt_at "
        "FROM $T WHERE pipeline = $1 "
        "AND outbox = $2 AND state = 'parked' AND next_attempt_at <= $3 ORDER BY next_attempt_at, "
        "arrival LIMIT $4) h CROSS JOIN LATERAL (SELECT * FROM $T q WHERE q.pipeline = $1 AND "
        "q.outbox = $2 AND " Q_IN_H " AND q.arrival >= h.arrival AND q.state <> 'dead' "
        "AND q.arrival < coalesce((SELECT d.arrival FROM $T d WHERE $8::int8 = 1 AND "
        "d.pipeline = $1 AND d.outbox = $2 AND " D_IN_H " AND d.arrival > h.arrival AND "
        "d.state = 'dead' ORDER BY d.arrival LIMIT 1), 9223372036854775807) ORDER BY "
        " q.arrival LIMIT $5) q ORDER BY h.next_attempt_at, h.arrival, q.arrival LIMIT $4) r) w "
        "WHERE coalesce(before, 0) < $7 ORDER BY due, head, arrival",
};

/* PARKED_INSERT where the events' own values are sent. $C gives x, the outbox's row if
 * some of it was not read (u.is_cut = 1) and it is still there. */
static const char insert_values[] =
    "WITH u AS MATERIALIZED (SELECT * FROM unnest($4::int8[], $5::text[], $6::text[], $7::text[], "
    "$8::int4[], $9::timestamptz[], $10::text[], $11::text[], $12::text[], $13::text[], "
    "$14::text[], $15::text[], $16::bytea[], $17::text[], $18::text[], $19::text[], $20::int4[], "
    "$21::timestamptz[], $22::timestamptz[], $23::timestamptz[], $24::int4[]) WITH ORDINALITY AS "
    "u(seq, id, lane, state, attempts, next, code, origin, message, aggregate_type, aggregate_id, "
    "event_type, payload, headers, topic, partition_key, partition, occurred_at, created_at, "
    "expires_at, is_cut, n)) INSERT INTO $T (pipeline, outbox, parked_at, updated_at, lane, "
    "state, seq, attempts, next_attempt_at, error_code, error_origin, error_message, id, "
    "aggregate_type, aggregate_id, event_type, payload, headers, topic, partition_key, "
    "partition, occurred_at, created_at, expires_at) SELECT $1::text, $2::text, "
    "$3::timestamptz, $3::timestamptz, u.lane, u.state, u.seq, u.attempts, u.next, u.code, "
    "u.origin, u.message, coalesce(x.id, u.id), CASE WHEN x.id IS NULL THEN u.aggregate_type "
    "ELSE x.aggregate_type END, CASE WHEN x.id IS NULL THEN u.aggregate_id ELSE x.aggregate_id "
    "END, CASE WHEN x.id IS NULL THEN u.event_type ELSE x.event_type END, CASE WHEN x.id IS "
    "NULL THEN u.payload ELSE x.payload END, CASE WHEN x.id IS NULL THEN u.headers ELSE "
    "x.headers END, CASE WHEN x.id IS NULL THEN u.topic ELSE x.topic END, CASE WHEN x.id IS "
    "NULL THEN u.partition_key ELSE x.partition_key END, u.partition, u.occurred_at, "
    "u.created_at, u.expires_at FROM u LEFT JOIN LATERAL ($C) x ON true ORDER BY u.n";

static const char *const purposes[PARKED_STATEMENTS] = {
    [PARKED_INSERT] = "cannot park events",
    [PARKED_REMOVE] = "cannot remove parked events",
    [PARKED_UPDATE] = "cannot change parked events",
    [PARKED_MEND] = "cannot change parked events",
    [PARKED_DUE] = "cannot read the parked events",
    [PARKED_ANY] = "cannot read the parked events",
    [PARKED_BLOCKED] = "cannot read the parked events",
    [PARKED_FETCH] = "cannot read the parked events",
};

static const char *const texts[] = {"id",         "aggregate_type", "aggregate_id",
                                    "event_type", "topic",          "partition_key"};
#define N_TEXTS (sizeof texts / sizeof *texts)

/* A text's bytes: parked.h (4) holds some as hex, but no id. */
static void append_size(struct strbuf *size, const char *column)
{
    outrider__strbuf_clear(size);
    if (strcmp(column, "id") == 0)
        strbuf_append_str(size, "octet_length(id)::int8");
    else
        outrider__strbuf_appendf(size,
                                 "(CASE WHEN starts_with(%s, '\\x') THEN octet_length(%s) / 2 - 1 "
                                 "ELSE octet_length(%s) END)::int8",
                                 column, column, column);
}

static void append_large(struct strbuf *sql, const struct pg_bounds *b)
{
    struct strbuf size;
    outrider__strbuf_init(&size, 512);
    outrider__pg_sql_large_begin(sql, b);
    append_size(&size, "headers");
    outrider__pg_sql_large_column(sql, "headers", strbuf_cstr(&size), b->headers);
    for (size_t i = 0; i < N_TEXTS; i++) {
        append_size(&size, texts[i]);
        outrider__pg_sql_large_column(sql, texts[i], strbuf_cstr(&size), b->text);
    }
    outrider__pg_sql_large_end(sql);
    sql->failed |= size.failed;
    outrider__strbuf_release(&size);
}

/* As outrider__pg_sql_text; of bytes as many come as outrider__bytes_cut() leaves. */
static void append_text(struct strbuf *sql, const char *column, const struct pg_bounds *b)
{
    struct strbuf size;
    strbuf_append_str(sql, ", ");
    if (strcmp(column, "id") == 0) {
        outrider__pg_sql_text(sql, column, false, b);
        return;
    }
    outrider__strbuf_init(&size, 512);
    append_size(&size, column);
    outrider__strbuf_appendf(sql,
                             "CASE WHEN %s > %s THEN left(%s, CASE WHEN starts_with(%s, '\\x') "
                             "THEN %d ELSE %d END) ELSE %s END",
                             strbuf_cstr(&size), b->text, column, column,
                             PG_HEX_SIZE(EVENT_TEXT_CUT), EVENT_TEXT_CUT, column);
    sql->failed |= size.failed;
    outrider__strbuf_release(&size);
}

/* EV_SEQ to EV_LARGE. */
static void append_event(struct strbuf *sql, const struct pg_bounds *b)
{
    struct strbuf size;
    outrider__strbuf_init(&size, 512);
    append_size(&size, "headers");
    strbuf_append_str(sql, "seq");
    for (size_t i = 0; i < 4; i++)
        append_text(sql, texts[i], b);
    outrider__strbuf_appendf(sql,
                             ", CASE WHEN octet_length(payload) <= %s THEN payload END, CASE WHEN "
                             "%s > %s THEN '!' ELSE headers END",
                             b->payload, strbuf_cstr(&size), b->headers);
    for (size_t i = 4; i < N_TEXTS; i++)
        append_text(sql, texts[i], b);
    strbuf_append_str(sql, ", partition, occurred_at, created_at, expires_at, ");
    outrider__pg_sql_size(sql, "payload", "octet_length(payload)", b);
    strbuf_append_str(sql, ", ");
    append_large(sql, b);
    sql->failed |= size.failed;
    outrider__strbuf_release(&size);
}

static void append_bytes(struct strbuf *sql, const struct pg_bounds *b)
{
    outrider__strbuf_appendf(sql,
                             "least(coalesce(octet_length(payload), 0), %s) + "
                             "least(coalesce(octet_length(headers), 0), 2 * %s)",
                             b->payload, b->headers);
    for (size_t i = 0; i < N_TEXTS; i++)
        outrider__strbuf_appendf(sql, " + least(coalesce(octet_length(%s), 0), 2 * %s)", texts[i],
                                 b->text);
}

static char *expand(const char *template, const char *table, const char *live, const char *copy)
{
    struct pg_bounds bounds = outrider__pg_bounds_of(6);
    struct strbuf sql;
    outrider__strbuf_init(&sql, SQL_CAP);
    for (const char *p = template; *p != '\0'; p++) {
        char letter = p[0] == '$' ? p[1] : '\0';
        if (letter == 'T' || letter == 'L' || letter == 'C')
            strbuf_append_str(&sql, letter == 'T' ? table : letter == 'L' ? live : copy);
        else if (letter == 'E')
            append_event(&sql, &bounds);
        else if (letter == 'B')
            append_bytes(&sql, &bounds);
        else
            strbuf_append_char(&sql, *p);
        p += letter >= 'A' && letter <= 'Z';
    }
    if (sql.failed)
        outrider__strbuf_release(&sql);
    return sql.data;
}

int outrider__pg_parked_init(struct pg_parked *p, const struct pg_catalog *cat,
                             const struct pipeline_config *config, const char *copy_sql,
                             const char *whole_sql, struct outrider_error *err)
{
    const char *live = config->retry.on_dead == ON_DEAD_BLOCK ? "" : " AND q.state <> 'dead'";
    *p = (struct pg_parked){.config = config};
    outrider__pg_args_init(&p->args);
    (void)snprintf(p->outbox, sizeof p->outbox, "%s", cat->table);
    p->sends_values = copy_sql == NULL;
    for (int i = 0; i < PARKED_STATEMENTS; i++) {
        bool sends = p->sends_values && i == PARKED_INSERT;
        p->sql[i] = expand(sends ? insert_values : templates[i], cat->parked_table, live,
                           p->sends_values ? whole_sql : copy_sql);
        if (p->sql[i] == NULL)
            return outrider__fail_nomem(err);
        p->st[i] = (struct pg_statement){.sql = p->sql[i], .what = purposes[i]};
    }
    return 0;
}

void outrider__pg_parked_release(struct pg_parked *p)
{
    if (p->config == NULL)
        return;
    for (int i = 0; i < PARKED_STATEMENTS; i++)
        free(p->sql[i]);
    outrider__pg_args_release(&p->args);
    *p = (struct pg_parked){0};
}

/* Every statement begins with the pipeline and the outbox. */
static struct pg_args *args_begin(struct pg_parked *p)
{
    outrider__pg_args_clear(&p->args);
    outrider__pg_arg_str(&p->args, p->config->name);
    outrider__pg_arg_str(&p->args, p->outbox);
    return &p->args;
}

static int add(struct pg_parked *p, struct pg_conn *c, enum pg_parked_statement which,
               struct outrider_error *err)
{
    return outrider__pg_request_add(c, &p->st[which], &p->args, err);
}

typedef bool event_test(const struct event *e);

static void array_of_texts(struct pg_args *a, const struct event *events, size_t n,
                           event_test *wanted, struct bytes (*text)(const struct event *e))
{
    outrider__pg_array_begin(a, PG_TEXT);
    for (size_t i = 0; i < n; i++)
        if (wanted(&events[i]))
            outrider__pg_array_text(a, text(&events[i]));
    outrider__pg_array_end(a);
}

/* See parked.h (4). */
static void array_of_stored(struct pg_args *a, const struct event *events, size_t n,
                            struct bytes (*text)(const struct event *e))
{
    outrider__pg_array_begin(a, PG_TEXT);
    for (size_t i = 0; i < n; i++)
        if (outcome_is_kept(&events[i]))
            outrider__pg_array_stored(a, text(&events[i]));
    outrider__pg_array_end(a);
}

static void array_of_attempts(struct pg_args *a, const struct event *events, size_t n)
{
    outrider__pg_array_begin(a, PG_INT4);
    for (size_t i = 0; i < n; i++)
        if (outcome_is_kept(&events[i]))
            outrider__pg_array_int4(a, (int32_t)events[i].attempts);
    outrider__pg_array_end(a);
}

static void array_of_times(struct pg_args *a, const struct event *events, size_t n)
{
    outrider__pg_array_begin(a, PG_TIMESTAMPTZ);
    for (size_t i = 0; i < n; i++) {
        if (!outcome_is_kept(&events[i]))
            continue;
        if (events[i].outcome == OUTCOME_PARKED)
            outrider__pg_array_time(a, events[i].next_attempt_us);
        else
            outrider__pg_array_null(a);
    }
    outrider__pg_array_end(a);
}

static void array_of_rows(struct pg_args *a, const struct event *events, size_t n,
                          event_test *wanted, bool is_parked)
{
    outrider__pg_array_begin(a, PG_INT8);
    for (size_t i = 0; i < n; i++)
        if (wanted(&events[i]))
            outrider__pg_array_int8(a, is_parked ? events[i].arrival : events[i].seq);
    outrider__pg_array_end(a);
}

static struct bytes id_of(const struct event *e)
{
    return e->id;
}

static void array_of_lanes(struct pg_parked *p, const struct event *events, size_t n,
                           bool with_removed)
{
    outrider__pg_array_begin(&p->args, PG_TEXT);
    for (size_t i = 0; i < n; i++)
        if (outcome_is_kept(&events[i]) || (with_removed && outcome_is_removed(&events[i])))
            outrider__pg_array_stored(&p->args, outcome_lane(&events[i], p->config->ordered));
    outrider__pg_array_end(&p->args);
}

static void array_of_failures(struct pg_args *a, const struct event *events, size_t n)
{
    array_of_texts(a, events, n, outcome_is_kept, outrider__outcome_code);
    array_of_texts(a, events, n, outcome_is_kept, outrider__outcome_origin);
    array_of_texts(a, events, n, outcome_is_kept, outrider__outcome_message);
}

#define TEXT_GETTER(field)                                \
    static struct bytes field##_of(const struct event *e) \
    {                                                     \
        return e->field;                                  \
    }
TEXT_GETTER(aggregate_type)
TEXT_GETTER(aggregate_id)
TEXT_GETTER(event_type)
TEXT_GETTER(payload)
TEXT_GETTER(headers)
TEXT_GETTER(topic)
TEXT_GETTER(partition_key)

static void array_of_wall(struct pg_args *a, const struct event *events, size_t n, size_t offset)
{
    outrider__pg_array_begin(a, PG_TIMESTAMPTZ);
    for (size_t i = 0; i < n; i++) {
        int64_t us;
        if (!outcome_is_kept(&events[i]))
            continue;
        memcpy(&us, (const char *)&events[i] + offset, sizeof us);
        if (us == 0)
            outrider__pg_array_null(a);
        else
            outrider__pg_array_time(a, us);
    }
    outrider__pg_array_end(a);
}

/* What copy_sql would have read from the outbox. */
static void array_of_values(struct pg_args *a, const struct event *events, size_t n)
{
    array_of_stored(a, events, n, aggregate_type_of);
    array_of_stored(a, events, n, aggregate_id_of);
    array_of_stored(a, events, n, event_type_of);
    outrider__pg_array_begin(a, PG_BYTEA);
    for (size_t i = 0; i < n; i++)
        if (outcome_is_kept(&events[i]))
            outrider__pg_array_text(a, payload_of(&events[i]));
    outrider__pg_array_end(a);
    array_of_stored(a, events, n, headers_of);
    array_of_stored(a, events, n, topic_of);
    array_of_stored(a, events, n, partition_key_of);
    outrider__pg_array_begin(a, PG_INT4);
    for (size_t i = 0; i < n; i++) {
        if (outcome_is_kept(&events[i]) && events[i].partition >= 0)
            outrider__pg_array_int4(a, events[i].partition);
        else if (outcome_is_kept(&events[i]))
            outrider__pg_array_null(a);
    }
    outrider__pg_array_end(a);
    array_of_wall(a, events, n, offsetof(struct event, occurred_at_us));
    array_of_wall(a, events, n, offsetof(struct event, created_at_us));
    array_of_wall(a, events, n, offsetof(struct event, expires_at_us));
    outrider__pg_array_begin(a, PG_INT4);
    for (size_t i = 0; i < n; i++)
        if (outcome_is_kept(&events[i]))
            outrider__pg_array_int4(a, events[i].is_oversize);
    outrider__pg_array_end(a);
}

static int add_insert(struct pg_parked *p, struct pg_conn *c, const struct event *events, size_t n,
                      int64_t now_us, struct outrider_error *err)
{
    struct pg_args *a = args_begin(p);
    outrider__pg_arg_time(a, now_us);
    array_of_rows(a, events, n, outcome_is_kept, false);
    array_of_texts(a, events, n, outcome_is_kept, id_of);
    array_of_lanes(p, events, n, false);
    array_of_texts(a, events, n, outcome_is_kept, outrider__outcome_state);
    array_of_attempts(a, events, n);
    array_of_times(a, events, n);
    array_of_failures(a, events, n);
    if (p->sends_values)
        array_of_values(a, events, n);
    return add(p, c, PARKED_INSERT, err);
}

static int add_update(struct pg_parked *p, struct pg_conn *c, const struct event *events, size_t n,
                      int64_t now_us, struct outrider_error *err)
{
    struct pg_args *a = args_begin(p);
    outrider__pg_arg_time(a, now_us);
    array_of_rows(a, events, n, outcome_is_kept, true);
    array_of_texts(a, events, n, outcome_is_kept, outrider__outcome_state);
    array_of_attempts(a, events, n);
    array_of_times(a, events, n);
    array_of_failures(a, events, n);
    return add(p, c, PARKED_UPDATE, err);
}

static size_t count(const struct event *events, size_t n, event_test *wanted)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++)
        k += wanted(&events[i]);
    return k;
}

int outrider__pg_parked_settle(struct pg_parked *p, struct pg_conn *c, const struct event *events,
                               size_t n, bool is_parked, int64_t now_us, struct outrider_error *err)
{
    int added = 0;
    bool keeps = count(events, n, outcome_is_kept) > 0,
         removes = count(events, n, outcome_is_removed) > 0;
    if (removes) {
        struct pg_args *a = args_begin(p);
        array_of_rows(a, events, n, outcome_is_removed, true);
        if (add(p, c, PARKED_REMOVE, err) < 0)
            return -1;
        added++;
    }
    if (keeps) {
        if ((is_parked ? add_update : add_insert)(p, c, events, n, now_us, err) < 0)
            return -1;
        added++;
    }
    if (added == 0)
        return 0;
    struct pg_args *a = args_begin(p);
    outrider__pg_arg_time(a, now_us);
    array_of_lanes(p, events, n, true);
    return add(p, c, PARKED_MEND, err) < 0 ? -1 : added + 1;
}

int outrider__pg_parked_add_mend(struct pg_parked *p, struct pg_conn *c, int64_t now_us,
                                 struct outrider_error *err)
{
    struct pg_args *a = args_begin(p);
    outrider__pg_arg_time(a, now_us);
    outrider__pg_arg_null(a, PG_TEXT_ARRAY);
    return add(p, c, PARKED_MEND, err);
}

int outrider__pg_parked_add_due(struct pg_parked *p, struct pg_conn *c, struct outrider_error *err)
{
    (void)args_begin(p);
    return add(p, c, PARKED_DUE, err);
}

int64_t outrider__pg_parked_due_us(const PGresult *r)
{
    return outrider__pg_get_time(r, 0, 0, CLOCK_NEVER);
}

int outrider__pg_parked_add_any(struct pg_parked *p, struct pg_conn *c, struct outrider_error *err)
{
    (void)args_begin(p);
    return add(p, c, PARKED_ANY, err);
}

int outrider__pg_parked_add_blocked(struct pg_parked *p, struct pg_conn *c, const struct batch *b,
                                    struct outrider_error *err)
{
    struct pg_args *a = args_begin(p);
    outrider__pg_array_begin(a, PG_TEXT);
    for (size_t i = 0; i < b->n; i++)
        outrider__pg_array_stored(a, outcome_lane(&b->events[i], p->config->ordered));
    outrider__pg_array_end(a);
    return add(p, c, PARKED_BLOCKED, err);
}

int outrider__pg_parked_apply_blocked(struct batch *b, const PGresult *r,
                                      struct outrider_error *err)
{
    for (int i = 0; i < PQntuples(r); i++) {
        int64_t n = outrider__pg_get_int(r, i, 0, 0);
        if (n < 1 || (size_t)n > b->n)
            return outrider__fail(err, OUTRIDER_DB, OUTRIDER_RETRY, "unexpected answer");
        b->events[n - 1].is_blocked = true;
    }
    return 0;
}

int outrider__pg_parked_add_fetch(struct pg_parked *p, struct pg_conn *c, const struct batch *b,
                                  int64_t now_us, struct outrider_error *err)
{
    struct pg_args *a = args_begin(p);
    outrider__pg_arg_time(a, now_us);
    outrider__pg_arg_int8(a, (int64_t)b->capacity);
    outrider__pg_arg_int8(a, (int64_t)(b->capacity / LANE_SHARE + 1));
    outrider__pg_arg_bounds(a, p->config, true);
    outrider__pg_arg_int8(a, (int64_t)b->max_bytes);
    outrider__pg_arg_int8(a, p->config->retry.on_dead == ON_DEAD_BLOCK);
    return add(p, c, PARKED_FETCH, err);
}

int outrider__pg_parked_fill(const struct pipeline_config *config, struct batch *b,
                             const PGresult *r, struct outrider_error *err)
{
    struct event_bounds max = outrider__event_bounds(config);
    b->is_parked = true;
    for (int i = 0; i < PQntuples(r) && !batch_is_full(b); i++) {
        struct event *e = outrider__pg_row_stored(b, r, i, &max);
        if (e == NULL)
            return outrider__fail_nomem(err);
        e->is_parked = true;
        e->arrival = outrider__pg_get_int(r, i, EV_COLUMNS, 0);
        e->attempts = (uint32_t)outrider__pg_get_int(r, i, EV_COLUMNS + 1, 0);
    }
    return 0;
}
