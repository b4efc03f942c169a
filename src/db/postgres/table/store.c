/* SPDX-License-Identifier: MIT */
/*
 * The store's commands for tables whose rows carry their state. What the row
 * cannot say stands in outrider_parked (poll_status/status.h (6)), where the store
 * finds it; here is the rest.
 */
#include <stdio.h>

#include "postgres/table/table.h"
#include "postgres/store/store.h"

#define SQL_CAP 131072

bool outrider__pg_store_has_states(const struct pg_store *s)
{
    return s->cat.oid != 0 && outrider__pg_table_has_states(&s->cat, s->config);
}

size_t outrider__pg_tables_count(const struct pg_store *s)
{
    return s->config->source.tables.n > 0 ? s->config->source.tables.n : 1;
}

static int load_values(struct pg_store *s, struct arena *arena, struct outbox_table *a,
                       struct outrider_error *err)
{
    struct strbuf sql;
    PGresult *r = NULL;
    outrider__strbuf_init(&sql, 4096);
    outrider__pg_table_values_sql(a, s->config, &s->cat, &sql);
    int rc = 0;
    if (sql.len > 0) {
        rc = outrider__pg_store_query(s, strbuf_cstr(&sql), NULL, "cannot look at the states", &r,
                                      err);
        if (rc == 0) {
            rc = outrider__pg_table_values(a, s->config, r, arena, err);
            PQclear(r);
        }
    }
    outrider__strbuf_release(&sql);
    return rc;
}

int outrider__pg_tables_columns(struct pg_store *s, size_t i, struct arena *arena,
                                struct outbox_table *ret_table, struct outrider_error *err)
{
    const char *name =
        s->config->source.tables.n > 0 ? s->config->source.tables.items[i] : "outbox";
    struct pg_args args;
    PGresult *r = NULL;
    outrider__pg_args_init(&args);
    outrider__pg_arg_str(&args, name);
    int rc = outrider__pg_store_query(s, outrider__pg_table_sql, &args, "cannot read the catalogue",
                                      &r, err);
    outrider__pg_args_release(&args);
    if (rc < 0)
        return -1;
    rc = outrider__pg_table_read(ret_table, r, name, arena, err);
    PQclear(r);
    if (rc < 0)
        return -1;
    return outrider__map_columns(&ret_table->table, s->config, &ret_table->map, err);
}

/* The commands read; whether more is allowed, the server says. */
static int may_read(const struct pg_store *s, const struct outbox_table *a,
                    struct outrider_error *err)
{
    struct map_needs needs;
    outrider__map_needs(&a->map, s->config, &needs);
    memset(needs.writes, 0, sizeof needs.writes);
    needs.deletes = false;
    return outrider__map_check_needs(&a->map, &needs, err);
}

int outrider__pg_tables_load(struct pg_store *s, size_t i, struct arena *arena,
                             struct outbox_table *ret_table, struct outrider_error *err)
{
    if (outrider__pg_tables_columns(s, i, arena, ret_table, err) < 0 ||
        may_read(s, ret_table, err) < 0 || load_values(s, arena, ret_table, err) < 0)
        return -1;
    return outrider__pg_table_infer(ret_table, s->config, &s->cat, err);
}

/* For each table: fn(s, a, ctx). */
typedef int table_fn(struct pg_store *s, const struct outbox_table *a, void *ctx,
                     struct outrider_error *err);

static int each_table(struct pg_store *s, table_fn *fn, void *ctx, struct outrider_error *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < outrider__pg_tables_count(s); i++) {
        struct arena arena;
        struct outbox_table a = {0};
        outrider__arena_init(&arena, 16384);
        rc = outrider__pg_tables_load(s, i, &arena, &a, err);
        if (rc == 0)
            rc = fn(s, &a, ctx, err);
        outrider__arena_release(&arena);
    }
    return rc;
}

static int run(struct pg_store *s, struct strbuf *sql, const struct pg_args *args, const char *what,
               PGresult **ret_result, struct outrider_error *err)
{
    int rc = sql->failed
                 ? outrider__fail_nomem(err)
                 : outrider__pg_store_query(s, strbuf_cstr(sql), args, what, ret_result, err);
    outrider__strbuf_release(sql);
    return rc;
}

