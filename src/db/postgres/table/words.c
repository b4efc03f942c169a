/* SPDX-License-Identifier: MIT */
/*
 * The words that a status column holds: which there are, which were remembered, and
 * which rows no word covers. Where an index begins with the column, each word is
 * one look into it, however large the table is.
 */
#include "postgres/table/table.h"
#include "postgres/store/store.h"

#define SQL_CAP 65536
#define WORDS_MAX "100"
#define COUNT_MAX "1000000"
#define SAMPLE_ROWS 10000
#define LEARN_ROWS 1000000

/* WITH RECURSIVE w(v, n): every word that the column has, NULL not among them. */
static void each_word(struct strbuf *sql, const struct outbox_table *a,
                      const struct map_column *status)
{
    struct strbuf column;
    outrider__strbuf_init(&column, 1024);
    outrider__pg_sql_ident(&column, status->name);
    const char *c = strbuf_cstr(&column);
    outrider__strbuf_appendf(
        sql,
        "WITH RECURSIVE w(v, n) AS ((SELECT o.%s, 1 FROM %s o WHERE o.%s IS NOT NULL ORDER BY o.%s "
        "LIMIT 1) UNION ALL SELECT (SELECT o.%s FROM %s o WHERE o.%s > w.v ORDER BY o.%s LIMIT 1), "
        "w.n + 1 FROM w WHERE w.v IS NOT NULL AND w.n < " WORDS_MAX ") ",
        c, a->outbox, c, c, c, a->outbox, c, c);
    sql->failed |= column.failed;
    outrider__strbuf_release(&column);
}

static void found_words(struct strbuf *sql, const struct outbox_table *a,
                        const struct map_column *status)
{
    if (status->is_indexed) {
        each_word(sql, a, status);
        strbuf_append_str(sql,
                          "SELECT string_agg(w.v::text, chr(31)) FROM w WHERE w.v::text <> ''");
        return;
    }
    /* A part of it: all of a large table would take minutes. */
    strbuf_append_str(sql, "SELECT string_agg(v, chr(31)) FROM (SELECT DISTINCT v FROM (SELECT ");
    outrider__pg_sql_ident(sql, status->name);
    outrider__strbuf_appendf(sql,
                             "::text AS v FROM %s LIMIT %d) s WHERE v <> '' LIMIT " WORDS_MAX ") d",
                             a->outbox, LEARN_ROWS);
}

void outrider__pg_table_values_sql(const struct outbox_table *a,
                                   const struct pipeline_config *config,
                                   const struct pg_catalog *cat, struct strbuf *sql)
{
    const struct map_column *status = outrider__map_status(&a->table, config);
    /* The CHECK of our own table has all the words. */
    if (a->is_ours || status == NULL || config->map.status_values.n > 0 ||
        status->kind == KIND_INTEGER)
        return;
    strbuf_append_str(sql, "SELECT (");
    if (status->kind == KIND_ENUM)
        strbuf_append_str(sql, "NULL::text");
    else
        found_words(sql, a, status);
    strbuf_append_str(sql, "), ");
    if (cat->cursor_table[0] == '\0') {
        strbuf_append_str(sql, "NULL::text");
        return;
    }
    /* The words are the table's: those of another pipeline are as good. */
    outrider__strbuf_appendf(
        sql,
        "(SELECT k.words FROM (SELECT c.pipeline, c.outbox, to_jsonb(c)->>'words' AS words "
        "FROM %s c) k WHERE k.words IS NOT NULL AND k.outbox = ",
        cat->cursor_table);
    outrider__pg_sql_literal(sql, a->outbox);
    strbuf_append_str(sql, " ORDER BY k.pipeline = ");
    outrider__pg_sql_literal(sql, config->name);
    strbuf_append_str(sql, " DESC LIMIT 1)");
}

int outrider__pg_table_values(struct outbox_table *a, const struct pipeline_config *config,
                              const PGresult *r, struct arena *arena, struct outrider_error *err)
{
    const struct map_column *known = outrider__map_status(&a->table, config);
    struct bytes found = BYTES_NULL, remembered = BYTES_NULL;
    if (known == NULL || PQntuples(r) == 0)
        return 0;
    struct map_column *status = &a->table.columns[known - a->table.columns];
    if (outrider__arena_dup(arena, outrider__pg_get_bytes(r, 0, 0), &found) < 0 ||
        outrider__arena_dup(arena, outrider__pg_get_bytes(r, 0, 1), &remembered) < 0)
        return outrider__fail_nomem(err);
    a->table.remembered = remembered.data;
    if (status->kind == KIND_ENUM)
        return 0;
    status->all = (struct string_list){0};
    return outrider__pg_table_split(arena, found.data, &status->all) < 0 ? outrider__fail_nomem(err)
                                                                         : 0;
}

static void covered(struct strbuf *sql, const struct outbox_table *a)
{
    const char *before = "";
    for (int s = 0; s < STATE_COUNT; s++) {
        if (a->map.values[s][0] == '\0')
            continue;
        strbuf_append_str(sql, before);
        outrider__pg_sql_literal(sql, a->map.values[s]);
        before = ", ";
    }
}

