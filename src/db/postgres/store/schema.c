/* SPDX-License-Identifier: MIT */
/* init: the SQL is put together from the .sql files, run in one transaction. */
#include "postgres/table/table.h"
#include "postgres/store/store.h"

#include <stdio.h>
#include <time.h>

#include "schema_companions.sql.h"
#include "schema_function.sql.h"
#include "schema_inbox.sql.h"
#include "schema_log.sql.h"
#include "schema_partitions.sql.h"
#include "schema_roles.sql.h"
#include "schema_roles_outbox.sql.h"
#include "schema_settled_log.sql.h"
#include "schema_settled_status.sql.h"
#include "schema_status.sql.h"
#include "schema_upgrade.sql.h"
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

void outrider__pg_schema_expand(struct strbuf *sql, const char *template,
                                const struct pg_schema_value *values, size_t n)
{
    for (const char *p = template; *p != '\0'; p++) {
        size_t i = 0, len = 0;
        for (; *p == '@' && i < n; i++) {
            len = strlen(values[i].name);
            if (strncmp(p + 1, values[i].name, len) == 0 && p[len + 1] == '@')
                break;
        }
        if (*p != '@' || i == n) {
            strbuf_append_char(sql, *p);
            continue;
        }
        strbuf_append_str(sql, values[i].value);
        p += len + 1;
    }
}

struct outbox_wishes {
    const char *payload; /* type of the column */
    bool is_partitioned;
    const char *partitions; /* SQL that makes the first ones */
};

/* [from, to) of the i-th day or month from today on. */
static void bounds(bool is_month, int i, struct tm *ret_from, struct tm *ret_to)
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
        bounds(is_month, i, &a, &b);
        (void)strftime(from, sizeof from, "%Y-%m-%d 00:00:00+00", &a);
        (void)strftime(to, sizeof to, "%Y-%m-%d 00:00:00+00", &b);
        (void)strftime(suffix, sizeof suffix, is_month ? "%Y%m" : "%Y%m%d", &a);
        outrider__strbuf_appendf(sql,
                                 "CREATE TABLE IF NOT EXISTS %s_p%s PARTITION OF %s FOR VALUES "
                                 "FROM ('%s') TO ('%s');\n",
                                 name, suffix, root, from, to);
    }
    outrider__strbuf_appendf(
        sql, "CREATE TABLE IF NOT EXISTS %s_default PARTITION OF %s DEFAULT;\n", name, root);
}

static void append_outbox(struct strbuf *sql, const char *template, const char *keys,
                          const struct outbox_wishes *w)
{
    const struct pg_schema_value values[] = {
        {"PAYLOAD", w->payload},
        {"KEYS", keys},
        {"PARTITION", w->is_partitioned ? " PARTITION BY RANGE (created_at)" : ""},
        {"PARTITIONS", w->partitions},
    };
    outrider__pg_schema_expand(sql, template, values, sizeof values / sizeof *values);
}

static void append_log(struct strbuf *sql, const struct outbox_wishes *w)
{
    append_outbox(sql, sql_schema_log,
                  w->is_partitioned
                      ? "PRIMARY KEY (seq, created_at)"
                      : "PRIMARY KEY (seq),\n    CONSTRAINT outbox_id_key UNIQUE (id)",
                  w);
}

static void append_status(struct strbuf *sql, const struct outbox_wishes *w)
{
    append_outbox(sql, sql_schema_status,
                  w->is_partitioned ? "PRIMARY KEY (id, created_at)" : "PRIMARY KEY (id)", w);
}

static const struct layout_schema {
    const char *name;
    void (*append)(struct strbuf *sql, const struct outbox_wishes *w);
    const char *settled; /* how outbox_partitions knows that a partition may go */
} layouts[] = {
    {"log", append_log, sql_schema_settled_log},
    {"status", append_status, sql_schema_settled_status},
};

/* Of an outbox that is there, the relay makes the partitions: it knows what to do where rows
 * of the time ahead are there already. */
