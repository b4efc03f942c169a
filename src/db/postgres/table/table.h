/* SPDX-License-Identifier: MIT */
/*
 * Outbox tables whose rows carry their state (common/outbox_table.h): our own tables of
 * layout status, and adopted tables. Here are their description from the catalogue, SQL
 * made from their map, and what the commands status, dead, cleanup and doctor do to them.
 */
#ifndef POSTGRES_TABLE_H
#define POSTGRES_TABLE_H

#include "postgres/wire/catalog.h"
#include "postgres/shared/columns.h"
#include "postgres/wire/conn.h"
#include "common/table_sql.h"
#include "core/store.h"
#include "common/table_study.h"

/* $1: the table's name as the user wrote it. Result columns: describe.c. */
extern const char *const outrider__pg_table_sql;
/* Takes its rows; strings live in the arena. Without rows: NO_OUTBOX. */
int outrider__pg_table_describe(struct outbox_table *a, const struct pg_catalog *cat,
                                const PGresult *r, const char *asked, struct arena *arena,
                                struct outrider_error *err);
extern const struct map_phrases outrider__pg_map_phrases;
/* The text of a literal that is all of a default ('a', 'a'::text); NULL: it is something else. */
const char *outrider__pg_default_value(struct arena *arena, const char *sql);
/* Texts between unit separators; NULL: none. */
int outrider__pg_table_split(struct arena *arena, const char *text, struct string_list *ret_list);

/*
 * table/words.c: the words of a status column.
 */
/* SQL for what the rows and an earlier start say of them; nothing, if the study needs no
 * words. */
void outrider__pg_table_words_sql(const struct outbox_table *a,
                                  const struct pipeline_config *config, struct strbuf *sql);
/* Takes its row. */
int outrider__pg_table_words(const PGresult *r, struct arena *arena, struct study_words *ret_words,
                             struct outrider_error *err);
/* SQL for the rows that no word covers and nothing else marks as published, one row a
 * word: the word or NULL, and how many. Without a pipeline: at small cost, of the
 * newest rows; with one: all that it has not settled in mode cdc. */
void outrider__pg_sql_uncovered(struct strbuf *sql, const struct outbox_table *a,
                                const char *pipeline);
/* How many that are, and "'NEW' (2), NULL (1)". */
uint64_t outrider__pg_table_uncovered(const PGresult *r, struct strbuf *ret_words);
/* Whether such a table is read as rows with a state, by what the catalogue said of it. */
bool outrider__pg_table_has_states(const struct pg_catalog *cat,
                                   const struct pipeline_config *config);

/* One statement that makes outrider_cursor and outrider_parked where they are
 * missing; rights to create tables are needed only then. */
void outrider__pg_companions_sql(const struct pg_catalog *cat, struct strbuf *sql);

/* table/dialect.c: how PostgreSQL reads and writes the columns. */
extern const struct table_dialect outrider__pg_table_dialect;
/* Appends neutral text (common/dialect.h) as PostgreSQL's. */
void outrider__pg_sql_finish(struct strbuf *sql, const struct strbuf *neutral);

/* SQL pieces. alias: of the table, with its dot, or "". */
/*
 * table/time.c
 */
/* A column of a time, as timestamptz. */
static inline void outrider__pg_sql_time(struct strbuf *sql, const struct outbox_table *a,
                                         enum column_role role, const char *alias)
{
    outrider__sql_time(sql, &outrider__pg_table_dialect, a, role, alias);
}
/* A value in the form of that column, as timestamptz. */
void outrider__pg_sql_time_of(struct strbuf *sql, const struct outbox_table *a,
                              enum column_role role, const char *value);
/* A time (SQL, a timestamptz) in the form of that column. */
void outrider__pg_sql_stamp(struct strbuf *sql, const struct outbox_table *a, enum column_role role,
                            const char *when);

/* The id as text: bytes as hex, whatever bytea_output says. */
void outrider__pg_sql_id(struct strbuf *sql, const struct outbox_table *a, const char *alias);
/* The lane's name as SQL: a text as in outrider_parked (parked.h (4)), or bytes where a key
 * column holds bytes. */
void outrider__pg_sql_key(struct strbuf *sql, const struct outbox_table *a, const char *alias);
/* The same of a lane in outrider_parked. */
void outrider__pg_sql_lane(struct strbuf *sql, const struct outbox_table *a, const char *lane);
/* " AND ...": mode cdc has not settled the row's transaction. pipeline: its name as SQL;
 * the table is `o`. */
