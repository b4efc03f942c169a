/* SPDX-License-Identifier: MIT */
/* The PostgreSQL store: what works, what does not, and what to do about it. */
#include "postgres/store/store.h"

#include <stdio.h>

#include "common/findings.h"
#include "postgres/table/table.h"
#include "postgres/client/client.h"
#include "postgres/shared/durable.h"
#include "shared.sql.h"
#include "store.sql.h"

struct doctor {
    struct pg_store *s;
    struct finder to;
    char slowest[64];
    int64_t slowest_position;
    int n_pipelines;
};

/* A number of the only row that a block gives. */
static int64_t doctor_ask(const struct doctor *d, const char *sql, const struct pg_words *words,
                          int column, int64_t otherwise)
{
    PGresult *r = NULL;
    const struct pg_block block = {sql, "cannot ask", PG_READS};
    if (outrider__pg_store_run(d->s, &block, words, NULL, &r, NULL) < 0)
        return otherwise;
    int64_t v = PQntuples(r) > 0 ? outrider__pg_get_int(r, 0, column, otherwise) : otherwise;
    PQclear(r);
    return v;
}

static void doctor_check_server(const struct doctor *d)
{
    const struct pg_catalog *cat = &d->s->cat;
    char place[160];
    outrider__pg_place(d->s->pg, place, sizeof place);
    outrider__find(&d->to, FINDING_OK, NULL, "%s: PostgreSQL %d.%d", place, cat->version / 10000,
                   cat->version % 10000);
    if (cat->in_recovery)
        outrider__find(
            &d->to, FINDING_PROBLEM,
            "connect to the primary: several hosts and target_session_attrs=read-write in the URL",
            "this server is a standby: it cannot be relayed from");
    if (PQbackendPID(d->s->pg) != cat->backend_pid)
        outrider__find(
            &d->to, FINDING_WARNING,
            "give the relay a connection to the server itself; session mode works, transaction "
            "and statement mode do not",
            "a pooler (such as pgbouncer) stands between this program and the server");
    if (doctor_ask(d, "SELECT (current_setting('fsync') = 'on')::int4", NULL, 0, 1) == 0)
        outrider__find(&d->to, FINDING_WARNING, "switch fsync on",
                       "fsync is off: a crash may lose events");
}

/* durable: standby waits for ever for one that is not there, or that it may not see. */
static void doctor_check_standbys(const struct doctor *d)
{
    if (d->s->config->source.durable != DURABLE_STANDBY || d->s->cat.in_recovery)
        return;
    int64_t n = doctor_ask(d, sql_standbys, NULL, STANDBYS_COUNT, 0);
    if (doctor_ask(d, "SELECT pg_has_role('pg_read_all_stats', 'USAGE')::int4", NULL, 0, 1) == 0)
        outrider__find(&d->to, FINDING_PROBLEM, "GRANT pg_monitor to the relay's role",
                       "durable: standby, and this role may not see the state of standbys: events "
                       "would wait for ever");
    else if (n == 0)
        outrider__find(&d->to, FINDING_PROBLEM,
                       "look at pg_stat_replication, and at the standby's log; or set "
                       "source.durable to local",
                       "durable: standby, and no standby receives what this server writes: events "
                       "wait for one");
    else
        outrider__find(&d->to, FINDING_OK, NULL, "%lld standby%s what this server writes",
                       (long long)n, n == 1 ? " receives" : "s receive");
}

static bool doctor_check_outbox(const struct doctor *d)
{
    const struct pg_catalog *cat = &d->s->cat;
    struct outrider_error why;
    char place[160];
    outrider__pg_place(d->s->pg, place, sizeof place);
    if (outrider__pg_catalog_check(cat, place, false, &why) < 0) {
        outrider__find(&d->to, FINDING_PROBLEM, NULL, "%s", why.message);
        return false;
    }
    if (!cat->has_seq || cat->has_mark)
        return true;
    if (outrider__pg_catalog_check_log(cat, &why) < 0) {
        outrider__find(&d->to, FINDING_PROBLEM, NULL, "%s", why.message);
        return false;
    }
    outrider__find(&d->to, FINDING_OK, NULL,
                   "%s: layout log%s, sequence %s with increment 1, CACHE 1, no cycle", cat->table,
                   cat->relkind == 'p' ? ", partitioned" : "", cat->sequence);
    if (!cat->can_delete)
        outrider__find(&d->to, FINDING_NOTE,
                       "GRANT DELETE on it to the relay's role, or set cleanup.retention=0",
                       "this role may not delete from %s: clean-up is off", cat->table);
    return true;
}

