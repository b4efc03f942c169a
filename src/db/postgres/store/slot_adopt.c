/* SPDX-License-Identifier: MIT */
/*
 * slot adopt: begins a pipeline where another program's slot stands (Debezium's), by
 * a copy of that slot. Nothing is read from the table first.
 *
 *  (1) The server reads its log through the publication as it was at that place in
 *      the log. A publication that was made later is unknown there: older servers
 *      fail, PostgreSQL 18 leaves the events out. So the publication must be older
 *      than every transaction that the slot can still send (its catalog_xmin), and is
 *      recorded in the cursor: Debezium's own, or one that was made in time.
 *  (2) Until all is done the cursor's mode is `adopting`, and no relay starts. A
 *      failure takes everything back; after a crash the command is run again.
 *  (3) The other program's slot is not touched: it is the way back.
 */
#include <inttypes.h>
#include <stdio.h>

#include "postgres/table/table.h"
#include "base/failpoint.h"
#include "postgres/cdc/slot.h"
#include "postgres/options.h"
#include "postgres/store/slot_probe.h"
#include "store.sql.h"

#define LIST_CAP 16384 /* of names, for messages */

enum adopt_tables_column { TABLES_OID, TABLES_SCHEMA, TABLES_NAME, TABLES_OUTBOX, TABLES_ASKED };
enum adopt_slot_column {
    SLOT_TYPE,
    SLOT_IS_FOREIGN, /* of another database */
    SLOT_DATABASE,
    SLOT_IS_TEMPORARY,
    SLOT_IS_TWO_PHASE,
    SLOT_ACTIVE_PID,
    SLOT_IS_LOST,
    SLOT_CONFIRMED,
    SLOT_XMIN,
    SLOT_SERVER_LSN
};
enum adopt_publication_column {
    PUBLICATION_NAME,
    PUBLICATION_FITS,
    PUBLICATION_IS_OLD, /* enough: contract (1) */
    PUBLICATION_IS_AMBIGUOUS,
    PUBLICATION_YOUNG_XMIN,
    PUBLICATION_TOKENS
};

struct adoption_work {
    struct pg_store *s;
    const struct stream_adoption *o;
    struct probe_tables tables;
    struct strbuf names;     /* of the tables, for messages */
    struct strbuf published; /* cdc.h (9) */
    char confirmed[32];      /* where the other slot stands */
    int64_t xmin;            /* its catalog_xmin: all before is published */
    char slot[64], publication[64];
    struct probe_place place;
};

static void adopt_add_names(const struct adoption_work *w, struct pg_args *a)
{
    outrider__pg_array_begin(a, PG_TEXT);
    for (size_t i = 0; i < w->tables.n; i++)
        outrider__pg_array_text(a, bytes_str(w->tables.items[i].outbox));
    outrider__pg_array_end(a);
}

static void adopt_add_oids(const struct adoption_work *w, struct pg_args *a)
{
    outrider__pg_array_begin(a, PG_INT8);
    for (size_t i = 0; i < w->tables.n; i++)
        outrider__pg_array_int8(a, w->tables.items[i].oid);
    outrider__pg_array_end(a);
}

/* A statement whose arguments are released. words: NULL are those of the catalogue. */
static int adopt_run(struct adoption_work *w, const char *sql, const struct pg_words *words,
                     struct pg_args *a, const char *what, PGresult **ret_result,
                     struct outrider_error *err)
{
    const struct pg_block block = {sql, what, PG_READS};
    int rc = outrider__pg_store_run(w->s, &block, words, a, ret_result, err);
    outrider__pg_args_release(a);
    return rc;
}

