/* SPDX-License-Identifier: MIT */
/* The SQLite store: store.c, store_dead.c, store_doctor.c, store_pipeline.c, store_resync.c.
 * Nobody else includes this. */
#ifndef SQLITE_STORE_H
#define SQLITE_STORE_H

#include "conn.h"
#include "core/store.h"

struct sqlite_store {
    struct store base; /* must stay first */
    const struct pipeline_config *config;
    char *path; /* as given */
    char *real; /* without symbolic links, once open */
    sqlite3 *db;
    struct outrider_writer *writer; /* kept between puts */
};

static inline struct sqlite_store *sqlite_store_of(struct store *s)
{
    return (struct sqlite_store *)s;
}

/* The database, open and of our schema. */
int outrider__sqlite_store_ready(struct sqlite_store *s, struct outrider_error *err);
/* The database, open, whatever is in it. */
int outrider__sqlite_store_connect(struct sqlite_store *s, bool may_create,
                                   struct outrider_error *err);
/* Makes a statement of a block of store.sql. */
int outrider__sqlite_store_prepare(struct sqlite_store *s, const char *block,
                                   const struct sqlite_words *words, sqlite3_stmt **ret_st,
                                   struct outrider_error *err);
int outrider__sqlite_store_begin(struct sqlite_store *s, struct outrider_error *err);
/* Commits if result is 0, else rolls back; the result of both. */
int outrider__sqlite_store_end(struct sqlite_store *s, int result, struct outrider_error *err);

int outrider__sqlite_count_failed(struct store *base, uint64_t *ret_parked, uint64_t *ret_dead,
                                  struct outrider_error *err);
int outrider__sqlite_status(struct store *base, void (*row)(void *, const struct store_status *),
                            void *ctx, struct outrider_error *err);
int outrider__sqlite_dead_list(struct store *base, const struct dead_filter *f,
                               void (*row)(void *, const struct dead_row *), void *ctx,
                               struct outrider_error *err);
int outrider__sqlite_dead_retry(struct store *base, const struct dead_filter *f, uint64_t *ret_n,
                                struct outrider_error *err);
int outrider__sqlite_dead_discard(struct store *base, const struct dead_filter *f, uint64_t *ret_n,
                                  struct outrider_error *err);
int outrider__sqlite_doctor(struct store *base, finding_fn *found, void *ctx,
                            struct outrider_error *err);
/* The pipeline's lock; an error names the relay that has it. */
int outrider__sqlite_store_lock(struct sqlite_store *s, struct sqlite_lock *l,
                                struct outrider_error *err);
int outrider__sqlite_move(struct store *base, struct strbuf *ret_report,
                          struct outrider_error *err);
int outrider__sqlite_reset_intent(struct store *base, const struct commit_mark *progress,
                                  struct strbuf *ret_report, struct outrider_error *err);
int outrider__sqlite_resync(struct store *base, struct strbuf *ret_report,
                            struct outrider_error *err);

#endif
