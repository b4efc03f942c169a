/* SPDX-License-Identifier: MIT */
/* The PostgreSQL store: replication slots, for status, resync and slot drop. */
#include "postgres/store/store.h"

#include <inttypes.h>
#include <stdio.h>

#include "postgres/table/table.h"
#include "postgres/cdc/slot.h"
#include "postgres/shared/cleanup.h"
#include "store.sql.h"

static const struct pg_block slot_status = {sql_slot_status, "cannot read the slot", PG_READS};
static const struct pg_block slot_find = {sql_slot_find, "cannot read the slot", PG_READS};
static const struct pg_block slot_reset = {sql_slot_reset, "cannot read the slot", PG_READS};
static const struct pg_block slot_reset_mapped = {sql_slot_reset_mapped, "cannot read the slot",
                                                  PG_READS};
static const struct pg_block slot_drop = {sql_slot_drop, "cannot drop the replication slot",
                                          PG_READS};

enum slot_status_column {
    SLOT_MODE,
    SLOT_POSITION,
    SLOT_PENDING, /* NULL: the rows say that */
    SLOT_OLDEST_PENDING,
    SLOT_EXISTS,
    SLOT_IS_ACTIVE,
    SLOT_IS_LOST,
    SLOT_RETAINED_BYTES,
    SLOT_CONFIRMED,
    SLOT_LAG_BYTES,
    SLOT_LAG_US,
    SLOT_LEFT_BYTES,
    SLOT_NAME
};
enum slot_drop_column { DROP_ACTIVE_PID, DROP_DROPPED, DROP_DATABASE, DROP_IS_FOREIGN };
enum slot_find_column { NAMES_SLOT, NAMES_PUBLICATION };
enum slot_reset_column { RESET_POSITION, RESET_IS_KNOWN, RESET_UNSETTLED };

/* A statement with the pipeline and the outbox as its arguments. */
static int slot_query(struct pg_store *s, const struct pg_block *block,
                      const struct pg_words *words, const char *pipeline, PGresult **ret_result,
                      struct outrider_error *err)
{
    struct pg_args args;
    outrider__pg_args_init(&args);
    outrider__pg_arg_str(&args, pipeline);
    outrider__pg_arg_str(&args, s->cat.table);
    int rc = outrider__pg_store_run(s, block, words, &args, ret_result, err);
    outrider__pg_args_release(&args);
    return rc;
}

static void slot_read(const PGresult *r, struct store_status *st)
{
    st->is_cdc = strcmp(outrider__pg_get_str(r, 0, SLOT_MODE), "cdc") == 0;
    if (st->is_cdc)
        st->ahead = 0; /* the stream has them */
    if (st->is_cdc && !PQgetisnull(r, 0, SLOT_PENDING)) {
        st->position = outrider__pg_get_int(r, 0, SLOT_POSITION, 0);
        st->pending = (uint64_t)outrider__pg_get_int(r, 0, SLOT_PENDING, 0);
        st->oldest_pending_us = outrider__pg_get_time(r, 0, SLOT_OLDEST_PENDING, 0);
    }
    struct stream_status *o = &st->stream;
    o->word = "slot";
    o->limit = "max_slot_wal_keep_size";
    o->exists = outrider__pg_get_bool(r, 0, SLOT_EXISTS);
    if (o->exists || st->is_cdc)
        (void)snprintf(o->name, sizeof o->name, "%s", outrider__pg_get_str(r, 0, SLOT_NAME));
    o->is_active = outrider__pg_get_bool(r, 0, SLOT_IS_ACTIVE);
    o->is_lost = st->is_cdc && (!o->exists || outrider__pg_get_bool(r, 0, SLOT_IS_LOST));
    o->retained_bytes = outrider__pg_get_int(r, 0, SLOT_RETAINED_BYTES, 0);
    (void)snprintf(o->confirmed, sizeof o->confirmed, "%s",
                   outrider__pg_get_str(r, 0, SLOT_CONFIRMED));
    o->lag_bytes = outrider__pg_get_int(r, 0, SLOT_LAG_BYTES, 0);
    o->lag_us = outrider__pg_get_int(r, 0, SLOT_LAG_US, o->is_active ? 0 : -1);
    o->left_bytes = outrider__pg_get_int(r, 0, SLOT_LEFT_BYTES, -1);
}

int outrider__pg_store_slot_status(struct pg_store *s, struct store_status *st,
                                   struct outrider_error *err)
{
    struct pg_words words;
    PGresult *r = NULL;
    bool has_states = outrider__pg_store_has_states(s); /* the rows are counted elsewhere */
    outrider__pg_words_init(&words, &s->cat);
    outrider__pg_words_add_block(&words, "pending",
                                 has_states ? "NULL::int8, NULL::timestamptz" : sql_slot_pending);
    int rc = slot_query(s, &slot_status, &words, st->pipeline, &r, err);
    if (rc == 0 && PQntuples(r) == 1)
        slot_read(r, st);
    PQclear(r);
    outrider__pg_words_release(&words);
    return rc;
}

