/* SPDX-License-Identifier: MIT */
/* Dead letters that stand in the rows themselves; copies in outrider_parked are the store's. */
#include <stdio.h>

#include "common/sql.h"
#include "postgres/store/store.h"
#include "postgres/table/table.h"
#include "table.sql.h"

/* When a dead row died, best known. */
static void dead_died_at(struct strbuf *q, const struct outbox_table *a)
{
    enum column_role role =
        a->map.columns[ROLE_UPDATED_AT] != NULL ? ROLE_UPDATED_AT : ROLE_CREATED_AT;
    if (a->map.columns[role] == NULL) {
        strbuf_append_str(q, "now()");
        return;
    }
    outrider__pg_sql_time(q, a, role, "o.");
}

/* The row's event type is $2. */
static void dead_has_type(struct strbuf *q, const struct outbox_table *a)
{
    bool is_bytes = table_is_bytes(a, ROLE_EVENT_TYPE);
    strbuf_append_str(q, is_bytes ? "convert_to($2::text, 'UTF8') = " : "$2::text = ");
    if (table_has(a, ROLE_EVENT_TYPE)) {
        outrider__sql_column(q, a, ROLE_EVENT_TYPE, "o.");
        strbuf_append_str(q, is_bytes ? "" : "::text");
    } else {
        outrider__sql_literal(q, a->map.event_type);
    }
}

/* One of the blocks table_dead_filter and table_with_copies. */
static void dead_where(struct strbuf *q, const struct outbox_table *a, const char *block)
{
    struct strbuf is_dead, is_failed, id, has_type, died_at, outbox;
    struct strbuf *const parts[] = {&is_dead, &is_failed, &id, &has_type, &died_at, &outbox};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        outrider__strbuf_init(parts[i], SQL_TEXT_CAP);
    if (a->map.mark == MARK_STATUS)
        outrider__sql_is_state(&is_dead, a, STATE_DEAD, "o.");
    if (a->map.mark == MARK_STATUS && a->map.values[STATE_FAILED][0] != '\0')
        outrider__sql_is_state(&is_failed, a, STATE_FAILED, "o.");
    else
        strbuf_append_str(&is_failed, "false");
    outrider__pg_sql_id(&id, a, "o.");
    dead_has_type(&has_type, a);
    dead_died_at(&died_at, a);
    outrider__sql_literal(&outbox, a->outbox);
    const struct sql_word words[] = {
        {"is_dead", strbuf_cstr(&is_dead)}, {"is_failed", strbuf_cstr(&is_failed)},
        {"id", strbuf_cstr(&id)},           {"has_type", strbuf_cstr(&has_type)},
        {"died_at", strbuf_cstr(&died_at)}, {"outbox", strbuf_cstr(&outbox)},
        {"parked", a->parked_table},
    };
    strbuf_append_char(q, ' ');
    outrider__sql_append(q, block, words, sizeof words / sizeof *words);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        q->failed |= parts[i]->failed;
        outrider__strbuf_release(parts[i]);
    }
}

static void dead_add_filter(struct pg_args *args, const struct dead_filter *f)
{
    outrider__pg_args_init(args);
    if (f->n_ids > 0) {
        outrider__pg_array_begin(args, PG_TEXT);
        for (size_t i = 0; i < f->n_ids; i++)
            outrider__pg_array_text(args, bytes_str(f->ids[i]));
        outrider__pg_array_end(args);
    } else {
        outrider__pg_arg_null(args, PG_TEXT_ARRAY);
    }
    outrider__pg_arg_str(args, f->event_type);
    outrider__pg_arg_time(args, f->since_us);
    outrider__pg_arg_bool(args, f->with_parked);
}

struct dead_listing {
    const struct dead_filter *filter;
    void (*row)(void *, const struct dead_row *);
    void *ctx;
};

static void dead_optional(struct strbuf *q, const struct outbox_table *a, enum column_role role,
                          const char *type)
{
    strbuf_append_str(q, ", ");
    if (a->map.columns[role] != NULL)
        outrider__sql_column(q, a, role, "o.");
    else
        strbuf_append_str(q, "NULL");
    outrider__strbuf_appendf(q, "::%s", type);
}

static void dead_list_sql(struct strbuf *q, const struct outbox_table *a)
{
    strbuf_append_str(q, "SELECT ");
    outrider__pg_sql_event(q, a, "o.", NULL);
    dead_optional(q, a, ROLE_ATTEMPTS, "int4");
    strbuf_append_str(q, ", CASE WHEN ");
    outrider__sql_is_state(q, a, STATE_DEAD, "o.");
    strbuf_append_str(q, " THEN 'dead' ELSE 'parked' END");
    dead_optional(q, a, ROLE_LAST_ERROR_CODE, "text");
    dead_optional(q, a, ROLE_LAST_ERROR, "text");
    strbuf_append_str(q, ", ");
    if (a->map.columns[ROLE_NEXT_ATTEMPT_AT] != NULL)
        outrider__pg_sql_time(q, a, ROLE_NEXT_ATTEMPT_AT, "o.");
    else
        strbuf_append_str(q, "NULL::timestamptz");
    strbuf_append_str(q, ", ");
    dead_died_at(q, a);
    outrider__strbuf_appendf(q, " FROM %s o", a->outbox);
    dead_where(q, a, sql_table_dead_filter);
    outrider__pg_sql_order(q, a, "o.");
}