static void is_state(struct strbuf *q, const struct outbox_table *a, enum map_state state)
{
    outrider__pg_sql_column(q, a, ROLE_STATUS, "o.");
    strbuf_append_str(q, " = ");
    outrider__pg_sql_literal(q, a->map.values[state]);
}

/* Rows that nobody has tried yet, or that will be tried at once. $1: pipeline.
 * Mode cdc need not mark rows: what is settled it knows by their transactions. */
static void waits(struct strbuf *q, const struct outbox_table *a)
{
    if (a->map.mark == MARK_NONE && a->cursor_table[0] != '\0')
        outrider__strbuf_appendf(q,
                                 "EXISTS (SELECT FROM %s k WHERE k.pipeline = $1::text AND k.mode "
                                 "= 'cdc')",
                                 a->cursor_table);
    else
        outrider__pg_sql_unsettled(q, a, "o.");
    outrider__pg_sql_not_streamed(q, a, "$1::text");
    if (!a->parks_retries) {
        strbuf_append_str(q, " AND NOT ");
        is_state(q, a, STATE_FAILED);
    }
    if (a->parks_dead) {
        strbuf_append_str(q, " AND ");
        outrider__pg_sql_id(q, a, "o.");
        outrider__strbuf_appendf(q,
                                 " NOT IN (SELECT p.id FROM %s p WHERE p.pipeline = "
                                 "$1::text AND p.id IS NOT NULL AND p.outbox = ",
                                 a->parked_table);
        outrider__pg_sql_literal(q, a->outbox);
        strbuf_append_str(q, ")");
    }
}

static void count_where(struct strbuf *q, const struct outbox_table *a, bool is_kept,
                        enum map_state state)
{
    strbuf_append_str(q, ", ");
    if (!is_kept) {
        strbuf_append_str(q, "0::int8");
        return;
    }
    outrider__strbuf_appendf(q, "(SELECT count(*) FROM %s o WHERE ", a->outbox);
    is_state(q, a, state);
    strbuf_append_str(q, ")");
}

/* pending, failed, dead (in the table), parked, dead (copies), oldest. */
static void count_sql(struct strbuf *q, const struct outbox_table *a)
{
    bool has_time = a->map.columns[ROLE_CREATED_AT] != NULL;
    outrider__strbuf_appendf(q, "SELECT (SELECT count(*) FROM %s o WHERE ", a->outbox);
    waits(q, a);
    strbuf_append_str(q, ")");
    count_where(q, a, !a->parks_retries, STATE_FAILED);
    count_where(q, a, !a->parks_dead, STATE_DEAD);
    for (int dead = 0; dead < 2; dead++) {
        outrider__strbuf_appendf(q,
                                 ", (SELECT count(*) FROM %s p WHERE p.pipeline = $1::text AND "
                                 "p.outbox = ",
                                 a->parked_table);
        outrider__pg_sql_literal(q, a->outbox);
        outrider__strbuf_appendf(q, " AND p.state %s 'dead')", dead ? "=" : "<>");
    }
    if (!has_time) {
        strbuf_append_str(q, ", NULL::timestamptz");
        return;
    }
    strbuf_append_str(q, ", (SELECT ");
    outrider__pg_sql_time_of(q, a, ROLE_CREATED_AT, "m.oldest");
    strbuf_append_str(q, " FROM (SELECT min(");
    outrider__pg_sql_column(q, a, ROLE_CREATED_AT, "o.");
    outrider__strbuf_appendf(q, ") AS oldest FROM %s o WHERE ", a->outbox);
    waits(q, a);
    strbuf_append_str(q, ") m)");
}

/* Rows that wait for ever, unless somebody says what their state means. */
static int add_uncovered(struct pg_store *s, const struct outbox_table *a, struct store_status *st,
                         struct outrider_error *err)
{
    struct strbuf words;
    uint64_t n = 0;
    size_t len = strlen(st->uncovered_text);
    outrider__strbuf_init(&words, SQL_CAP);
    int rc = outrider__pg_tables_uncovered(s, a, st->pipeline, &words, &n, err);
    if (rc == 0 && n > 0)
        (void)snprintf(st->uncovered_text + len, sizeof st->uncovered_text - len,
                       "%s%llu %s of %s %s in a state that no word covers: %s", len > 0 ? "; " : "",
                       (unsigned long long)n, n == 1 ? "row" : "rows", a->outbox,
                       n == 1 ? "is" : "are", strbuf_cstr(&words));
    st->uncovered += n;
    outrider__strbuf_release(&words);
    return rc;
}

