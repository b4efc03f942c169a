/* SPDX-License-Identifier: MIT */
/*
 * The words that a status column holds: which words there are, which words were
 * remembered, and which rows no word covers. Where an index begins with the column, each
 * word is one look into the index, however large the table is.
 */
#include "common/sql.h"
#include "postgres/store/store.h"
#include "postgres/table/table.h"
#include "table.sql.h"

/* Result columns of table_words. */
enum { WORDS_ROWS, WORDS_REMEMBERED };
/* Result columns of table_uncovered and table_uncovered_indexed. */
enum { UNCOVERED_WORD, UNCOVERED_COUNT };

#define N(words) (sizeof(words) / sizeof *(words))

/* The words of the rows, as text between unit separators. */
static void words_of_rows(struct strbuf *sql, const struct outbox_table *a,
                          const struct map_column *status)
{
    struct strbuf each;
    outrider__strbuf_init(&each, SQL_TEXT_CAP);
    struct sql_word words[] = {
        {"table", a->outbox}, {"column", status->quoted}, {"each_word", NULL}};
    outrider__sql_append(&each, sql_table_each_word, words, N(words));
    words[2].value = strbuf_cstr(&each);
    if (status->kind == KIND_ENUM) /* the labels of its type are its words */
        strbuf_append_str(sql, "NULL::text");
    else
        outrider__sql_append(sql,
                             status->is_indexed ? sql_table_words_indexed : sql_table_words_sampled,
                             words, N(words));
    sql->failed |= each.failed;
    outrider__strbuf_release(&each);
}

static void words_remembered(struct strbuf *sql, const struct outbox_table *a, const char *pipeline)
{
    struct strbuf outbox, name;
    if (a->cursor_table[0] == '\0') {
        strbuf_append_str(sql, "NULL::text");
        return;
    }
    outrider__strbuf_init(&outbox, 1024);
    outrider__strbuf_init(&name, 1024);
    outrider__sql_literal(&outbox, a->outbox);
    outrider__sql_literal(&name, pipeline);
    const struct sql_word words[] = {{"cursor", a->cursor_table},
                                     {"outbox", strbuf_cstr(&outbox)},
                                     {"pipeline", strbuf_cstr(&name)}};
    outrider__sql_append(sql, sql_table_words_remembered, words, N(words));
    sql->failed |= outbox.failed || name.failed;
    outrider__strbuf_release(&outbox);
    outrider__strbuf_release(&name);
}

void outrider__pg_table_words_sql(const struct outbox_table *a,
                                  const struct pipeline_config *config, struct strbuf *sql)
{
    const struct map_column *status = outrider__study_status(a, config);
    struct strbuf rows, remembered;
    if (status == NULL)
        return;
    outrider__strbuf_init(&rows, SQL_TEXT_CAP);
    outrider__strbuf_init(&remembered, SQL_TEXT_CAP);
    words_of_rows(&rows, a, status);
    words_remembered(&remembered, a, config->name);
    const struct sql_word words[] = {{"rows", strbuf_cstr(&rows)},
                                     {"remembered", strbuf_cstr(&remembered)}};
    outrider__sql_append(sql, sql_table_words, words, N(words));
    sql->failed |= rows.failed || remembered.failed;
    outrider__strbuf_release(&rows);
    outrider__strbuf_release(&remembered);
}

int outrider__pg_table_words(const PGresult *r, struct arena *arena, struct study_words *ret_words,
                             struct outrider_error *err)
{
    struct bytes rows = BYTES_NULL, remembered = BYTES_NULL;
    *ret_words = (struct study_words){0};
    if (PQntuples(r) == 0)
        return 0;
    if (outrider__arena_dup(arena, outrider__pg_get_bytes(r, 0, WORDS_ROWS), &rows) < 0 ||
        outrider__arena_dup(arena, outrider__pg_get_bytes(r, 0, WORDS_REMEMBERED), &remembered) < 0)
        return outrider__fail_nomem(err);
    ret_words->remembered = remembered.data;
    return outrider__pg_table_split(arena, rows.data, &ret_words->rows) < 0
               ? outrider__fail_nomem(err)
               : 0;
}

/* Every word that the map knows, as a list. */
static void words_known(struct strbuf *sql, const struct outbox_table *a)
{
    const char *before = "";
    for (int s = 0; s < STATE_COUNT; s++) {
        if (a->map.values[s][0] == '\0')
            continue;
        strbuf_append_str(sql, before);
        outrider__sql_literal(sql, a->map.values[s]);
        before = ", ";
    }
}

/* A row that a time says was published needs no word. */
static void words_and_unpublished(struct strbuf *sql, const struct outbox_table *a,
                                  const char *pipeline)
{
    if (a->map.columns[ROLE_PUBLISHED_AT] != NULL) {
        strbuf_append_str(sql, "AND ");
        outrider__sql_column(sql, a, ROLE_PUBLISHED_AT, "o.");
        strbuf_append_str(sql, " IS NULL");
    }
    if (pipeline == NULL)
        return;
    struct strbuf name;
    outrider__strbuf_init(&name, 1024);
    outrider__sql_literal(&name, pipeline);
    outrider__pg_sql_not_streamed(sql, a, strbuf_cstr(&name));
    sql->failed |= name.failed;
    outrider__strbuf_release(&name);
}

