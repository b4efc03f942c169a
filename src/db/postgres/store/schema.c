/* SPDX-License-Identifier: MIT */
/* init: the SQL is put together from the .sql files, run in one transaction. */
#include "postgres/table/table.h"
#include "postgres/store/store.h"

#include <stdio.h>
#include <time.h>

#include "schema_begin.sql.h"
#include "schema_companions.sql.h"
#include "schema_function.sql.h"
#include "schema_inbox.sql.h"
#include "schema_log.sql.h"
#include "schema_no_roles.sql.h"
#include "schema_partitions.sql.h"
#include "schema_roles.sql.h"
#include "schema_roles_outbox.sql.h"
#include "schema_settled_log.sql.h"
#include "schema_settled_status.sql.h"
#include "schema_status.sql.h"
#include "schema_upgrade.sql.h"
#include "store.sql.h"
#include "postgres/store/schema.h"

#define DAYS_AHEAD 7
#define MONTHS_AHEAD 3
#define TEXT_OF(n) #n
#define TEXT(n) TEXT_OF(n)

static const char *const payloads[] = {"jsonb", "text", "bytea"};

int outrider__pg_schema_payload(const struct init_options *o, const char **ret_type,
                                struct outrider_error *err)
{
    const char *asked = o->payload != NULL ? o->payload : "jsonb";
    for (size_t i = 0; i < sizeof payloads / sizeof *payloads; i++) {
        if (strcmp(asked, payloads[i]) == 0) {
            *ret_type = payloads[i];
            return 0;
        }
    }
    return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                          "unknown payload form '%s'; there are jsonb, text and bytea", asked);
}

struct outbox_wishes {
    const char *payload; /* type of the column */
    bool is_partitioned;
    const char *partitions; /* SQL that makes the first ones */
};

/* [from, to) of the i-th day or month from today on. */
static void schema_bounds(bool is_month, int i, struct tm *ret_from, struct tm *ret_to)
{
    time_t now = time(NULL);
    struct tm today;
    (void)gmtime_r(&now, &today);
    for (int k = 0; k < 2; k++) {
        struct tm t = {.tm_year = today.tm_year,
                       .tm_mon = today.tm_mon + (is_month ? i + k : 0),
                       .tm_mday = is_month ? 1 : today.tm_mday + i + k};
        time_t at = timegm(&t);
        (void)gmtime_r(&at, k == 0 ? ret_from : ret_to);
    }
}

void outrider__pg_schema_partitions(struct strbuf *sql, const char *root, const char *name,
                                    bool is_month)
{
    int n = is_month ? MONTHS_AHEAD : DAYS_AHEAD;
    char from[32], to[32], suffix[32];
    struct tm a, b;
    for (int i = 0; i <= n; i++) {
        schema_bounds(is_month, i, &a, &b);
        (void)strftime(from, sizeof from, "%Y-%m-%d 00:00:00+00", &a);
        (void)strftime(to, sizeof to, "%Y-%m-%d 00:00:00+00", &b);
        (void)strftime(suffix, sizeof suffix, is_month ? "%Y%m" : "%Y%m%d", &a);
        const struct sql_word words[] = {
            {"name", name}, {"suffix", suffix}, {"root", root}, {"from", from}, {"to", to}};
        outrider__sql_append(sql, sql_schema_partition, words, sizeof words / sizeof *words);
    }
    outrider__strbuf_appendf(
        sql, "CREATE TABLE IF NOT EXISTS %s_default PARTITION OF %s DEFAULT;\n", name, root);
}

static void schema_append_outbox(struct strbuf *sql, const char *template, const char *keys,
                                 const struct outbox_wishes *w)
{
    const struct sql_word values[] = {
        {"payload", w->payload},
        {"keys", keys},
        {"partition", w->is_partitioned ? " PARTITION BY RANGE (created_at)" : ""},
        {"partitions", w->partitions},
    };
    outrider__sql_append(sql, template, values, sizeof values / sizeof *values);
}

