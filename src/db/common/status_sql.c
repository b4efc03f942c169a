/* SPDX-License-Identifier: MIT */
/* One statement of layout `status` for one table. */
#include "common/status_sql.h"

#include "common/sql.h"
#include "status.sql.h"

#define COUNT_OF(a) (sizeof(a) / sizeof *(a))

const char *outrider__status_purpose(enum status_statement which)
{
    static const char *const purposes[ST_COUNT] = {
        [ST_FETCH] = "cannot read the outbox",
        [ST_CLAIM] = "cannot claim events",
        [ST_PUBLISH] = "cannot mark events as published",
        [ST_LEFT] = "cannot look for events that are not marked",
        [ST_CHANGE] = "cannot mark events as failed",
        [ST_PARK] = "cannot park events",
        [ST_UNPARK] = "cannot remove parked events",
        [ST_CURSOR] = "cannot settle",
        [ST_TAKE] = "cannot take the pipeline over",
        [ST_TAKEN] = "cannot take the pipeline over",
        [ST_RECLAIM] = "cannot take back what another relay had",
        [ST_CLAIMED] = "cannot look for events that applications publish",
        [ST_RENEW] = "cannot renew the lease",
        [ST_RELEASE] = "cannot give rows back",
        [ST_CLEANUP] = "cannot clean up",
        [ST_WORDS] = "cannot look at the states",
        [ST_UNCOVERED] = "cannot look at the states",
    };
    return purposes[which];
}

static void status_unpark_sql(struct strbuf *q, const struct status_sql *s)
{
    outrider__strbuf_appendf(q, "DELETE FROM %s WHERE pipeline = ", s->table->parked_table);
    outrider__sql_literal(q, s->config->name);
    strbuf_append_str(q, " AND outbox = ");
    outrider__sql_literal(q, s->table->outbox);
    strbuf_append_str(q, " AND id");
    s->dialect->sql->is_in(q, 1, SQL_TEXT, NULL);
}

/* The words of a statement on the pipeline's row of outrider_cursor. */
static void status_cursor_words(struct strbuf *q, const struct status_sql *s, const char *template)
{
    const struct sql_dialect *d = s->dialect->sql;
    struct strbuf literals[2], news[3];
    static const char *const columns[] = {"sink", "on_dead", "words"};
    for (size_t i = 0; i < 2; i++)
        outrider__strbuf_init(&literals[i], 1024);
    outrider__sql_literal(&literals[0], s->config->name);
    outrider__sql_literal(&literals[1], s->table->outbox);
    for (size_t i = 0; i < 3; i++) {
        outrider__strbuf_init(&news[i], 128);
        outrider__strbuf_appendf(&news[i], "%s%s%s", d->new_value[0], columns[i], d->new_value[1]);
    }
    const struct sql_word words[] = {
        {"cursor", s->table->cursor_table},
        {"pipeline", strbuf_cstr(&literals[0])},
        {"name", strbuf_cstr(&literals[1])},
        {"now", d->now},
        {"mine", s->competes ? " AND @5:int8@ IS NOT NULL" : " AND epoch = @5:int8@"},
        {"insert_alias", d->insert_alias},
        {"upsert", d->upsert},
        {"old", d->old_value},
        {"new_sink", strbuf_cstr(&news[0])},
        {"new_on_dead", strbuf_cstr(&news[1])},
        {"new_words", strbuf_cstr(&news[2])},
        {"step", s->competes ? "0" : "1"},
        {"returning", d->has_returning ? " RETURNING c.epoch, c.sink, c.mode" : ""},
    };
    outrider__sql_append(q, template, words, COUNT_OF(words));
    for (size_t i = 0; i < 2; i++)
        outrider__strbuf_release(&literals[i]);
    for (size_t i = 0; i < 3; i++)
        outrider__strbuf_release(&news[i]);
}

static void status_cursor_sql(struct strbuf *q, const struct status_sql *s)
{
    struct strbuf update;
    if (!s->dialect->sql->has_returning) {
        status_cursor_words(q, s, sql_status_cursor);
        return;
    }
    outrider__strbuf_init(&update, SQL_TEXT_CAP);
    status_cursor_words(&update, s, sql_status_cursor);
    const struct sql_word words[] = {{"update", strbuf_cstr(&update)}};
    outrider__sql_append(q, sql_status_cursor_checked, words, COUNT_OF(words));
    q->failed |= update.failed;
    outrider__strbuf_release(&update);
}

