/* SPDX-License-Identifier: MIT */
#include "postgres/shared/guard.h"

#include <stdlib.h>
#include <string.h>

#include "shared.sql.h"
#include "postgres/shared/source.h"
#include "postgres/shared/source.h"

#define LOOK_EVERY_US 2000000

const char *const outrider__pg_guard_sql = sql_guard;

/* Columns of guard. */
enum guard_column {
    GUARD_TABLE,
    GUARD_IS_HIDDEN,
    GUARD_IS_FORCED, /* and the role owns the table */
    GUARD_ROLE,
    GUARD_QUOTED_ROLE,
    GUARD_CHILD,
    GUARD_BAD_PARTITION,
    GUARD_IS_FOREIGN,
    GUARD_PARTITIONS
};

void outrider__pg_guard_args(struct pg_args *a, const struct pipeline_config *config,
                             const char *companion_schema)
{
    outrider__pg_args_clear(a);
    outrider__pg_array_begin(a, PG_TEXT);
    for (size_t i = 0; i < config->source.tables.n; i++)
        outrider__pg_array_text(a, bytes_str(config->source.tables.items[i]));
    if (config->source.tables.n == 0)
        outrider__pg_array_text(a, bytes_str("outbox"));
    outrider__pg_array_end(a);
    outrider__pg_arg_str(a, companion_schema);
}

static int guard_fail_hidden(const PGresult *r, int row, struct outrider_error *err)
{
    const char *table = outrider__pg_get_str(r, row, GUARD_TABLE);
    const char *role = outrider__pg_get_str(r, row, GUARD_ROLE);
    const char *quoted = outrider__pg_get_str(r, row, GUARD_QUOTED_ROLE);
    const char *mend = outrider__pg_get_bool(r, row, GUARD_IS_FORCED) ? "NO FORCE" : "DISABLE";
    return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                          "row level security hides rows of %s from role '%s', and hidden events "
                          "would be lost: ALTER TABLE %s %s ROW LEVEL SECURITY, or ALTER ROLE %s "
                          "BYPASSRLS, or make %s the owner of a table without FORCE",
                          table, role, table, mend, quoted, quoted);
}

static int guard_fail_child(const PGresult *r, int row, struct outrider_error *err)
{
    const char *table = outrider__pg_get_str(r, row, GUARD_TABLE);
    const char *child = outrider__pg_get_str(r, row, GUARD_CHILD);
    return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                          "%s has the inheritance child %s, whose writers nobody watches, so that "
                          "its events could be lost: ALTER TABLE %s NO INHERIT %s, and insert its "
                          "rows into the outbox; or use declarative partitions",
                          table, child, child, table);
}

static int guard_fail_partition(const PGresult *r, int row, struct outrider_error *err)
{
    const char *table = outrider__pg_get_str(r, row, GUARD_TABLE);
    const char *bad = outrider__pg_get_str(r, row, GUARD_BAD_PARTITION);
    bool is_foreign = outrider__pg_get_bool(r, row, GUARD_IS_FOREIGN);
    return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                          "partition %s is %s: ALTER TABLE %s %s%s", bad,
                          is_foreign ? "a foreign table, whose writers nobody sees, so that its "
                                       "events could be lost"
                                     : "unlogged, and a crash empties it",
                          is_foreign ? table : bad, is_foreign ? "DETACH PARTITION " : "SET LOGGED",
                          is_foreign ? bad : "");
}

int outrider__pg_guard_check(const PGresult *r, bool is_strict, struct outrider_error *err)
{
    for (int i = 0; i < PQntuples(r); i++) {
        if (outrider__pg_get_bool(r, i, GUARD_IS_HIDDEN))
            return guard_fail_hidden(r, i, err);
        if (is_strict && !PQgetisnull(r, i, GUARD_CHILD))
            return guard_fail_child(r, i, err);
        if (is_strict && !PQgetisnull(r, i, GUARD_BAD_PARTITION))
            return guard_fail_partition(r, i, err);
    }
    return 0;
}

/* Rows that carry their state are read wherever they are. */
static bool guard_is_strict(const struct pg_source *s)
{
    return !s->layout->has_states;
}

static int guard_on_new(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    const char *names = outrider__pg_get_str(results[0], 0, 0);
    (void)n;
    (void)err;
    s->guard.is_busy = false;
    if (*names != '\0')
        outrider__pg_source_warn(
            s, "%.100s: attached to %.60s with rows in it; %s are not delivered by this relay",
            names, s->cat.table, pg_source_is_cdc(s) ? "these" : "those at or below the position");
    return 0;
}

/* The first look remembers, later ones ask what is new. */
static int guard_see_partitions(struct pg_source *s, const char *now, struct outrider_error *err)
{
    struct pg_guard *g = &s->guard;
    char *before = g->partitions;
    if (before != NULL && strcmp(before, now) == 0)
        return 0;
    g->partitions = strdup(now);
    if (g->partitions == NULL) {
        g->partitions = before;
        return outrider__fail_nomem(err);
    }
    int rc = 0;
    if (before != NULL) {
        outrider__pg_args_clear(&g->args);
        outrider__pg_arg_str(&g->args, before);
        outrider__pg_arg_str(&g->args, now);
        g->is_busy = true;
        rc = outrider__pg_request(&s->conn, &g->st_new, &g->args, guard_on_new, s, err);
    }
    free(before);
    return rc;
}

static int guard_on_look(void *ctx, PGresult **results, int n, struct outrider_error *err)
{
    struct pg_source *s = ctx;
    struct pg_guard *g = &s->guard;
    const PGresult *r = results[0];
    (void)n;
    g->is_busy = false;
    g->due_us = s->now.mono_us + LOOK_EVERY_US;
    if (outrider__pg_guard_check(r, guard_is_strict(s), err) < 0)
        return -1;
    if (guard_is_strict(s) && PQntuples(r) > 0 &&
        guard_see_partitions(s, outrider__pg_get_str(r, 0, GUARD_PARTITIONS), err) < 0)
        return -1;
    int (*then)(struct pg_source *, struct outrider_error *) = g->then;
    g->then = NULL;
    return then != NULL ? then(s, err) : 0;
}

static int guard_look(struct pg_source *s, struct outrider_error *err)
{
    struct pg_guard *g = &s->guard;
    g->is_busy = true;
    outrider__pg_guard_args(&g->args, s->config, s->cat.companion_schema);
    return outrider__pg_request(&s->conn, &g->st_look, &g->args, guard_on_look, s, err);
}

int outrider__pg_guard_begin(struct pg_source *s,
                             int (*then)(struct pg_source *s, struct outrider_error *err),
                             struct outrider_error *err)
{
    struct pg_guard *g = &s->guard;
    outrider__pg_args_init(&g->args);
    g->st_look = (struct pg_statement){.sql = sql_guard, .what = "cannot read the catalogue"};
    g->st_new = (struct pg_statement){.sql = sql_guard_new, .what = "cannot read the catalogue"};
    g->then = then;
    return guard_look(s, err);
}

int outrider__pg_guard_tick(struct pg_source *s, struct outrider_error *err)
{
    struct pg_guard *g = &s->guard;
    if (g->is_busy)
        return 0;
    if (s->now.mono_us >= g->due_us)
        return guard_look(s, err);
    if (g->due_us < s->base.wake_us)
        s->base.wake_us = g->due_us;
    return 0;
}

void outrider__pg_guard_release(struct pg_guard *g)
{
    outrider__pg_args_release(&g->args);
    free(g->partitions);
    *g = (struct pg_guard){0};
}