static void schema_append_log(struct strbuf *sql, const struct outbox_wishes *w)
{
    schema_append_outbox(sql, sql_schema_log,
                         w->is_partitioned
                             ? "PRIMARY KEY (seq, created_at)"
                             : "PRIMARY KEY (seq),\n    CONSTRAINT outbox_id_key UNIQUE (id)",
                         w);
}

static void schema_append_status(struct strbuf *sql, const struct outbox_wishes *w)
{
    schema_append_outbox(sql, sql_schema_status,
                         w->is_partitioned ? "PRIMARY KEY (id, created_at)" : "PRIMARY KEY (id)",
                         w);
}

static const struct layout_schema {
    const char *name;
    void (*append)(struct strbuf *sql, const struct outbox_wishes *w);
    const char *settled; /* how outbox_partitions knows that a partition may go */
} layouts[] = {
    {"log", schema_append_log, sql_schema_settled_log},
    {"status", schema_append_status, sql_schema_settled_status},
};

/* Of an outbox that is there, the relay makes the partitions: it knows what to do where rows
 * of the time ahead are there already. */
static void schema_append_table(struct strbuf *sql, const struct layout_schema *layout,
                                const struct init_options *o, const char *payload, bool is_there)
{
    struct strbuf partitions;
    outrider__strbuf_init(&partitions, 65536);
    if (o->partition != NULL && !is_there)
        outrider__pg_schema_partitions(&partitions, "outbox", "outbox",
                                       strcmp(o->partition, "month") == 0);
    const struct outbox_wishes w = {payload, o->partition != NULL, strbuf_cstr(&partitions)};
    layout->append(sql, &w);
    sql->failed |= partitions.failed;
    outrider__strbuf_release(&partitions);
}

/* How a partitioned outbox is kept up; rests on the companions. */
static void schema_append_upkeep(struct strbuf *sql, const struct layout_schema *layout,
                                 const char *partition, const char *schema)
{
    bool is_month = strcmp(partition, "month") == 0;
    struct strbuf settled;
    outrider__strbuf_init(&settled, 8192);
    outrider__sql_append(&settled, layout->settled, &(struct sql_word){"schema", schema}, 1);
    const struct sql_word values[] = {
        {"schema", schema},
        {"unit", is_month ? "month" : "day"},
        {"ahead", is_month ? TEXT(MONTHS_AHEAD) : TEXT(DAYS_AHEAD)},
        {"format", is_month ? "YYYYMM" : "YYYYMMDD"},
        {"settled", strbuf_cstr(&settled)},
    };
    outrider__sql_append(sql, sql_schema_partitions, values, sizeof values / sizeof *values);
    sql->failed |= settled.failed;
    outrider__strbuf_release(&settled);
}

static const struct pg_block schema_facts = {sql_schema_facts, "cannot read the catalogue",
                                             PG_READS};
enum schema_facts_column {
    FACTS_SCHEMA, /* NULL: no schema of the search path exists */
    FACTS_MAY_MAKE_ROLES,
    FACTS_HAS_ROLES,
    FACTS_HAS_VERSION,
    FACTS_NAME_LENGTH /* of a partition's name; NULL: there are no partitions */
};

/* What the server says that the SQL depends on. */
struct circumstances {
    char schema[PG_NAME_MAX]; /* quoted */
    bool has_outbox, is_ours; /* an outbox that somebody else made is left alone */
    /* Of an outbox of ours that is there already; NULL: not known, or not so. */
    const char *payload, *layout, *partition;
    bool may_make_roles, has_roles;
    int64_t version;
    const char *grants; /* on tables that are not ours */
};

/* Only `outbox` is made. */
static int schema_check_table(const struct pg_store *s, struct outrider_error *err)
{
    const char *name = outrider__pg_store_table(s), *dot = strrchr(name, '.');
    if (s->cat.oid != 0 || strcmp(dot != NULL ? dot + 1 : name, "outbox") == 0)
        return 0;
    return outrider__fail(err, OUTRIDER_NO_OUTBOX, OUTRIDER_STOP,
                          "there is no table %.100s, and init makes `outbox` only; make the table, "
                          "or leave --table (source.tables) out",
                          name);
}