static int add_counts(struct pg_store *s, const struct outbox_table *a, void *ctx,
                      struct outrider_error *err)
{
    struct store_status *st = ctx;
    struct strbuf q;
    struct pg_args args;
    PGresult *r = NULL;
    outrider__strbuf_init(&q, SQL_CAP);
    count_sql(&q, a);
    outrider__pg_args_init(&args);
    outrider__pg_arg_str(&args, st->pipeline);
    int rc = run(s, &q, &args, "cannot count the events", &r, err);
    outrider__pg_args_release(&args);
    if (rc < 0)
        return -1;
    st->pending += (uint64_t)outrider__pg_get_int(r, 0, 0, 0);
    st->parked += (uint64_t)(outrider__pg_get_int(r, 0, 1, 0) + outrider__pg_get_int(r, 0, 3, 0));
    st->dead += (uint64_t)(outrider__pg_get_int(r, 0, 2, 0) + outrider__pg_get_int(r, 0, 4, 0));
    int64_t oldest = outrider__pg_get_time(r, 0, 5, 0);
    if (oldest != 0 && (st->oldest_pending_us == 0 || oldest < st->oldest_pending_us))
        st->oldest_pending_us = oldest;
    PQclear(r);
    return add_uncovered(s, a, st, err);
}

/* One row a pipeline, over all its tables; $1: tables, $2: the pipeline that is
 * shown where none has run yet. The lock is on the first table. */
static const char sql_pipelines[] =
    "SELECT c.pipeline, max(c.sink), sum(c.delivered_total)::int8, sum(c.expired_total)::int8, "
    "sum(c.skipped_total)::int8, sum(c.dead_total)::int8, max(c.settled_at), bool_or(EXISTS ("
    "SELECT FROM pg_locks l CROSS JOIN LATERAL (SELECT hashtextextended('outrider/' || c.outbox || "
    "'/' || c.pipeline, 0) AS key) k WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = "
    "1 AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND "
    "l.classid = ((k.key >> 32) & 4294967295)::oid AND l.objid = (k.key & 4294967295)::oid)) FROM "
    "(SELECT pipeline, outbox, sink, delivered_total, expired_total, skipped_total, dead_total, "
    "settled_at FROM %s WHERE outbox = ANY ($1::text[]) UNION ALL SELECT $2::text, '', '', 0, 0, "
    "0, 0, NULL WHERE NOT EXISTS (SELECT FROM %s WHERE outbox = ANY ($1::text[]))) c GROUP BY "
    "c.pipeline ORDER BY c.pipeline";

static int add_table_name(struct pg_store *s, const struct outbox_table *a, void *ctx,
                          struct outrider_error *err)
{
    (void)s;
    (void)err;
    outrider__pg_array_text(ctx, bytes_str(a->outbox));
    return 0;
}

int outrider__pg_tables_status(struct pg_store *s, void (*row)(void *, const struct store_status *),
                               void *ctx, struct outrider_error *err)
{
    struct strbuf q;
    struct pg_args args;
    PGresult *r = NULL;
    outrider__pg_args_init(&args);
    outrider__pg_array_begin(&args, PG_TEXT);
    int rc = each_table(s, add_table_name, &args, err);
    outrider__pg_array_end(&args);
    outrider__pg_arg_str(&args, s->config->name);
    outrider__strbuf_init(&q, SQL_CAP);
    outrider__strbuf_appendf(&q, sql_pipelines, s->cat.cursor_table, s->cat.cursor_table);
    if (rc == 0)
        rc = run(s, &q, &args, "cannot read the status", &r, err);
    else
        outrider__strbuf_release(&q);
    outrider__pg_args_release(&args);
    if (rc < 0)
        return -1;
    for (int i = 0; rc == 0 && i < PQntuples(r); i++) {
        struct store_status st = {
            .delivered_total = (uint64_t)outrider__pg_get_int(r, i, 2, 0),
            .expired_total = (uint64_t)outrider__pg_get_int(r, i, 3, 0),
            .skipped_total = (uint64_t)outrider__pg_get_int(r, i, 4, 0),
            .dead_total = (uint64_t)outrider__pg_get_int(r, i, 5, 0),
            .settled_at_us = outrider__pg_get_time(r, i, 6, 0),
            .relay_active = outrider__pg_get_bool(r, i, 7),
        };
        (void)snprintf(st.pipeline, sizeof st.pipeline, "%s", outrider__pg_get_str(r, i, 0));
        (void)snprintf(st.sink, sizeof st.sink, "%s", outrider__pg_get_str(r, i, 1));
        rc = each_table(s, add_counts, &st, err);
        if (rc == 0)
            rc = outrider__pg_store_slot_status(s, &st, err);
        if (rc == 0)
            row(ctx, &st);
    }
    PQclear(r);
    return rc;
}