static void append_table(struct strbuf *sql, const struct layout_schema *layout,
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
static void append_upkeep(struct strbuf *sql, const struct layout_schema *layout,
                          const char *partition, const char *schema)
{
    bool is_month = strcmp(partition, "month") == 0;
    struct strbuf settled;
    outrider__strbuf_init(&settled, 8192);
    outrider__pg_schema_expand(&settled, layout->settled,
                               &(struct pg_schema_value){"SCHEMA", schema}, 1);
    const struct pg_schema_value values[] = {
        {"SCHEMA", schema},
        {"UNIT", is_month ? "month" : "day"},
        {"AHEAD", is_month ? TEXT(MONTHS_AHEAD) : TEXT(DAYS_AHEAD)},
        {"FORMAT", is_month ? "YYYYMM" : "YYYYMMDD"},
        {"SETTLED", strbuf_cstr(&settled)},
    };
    outrider__pg_schema_expand(sql, sql_schema_partitions, values, sizeof values / sizeof *values);
    outrider__strbuf_release(&settled);
}

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
static int check_table(const struct pg_store *s, struct outrider_error *err)
{
    const char *name = outrider__pg_store_table(s), *dot = strrchr(name, '.');
    if (s->cat.oid != 0 || strcmp(dot != NULL ? dot + 1 : name, "outbox") == 0)
        return 0;
    return outrider__fail(err, OUTRIDER_NO_OUTBOX, OUTRIDER_STOP,
                          "there is no table %.100s, and init makes `outbox` only; make the table, "
                          "or leave --table (source.tables) out",
                          name);
}

static int look_around(struct pg_store *s, struct circumstances *c, struct outrider_error *err)
{
    PGresult *r = NULL;
    if (outrider__pg_store_catalog(s, err) < 0)
        return -1;
    if (check_table(s, err) < 0)
        return -1;
    c->has_outbox = s->cat.oid != 0;
    c->is_ours = (s->cat.has_seq && !s->cat.has_mark) || s->cat.is_marked_ours;
    c->layout = !c->has_outbox || !c->is_ours ? NULL : s->cat.has_mark ? "status" : "log";
    c->payload = s->cat.payload_type == PG_JSONB   ? "jsonb"
                 : s->cat.payload_type == PG_BYTEA ? "bytea"
                 : s->cat.payload_type == PG_TEXT  ? "text"
                                                   : NULL;
    if (outrider__pg_store_query(
            s,
            "SELECT quote_ident(current_schema()), (SELECT rolsuper OR rolcreaterole FROM pg_roles "
            "WHERE rolname = current_user), (SELECT count(*) = 2 FROM pg_roles WHERE rolname IN "
            "('outrider_writer', 'outrider_relay')), to_regclass('outrider_schema') IS NOT NULL, "
            "(SELECT max(length(p.relname))::int4 FROM pg_inherits h JOIN pg_class p ON p.oid = "
            "h.inhrelid WHERE h.inhparent = to_regclass('outbox') AND p.relname ~ "
            "'^outbox_p[0-9]+$')",
            NULL, "cannot read the catalogue", &r, err) < 0)
        return -1;
    bool is_nowhere = PQgetisnull(r, 0, 0);
    (void)snprintf(c->schema, sizeof c->schema, "%s", outrider__pg_get_str(r, 0, 0));
    c->may_make_roles = outrider__pg_get_bool(r, 0, 1);
    c->has_roles = outrider__pg_get_bool(r, 0, 2);
    bool has_version = outrider__pg_get_bool(r, 0, 3);
    /* outbox_p202601 or outbox_p20260131 */
    if (c->layout != NULL && !PQgetisnull(r, 0, 4))
        c->partition = outrider__pg_get_int(r, 0, 4, 0) == 14 ? "month" : "day";
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

static void append_outbox_roles(struct strbuf *sql, const char *layout, const char *partition,
                                const struct pg_schema_value *values)
{
    outrider__pg_schema_expand(sql, sql_schema_roles_outbox, values, 2);
    if (partition != NULL)
        strbuf_append_str(sql, "GRANT EXECUTE ON FUNCTION outbox_partitions TO outrider_relay;\n");
    if (strcmp(layout, "log") != 0) /* rows that carry their state are changed by the relay */
        outrider__pg_schema_expand(sql, "GRANT UPDATE ON @SCHEMA@.outbox TO outrider_relay;\n",
                                   values, 2);
}

/* What was asked for must be known, and what is there stays as it is. */
static int check_wishes(const struct init_options *o, const struct circumstances *c,
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
static void append_companions(struct strbuf *sql, const struct circumstances *c)
{
    if (c->version > 0 && c->version < PG_SCHEMA_VERSION)
        strbuf_append_str(sql, sql_schema_upgrade);
    strbuf_append_str(sql, sql_schema_companions);
    outrider__strbuf_appendf(sql, "UPDATE outrider_schema SET version = %d WHERE version < %d;\n",
                             PG_SCHEMA_VERSION, PG_SCHEMA_VERSION);
}

static int compose(const struct init_options *asked, const struct circumstances *c,
                   struct strbuf *sql, struct outrider_error *err)
{
    struct init_options o = *asked;
    const char *payload = NULL;
    size_t i = 0, n = sizeof layouts / sizeof *layouts;
    if (outrider__pg_schema_payload(&o, &payload, err) < 0 || check_wishes(&o, c, err) < 0)
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
    const struct pg_schema_value values[] = {{"PAYLOAD", payload}, {"SCHEMA", c->schema}};
    bool is_foreign = c->has_outbox && !c->is_ours;
    /* Two at once: the second waits, and then finds everything there. */
    strbuf_append_str(
        sql, "BEGIN;\nSET LOCAL client_min_messages = warning;\nSET LOCAL row_security = off;\n"
             "SELECT pg_advisory_xact_lock(hashtextextended('outrider/init', 0));\n");
    if (!is_foreign)
        append_table(sql, &layouts[i], &o, payload, c->has_outbox);
    append_companions(sql, c);
    if (!is_foreign) {
        outrider__pg_schema_expand(sql, sql_schema_function, values, 2);
        if (o.partition != NULL)
            append_upkeep(sql, &layouts[i], o.partition, c->schema);
    }
    if (c->may_make_roles || c->has_roles) {
        outrider__pg_schema_expand(sql, sql_schema_roles, values, 2);
        if (!is_foreign)
            append_outbox_roles(sql, o.layout, o.partition, values);
        strbuf_append_str(sql, c->grants);
    } else {
        strbuf_append_str(sql, "-- This user may not create roles; as one who may, run:\n--   "
                               "CREATE ROLE outrider_writer; CREATE ROLE outrider_relay;\n-- "
                               "and run `outrider init` again for their rights.\n");
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
    if (look_around(s, &c, err) < 0)
        return -1;
    outrider__strbuf_init(&sql, 1 << 20);
    outrider__strbuf_init(&grants, 1 << 20);
    int rc = 0;
    if (outrider__pg_store_has_states(s))
        rc = outrider__pg_tables_grants(s, &grants, err);
    c.grants = strbuf_cstr(&grants);
    if (rc == 0)
        rc = compose(o, &c, &sql, err);
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