/* Beside a table that is not ours our own tables are made, as a relay would. */
static int adopt_prepare(struct pg_store *s, struct outrider_error *err)
{
    struct strbuf sql;
    if (outrider__pg_store_catalog(s, err) < 0)
        return -1;
    bool is_complete = s->cat.cursor_table[0] != '\0' && s->cat.parked_table[0] != '\0';
    if (s->cat.oid == 0 || is_complete || !outrider__pg_table_has_states(&s->cat, s->config))
        return outrider__pg_store_ready(s, err);
    outrider__strbuf_init(&sql, (size_t)1 << 16);
    outrider__pg_companions_sql(&s->cat, &sql);
    int rc = sql.failed ? outrider__fail_nomem(err)
                        : outrider__pg_store_exec(s, strbuf_cstr(&sql),
                                                  "cannot make outrider's own tables", err);
    outrider__strbuf_release(&sql);
    return rc < 0 ? -1 : outrider__pg_store_ready(s, err);
}

static int adopt_lock_pipeline(struct adoption_work *w, struct outrider_error *err)
{
    static const char sql[] = "SELECT pg_try_advisory_lock(hashtextextended($1, 0))";
    struct strbuf name;
    struct pg_args a;
    PGresult *r = NULL;
    outrider__pg_args_init(&a);
    outrider__strbuf_init(&name, 1024);
    outrider__strbuf_appendf(&name, "outrider/%s/%.63s", w->s->cat.table, w->s->config->name);
    outrider__pg_arg_str(&a, strbuf_cstr(&name));
    int rc = adopt_run(w, sql, NULL, &a, "cannot ask for the pipeline's lock", &r, err);
    if (rc == 0 && !outrider__pg_get_bool(r, 0, 0))
        rc = outrider__fail(err, OUTRIDER_STANDBY, OUTRIDER_STOP,
                            "a relay of pipeline '%s' runs: stop the relay first",
                            w->s->config->name);
    PQclear(r);
    outrider__strbuf_release(&name);
    return rc;
}

static int adopt_read_tables(struct adoption_work *w, struct outrider_error *err)
{
    const struct pipeline_config *config = w->s->config;
    size_t n = config->source.tables.n > 0 ? config->source.tables.n : 1;
    struct pg_args a;
    PGresult *r = NULL;
    if (n > PROBE_TABLES_MAX)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "source.tables: more than %d tables in one pipeline",
                              PROBE_TABLES_MAX);
    outrider__pg_args_init(&a);
    outrider__pg_array_begin(&a, PG_TEXT);
    for (size_t i = 0; i < n; i++)
        outrider__pg_array_text(&a, bytes_str(config->source.tables.n > 0
                                                  ? config->source.tables.items[i]
                                                  : outrider__pg_store_table(w->s)));
    outrider__pg_array_end(&a);
    int rc = adopt_run(w, sql_adopt_tables, NULL, &a, "cannot read the catalogue", &r, err);
    for (int i = 0; rc == 0 && i < PQntuples(r); i++) {
        struct probe_table *t = &w->tables.items[w->tables.n++];
        t->oid = (uint32_t)outrider__pg_get_int(r, i, TABLES_OID, 0);
        (void)snprintf(t->schema, sizeof t->schema, "%s",
                       outrider__pg_get_str(r, i, TABLES_SCHEMA));
        (void)snprintf(t->name, sizeof t->name, "%s", outrider__pg_get_str(r, i, TABLES_NAME));
        (void)snprintf(t->outbox, sizeof t->outbox, "%s",
                       outrider__pg_get_str(r, i, TABLES_OUTBOX));
        outrider__strbuf_appendf(&w->names, "%s%s", i > 0 ? ", " : "", t->outbox);
        if (t->oid == 0)
            rc = outrider__fail(err, OUTRIDER_NO_OUTBOX, OUTRIDER_STOP,
                                "the database has no table %s",
                                outrider__pg_get_str(r, i, TABLES_ASKED));
    }
    PQclear(r);
    return rc;
}

static int adopt_refuse(const struct adoption_work *w, const char *why, struct outrider_error *err)
{
    return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP, "replication slot %.63s %s",
                          w->o->from, why);
}