/* When a dead row died, best known. */
static void died_at(struct strbuf *q, const struct outbox_table *a)
{
    enum column_role role =
        a->map.columns[ROLE_UPDATED_AT] != NULL ? ROLE_UPDATED_AT : ROLE_CREATED_AT;
    if (a->map.columns[role] == NULL) {
        strbuf_append_str(q, "now()");
        return;
    }
    outrider__pg_sql_time(q, a, role, "o.");
}

/* $1: ids or NULL, $2: event type or NULL, $3: since, $4: failed ones too. */
static void filter_sql(struct strbuf *q, const struct outbox_table *a)
{
    const struct map_column *type = a->map.columns[ROLE_EVENT_TYPE];
    strbuf_append_str(q, " WHERE (");
    is_state(q, a, STATE_DEAD);
    if (a->map.values[STATE_FAILED][0] != '\0') {
        strbuf_append_str(q, " OR ($4::bool AND ");
        is_state(q, a, STATE_FAILED);
        strbuf_append_str(q, ")");
    } else {
        strbuf_append_str(q, " OR ($4::bool AND false)");
    }
    strbuf_append_str(q, ") AND ($1::text[] IS NULL OR ");
    outrider__pg_sql_id(q, a, "o.");
    strbuf_append_str(q, " = ANY ($1::text[])) AND ($2::text IS NULL OR ");
    bool is_bytes = type != NULL && type->kind == KIND_BYTES;
    strbuf_append_str(q, is_bytes ? "convert_to($2::text, 'UTF8') = " : "$2::text = ");
    if (type != NULL) {
        outrider__pg_sql_column(q, a, ROLE_EVENT_TYPE, "o.");
        strbuf_append_str(q, is_bytes ? "" : "::text");
    } else {
        outrider__pg_sql_literal(q, a->map.event_type);
    }
    strbuf_append_str(q, ") AND ");
    died_at(q, a);
    strbuf_append_str(q, " >= $3::timestamptz");
}

static void add_filter(struct pg_args *args, const struct dead_filter *f)
{
    outrider__pg_args_init(args);
    if (f->n_ids > 0) {
        outrider__pg_array_begin(args, PG_TEXT);
        for (size_t i = 0; i < f->n_ids; i++)
            outrider__pg_array_text(args, bytes_str(f->ids[i]));
        outrider__pg_array_end(args);
    } else {
        outrider__pg_arg_null(args, 1009);
    }
    outrider__pg_arg_str(args, f->event_type);
    outrider__pg_arg_time(args, f->since_us);
    outrider__pg_arg_bool(args, f->with_parked);
}

struct listing {
    const struct dead_filter *filter;
    void (*row)(void *, const struct dead_row *);
    void *ctx;
};

static void optional(struct strbuf *q, const struct outbox_table *a, enum column_role role,
                     const char *type)
{
    strbuf_append_str(q, ", ");
    if (a->map.columns[role] != NULL)
        outrider__pg_sql_column(q, a, role, "o.");
    else
        strbuf_append_str(q, "NULL");
    outrider__strbuf_appendf(q, "::%s", type);
}

static void list_sql(struct strbuf *q, const struct outbox_table *a)
{
    strbuf_append_str(q, "SELECT ");
    outrider__pg_sql_event(q, a, "o.", NULL);
    optional(q, a, ROLE_ATTEMPTS, "int4");
    strbuf_append_str(q, ", CASE WHEN ");
    is_state(q, a, STATE_DEAD);
    strbuf_append_str(q, " THEN 'dead' ELSE 'parked' END");
    optional(q, a, ROLE_LAST_ERROR_CODE, "text");
    optional(q, a, ROLE_LAST_ERROR, "text");
    strbuf_append_str(q, ", ");
    if (a->map.columns[ROLE_NEXT_ATTEMPT_AT] != NULL)
        outrider__pg_sql_time(q, a, ROLE_NEXT_ATTEMPT_AT, "o.");
    else
        strbuf_append_str(q, "NULL::timestamptz");
    strbuf_append_str(q, ", ");
    died_at(q, a);
    outrider__strbuf_appendf(q, " FROM %s o", a->outbox);
    filter_sql(q, a);
    outrider__pg_sql_order(q, a, "o.");
}