void outrider__pg_sql_not_streamed(struct strbuf *sql, const struct outbox_table *a,
                                   const char *pipeline);
/* Columns EV_SEQ to EV_LARGE. b NULL: whole, whatever their sizes. */
void outrider__pg_sql_event(struct strbuf *sql, const struct outbox_table *a, const char *alias,
                            const struct pg_bounds *b);
/* " ORDER BY ...", oldest first: by the sequence; else by the time, and rows of one time in the
 * order of insertion, as far as the heap tells. alias: of the table itself. */
void outrider__pg_sql_order(struct strbuf *sql, const struct outbox_table *a, const char *alias);
/* The same by values that never change, for reading page by page: rows of one time by id. */
void outrider__pg_sql_page_order(struct strbuf *sql, const struct outbox_table *a,
                                 const char *alias);
/* poll_status/sql.c: "UPDATE ..." that marks rows as published; $1: ids (text[]). */
void outrider__pg_mark_sql(struct strbuf *sql, const struct outbox_table *a);
/* The same for rows that failed; $1: ids (text[]), $2: text, $3: int8[], $4: text[], $5: int4[],
 * $6: int8[], $7 and $8: text[]. Empty, if the row has no place for it. */
void outrider__pg_failed_sql(struct strbuf *sql, const struct outbox_table *a);
/* "DELETE ..." of published and expired rows: $1 older than (timestamptz), $2 how many. */
void outrider__pg_sql_cleanup(struct strbuf *sql, const struct outbox_table *a);

struct pg_store;

/*
 * what the store does for such tables, all that the
 * configuration names. The store is ready: connected, its catalogue read.
 */
bool outrider__pg_store_has_states(const struct pg_store *s);
int outrider__pg_tables_status(struct pg_store *s, void (*row)(void *, const struct store_status *),
                               void *ctx, struct outrider_error *err);
/* Dead rows (and failed ones, if asked for) that the tables themselves hold;
 * copies in outrider_parked are the store's. */
int outrider__pg_tables_dead_list(struct pg_store *s, const struct dead_filter *f,
                                  void (*row)(void *, const struct dead_row *), void *ctx,
                                  struct outrider_error *err);
/* The tables' part of a change, before outrider_parked is changed, in the same
 * transaction: rows of dead letters become pending, or go. ret_n counts those
 * that have no copy in outrider_parked. */
int outrider__pg_tables_dead_change(struct pg_store *s, const struct dead_filter *f,
                                    bool is_discard, uint64_t *ret_n, struct outrider_error *err);
int outrider__pg_tables_cleanup(struct pg_store *s, int64_t older_than_us, uint64_t limit,
                                uint64_t *ret_removed, struct outrider_error *err);
/* table/words.c: the rows of one table that no word covers; see outrider__pg_sql_uncovered(). */
int outrider__pg_tables_uncovered(struct pg_store *s, const struct outbox_table *a,
                                  const char *pipeline, struct strbuf *ret_words, uint64_t *ret_n,
                                  struct outrider_error *err);
/* table/doctor.c */
int outrider__pg_tables_doctor(struct pg_store *s, finding_fn *found, void *ctx,
                               struct outrider_error *err);

/* table/grants.c: what the role outrider_relay needs on the adopted tables, for init. */
int outrider__pg_tables_grants(struct pg_store *s, struct strbuf *sql, struct outrider_error *err);

/* Studies the i-th table of the configuration. */
int outrider__pg_tables_load(struct pg_store *s, size_t i, enum study_purpose purpose,
                             struct arena *arena, struct outbox_table *ret_table,
                             struct outrider_error *err);
/* Calls fn for each table of the configuration, until one fails. */
typedef int pg_table_fn(struct pg_store *s, const struct outbox_table *a, void *ctx,
                        struct outrider_error *err);
int outrider__pg_tables_each(struct pg_store *s, pg_table_fn *fn, void *ctx,
                             struct outrider_error *err);
/* Runs the statement, and releases it. */
int outrider__pg_tables_query(struct pg_store *s, struct strbuf *sql, const struct pg_args *args,
                              const char *what, PGresult **ret_result, struct outrider_error *err);
size_t outrider__pg_tables_count(const struct pg_store *s);

#endif