static int adopt_check_slot(const struct adoption_work *w, const PGresult *r,
                            struct outrider_error *err)
{
    if (PQntuples(r) != 1)
        return outrider__fail(err, OUTRIDER_NOT_FOUND, OUTRIDER_STOP,
                              "there is no replication slot %.63s; the server's slots are in "
                              "pg_replication_slots, and Debezium's is named by slot.name",
                              w->o->from);
    if (strcmp(outrider__pg_get_str(r, 0, SLOT_TYPE), "logical") != 0)
        return adopt_refuse(w, "is a physical one: only a logical slot has events", err);
    if (outrider__pg_get_bool(r, 0, SLOT_IS_FOREIGN))
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "replication slot %.63s belongs to database %s: name that database "
                              "with --db",
                              w->o->from, outrider__pg_get_str(r, 0, SLOT_DATABASE));
    if (outrider__pg_get_bool(r, 0, SLOT_IS_TEMPORARY))
        return adopt_refuse(w, "is temporary, and cannot be copied for later", err);
    if (outrider__pg_get_bool(r, 0, SLOT_IS_TWO_PHASE))
        return adopt_refuse(
            w,
            "decodes prepared transactions (two_phase): what was sent at PREPARE would "
            "come twice",
            err);
    if (outrider__pg_get_bool(r, 0, SLOT_IS_LOST) || PQgetisnull(r, 0, SLOT_CONFIRMED))
        return adopt_refuse(
            w,
            "was invalidated by the server: what it stood for is lost; start the relay "
            "without it, which delivers what the table still holds",
            err);
    if (!PQgetisnull(r, 0, SLOT_ACTIVE_PID))
        return outrider__fail(err, OUTRIDER_STANDBY, OUTRIDER_STOP,
                              "replication slot %.63s is read by server process %lld: stop "
                              "Debezium first, and wait until the slot is free",
                              w->o->from,
                              (long long)outrider__pg_get_int(r, 0, SLOT_ACTIVE_PID, 0));
    return 0;
}

static int adopt_check_offset(const struct adoption_work *w, uint64_t now,
                              struct outrider_error *err)
{
    const struct stream_offset *o = w->o->offset;
    if (o == NULL || (o->commit_lsn <= now && o->event_lsn <= now))
        return 0;
    return outrider__fail(err, OUTRIDER_HISTORY, OUTRIDER_STOP,
                          "the offset is beyond the end of the server's log: it was noted for "
                          "another server, or before a restore");
}

static int adopt_read_slot(struct adoption_work *w, struct outrider_error *err)
{
    struct pg_args a;
    PGresult *r = NULL;
    outrider__pg_args_init(&a);
    outrider__pg_arg_str(&a, w->o->from);
    int rc = adopt_run(w, sql_adopt_slot, NULL, &a, "cannot read the slot", &r, err);
    if (rc == 0)
        rc = adopt_check_slot(w, r, err);
    if (rc == 0)
        rc = adopt_check_offset(w, (uint64_t)outrider__pg_get_int(r, 0, SLOT_SERVER_LSN, INT64_MAX),
                                err);
    if (rc == 0) {
        w->xmin = outrider__pg_get_int(r, 0, SLOT_XMIN, 0);
        (void)snprintf(w->confirmed, sizeof w->confirmed, "%s",
                       outrider__pg_get_str(r, 0, SLOT_CONFIRMED));
    }
    PQclear(r);
    return rc;
}

/* A pipeline that has delivered something has a place of its own already. */
static int adopt_check_pipeline(struct adoption_work *w, struct outrider_error *err)
{
    struct pg_args a;
    PGresult *r = NULL;
    outrider__pg_args_init(&a);
    outrider__pg_arg_str(&a, w->s->config->name);
    adopt_add_names(w, &a);
    int rc = adopt_run(w, sql_adopt_used, NULL, &a, "cannot read the cursor", &r, err);
    if (rc == 0 && outrider__pg_get_bool(r, 0, 0))
        rc = outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                            "pipeline '%s' has delivered events of %s already, and goes on from "
                            "its own place; adopt the slot under another --name",
                            w->s->config->name, strbuf_cstr(&w->names));
    PQclear(r);
    return rc;
}