/* Every layout; what a relay refuses is a problem. */
static bool doctor_check_guard(const struct doctor *d)
{
    struct pg_store *s = d->s;
    struct outrider_error why;
    bool is_strict = !outrider__pg_store_has_states(s) || s->config->source.mode == MODE_CDC;
    if (s->cat.oid == 0 || outrider__pg_store_guard(s, is_strict, &why) == 0)
        return true;
    outrider__find(&d->to, FINDING_PROBLEM, NULL, "%s", why.message);
    return false;
}

static void doctor_check_pipeline(void *ctx, const struct store_status *st)
{
    struct doctor *d = ctx;
    outrider__find_lag(&d->to, st, st->relay_active ? "a relay is active" : NULL);
    outrider__find_failed(&d->to, st);
    if (st->ahead > 0 && d->n_pipelines == 0)
        outrider__find(&d->to, FINDING_WARNING, NULL, "%s", st->ahead_text);
    if (d->n_pipelines++ == 0 || st->position < d->slowest_position) {
        (void)snprintf(d->slowest, sizeof d->slowest, "%s", st->pipeline);
        d->slowest_position = st->position;
    }
}

/* Of a column in the newest rows. */
static int64_t doctor_largest(const struct doctor *d, Oid type, const char *column)
{
    struct strbuf size;
    struct pg_words words;
    outrider__strbuf_init(&size, 4096);
    outrider__pg_size_sql(&size, type, column);
    outrider__pg_words_init(&words, &d->s->cat);
    outrider__pg_words_take(&words, "size", &size);
    int64_t n = doctor_ask(d, sql_doctor_largest, &words, 0, 0);
    outrider__pg_words_release(&words);
    return n;
}

static void doctor_check_sizes(const struct doctor *d)
{
    outrider__find_payload(&d->to, doctor_largest(d, d->s->cat.payload_type, "payload"),
                           d->s->config->source.max_payload);
    outrider__find_headers(&d->to, doctor_largest(d, d->s->cat.headers_type, "headers"),
                           d->s->config->source.max_headers);
}

/* Those above the sequence are told with the pipelines: they wait. */
static void doctor_check_numbers(const struct doctor *d)
{
    int64_t n = doctor_ask(d, "SELECT count(*) FROM @outbox@ WHERE seq < 1", NULL, 0, 0);
    outrider__find_below_first(&d->to, d->s->cat.table, n);
}

static void doctor_check_retention(const struct doctor *d)
{
    outrider__find_retention(&d->to, d->s->config->cleanup.retention_us);
    if (d->n_pipelines > 1)
        outrider__find(&d->to, FINDING_NOTE, NULL,
                       "the slowest pipeline is '%s': clean-up waits for it", d->slowest);
}

static void doctor_check_old_transactions(const struct doctor *d)
{
    int64_t age = doctor_ask(d, sql_doctor_prepared, NULL, 0, 0);
    if (age > 300)
        outrider__find(
            &d->to, FINDING_WARNING, "COMMIT PREPARED or ROLLBACK PREPARED it: pg_prepared_xacts",
            "a prepared transaction is %lld s old: the seqs it took stay gaps", (long long)age);
}

int outrider__pg_store_doctor(struct store *base, finding_fn *found, void *ctx,
                              struct outrider_error *err)
{
    struct pg_store *s = pg_store_of(base);
    struct doctor d = {.s = s, .to = {found, ctx}};
    struct outrider_error why;
    if (outrider__pg_store_catalog(s, &why) < 0) {
        outrider__find(&d.to, FINDING_PROBLEM, NULL, "%s", why.message);
        return 0;
    }
    doctor_check_server(&d);
    doctor_check_standbys(&d);
    if (!doctor_check_guard(&d))
        return 0;
    if (outrider__pg_store_has_states(s))
        return outrider__pg_tables_doctor(s, found, ctx, err);
    if (!doctor_check_outbox(&d))
        return 0;
    if (s->cat.has_seq && !s->cat.has_mark) {
        doctor_check_sizes(&d);
        doctor_check_numbers(&d);
    }
    doctor_check_old_transactions(&d);
    int rc = outrider__pg_store_status(base, doctor_check_pipeline, &d, err);
    doctor_check_retention(&d);
    return rc;
}