/* Where there is one column for both, "CODE: text" stands in it. */
static void dead_split_error(const char *text, char code[32], const char **ret_message)
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

static int dead_tell_row(struct pg_store *s, const PGresult *r, int i, struct batch *b,
                         const struct dead_listing *l, struct outrider_error *err)
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
        dead_split_error(d.error_message, code, &d.error_message);
        d.error_code = code;
    }
    d.next_attempt_us = outrider__pg_get_time(r, i, NEXT, 0);
    d.parked_at_us = d.updated_at_us = outrider__pg_get_time(r, i, DIED, 0);
    l->row(l->ctx, &d);
    return 0;
}

static int dead_list_table(struct pg_store *s, const struct outbox_table *a, void *ctx,
                           struct outrider_error *err)
{
    const struct dead_listing *l = ctx;
    struct pg_args args;
    struct strbuf q;
    struct batch b;
    PGresult *r = NULL;
    if (a->parks_dead)
        return 0;
    if (outrider__batch_init(&b, 1, SIZE_MAX, err) < 0)
        return -1;
    outrider__strbuf_init(&q, SQL_TEXT_CAP);
    dead_list_sql(&q, a);
    dead_add_filter(&args, l->filter);
    int rc = outrider__pg_tables_query(s, &q, &args, "cannot list the dead letters", &r, err);
    outrider__pg_args_release(&args);
    if (rc == 0) {
        for (int i = 0; rc == 0 && i < PQntuples(r); i++)
            rc = dead_tell_row(s, r, i, &b, l, err);
        PQclear(r);
    }
    outrider__batch_release(&b);
    return rc;
}

int outrider__pg_tables_dead_list(struct pg_store *s, const struct dead_filter *f,
                                  void (*row)(void *, const struct dead_row *), void *ctx,
                                  struct outrider_error *err)
{
    struct dead_listing l = {f, row, ctx};
    return outrider__pg_tables_each(s, dead_list_table, &l, err);
}

struct dead_change {
    const struct dead_filter *filter;
    bool is_discard;
    uint64_t n;
};

static void dead_retry_sql(struct strbuf *q, const struct outbox_table *a)
{
    static const enum column_role sets[] = {ROLE_ATTEMPTS,  ROLE_NEXT_ATTEMPT_AT, ROLE_LOCKED_BY,
                                            ROLE_LOCKED_AT, ROLE_LOCKED_UNTIL,    ROLE_UPDATED_AT};
    outrider__strbuf_appendf(q, "UPDATE %s o SET ", a->outbox);
    outrider__sql_name(q, a->map.columns[ROLE_STATUS]->name);
    strbuf_append_str(q, " = ");
    outrider__sql_literal(q, a->map.values[STATE_PENDING]);
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        if (a->map.columns[sets[i]] == NULL)
            continue;
        strbuf_append_str(q, ", ");
        outrider__sql_name(q, a->map.columns[sets[i]]->name);
        strbuf_append_str(q, " = ");
        if (sets[i] == ROLE_ATTEMPTS)
            strbuf_append_str(q, "0");
        else if (sets[i] == ROLE_UPDATED_AT)
            outrider__pg_sql_stamp(q, a, ROLE_UPDATED_AT, "now()");
        else
            outrider__sql_nothing(q, &outrider__pg_table_dialect, a, sets[i]);
    }
}

static int dead_change_table(struct pg_store *s, const struct outbox_table *a, void *ctx,
                             struct outrider_error *err)
{
    struct dead_change *c = ctx;
    struct pg_args args;
    struct strbuf q;
    PGresult *r = NULL;
    if (a->map.waits_for_words)
        return 0; /* no row of it was ever read */
    if (a->parks_dead && !c->is_discard && a->map.mark != MARK_STATUS)
        return 0; /* the row itself does not know */
    outrider__strbuf_init(&q, SQL_TEXT_CAP);
    if (c->is_discard)
        outrider__strbuf_appendf(&q, "DELETE FROM %s o", a->outbox);
    else
        dead_retry_sql(&q, a);
    dead_add_filter(&args, c->filter);
    if (a->parks_dead) {
        dead_where(&q, a, sql_table_with_copies);
        outrider__pg_arg_str(&args, c->filter->pipeline);
    } else {
        dead_where(&q, a, sql_table_dead_filter);
    }
    int rc = outrider__pg_tables_query(s, &q, &args, "cannot change the dead letters", &r, err);
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
    struct dead_change c = {f, is_discard, 0};
    if (outrider__pg_tables_each(s, dead_change_table, &c, err) < 0)
        return -1;
    *ret_n = c.n;
    return 0;
}