static int adopt_judge_publication(struct adoption_work *w, const PGresult *r, const char *wanted,
                                   struct outrider_error *err)
{
    const char *name = PQntuples(r) == 1 ? outrider__pg_get_str(r, 0, PUBLICATION_NAME) : "";
    if (*name == '\0' || (*wanted == '\0' && !outrider__pg_get_bool(r, 0, PUBLICATION_FITS)))
        return outrider__fail(
            err, OUTRIDER_NOT_FOUND, OUTRIDER_STOP,
            "%s%s%s; the log before slot %.63s can be read only through a publication that was "
            "there at the time: Debezium's (publication.name), given with --set "
            "source.publication=NAME",
            *wanted == '\0' ? "no publication publishes all inserts into "
                            : "there is no publication ",
            *wanted == '\0' ? strbuf_cstr(&w->names) : wanted, "", w->o->from);
    if (!outrider__pg_get_bool(r, 0, PUBLICATION_FITS))
        return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                              "publication %s does not publish all inserts into %s", name,
                              strbuf_cstr(&w->names));
    if (!outrider__pg_get_bool(r, 0, PUBLICATION_IS_OLD))
        return outrider__fail(
            err, OUTRIDER_HISTORY, OUTRIDER_STOP,
            "publication %s was made or altered after the place where slot %.63s stands, or just "
            "before: the server reads its log through the publication as it was then, and events "
            "would be missing; let Debezium run on until the slot has passed that moment "
            "(catalog_xmin in pg_replication_slots above %" PRId64
            "), stop Debezium, and try again",
            name, w->o->from, outrider__pg_get_int(r, 0, PUBLICATION_YOUNG_XMIN, 0));
    if (outrider__pg_get_bool(r, 0, PUBLICATION_IS_AMBIGUOUS))
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "several publications publish %s; say which with --set "
                              "source.publication=NAME",
                              strbuf_cstr(&w->names));
    (void)snprintf(w->publication, sizeof w->publication, "%s", name);
    strbuf_append_str(&w->published, outrider__pg_get_str(r, 0, PUBLICATION_TOKENS));
    return 0;
}

/* Contract (1). */
static int adopt_choose_publication(struct adoption_work *w, struct outrider_error *err)
{
    const char *wanted = postgres_options(w->s->config)->publication;
    struct strbuf published;
    struct pg_words words;
    struct pg_args a;
    PGresult *r = NULL;
    char own[64];
    if (outrider__pg_store_find_slot(w->s, w->slot, own, err) < 0)
        return -1;
    if (wanted == NULL)
        wanted = "";
    outrider__strbuf_init(&published, SQL_TEXT_CAP);
    outrider__cdc_published_sql(&published, w->s->cat.version, "$3");
    outrider__pg_words_init(&words, &w->s->cat);
    outrider__pg_words_take(&words, "published", &published);
    outrider__pg_args_init(&a);
    outrider__pg_arg_str(&a, wanted);
    outrider__pg_arg_str(&a, own);
    adopt_add_oids(w, &a);
    outrider__pg_arg_int8(&a, w->xmin);
    int rc =
        adopt_run(w, sql_adopt_publication, &words, &a, "cannot read the publications", &r, err);
    outrider__pg_words_release(&words);
    if (rc == 0)
        rc = adopt_judge_publication(w, r, wanted, err);
    PQclear(r);
    return rc;
}

static int adopt_record(struct adoption_work *w, struct outrider_error *err)
{
    struct pg_args a;
    PGresult *r = NULL;
    outrider__pg_args_init(&a);
    outrider__pg_arg_str(&a, w->s->config->name);
    outrider__pg_arg_str(&a, w->s->cat.table);
    outrider__pg_arg_str(&a, w->slot);
    outrider__pg_arg_str(&a, w->publication);
    int rc = adopt_run(w, sql_adopt_record, NULL, &a, "cannot save the cursor", &r, err);
    if (rc == 0 && PQntuples(r) != 1)
        rc = outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                            "replication slot %s is there, and no pipeline of this database owns "
                            "the slot; if nobody needs the slot: outrider slot drop --name %s",
                            w->slot, w->s->config->name);
    PQclear(r);
    return rc;
}