int outrider__pg_store_drop(struct pg_store *s, const char *slot, bool *ret_was_there,
                            struct outrider_error *err)
{
    struct pg_args args;
    PGresult *r = NULL;
    outrider__pg_args_init(&args);
    outrider__pg_arg_str(&args, slot);
    int rc = outrider__pg_store_run(s, &slot_drop, NULL, &args, &r, err);
    outrider__pg_args_release(&args);
    if (rc < 0)
        return -1;
    *ret_was_there = PQntuples(r) == 1;
    if (*ret_was_there && outrider__pg_get_bool(r, 0, DROP_IS_FOREIGN))
        rc = outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                            "replication slot %s belongs to database %s", slot,
                            outrider__pg_get_str(r, 0, DROP_DATABASE));
    else if (*ret_was_there && !PQgetisnull(r, 0, DROP_ACTIVE_PID))
        rc = outrider__fail(err, OUTRIDER_STANDBY, OUTRIDER_STOP,
                            "replication slot %s is in use by server process %lld: stop the relay "
                            "first",
                            slot, (long long)outrider__pg_get_int(r, 0, DROP_ACTIVE_PID, 0));
    PQclear(r);
    return rc;
}

int outrider__pg_store_find_slot(struct pg_store *s, char ret_slot[64], char ret_publication[64],
                                 struct outrider_error *err)
{
    struct strbuf names;
    struct pg_words words;
    PGresult *r = NULL;
    outrider__strbuf_init(&names, SQL_TEXT_CAP);
    outrider__cdc_names_sql(&names, s->cat.cursor_table);
    outrider__pg_words_init(&words, &s->cat);
    outrider__pg_words_take(&words, "names", &names);
    int rc = slot_query(s, &slot_find, &words, s->config->name, &r, err);
    if (rc == 0) {
        (void)snprintf(ret_slot, 64, "%s", outrider__pg_get_str(r, 0, NAMES_SLOT));
        (void)snprintf(ret_publication, 64, "%s", outrider__pg_get_str(r, 0, NAMES_PUBLICATION));
    }
    PQclear(r);
    outrider__pg_words_release(&words);
    return rc;
}

int outrider__pg_store_slot_drop(struct store *base, struct strbuf *ret_report,
                                 struct outrider_error *err)
{
    struct pg_store *s = pg_store_of(base);
    char slot[64], publication[64];
    bool was_there = false, was_begun = false;
    if (outrider__pg_store_ready(s, err) < 0 ||
        outrider__pg_store_find_slot(s, slot, publication, err) < 0 ||
        outrider__pg_store_drop(s, slot, &was_there, err) < 0 ||
        outrider__pg_store_forget_adoption(s, &was_begun, err) < 0)
        return -1;
    if (was_begun) {
        outrider__strbuf_appendf(ret_report, "the adoption for pipeline '%s' is given up\n",
                                 s->config->name);
        return 0;
    }
    if (!was_there)
        return outrider__fail(err, OUTRIDER_NOT_FOUND, OUTRIDER_STOP,
                              "there is no replication slot %s", slot);
    outrider__strbuf_appendf(ret_report,
                             "replication slot %s is dropped; its publication costs nothing, and "
                             "is dropped with: DROP PUBLICATION %s\nShould pipeline '%s' be wanted "
                             "again: outrider resync --name %s\n",
                             slot, publication, s->config->name, s->config->name);
    return 0;
}

static void slot_tell_reset(const struct pg_store *s, const struct store_status *st,
                            const PGresult *r, struct strbuf *out)
{
    outrider__strbuf_appendf(out, "replication slot %s is lost: ", st->stream.name);
    if (outrider__pg_store_has_states(s))
        strbuf_append_str(out, "every row that is not marked as published is delivered (again), "
                               "and every row of a table without a mark");
    else if (outrider__pg_get_bool(r, 0, RESET_IS_KNOWN))
        outrider__strbuf_appendf(out,
                                 "%" PRId64 " rows that %s still holds were not surely delivered, "
                                 "and are delivered (again)",
                                 outrider__pg_get_int(r, 0, RESET_UNSETTLED, 0), s->cat.table);
    else
        outrider__strbuf_appendf(
            out, "every row behind seq %" PRId64 " that %s still holds is delivered (again)",
            outrider__pg_get_int(r, 0, RESET_POSITION, 0), s->cat.table);
    outrider__strbuf_appendf(out,
                             ".\nCannot be known: events that were committed since %s and are gone "
                             "from the table, and logical messages; compare with the receiver.\n",
                             st->stream.confirmed[0] != '\0' ? st->stream.confirmed
                                                             : "the slot was lost");
}

int outrider__pg_store_slot_resync(struct pg_store *s, struct strbuf *ret_report,
                                   struct outrider_error *err)
{
    struct store_status st = {0};
    struct pg_words words;
    PGresult *r = NULL;
    bool was_there;
    (void)snprintf(st.pipeline, sizeof st.pipeline, "%s", s->config->name);
    if (outrider__pg_store_slot_status(s, &st, err) < 0)
        return -1;
    if (!st.is_cdc)
        return 0;
    if (!st.stream.is_lost) {
        outrider__strbuf_appendf(ret_report, "replication slot %s is whole: nothing to do for it\n",
                                 st.stream.name);
        return 0;
    }
    if (st.stream.exists && outrider__pg_store_drop(s, st.stream.name, &was_there, err) < 0)
        return -1;
    outrider__pg_words_init(&words, &s->cat);
    outrider__pg_cleanup_words(&words);
    int rc = slot_query(s, outrider__pg_store_has_states(s) ? &slot_reset_mapped : &slot_reset,
                        &words, s->config->name, &r, err);
    if (rc == 0)
        slot_tell_reset(s, &st, r, ret_report);
    PQclear(r);
    outrider__pg_words_release(&words);
    return rc;
}