/* Where there is one column for both, "CODE: text" stands in it. */
static void split_error(const char *text, char code[32], const char **ret_message)
{
    size_t n = strcspn(text, ":");
    *ret_message = text;
    code[0] = '\0';
    if (n >= 32 || strncmp(text + n, ": ", 2) != 0)
        return;
    (void)snprintf(code, 32, "%.*s", (int)n, text);
    if (outrider_code_by_name(code) == OUTRIDER_CODE_COUNT)
        code[0] = '\0';
    else
        *ret_message = text + n + 2;
}

static int tell_row(struct pg_store *s, const PGresult *r, int i, struct batch *b,
                    const struct listing *l, struct outrider_error *err)
{
    enum { ATTEMPTS = EV_COLUMNS, STATE, CODE, MESSAGE, NEXT, DIED };
    char code[32];
    struct dead_row d = {.pipeline = s->config->name};
    outrider__batch_reset(b);
    d.event = outrider__pg_row(b, r, i, 0, &EVENT_UNBOUNDED);
    if (d.event == NULL)
        return outrider__fail_nomem(err);
    if (outrider__pg_row_show(d.event, err) < 0)
        return -1;
    d.event->attempts = (uint32_t)outrider__pg_get_int(r, i, ATTEMPTS, 0);
    d.state = outrider__pg_get_str(r, i, STATE);
    d.error_code = outrider__pg_get_str(r, i, CODE);
    d.error_message = outrider__pg_get_str(r, i, MESSAGE);
    if (PQgetisnull(r, i, CODE)) {
        split_error(d.error_message, code, &d.error_message);
        d.error_code = code;
    }
    d.next_attempt_us = outrider__pg_get_time(r, i, NEXT, 0);
    d.parked_at_us = d.updated_at_us = outrider__pg_get_time(r, i, DIED, 0);
    l->row(l->ctx, &d);
    return 0;
}

static int list_table(struct pg_store *s, const struct outbox_table *a, void *ctx,
                      struct outrider_error *err)
{
    const struct listing *l = ctx;
    struct pg_args args;
    struct strbuf q;
    struct batch b;
    PGresult *r = NULL;
    if (a->parks_dead)
        return 0;
    if (outrider__batch_init(&b, 1, SIZE_MAX, err) < 0)
        return -1;
    outrider__strbuf_init(&q, SQL_CAP);
    list_sql(&q, a);
    add_filter(&args, l->filter);
    int rc = run(s, &q, &args, "cannot list the dead letters", &r, err);
    outrider__pg_args_release(&args);
    if (rc == 0) {
        for (int i = 0; rc == 0 && i < PQntuples(r); i++)
            rc = tell_row(s, r, i, &b, l, err);
        PQclear(r);
    }
    outrider__batch_release(&b);
    return rc;
}

int outrider__pg_tables_dead_list(struct pg_store *s, const struct dead_filter *f,
                                  void (*row)(void *, const struct dead_row *), void *ctx,
                                  struct outrider_error *err)
{
    struct listing l = {f, row, ctx};
    return each_table(s, list_table, &l, err);
}

struct change {
    const struct dead_filter *filter;
    bool is_discard;
    uint64_t n;
};

static void retry_sql(struct strbuf *q, const struct outbox_table *a)
{
    static const enum column_role sets[] = {ROLE_ATTEMPTS,  ROLE_NEXT_ATTEMPT_AT, ROLE_LOCKED_BY,
                                            ROLE_LOCKED_AT, ROLE_LOCKED_UNTIL,    ROLE_UPDATED_AT};
    outrider__strbuf_appendf(q, "UPDATE %s o SET ", a->outbox);
    outrider__pg_sql_ident(q, a->map.columns[ROLE_STATUS]->name);
    strbuf_append_str(q, " = ");
    outrider__pg_sql_literal(q, a->map.values[STATE_PENDING]);
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        if (a->map.columns[sets[i]] == NULL)
            continue;
        strbuf_append_str(q, ", ");
        outrider__pg_sql_ident(q, a->map.columns[sets[i]]->name);
        strbuf_append_str(q, " = ");
        if (sets[i] == ROLE_ATTEMPTS)
            strbuf_append_str(q, "0");
        else if (sets[i] == ROLE_UPDATED_AT)
            outrider__pg_sql_stamp(q, a, ROLE_UPDATED_AT, "now()");
        else
            outrider__pg_sql_nothing(q, a, sets[i]);
    }
}