/* A row that a time says was published needs no word. */
static void and_unpublished(struct strbuf *sql, const struct outbox_table *a, const char *pipeline)
{
    if (a->map.columns[ROLE_PUBLISHED_AT] != NULL) {
        strbuf_append_str(sql, " AND ");
        outrider__pg_sql_column(sql, a, ROLE_PUBLISHED_AT, "o.");
        strbuf_append_str(sql, " IS NULL");
    }
    if (pipeline == NULL)
        return;
    struct strbuf name;
    outrider__strbuf_init(&name, 1024);
    outrider__pg_sql_literal(&name, pipeline);
    outrider__pg_sql_not_streamed(sql, a, strbuf_cstr(&name));
    outrider__strbuf_release(&name);
}

/* "(SELECT count(*) ...)" of the rows with one word, of which there may be millions. */
static void count_of(struct strbuf *sql, const struct outbox_table *a, const char *pipeline,
                     const char *is_word)
{
    outrider__strbuf_appendf(sql, "(SELECT count(*) FROM (SELECT FROM %s o WHERE ", a->outbox);
    outrider__pg_sql_column(sql, a, ROLE_STATUS, "o.");
    strbuf_append_str(sql, is_word);
    and_unpublished(sql, a, pipeline);
    strbuf_append_str(sql, " LIMIT " COUNT_MAX ") x)");
}

/* By a look into the index for each word. */
static void uncovered_indexed(struct strbuf *sql, const struct outbox_table *a,
                              const char *pipeline)
{
    each_word(sql, a, a->map.columns[ROLE_STATUS]);
    strbuf_append_str(sql, "SELECT u.v, u.n FROM (SELECT w.v::text AS v, ");
    count_of(sql, a, pipeline, " = w.v");
    strbuf_append_str(sql, " AS n FROM w WHERE w.v IS NOT NULL AND w.v NOT IN (");
    covered(sql, a);
    strbuf_append_str(sql, ") UNION ALL SELECT NULL::text, ");
    count_of(sql, a, pipeline, " IS NULL");
    strbuf_append_str(sql, ") u WHERE u.n > 0 ORDER BY u.n DESC, u.v LIMIT 10");
}

/* The newest rows, if an index knows them; else any. */
static void sample_of(struct strbuf *sql, const struct outbox_table *a)
{
    static const enum column_role orders[] = {ROLE_SEQ, ROLE_CREATED_AT};
    strbuf_append_str(sql, "(SELECT ");
    outrider__pg_sql_column(sql, a, ROLE_STATUS, "s.");
    if (a->map.columns[ROLE_PUBLISHED_AT] != NULL) {
        strbuf_append_str(sql, ", ");
        outrider__pg_sql_column(sql, a, ROLE_PUBLISHED_AT, "s.");
    }
    outrider__strbuf_appendf(sql, " FROM %s s", a->outbox);
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        const struct map_column *c = a->map.columns[orders[i]];
        if (c == NULL || !c->is_indexed)
            continue;
        strbuf_append_str(sql, " ORDER BY ");
        outrider__pg_sql_column(sql, a, orders[i], "s.");
        strbuf_append_str(sql, " DESC");
        break;
    }
    outrider__strbuf_appendf(sql, " LIMIT %d)", SAMPLE_ROWS);
}

void outrider__pg_sql_uncovered(struct strbuf *sql, const struct outbox_table *a,
                                const char *pipeline)
{
    if (a->map.columns[ROLE_STATUS]->is_indexed) {
        uncovered_indexed(sql, a, pipeline);
        return;
    }
    strbuf_append_str(sql, "SELECT ");
    outrider__pg_sql_column(sql, a, ROLE_STATUS, "o.");
    strbuf_append_str(sql, "::text, count(*) FROM ");
    if (pipeline == NULL)
        sample_of(sql, a);
    else
        strbuf_append_str(sql, a->outbox);
    strbuf_append_str(sql, " o WHERE (");
    outrider__pg_sql_column(sql, a, ROLE_STATUS, "o.");
    strbuf_append_str(sql, " IN (");
    covered(sql, a);
    strbuf_append_str(sql, ")) IS NOT TRUE");
    and_unpublished(sql, a, pipeline);
    strbuf_append_str(sql, " GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 10");
}

uint64_t outrider__pg_table_uncovered(const PGresult *r, struct strbuf *ret_words)
{
    uint64_t n = 0;
    for (int i = 0; i < PQntuples(r); i++) {
        int64_t count = outrider__pg_get_int(r, i, 1, 0);
        n += (uint64_t)count;
        strbuf_append_str(ret_words, i > 0 ? ", " : "");
        if (PQgetisnull(r, i, 0))
            outrider__strbuf_appendf(ret_words, "NULL (%lld)", (long long)count);
        else
            outrider__strbuf_appendf(ret_words, "'%.40s' (%lld)", outrider__pg_get_str(r, i, 0),
                                     (long long)count);
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
    outrider__strbuf_init(&sql, SQL_CAP);
    outrider__pg_sql_uncovered(&sql, a, pipeline);
    int rc = sql.failed ? outrider__fail_nomem(err)
                        : outrider__pg_store_query(s, strbuf_cstr(&sql), NULL,
                                                   "cannot look at the states", &r, err);
    outrider__strbuf_release(&sql);
    if (rc < 0)
        return -1;
    *ret_n = outrider__pg_table_uncovered(r, ret_words);
    PQclear(r);
    return 0;
}