/* Rows of a relay that is gone: the lock of the pipeline says so. */
static void status_reclaim_sql(struct strbuf *q, const struct status_sql *s)
{
    bool has_state = table_has_state(s->table, STATE_PROCESSING);
    struct strbuf set;
    outrider__strbuf_init(&set, SQL_TEXT_CAP);
    if (has_state)
        outrider__status_set_state(&set, s, STATE_PENDING);
    outrider__status_set_free(&set, s);
    if (set.len > 0 && (has_state || s->has_owner)) {
        outrider__strbuf_appendf(q, "UPDATE %s o SET %s WHERE ", s->table->outbox,
                                 strbuf_cstr(&set));
        if (has_state)
            outrider__sql_is_state(q, s->table, STATE_PROCESSING, "o.");
        else
            outrider__sql_unsettled(q, s->table, "o.");
        if (s->has_owner)
            outrider__status_and_abandoned(q, s);
    }
    q->failed |= set.failed;
    outrider__strbuf_release(&set);
}

/* Exactly once: what an application has claimed (app/hybrid.h), it may have sent. */
static void status_claimed_sql(struct strbuf *q, const struct status_sql *s)
{
    if (!s->has_owner || !s->config->exactly_once)
        return;
    outrider__strbuf_appendf(q, "SELECT count(*) FROM %s o WHERE ", s->table->outbox);
    outrider__sql_unsettled(q, s->table, "o.");
    outrider__status_and_hybrid(q, s);
}

static void status_renew_sql(struct strbuf *q, const struct status_sql *s)
{
    struct strbuf set;
    if (!s->has_owner)
        return;
    outrider__strbuf_init(&set, SQL_TEXT_CAP);
    outrider__status_set_claim(&set, s, 2);
    outrider__status_update_ours(q, s, &set);
    outrider__strbuf_release(&set);
}

static void status_release_sql(struct strbuf *q, const struct status_sql *s)
{
    struct strbuf set;
    if (!s->claims)
        return;
    outrider__strbuf_init(&set, SQL_TEXT_CAP);
    if (table_has_state(s->table, STATE_PROCESSING))
        outrider__status_set_state(&set, s, STATE_PENDING);
    outrider__status_set_free(&set, s);
    outrider__status_update_ours(q, s, &set);
    outrider__strbuf_release(&set);
}

static void status_on_rows(struct strbuf *q, const struct status_sql *s,
                           enum status_statement which)
{
    switch (which) {
    case ST_FETCH:
        outrider__status_fetch_sql(q, s);
        break;
    case ST_CLAIM:
        outrider__status_claim_sql(q, s);
        break;
    case ST_PUBLISH:
        outrider__status_publish_sql(q, s, s->config->source.after_publish == AFTER_PUBLISH_DELETE);
        break;
    case ST_LEFT:
        outrider__status_left_sql(q, s);
        break;
    case ST_CHANGE:
        outrider__status_change_sql(q, s);
        break;
    case ST_PARK:
        outrider__status_park_sql(q, s);
        break;
    case ST_RENEW:
        status_renew_sql(q, s);
        break;
    default:
        status_release_sql(q, s);
    }
}

static void status_build(struct strbuf *q, const struct status_sql *s, enum status_statement which)
{
    switch (which) {
    case ST_UNPARK:
        status_unpark_sql(q, s);
        break;
    case ST_CURSOR:
        status_cursor_sql(q, s);
        break;
    case ST_TAKE:
        status_cursor_words(q, s, sql_status_take);
        break;
    case ST_TAKEN:
        if (!s->dialect->sql->has_returning)
            status_cursor_words(q, s, sql_status_taken);
        break;
    case ST_RECLAIM:
        status_reclaim_sql(q, s);
        break;
    case ST_CLAIMED:
        status_claimed_sql(q, s);
        break;
    case ST_CLEANUP:
        outrider__sql_cleanup(q, s->dialect, s->table);
        break;
    default:
        status_on_rows(q, s, which);
    }
}

int outrider__status_sql(const struct status_sql *s, enum status_statement which, char **ret_sql,
                         struct sql_params *ret_params, struct outrider_error *err)
{
    struct strbuf neutral;
    char *sql = NULL;
    int rc = 0;
    outrider__strbuf_init(&neutral, SQL_TEXT_CAP);
    status_build(&neutral, s, which);
    if (neutral.failed) {
        rc = outrider__fail_nomem(err);
    } else if (neutral.len > 0) {
        sql = outrider__sql_finish(s->dialect->sql, strbuf_cstr(&neutral), ret_params, err);
        rc = sql != NULL ? 0 : -1;
    }
    outrider__strbuf_release(&neutral);
    if (rc == 0)
        *ret_sql = sql;
    return rc;
}