static int schema_look_around(struct pg_store *s, struct circumstances *c,
                              struct outrider_error *err)
{
    PGresult *r = NULL;
    if (outrider__pg_store_catalog(s, err) < 0)
        return -1;
    if (schema_check_table(s, err) < 0)
        return -1;
    c->has_outbox = s->cat.oid != 0;
    c->is_ours = (s->cat.has_seq && !s->cat.has_mark) || s->cat.is_marked_ours;
    c->layout = !c->has_outbox || !c->is_ours ? NULL : s->cat.has_mark ? "status" : "log";
    c->payload = s->cat.payload_type == PG_JSONB   ? "jsonb"
                 : s->cat.payload_type == PG_BYTEA ? "bytea"
                 : s->cat.payload_type == PG_TEXT  ? "text"
                                                   : NULL;
    if (outrider__pg_store_run(s, &schema_facts, NULL, NULL, &r, err) < 0)
        return -1;
    bool is_nowhere = PQgetisnull(r, 0, FACTS_SCHEMA);
    (void)snprintf(c->schema, sizeof c->schema, "%s", outrider__pg_get_str(r, 0, FACTS_SCHEMA));
    c->may_make_roles = outrider__pg_get_bool(r, 0, FACTS_MAY_MAKE_ROLES);
    c->has_roles = outrider__pg_get_bool(r, 0, FACTS_HAS_ROLES);
    bool has_version = outrider__pg_get_bool(r, 0, FACTS_HAS_VERSION);
    /* outbox_p202601 or outbox_p20260131 */
    if (c->layout != NULL && !PQgetisnull(r, 0, FACTS_NAME_LENGTH))
        c->partition = outrider__pg_get_int(r, 0, FACTS_NAME_LENGTH, 0) == 14 ? "month" : "day";
    PQclear(r);
    if (is_nowhere)
        return outrider__fail(
            err, OUTRIDER_CONFIG, OUTRIDER_STOP,
            "no schema of the search path exists; create one, or set search_path");
    c->version = 0;
    if (has_version) {
        if (outrider__pg_store_query(s, "SELECT max(version)::int8 FROM outrider_schema", NULL,
                                     "cannot read the schema's version", &r, err) < 0)
            return -1;
        c->version = outrider__pg_get_int(r, 0, 0, 0);
        PQclear(r);
    }
    if (c->version > PG_SCHEMA_VERSION)
        return outrider__fail(err, OUTRIDER_SCHEMA_NEWER, OUTRIDER_STOP,
                              "the schema has version %lld, this program knows %d; use a newer one",
                              (long long)c->version, PG_SCHEMA_VERSION);
    return 0;
}

static void schema_append_outbox_roles(struct strbuf *sql, const char *layout,
                                       const char *partition, const struct sql_word *values)
{
    outrider__sql_append(sql, sql_schema_roles_outbox, values, 2);
    if (partition != NULL)
        strbuf_append_str(sql, "GRANT EXECUTE ON FUNCTION outbox_partitions TO outrider_relay;\n");
    if (strcmp(layout, "log") != 0) /* rows that carry their state are changed by the relay */
        outrider__sql_append(sql, "GRANT UPDATE ON @schema@.outbox TO outrider_relay;\n", values,
                             2);
}

/* What was asked for must be known, and what is there stays as it is. */
static int schema_check_wishes(const struct init_options *o, const struct circumstances *c,
                               struct outrider_error *err)
{
    if (o->partition != NULL && strcmp(o->partition, "day") != 0 &&
        strcmp(o->partition, "month") != 0)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "unknown partition '%s'; there are day and month", o->partition);
    if (c->layout == NULL)
        return 0;
    if (o->layout != NULL && strcmp(o->layout, c->layout) != 0)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "%s.outbox is there already, with layout %s: init does not change "
                              "it; drop it or make the other one in another schema",
                              c->schema, c->layout);
    if (o->partition != NULL && (c->partition == NULL || strcmp(o->partition, c->partition) != 0))
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "%s.outbox is there already, %s%s: init does not change it; drop it "
                              "or make the other one in another schema",
                              c->schema, c->partition != NULL ? "partitioned by " : "",
                              c->partition != NULL ? c->partition : "not partitioned");
    return 0;
}