static int adopt_copy_slot(struct adoption_work *w, const char *from, const char *to,
                           bool is_temporary, struct outrider_error *err)
{
    static const char sql[] = "SELECT pg_copy_logical_replication_slot($1, $2, $3, 'pgoutput')";
    struct pg_args a;
    outrider__pg_args_init(&a);
    outrider__pg_arg_str(&a, from);
    outrider__pg_arg_str(&a, to);
    outrider__pg_arg_bool(&a, is_temporary);
    return adopt_run(w, sql, NULL, &a, "cannot copy the replication slot", NULL, err);
}

/* Whoever started Debezium meanwhile has moved its slot. */
static int adopt_check_still(struct adoption_work *w, struct outrider_error *err)
{
    char before[sizeof w->confirmed];
    memcpy(before, w->confirmed, sizeof before);
    if (adopt_read_slot(w, err) < 0)
        return -1;
    if (strcmp(before, w->confirmed) != 0)
        return adopt_refuse(w, "moved on meanwhile: stop Debezium first", err);
    return 0;
}

/* The probe's own copy ends with this session. */
static int adopt_find_place(struct adoption_work *w, struct outrider_error *err)
{
    char probe[64];
    const struct stream_offset *o = w->o->offset;
    if (o == NULL || (o->commit_lsn == 0 && o->event_lsn == 0))
        return 0;
    (void)snprintf(probe, sizeof probe, "%.56s_probe", w->slot);
    if (adopt_copy_slot(w, w->slot, probe, true, err) < 0)
        return -1;
    return outrider__pg_slot_probe(w->s, probe, w->publication, &w->tables, o, &w->place, err);
}

static int adopt_finish(struct adoption_work *w, struct outrider_error *err)
{
    const struct pg_store *s = w->s;
    bool is_log = s->cat.has_seq && !outrider__pg_table_has_states(&s->cat, s->config);
    struct pg_words words;
    struct pg_args a;
    char lsn[32];
    int errno_value = FAILPOINT("slot.adopt_finish");
    if (errno_value != 0)
        return outrider__fail_errno(err, errno_value, "cannot save the cursor");
    outrider__pg_args_init(&a);
    outrider__pg_words_init(&words, &s->cat);
    outrider__pg_words_add_block(&words, "last_seq", is_log ? sql_adopt_last_seq : "0");
    (void)snprintf(lsn, sizeof lsn, "%X/%X", (unsigned)(w->place.lsn >> 32),
                   (unsigned)w->place.lsn);
    outrider__pg_arg_str(&a, w->s->config->name);
    outrider__pg_arg_str(&a, w->s->cat.table);
    if (w->place.lsn != 0)
        outrider__pg_arg_str(&a, lsn);
    else
        outrider__pg_arg_null(&a, PG_TEXT);
    outrider__pg_arg_int8(&a, w->place.number);
    outrider__pg_arg_int8(&a, w->xmin);
    adopt_add_names(w, &a);
    outrider__pg_arg_str(&a, strbuf_cstr(&w->published));
    int rc = adopt_run(w, sql_adopt_finish, &words, &a, "cannot save the cursor", NULL, err);
    outrider__pg_words_release(&words);
    return rc;
}

int outrider__pg_store_forget_adoption(struct pg_store *s, bool *ret_was_there,
                                       struct outrider_error *err)
{
    struct pg_args a;
    PGresult *r = NULL;
    outrider__pg_args_init(&a);
    outrider__pg_arg_str(&a, s->config->name);
    outrider__pg_arg_str(&a, s->cat.table);
    struct adoption_work w = {.s = s};
    int rc = adopt_run(&w, sql_adopt_forget, NULL, &a, "cannot save the cursor", &r, err);
    *ret_was_there = rc == 0 && outrider__pg_store_changed(r) > 0;
    PQclear(r);
    return rc;
}

