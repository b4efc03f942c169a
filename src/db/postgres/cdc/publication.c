/* SPDX-License-Identifier: MIT */
/*
 * The publication that the stream is read through.
 *
 * The server looks the publication up as it was at each place in its log. What was
 * committed while the publication was gone, or did not have a table or its inserts,
 * is not in the stream: up to version 17 the server fails where the publication is
 * gone (42704), and otherwise says nothing. So outrider_cursor.published records the
 * rows of the catalogue by which the publication has the tables, each with its oid and
 * xmin, as these were before the slot was made. Where a row is another one now, events
 * may be missing. The slot's catalog_xmin does not tell: it is as old as the oldest
 * transaction of the whole server, and moves on while a relay reads.
 */
#include <stdlib.h>

#include "postgres/cdc/cdc.h"

#define TABLES_OF                                                                  \
    "CROSS JOIN LATERAL (SELECT w.rel::oid AS oid UNION SELECT a.relid::oid FROM " \
    "pg_partition_ancestors(w.rel::oid::regclass) AS a(relid)) t "

/* A row of the publication itself is changed by ALTER PUBLICATION ... SET (...), OWNER
 * and RENAME, and not by tables that come or go. */
void outrider__cdc_published_sql(struct strbuf *sql, int version, const char *tables)
{
    outrider__strbuf_appendf(
        sql,
        "(SELECT 0::int8 AS rel, 'publication ' || p.oid || ' ' || p.xmin AS token, p.xmin AS x "
        "WHERE p.pubinsert UNION ALL SELECT w.rel, 'all', p.xmin FROM unnest(%s::int8[]) AS w(rel) "
        "WHERE p.puballtables UNION ALL SELECT w.rel, 'table ' || q.oid || ' ' || q.xmin, q.xmin "
        "FROM unnest(%s::int8[]) AS w(rel) " TABLES_OF
        "JOIN pg_publication_rel q ON q.prrelid = t.oid AND q.prpubid = p.oid",
        tables, tables);
    if (version >= 150000)
        outrider__strbuf_appendf(
            sql,
            " UNION ALL SELECT w.rel, 'schema ' || q.oid || ' ' || q.xmin, q.xmin FROM "
            "unnest(%s::int8[]) AS w(rel) " TABLES_OF
            "JOIN pg_class c ON c.oid = t.oid JOIN pg_publication_namespace q ON q.pnnspid = "
            "c.relnamespace AND q.pnpubid = p.oid",
            tables);
    strbuf_append_char(sql, ')');
}

void outrider__cdc_unchanged_sql(struct strbuf *sql, int version, const char *publication,
                                 const char *tables, const char *published)
{
    outrider__strbuf_appendf(sql,
                             "(cardinality(%s::text::text[]) = 0 OR (SELECT count(DISTINCT w.rel) "
                             "FROM pg_publication p CROSS JOIN LATERAL ",
                             published);
    outrider__cdc_published_sql(sql, version, tables);
    outrider__strbuf_appendf(sql,
                             " w WHERE p.pubname = %s AND w.token = ANY (%s::text::text[])) = "
                             "cardinality(%s::int8[]) + 1)",
                             publication, published, tables);
}

void outrider__cdc_tokens_sql(struct strbuf *sql, int version, const char *publication,
                              const char *tables)
{
    strbuf_append_str(sql, "SELECT coalesce(array_agg(DISTINCT w.token), '{}')::text, "
                           "count(DISTINCT w.rel) FROM pg_publication p CROSS JOIN LATERAL ");
    outrider__cdc_published_sql(sql, version, tables);
    outrider__strbuf_appendf(sql, " w WHERE p.pubname = %s", publication);
}

static int keep(struct cdc_source *c, const char *text, struct outrider_error *err)
{
    char *copy = strdup(text);
    if (copy == NULL)
        return outrider__fail_nomem(err);
    free(c->published);
    c->published = copy;
    return 0;
}

/* What a cursor records is of its slot: one that polls has none. */
int outrider__cdc_published_read(struct pg_source *s, const char *recorded,
                                 struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    c->must_record = false;
    return keep(c, strcmp(c->mode, "cdc") == 0 ? recorded : "{}", err);
}

int outrider__cdc_published_first(struct pg_source *s, const char *now, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    if (strcmp(c->published, "{}") != 0)
        return 0;
    c->must_record = true;
    return keep(c, now, err);
}

void outrider__cdc_published_args(const struct pg_source *s, struct pg_args *a)
{
    const struct cdc_source *c = s->cdc;
    outrider__pg_args_clear(a);
    outrider__pg_arg_str(a, c->publication);
    outrider__cdc_tables_oids(s, a);
    outrider__pg_arg_str(a, c->published);
}

int outrider__cdc_fail_published(const struct pg_source *s, struct outrider_error *err)
{
    const struct cdc_source *c = s->cdc;
    if (strcmp(c->mode, "cdc") != 0)
        return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_RETRY,
                              "publication %s was altered: checking it anew", c->publication);
    return outrider__fail(err, OUTRIDER_HISTORY, OUTRIDER_STOP,
                          "publication %s was made anew or altered since the slot's position, and "
                          "events may be missing in the stream; run `outrider slot drop` and "
                          "`outrider resync`, both with --name %s",
                          c->publication, s->config->name);
}

/* On the connection that makes the slot, just before. */
int outrider__cdc_published_ask(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    struct strbuf sql, tables;
    char *name = PQescapeLiteral(c->maker.pg, c->publication, strlen(c->publication));
    if (name == NULL)
        return outrider__fail_nomem(err);
    outrider__strbuf_init(&sql, PG_SQL_CAP);
    outrider__strbuf_init(&tables, PG_SQL_CAP);
    for (size_t i = 0; i < c->tables.n_outboxes; i++)
        outrider__strbuf_appendf(&tables, "%s%lld", i == 0 ? "'{" : ",",
                                 (long long)c->tables.outboxes[i].oid);
    strbuf_append_str(&tables, "}'");
    outrider__cdc_tokens_sql(&sql, s->cat.version, name, strbuf_cstr(&tables));
    int rc = sql.failed || tables.failed
                 ? outrider__fail_nomem(err)
                 : outrider__cdc_link_ask(&c->maker, strbuf_cstr(&sql),
                                          "cannot read the publication", err);
    PQfreemem(name);
    outrider__strbuf_release(&sql);
    outrider__strbuf_release(&tables);
    return rc;
}

int outrider__cdc_published_answer(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    const PGresult *r = c->maker.result;
    if (r == NULL || PQntuples(r) != 1 ||
        strtoull(PQgetvalue(r, 0, 1), NULL, 10) != c->tables.n_outboxes + 1)
        return outrider__cdc_fail_published(s, err);
    return keep(c, PQgetvalue(r, 0, 0), err);
}