/* " ORDER BY ... DESC" by a column that has an index and says which rows are new. */
static void words_newest_first(struct strbuf *sql, const struct outbox_table *a)
{
    static const enum column_role orders[] = {ROLE_SEQ, ROLE_CREATED_AT};
    for (size_t i = 0; i < N(orders); i++) {
        const struct map_column *c = a->map.columns[orders[i]];
        if (c == NULL || !c->is_indexed)
            continue;
        strbuf_append_str(sql, "ORDER BY ");
        outrider__sql_column(sql, a, orders[i], "s.");
        strbuf_append_str(sql, " DESC");
        return;
    }
}

/* The newest rows, if an index knows them; else any rows. */
static void words_sample(struct strbuf *sql, const struct outbox_table *a)
{
    struct strbuf published, order;
    outrider__strbuf_init(&published, 1024);
    outrider__strbuf_init(&order, 1024);
    if (a->map.columns[ROLE_PUBLISHED_AT] != NULL) {
        strbuf_append_str(&published, ", ");
        outrider__sql_column(&published, a, ROLE_PUBLISHED_AT, "s.");
    }
    words_newest_first(&order, a);
    const struct sql_word words[] = {{"table", a->outbox},
                                     {"column", a->map.columns[ROLE_STATUS]->quoted},
                                     {"published_at", strbuf_cstr(&published)},
                                     {"order", strbuf_cstr(&order)}};
    outrider__sql_append(sql, sql_table_newest_rows, words, N(words));
    sql->failed |= published.failed || order.failed;
    outrider__strbuf_release(&published);
    outrider__strbuf_release(&order);
}

void outrider__pg_sql_uncovered(struct strbuf *sql, const struct outbox_table *a,
                                const char *pipeline)
{
    const struct map_column *status = a->map.columns[ROLE_STATUS];
    struct strbuf each, known, unpublished, rows;
    outrider__strbuf_init(&each, SQL_TEXT_CAP);
    outrider__strbuf_init(&known, SQL_TEXT_CAP);
    outrider__strbuf_init(&unpublished, SQL_TEXT_CAP);
    outrider__strbuf_init(&rows, SQL_TEXT_CAP);
    words_known(&known, a);
    words_and_unpublished(&unpublished, a, pipeline);
    if (pipeline == NULL)
        words_sample(&rows, a);
    else
        strbuf_append_str(&rows, a->outbox);
    struct sql_word words[] = {
        {"table", a->outbox},           {"column", status->quoted},
        {"known", strbuf_cstr(&known)}, {"unpublished", strbuf_cstr(&unpublished)},
        {"rows", strbuf_cstr(&rows)},   {"each_word", NULL}};
    outrider__sql_append(&each, sql_table_each_word, words, N(words));
    words[N(words) - 1].value = strbuf_cstr(&each);
    outrider__sql_append(sql,
                         status->is_indexed ? sql_table_uncovered_indexed : sql_table_uncovered,
                         words, N(words));
    sql->failed |= each.failed || known.failed || unpublished.failed || rows.failed;
    outrider__strbuf_release(&each);
    outrider__strbuf_release(&known);
    outrider__strbuf_release(&unpublished);
    outrider__strbuf_release(&rows);
}

uint64_t outrider__pg_table_uncovered(const PGresult *r, struct strbuf *ret_words)
{
    uint64_t n = 0;
    for (int i = 0; i < PQntuples(r); i++) {
        int64_t count = outrider__pg_get_int(r, i, UNCOVERED_COUNT, 0);
        n += (uint64_t)count;
        strbuf_append_str(ret_words, i > 0 ? ", " : "");
        if (PQgetisnull(r, i, UNCOVERED_WORD))
            outrider__strbuf_appendf(ret_words, "NULL (%lld)", (long long)count);
        else
            outrider__strbuf_appendf(ret_words, "'%.40s' (%lld)",
                                     outrider__pg_get_str(r, i, UNCOVERED_WORD), (long long)count);
    }
    return n;
}

int outrider__pg_tables_uncovered(struct pg_store *s, const struct outbox_table *a,
                                  const char *pipeline, struct strbuf *ret_words, uint64_t *ret_n,
                                  struct outrider_error *err)
{
    struct strbuf sql;
    PGresult *r = NULL;
    *ret_n = 0;
    if (a->map.mark != MARK_STATUS || a->map.waits_for_words)
        return 0;
    outrider__strbuf_init(&sql, SQL_TEXT_CAP);
    outrider__pg_sql_uncovered(&sql, a, pipeline);
    if (outrider__pg_tables_query(s, &sql, NULL, "cannot look at the states", &r, err) < 0)
        return -1;
    *ret_n = outrider__pg_table_uncovered(r, ret_words);
    PQclear(r);
    return 0;
}