/* Everything that is ours beside the outbox, whoever made that. */
static void schema_append_companions(struct strbuf *sql, const struct circumstances *c)
{
    if (c->version > 0 && c->version < PG_SCHEMA_VERSION)
        strbuf_append_str(sql, sql_schema_upgrade);
    strbuf_append_str(sql, sql_schema_companions);
    outrider__strbuf_appendf(sql, "UPDATE outrider_schema SET version = %d WHERE version < %d;\n",
                             PG_SCHEMA_VERSION, PG_SCHEMA_VERSION);
}

static int schema_compose(const struct init_options *asked, const struct circumstances *c,
                          struct strbuf *sql, struct outrider_error *err)
{
    struct init_options o = *asked;
    const char *payload = NULL;
    size_t i = 0, n = sizeof layouts / sizeof *layouts;
    if (outrider__pg_schema_payload(&o, &payload, err) < 0 || schema_check_wishes(&o, c, err) < 0)
        return -1;
    o.layout = c->layout != NULL ? c->layout : o.layout != NULL ? o.layout : "log";
    if (c->partition != NULL)
        o.partition = c->partition;
    if (c->payload != NULL)
        payload = c->payload;
    while (i < n && strcmp(layouts[i].name, o.layout) != 0)
        i++;
    if (i == n)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP, "unknown layout '%s'", o.layout);
    const struct sql_word values[] = {{"payload", payload}, {"schema", c->schema}};
    bool is_foreign = c->has_outbox && !c->is_ours;
    /* Two at once: the second waits, and then finds everything there. */
    strbuf_append_str(sql, sql_schema_begin);
    if (!is_foreign)
        schema_append_table(sql, &layouts[i], &o, payload, c->has_outbox);
    schema_append_companions(sql, c);
    if (!is_foreign) {
        outrider__sql_append(sql, sql_schema_function, values, 2);
        if (o.partition != NULL)
            schema_append_upkeep(sql, &layouts[i], o.partition, c->schema);
    }
    if (c->may_make_roles || c->has_roles) {
        outrider__sql_append(sql, sql_schema_roles, values, 2);
        if (!is_foreign)
            schema_append_outbox_roles(sql, o.layout, o.partition, values);
        strbuf_append_str(sql, c->grants);
    } else {
        strbuf_append_str(sql, sql_schema_no_roles);
    }
    if (o.inbox)
        strbuf_append_str(sql, sql_schema_inbox);
    strbuf_append_str(sql, "COMMIT;\n");
    return sql->failed ? outrider__fail_nomem(err) : 0;
}

int outrider__pg_store_init(struct store *base, const struct init_options *o,
                            struct strbuf *ret_sql, struct outrider_error *err)
{
    struct pg_store *s = pg_store_of(base);
    struct circumstances c = {0};
    struct strbuf sql, grants;
    if (schema_look_around(s, &c, err) < 0)
        return -1;
    outrider__strbuf_init(&sql, 1 << 20);
    outrider__strbuf_init(&grants, 1 << 20);
    int rc = 0;
    if (outrider__pg_store_has_states(s))
        rc = outrider__pg_tables_grants(s, &grants, err);
    c.grants = strbuf_cstr(&grants);
    if (rc == 0)
        rc = schema_compose(o, &c, &sql, err);
    if (rc == 0 && ret_sql != NULL)
        outrider__strbuf_append(ret_sql, strbuf_bytes(&sql));
    if (rc == 0 && !o->dry_run) {
        rc = outrider__pg_store_exec(s, strbuf_cstr(&sql), "cannot make the outbox", err);
        if (rc < 0)
            (void)outrider__pg_store_exec(s, "ROLLBACK", "cannot roll back", NULL);
    }
    outrider__strbuf_release(&sql);
    outrider__strbuf_release(&grants);
    return rc;
}
