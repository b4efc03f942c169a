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
 * may be missing. The slot's catalog_xmin does not show this: it is as old as the oldest
 * transaction of the whole server, and moves on while a relay reads.
 */
#include <stdlib.h>

#include "cdc_publication.sql.h"
#include "common/sql.h"
#include "postgres/cdc/cdc.h"

void outrider__cdc_published_sql(struct strbuf *sql, int version, const char *tables)
{
    struct strbuf schemas;
    outrider__strbuf_init(&schemas, SQL_TEXT_CAP);
    const struct sql_word words[] = {{"tables", tables}};
    if (version >= 150000)
        outrider__sql_append(&schemas, sql_published_schemas, words, 1);
    const struct sql_word all[] = {{"tables", tables}, {"schemas", strbuf_cstr(&schemas)}};
    outrider__sql_append(sql, sql_published_rows, all, 2);
    sql->failed |= schemas.failed;
    outrider__strbuf_release(&schemas);
}

/* A block that asks for the publication's rows. */
static void publication_published_append(struct strbuf *sql, const char *block, int version,
                                         const char *publication, const char *tables,
                                         const char *published)
{
    struct strbuf rows;
    outrider__strbuf_init(&rows, SQL_TEXT_CAP);
    outrider__cdc_published_sql(&rows, version, tables);
    const struct sql_word words[] = {{"rows", strbuf_cstr(&rows)},
                                     {"publication", publication},
                                     {"tables", tables},
                                     {"published", published}};
    outrider__sql_append(sql, block, words, sizeof words / sizeof *words);
    sql->failed |= rows.failed;
    outrider__strbuf_release(&rows);
}

void outrider__cdc_unchanged_sql(struct strbuf *sql, int version, const char *publication,
                                 const char *tables, const char *published)
{
    publication_published_append(sql, sql_published_unchanged, version, publication, tables,
                                 published);
}

void outrider__cdc_tokens_sql(struct strbuf *sql, int version, const char *publication,
                              const char *tables)
{
    publication_published_append(sql, sql_published_tokens, version, publication, tables, NULL);
}

static int publication_published_keep(struct cdc_source *c, const char *text,
                                      struct outrider_error *err)
{
    char *copy = strdup(text);
    if (copy == NULL)
        return outrider__fail_nomem(err);
    free(c->published);
    c->published = copy;
    return 0;
}

/* The recorded rows belong to a slot; a cursor in mode poll has no slot. */
int outrider__cdc_published_read(struct pg_source *s, const char *recorded,
                                 struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    c->must_record = false;
    return publication_published_keep(c, c->move.mode == CURSOR_CDC ? recorded : "{}", err);
}

int outrider__cdc_published_first(struct pg_source *s, const char *now, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    if (strcmp(c->published, "{}") != 0)
        return 0;
    c->must_record = true;
    return publication_published_keep(c, now, err);
}

void outrider__cdc_published_args(const struct pg_source *s, struct pg_args *a)
{
    const struct cdc_source *c = cdc_of((struct pg_source *)s);
    outrider__pg_args_clear(a);
    outrider__pg_arg_str(a, c->publication);
    outrider__cdc_tables_oids(s, a);
    outrider__pg_arg_str(a, c->published);
}

int outrider__cdc_fail_published(const struct pg_source *s, struct outrider_error *err)
{
    const struct cdc_source *c = cdc_of((struct pg_source *)s);
    if (c->move.mode != CURSOR_CDC)
        return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_RETRY,
                              "publication %s was altered: checking it anew", c->publication);
    return outrider__fail(err, OUTRIDER_HISTORY, OUTRIDER_STOP,
                          "publication %s was made anew or altered since the slot's position, and "
                          "events may be missing in the stream; run `outrider slot drop` and "
                          "`outrider resync`, both with --name %s",
                          c->publication, s->config->name);
}

/* Asks on the connection that makes the slot, just before the slot is made. */
int outrider__cdc_published_ask(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    struct strbuf sql, tables;
    char *name = PQescapeLiteral(c->maker.link.pg, c->publication, strlen(c->publication));
    if (name == NULL)
        return outrider__fail_nomem(err);
    outrider__strbuf_init(&sql, SQL_TEXT_CAP);
    outrider__strbuf_init(&tables, SQL_TEXT_CAP);
    for (size_t i = 0; i < c->tables.n_outboxes; i++)
        outrider__strbuf_appendf(&tables, "%s%lld", i == 0 ? "'{" : ",",
                                 (long long)c->tables.outboxes[i].oid);
    strbuf_append_str(&tables, "}'");
    outrider__cdc_tokens_sql(&sql, s->cat.version, name, strbuf_cstr(&tables));
    int rc = sql.failed || tables.failed
                 ? outrider__fail_nomem(err)
                 : outrider__cdc_link_ask(&c->maker.link, strbuf_cstr(&sql),
                                          "cannot read the publication", err);
    PQfreemem(name);
    outrider__strbuf_release(&sql);
    outrider__strbuf_release(&tables);
    return rc;
}

int outrider__cdc_published_answer(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    const PGresult *r = c->maker.link.result;
    if (r == NULL || PQntuples(r) != 1 ||
        strtoull(PQgetvalue(r, 0, 1), NULL, 10) != c->tables.n_outboxes + 1)
        return outrider__cdc_fail_published(s, err);
    return publication_published_keep(c, PQgetvalue(r, 0, 0), err);
}
