/* SPDX-License-Identifier: MIT */
/*
 * The PostgreSQL store: store.c (connection, put, clean-up), store/schema.c
 * (init), store/dead.c (status and dead letters), store/doctor.c,
 * store/resync.c, store/pipeline.c, store/slot.c.
 */
#ifndef POSTGRES_STORE_H
#define POSTGRES_STORE_H

#include "postgres/wire/catalog.h"
#include "core/config.h"
#include "core/store.h"
#include "postgres/shared/guard.h"
#include "postgres/wire/statements.h"
#include "postgres/wire/wire.h"

#define PG_SCHEMA_VERSION 3

struct pg_store {
    struct store base; /* must stay first */
    const struct pipeline_config *config;
    PGconn *pg;
    struct pg_catalog cat;
};

static inline struct pg_store *pg_store_of(struct store *s)
{
    return (struct pg_store *)s;
}

/* Connects unless that is done. */
int outrider__pg_store_connect(struct pg_store *s, struct outrider_error *err);
/* That, and reads the catalogue. */
int outrider__pg_store_catalog(struct pg_store *s, struct outrider_error *err);
/* That, and the tables are there: what every command but init needs. */
int outrider__pg_store_ready(struct pg_store *s, struct outrider_error *err);
/* Whether all rows can be seen; is_strict: and are where a relay looks (guard.h). */
int outrider__pg_store_guard(struct pg_store *s, bool is_strict, struct outrider_error *err);
/* One statement; *ret_result is the caller's to clear, and may be NULL if not wanted. */
int outrider__pg_store_query(struct pg_store *s, const char *sql, const struct pg_args *args,
                             const char *what, PGresult **ret_result, struct outrider_error *err);
/* The same for a block of a .sql file. words: NULL are those of the catalogue alone. */
int outrider__pg_store_run(struct pg_store *s, const struct pg_block *block,
                           const struct pg_words *words, const struct pg_args *args,
                           PGresult **ret_result, struct outrider_error *err);
/* Any number of statements without results. */
int outrider__pg_store_exec(struct pg_store *s, const char *sql, const char *what,
                            struct outrider_error *err);
uint64_t outrider__pg_store_changed(const PGresult *r);
/* The table that config names, or "outbox". */
const char *outrider__pg_store_table(const struct pg_store *s);

int outrider__pg_store_init(struct store *s, const struct init_options *o, struct strbuf *ret_sql,
                            struct outrider_error *err);
int outrider__pg_store_count_failed(struct store *s, uint64_t *ret_parked, uint64_t *ret_dead,
                                    struct outrider_error *err);
int outrider__pg_store_status(struct store *s, void (*row)(void *, const struct store_status *),
                              void *ctx, struct outrider_error *err);
int outrider__pg_store_dead_list(struct store *s, const struct dead_filter *f,
                                 void (*row)(void *, const struct dead_row *), void *ctx,
                                 struct outrider_error *err);
int outrider__pg_store_dead_retry(struct store *s, const struct dead_filter *f, uint64_t *ret_n,
                                  struct outrider_error *err);
int outrider__pg_store_dead_discard(struct store *s, const struct dead_filter *f, uint64_t *ret_n,
                                    struct outrider_error *err);
int outrider__pg_store_cleanup(struct store *s, int64_t older_than_us, uint64_t limit,
                               uint64_t *ret_removed, struct outrider_error *err);
int outrider__pg_store_doctor(struct store *s, finding_fn *found, void *ctx,
                              struct outrider_error *err);
/* Adds the pipeline's slot to its row; in mode cdc also what is pending. */
int outrider__pg_store_slot_status(struct pg_store *s, struct store_status *st,
                                   struct outrider_error *err);
int outrider__pg_store_slot_drop(struct store *s, struct strbuf *ret_report,
                                 struct outrider_error *err);
int outrider__pg_store_slot_adopt(struct store *s, const struct stream_adoption *o,
                                  struct strbuf *ret_report, struct outrider_error *err);
/* The slot that the cursor records, or else the one that would get the pipeline's name now;
 * the same for the publication. */
int outrider__pg_store_find_slot(struct pg_store *s, char ret_slot[64], char ret_publication[64],
                                 struct outrider_error *err);
/* Drops a slot of this database that nobody reads. */
int outrider__pg_store_drop(struct pg_store *s, const char *slot, bool *ret_was_there,
                            struct outrider_error *err);
/* Forgets an adoption that did not come to its end. */
int outrider__pg_store_forget_adoption(struct pg_store *s, bool *ret_was_there,
                                       struct outrider_error *err);
/* A pipeline in mode cdc whose slot is lost goes back to polling. */
int outrider__pg_store_slot_resync(struct pg_store *s, struct strbuf *ret_report,
                                   struct outrider_error *err);
int outrider__pg_store_resync(struct store *s, struct strbuf *ret_report,
                              struct outrider_error *err);
int outrider__pg_store_move(struct store *s, struct strbuf *ret_report, struct outrider_error *err);
int outrider__pg_store_reset_intent(struct store *s, const struct commit_mark *progress,
                                    struct strbuf *ret_report, struct outrider_error *err);

#endif
