/* SPDX-License-Identifier: MIT */
#include "common/dead.h"

#include "common/sql.h"
#include "dead.sql.h"

#define COUNT_OF(a) (sizeof(a) / sizeof *(a))

const char *outrider__dead_purpose(enum dead_statement which)
{
    static const char *const purposes[DEAD_STATEMENTS] = {
        [DEAD_LIST] = "cannot list the parked events",
        [DEAD_RETRY] = "cannot change the parked events",
        [DEAD_DISCARD] = "cannot change the parked events",
        [DEAD_FAILED] = "cannot count failures",
        [DEAD_MEND] = "cannot mend the lanes",
    };
    return purposes[which];
}

static const char *dead_template(enum dead_statement which)
{
    static const char *const templates[DEAD_STATEMENTS] = {[DEAD_LIST] = sql_dead_list,
                                                           [DEAD_RETRY] = sql_dead_retry,
                                                           [DEAD_DISCARD] = sql_dead_discard,
                                                           [DEAD_FAILED] = sql_dead_failed,
                                                           [DEAD_MEND] = sql_dead_mend};
    return templates[which];
}

static void dead_append_filter(struct strbuf *q, const struct sql_dialect *d)
{
    struct strbuf given, stored;
    outrider__strbuf_init(&given, 1024);
    outrider__strbuf_init(&stored, 1024);
    d->is_in(&given, 2, SQL_TEXT, NULL);
    if (d->stored_hex != NULL) {
        strbuf_append_str(&stored, ", ");
        d->stored_hex(&stored, "@3:text@");
    }
    const struct sql_word words[] = {{"is_given", strbuf_cstr(&given)},
                                     {"stored", strbuf_cstr(&stored)}};
    outrider__sql_append(q, sql_dead_filter, words, COUNT_OF(words));
    q->failed |= given.failed || stored.failed;
    outrider__strbuf_release(&given);
    outrider__strbuf_release(&stored);
}

static void dead_append_wrong(struct strbuf *q, const struct sql_dialect *d,
                              const struct dead_names *names)
{
    const struct sql_word words[] = {
        {"parked", names->parked}, {"cursor", names->cursor}, {"materialized", d->materialized}};
    strbuf_append_str(q, "(");
    outrider__sql_append(q, sql_dead_wrong, words, COUNT_OF(words));
    strbuf_append_str(q, ") w");
}

char *outrider__dead_sql(const struct sql_dialect *d, const struct dead_names *names,
                         enum dead_statement which, struct sql_params *ret_params,
                         struct outrider_error *err)
{
    struct strbuf neutral, filter, wrong;
    struct sql_join join;
    char *sql = NULL;
    outrider__strbuf_init(&neutral, SQL_TEXT_CAP);
    outrider__strbuf_init(&filter, SQL_TEXT_CAP);
    outrider__strbuf_init(&wrong, SQL_TEXT_CAP);
    dead_append_filter(&filter, d);
    dead_append_wrong(&wrong, d, names);
    outrider__sql_join_init(&join, d, strbuf_cstr(&wrong));
    const struct sql_word words[] = {
        {"parked", names->parked},
        {"event", names->event},
        {"filter", strbuf_cstr(&filter)},
        {"now", d->now != NULL ? d->now : "@6:time@"},
        {"epoch", d->epoch},
        {"and_outbox", names->has_outbox ? " AND outbox = @2:text@" : ""},
        {"p", d->joins_before_set ? "p." : ""},
        {"before_set", strbuf_cstr(&join.before_set)},
        {"after_set", strbuf_cstr(&join.after_set)},
    };
    outrider__sql_append(&neutral, dead_template(which), words, COUNT_OF(words));
    if (neutral.failed || filter.failed || wrong.failed || join.before_set.failed ||
        join.after_set.failed)
        (void)outrider__fail_nomem(err);
    else
        sql = outrider__sql_finish(d, strbuf_cstr(&neutral), ret_params, err);
    outrider__sql_join_release(&join);
    outrider__strbuf_release(&wrong);
    outrider__strbuf_release(&filter);
    outrider__strbuf_release(&neutral);
    return sql;
}