static int adopt_make(struct adoption_work *w, struct outrider_error *err)
{
    bool was_there;
    if (outrider__pg_store_drop(w->s, w->slot, &was_there, err) < 0)
        return -1;
    int errno_value = FAILPOINT("slot.adopt_copy");
    if (errno_value != 0)
        return outrider__fail_errno(err, errno_value, "cannot copy the replication slot");
    if (adopt_copy_slot(w, w->o->from, w->slot, false, err) < 0 || adopt_check_still(w, err) < 0 ||
        adopt_find_place(w, err) < 0)
        return -1;
    return adopt_finish(w, err);
}

/* Contract (2). */
static int adopt_pipeline(struct adoption_work *w, struct outrider_error *err)
{
    bool was_there;
    if (adopt_record(w, err) < 0)
        return -1;
    if (adopt_make(w, err) == 0)
        return 0;
    (void)outrider__pg_store_exec(w->s, "ROLLBACK", "cannot roll back", NULL);
    if (outrider__pg_store_drop(w->s, w->slot, &was_there, NULL) == 0)
        (void)outrider__pg_store_forget_adoption(w->s, &was_there, NULL);
    return -1;
}

static void adopt_report(const struct adoption_work *w, struct strbuf *out)
{
    const char *name = w->s->config->name;
    outrider__strbuf_appendf(out,
                             "pipeline '%s' begins where slot %s stands (%s), with slot %s, a copy "
                             "of it, and publication %s; keep that publication\n",
                             name, w->o->from, w->confirmed, w->slot, w->publication);
    if (w->o->offset == NULL)
        strbuf_append_str(out, "No offset was given: what Debezium published last, at least its "
                               "last transaction, comes again; --offset leaves that out\n");
    else if (w->place.number > 0)
        outrider__strbuf_appendf(out,
                                 "Left out by the offset: everything up to event %" PRId64
                                 " of the transaction with its commit at %X/%X\n",
                                 w->place.number, (unsigned)(w->place.lsn >> 32),
                                 (unsigned)w->place.lsn);
    else
        outrider__strbuf_appendf(out, "Left out by the offset: what was committed up to %X/%X\n",
                                 (unsigned)(w->place.lsn >> 32), (unsigned)w->place.lsn);
    if (w->place.is_in_doubt)
        strbuf_append_str(out, "The offset stands among rows that one COPY wrote, or cannot be "
                               "told from a transaction's beginning: those come again\n");
    outrider__strbuf_appendf(out,
                             "Slot %s stays, and the server keeps its log for it; once there is no "
                             "way back to Debezium: SELECT pg_drop_replication_slot('%s')\n",
                             w->o->from, w->o->from);
}

int outrider__pg_store_slot_adopt(struct store *base, const struct stream_adoption *o,
                                  struct strbuf *ret_report, struct outrider_error *err)
{
    struct adoption_work w = {.s = pg_store_of(base), .o = o};
    outrider__strbuf_init(&w.names, LIST_CAP);
    outrider__strbuf_init(&w.published, LIST_CAP);
    int rc = adopt_prepare(w.s, err);
    if (rc == 0)
        rc = adopt_lock_pipeline(&w, err);
    if (rc == 0)
        rc = adopt_read_tables(&w, err);
    if (rc == 0)
        rc = adopt_read_slot(&w, err);
    if (rc == 0)
        rc = adopt_check_pipeline(&w, err);
    if (rc == 0)
        rc = adopt_choose_publication(&w, err);
    if (rc == 0 && strcmp(w.slot, o->from) == 0)
        rc = adopt_refuse(&w, "is the slot of this pipeline itself", err);
    if (rc == 0)
        rc = adopt_pipeline(&w, err);
    if (rc == 0)
        adopt_report(&w, ret_report);
    outrider__strbuf_release(&w.names);
    outrider__strbuf_release(&w.published);
    return rc;
}