/* Rows whose copy in outrider_parked the store is about to change. */
static void with_copies_sql(struct strbuf *q, const struct outbox_table *a)
{
    strbuf_append_str(q, " WHERE ");
    outrider__pg_sql_id(q, a, "o.");
    outrider__strbuf_appendf(q, " IN (SELECT p.id FROM %s p WHERE p.outbox = ", a->parked_table);
    outrider__pg_sql_literal(q, a->outbox);
    strbuf_append_str(
        q, " AND (p.state = 'dead' OR $4::bool) AND ($1::text[] IS NULL OR p.id = "
           "ANY ($1::text[])) AND ($2::text IS NULL OR p.event_type IN ($2::text, '\\x' || "
           "encode(convert_to($2::text, 'UTF8'), 'hex'))) AND "
           "p.updated_at >= $3::timestamptz AND ($5::text IS NULL OR p.pipeline = "
           "$5::text))");
}

static int change_table(struct pg_store *s, const struct outbox_table *a, void *ctx,
                        struct outrider_error *err)
{
    struct change *c = ctx;
    struct pg_args args;
    struct strbuf q;
    PGresult *r = NULL;
    if (a->map.waits_for_words)
        return 0; /* no row of it was ever read */
    if (a->parks_dead && !c->is_discard && a->map.mark != MARK_STATUS)
        return 0; /* the row itself does not know */
    outrider__strbuf_init(&q, SQL_CAP);
    if (c->is_discard)
        outrider__strbuf_appendf(&q, "DELETE FROM %s o", a->outbox);
    else
        retry_sql(&q, a);
    add_filter(&args, c->filter);
    if (a->parks_dead) {
        with_copies_sql(&q, a);
        outrider__pg_arg_str(&args, c->filter->pipeline);
    } else {
        filter_sql(&q, a);
    }
    int rc = run(s, &q, &args, "cannot change the dead letters", &r, err);
    outrider__pg_args_release(&args);
    if (rc < 0)
        return -1;
    if (!a->parks_dead)
        c->n += outrider__pg_store_changed(r);
    PQclear(r);
    return 0;
}

int outrider__pg_tables_dead_change(struct pg_store *s, const struct dead_filter *f,
                                    bool is_discard, uint64_t *ret_n, struct outrider_error *err)
{
    struct change c = {f, is_discard, 0};
    if (each_table(s, change_table, &c, err) < 0)
        return -1;
    *ret_n = c.n;
    return 0;
}

struct sweep {
    int64_t older_than_us;
    uint64_t limit, n;
};

static int clean_table(struct pg_store *s, const struct outbox_table *a, void *ctx,
                       struct outrider_error *err)
{
    struct sweep *w = ctx;
    struct pg_args args;
    struct strbuf q;
    PGresult *r = NULL;
    if (w->n >= w->limit)
        return 0;
    outrider__strbuf_init(&q, SQL_CAP);
    outrider__pg_sql_cleanup(&q, a);
    outrider__pg_args_init(&args);
    outrider__pg_arg_time(&args, w->older_than_us);
    outrider__pg_arg_int8(&args, (int64_t)(w->limit - w->n));
    int rc = run(s, &q, &args, "cannot clean up", &r, err);
    outrider__pg_args_release(&args);
    if (rc < 0)
        return -1;
    w->n += outrider__pg_store_changed(r);
    PQclear(r);
    return 0;
}

int outrider__pg_tables_cleanup(struct pg_store *s, int64_t older_than_us, uint64_t limit,
                                uint64_t *ret_removed, struct outrider_error *err)
{
    struct sweep w = {older_than_us, limit, 0};
    if (each_table(s, clean_table, &w, err) < 0)
        return -1;
    *ret_removed = w.n;
    return 0;
}
