/* SPDX-License-Identifier: MIT */
/* The statements of sql/parked.sql, written for a dialect. Their parameters are numbered here. */
#include "common/parked.h"

#include <stdlib.h>
#include <string.h>

#include "common/sql.h"
#include "parked.sql.h"

#define COUNT_OF(a) (sizeof(a) / sizeof *(a))
#define PARKED_HEX_SIZE(n) (2 + 2 * (n)) /* characters of n bytes in the form "\x..." */

#define PARKED_BOUND_PAYLOAD "@6:int8[1]@"
#define PARKED_BOUND_HEADERS "@6:int8[2]@"
#define PARKED_BOUND_TEXT "@6:int8[3]@"
#define PARKED_IS_EXACT "@6:int8[4]@ = 1"

static const char *const parked_field_names[PARKED_FIELDS] = {
    [PARKED_SEQ] = "seq",
    [PARKED_ARRIVAL] = "arrival",
    [PARKED_ID] = "id",
    [PARKED_LANE] = "lane",
    [PARKED_STATE] = "state",
    [PARKED_ATTEMPTS] = "attempts",
    [PARKED_NEXT] = "next_at",
    [PARKED_CODE] = "code",
    [PARKED_ORIGIN] = "origin",
    [PARKED_MESSAGE] = "message",
    [PARKED_AGGREGATE_TYPE] = "aggregate_type",
    [PARKED_AGGREGATE_ID] = "aggregate_id",
    [PARKED_EVENT_TYPE] = "event_type",
    [PARKED_PAYLOAD] = "payload",
    [PARKED_HEADERS] = "headers",
    [PARKED_TOPIC] = "topic",
    [PARKED_PARTITION_KEY] = "partition_key",
    [PARKED_PARTITION] = "partition",
    [PARKED_OCCURRED_AT] = "occurred_at",
    [PARKED_CREATED_AT] = "created_at",
    [PARKED_EXPIRES_AT] = "expires_at",
    [PARKED_IS_CUT] = "is_cut",
};

static const char *const parked_texts[] = {"id",         "aggregate_type", "aggregate_id",
                                           "event_type", "topic",          "partition_key"};

const char *outrider__parked_purpose(enum parked_statement which)
{
    static const char *const purposes[PARKED_STATEMENTS] = {
        [PARKED_INSERT] = "cannot park events",
        [PARKED_REMOVE] = "cannot remove parked events",
        [PARKED_UPDATE] = "cannot change parked events",
        [PARKED_MEND] = "cannot change parked events",
        [PARKED_DUE] = "cannot read the parked events",
        [PARKED_ANY] = "cannot read the parked events",
        [PARKED_BLOCKED] = "cannot read the parked events",
        [PARKED_FETCH] = "cannot read the parked events",
    };
    return purposes[which];
}

/* A text's bytes: parked.h (4) stores some texts as hex, but no id. */
static void parked_append_size(struct strbuf *q, const char *column)
{
    if (strcmp(column, "id") == 0)
        strbuf_append_str(q, "octet_length(id)");
    else
        outrider__strbuf_appendf(q,
                                 "(CASE WHEN left(%s, 2) = '\\x' THEN octet_length(%s) / 2 - 1 "
                                 "ELSE octet_length(%s) END)",
                                 column, column, column);
}

/* Of a text above its bound, as many bytes come as outrider__bytes_cut() leaves. */
static void parked_append_text(struct strbuf *q, const char *column)
{
    strbuf_append_str(q, ", CASE WHEN ");
    parked_append_size(q, column);
    outrider__strbuf_appendf(q, " > " PARKED_BOUND_TEXT " THEN left(%s, ", column);
    if (strcmp(column, "id") == 0)
        outrider__strbuf_appendf(q, "%d", EVENT_TEXT_CUT);
    else
        outrider__strbuf_appendf(q, "CASE WHEN left(%s, 2) = '\\x' THEN %d ELSE %d END", column,
                                 PARKED_HEX_SIZE(EVENT_TEXT_CUT), EVENT_TEXT_CUT);
    outrider__strbuf_appendf(q, ") ELSE %s END", column);
}

static void parked_append_large(struct strbuf *q, const char *column, const char *bound)
{
    strbuf_append_str(q, " WHEN ");
    parked_append_size(q, column);
    outrider__strbuf_appendf(q, " > %s THEN '%s ' || ", bound, column);
    parked_append_size(q, column);
}

/* The columns of an event, each within its bound, then the payload's size and the first other
 * column above its bound. */
static void parked_append_event(struct strbuf *q, const struct sql_dialect *d)
{
    strbuf_append_str(q, "seq");
    for (size_t i = 0; i < 4; i++)
        parked_append_text(q, parked_texts[i]);
    strbuf_append_str(q, ", CASE WHEN octet_length(payload) <= " PARKED_BOUND_PAYLOAD
                         " THEN payload END, CASE WHEN ");
    parked_append_size(q, "headers");
    strbuf_append_str(q, " > " PARKED_BOUND_HEADERS " THEN '!' ELSE headers END");
    for (size_t i = 4; i < COUNT_OF(parked_texts); i++)
        parked_append_text(q, parked_texts[i]);
    outrider__strbuf_appendf(q,
                             ", \"partition\", occurred_at, created_at, expires_at, CAST(CASE WHEN "
                             "NOT " PARKED_IS_EXACT " AND payload IS NOT NULL THEN 1 WHEN "
                             "octet_length(payload) > " PARKED_BOUND_PAYLOAD
                             " THEN octet_length(payload) END AS %s), CAST(CASE WHEN "
                             "NOT " PARKED_IS_EXACT " THEN NULL",
                             d->types[SQL_INT8]);
    parked_append_large(q, "headers", PARKED_BOUND_HEADERS);
    for (size_t i = 0; i < COUNT_OF(parked_texts); i++)
        parked_append_large(q, parked_texts[i], PARKED_BOUND_TEXT);
    outrider__strbuf_appendf(q, " END AS %s)", d->types[SQL_TEXT]);
}

static void parked_append_bytes(struct strbuf *q)
{
    strbuf_append_str(q, "least(coalesce(octet_length(payload), 0), " PARKED_BOUND_PAYLOAD
                         ") + least(coalesce(octet_length(headers), 0), 2 * " PARKED_BOUND_HEADERS
                         ")");
    for (size_t i = 0; i < COUNT_OF(parked_texts); i++)
        outrider__strbuf_appendf(
            q, " + least(coalesce(octet_length(%s), 0), 2 * " PARKED_BOUND_TEXT ")",
            parked_texts[i]);
}

static void parked_append_whole(struct strbuf *q, const struct sql_dialect *d, const char *whole)
{
    if (d->has_lateral)
        outrider__strbuf_appendf(q, "LATERAL (%s) x ON true", whole);
    else
        outrider__strbuf_appendf(q, "(%s) x ON x.id = u.id AND u.is_cut = 1", whole);
}

static void parked_append_rows(struct strbuf *q, const struct sql_dialect *d,
                               enum parked_statement which, bool sends_values)
{
    struct parked_input in = outrider__parked_input(which, sends_values);
    struct sql_field fields[PARKED_FIELDS];
    int params[PARKED_FIELDS];
    for (size_t i = 0; i < in.n; i++) {
        params[i] = (in.has_now ? 4 : 3) + (int)i;
        fields[i] = (struct sql_field){.name = parked_field_names[in.fields[i]],
                                       .type = outrider__parked_type(in.fields[i])};
    }
    struct sql_rows rows = {.alias = "u",
                            .params = params,
                            .fields = fields,
                            .n = in.n,
                            .is_numbered = which == PARKED_INSERT || which == PARKED_BLOCKED};
    if (in.n > 0)
        d->rows(q, &rows);
}

/* Everything that the templates of sql/parked.sql name. */
enum parked_piece {
    PIECE_ROWS,
    PIECE_IS_GIVEN,
    PIECE_Q_IN_L,
    PIECE_Q_IN_F,
    PIECE_Q_IN_H,
    PIECE_Q_IN_U,
    PIECE_D_IN_H,
    PIECE_EVENT,
    PIECE_BYTES,
    PIECE_WHOLE,
    PARKED_PIECES
};

static const char *parked_template(enum parked_statement which, const struct sql_dialect *d,
                                   bool sends_values)
{
    switch (which) {
    case PARKED_INSERT:
        return sends_values ? sql_parked_insert_values : sql_parked_insert;
    case PARKED_REMOVE:
        return sql_parked_remove;
    case PARKED_UPDATE:
        return sql_parked_update;
    case PARKED_MEND:
        return sql_parked_mend;
    case PARKED_DUE:
        return sql_parked_due;
    case PARKED_ANY:
        return sql_parked_any;
    case PARKED_BLOCKED:
        return sql_parked_blocked;
    default:
        return d->has_lateral ? sql_parked_fetch : sql_parked_fetch_numbered;
    }
}

static void parked_pieces(struct strbuf pieces[PARKED_PIECES], const struct sql_dialect *d,
                          enum parked_statement which, const struct parked_names *names)
{
    bool sends_values = names->copy == NULL;
    for (int i = 0; i < PARKED_PIECES; i++)
        outrider__strbuf_init(&pieces[i], SQL_TEXT_CAP);
    parked_append_rows(&pieces[PIECE_ROWS], d, which, sends_values);
    d->is_in(&pieces[PIECE_IS_GIVEN], 3, SQL_INT8, NULL);
    d->same_lane(&pieces[PIECE_Q_IN_L], "q.lane", "l.lane");
    d->same_lane(&pieces[PIECE_Q_IN_F], "q.lane", "f.lane");
    d->same_lane(&pieces[PIECE_Q_IN_H], "q.lane", "h.lane");
    d->same_lane(&pieces[PIECE_Q_IN_U], "q.lane", "u.lane");
    d->same_lane(&pieces[PIECE_D_IN_H], "d.lane", "h.lane");
    parked_append_event(&pieces[PIECE_EVENT], d);
    parked_append_bytes(&pieces[PIECE_BYTES]);
    if (names->whole != NULL)
        parked_append_whole(&pieces[PIECE_WHOLE], d, names->whole);
}

/* The rows that an UPDATE goes by: those that are sent, or those whose state is wrong. */
static void parked_expand(struct strbuf *q, const struct sql_dialect *d,
                          enum parked_statement which, const struct parked_names *names,
                          const struct strbuf pieces[PARKED_PIECES])
{
    struct sql_join join;
    struct strbuf wrong;
    struct sql_word words[] = {
        {"parked", names->table},
        {"live", names->blocks ? "" : " AND q.state <> 'dead'"},
        {"copy", names->copy},
        {"whole", strbuf_cstr(&pieces[PIECE_WHOLE])},
        {"materialized", d->materialized},
        {"epoch", d->epoch},
        {"rows", strbuf_cstr(&pieces[PIECE_ROWS])},
        {"is_given", strbuf_cstr(&pieces[PIECE_IS_GIVEN])},
        {"q_in_l", strbuf_cstr(&pieces[PIECE_Q_IN_L])},
        {"q_in_f", strbuf_cstr(&pieces[PIECE_Q_IN_F])},
        {"q_in_h", strbuf_cstr(&pieces[PIECE_Q_IN_H])},
        {"q_in_u", strbuf_cstr(&pieces[PIECE_Q_IN_U])},
        {"d_in_h", strbuf_cstr(&pieces[PIECE_D_IN_H])},
        {"event", strbuf_cstr(&pieces[PIECE_EVENT])},
        {"bytes", strbuf_cstr(&pieces[PIECE_BYTES])},
        {"pipeline", "@1:text@"},
        {"outbox", "@2:text@"},
        {"now", "@3:time@"},
        {"lanes", "@4:text[]@"},
        {"limit", "@4:int8@"},
        {"lane_limit", "@5:int8@"},
        {"max_bytes", "@7:int8@"},
        {"blocks", "@8:int8@"},
        {"p", d->joins_before_set ? "p." : ""},
        {"before_set", NULL},
        {"after_set", NULL},
    };
    size_t n = COUNT_OF(words);
    outrider__strbuf_init(&wrong, SQL_TEXT_CAP);
    if (which == PARKED_MEND) {
        strbuf_append_str(&wrong, "(");
        outrider__sql_append(&wrong, sql_parked_wrong, words, n);
        strbuf_append_str(&wrong, ") w");
    }
    outrider__sql_join_init(&join, d,
                            strbuf_cstr(which == PARKED_MEND ? &wrong : &pieces[PIECE_ROWS]));
    words[n - 2].value = strbuf_cstr(&join.before_set);
    words[n - 1].value = strbuf_cstr(&join.after_set);
    outrider__sql_append(q, parked_template(which, d, names->copy == NULL), words, n);
    q->failed |= wrong.failed || join.before_set.failed || join.after_set.failed;
    outrider__sql_join_release(&join);
    outrider__strbuf_release(&wrong);
}

static char *parked_statement_sql(const struct sql_dialect *d, enum parked_statement which,
                                  const struct parked_names *names, struct sql_params *ret_params,
                                  struct outrider_error *err)
{
    struct strbuf pieces[PARKED_PIECES], neutral;
    outrider__strbuf_init(&neutral, SQL_TEXT_CAP);
    parked_pieces(pieces, d, which, names);
    parked_expand(&neutral, d, which, names, pieces);
    bool failed = neutral.failed;
    for (int i = 0; i < PARKED_PIECES; i++) {
        failed |= pieces[i].failed;
        outrider__strbuf_release(&pieces[i]);
    }
    char *sql = NULL;
    if (failed)
        (void)outrider__fail_nomem(err);
    else
        sql = outrider__sql_finish(d, strbuf_cstr(&neutral), ret_params, err);
    outrider__strbuf_release(&neutral);
    return sql;
}

int outrider__parked_sql_init(struct parked_sql *p, const struct sql_dialect *d,
                              const struct parked_names *names, struct outrider_error *err)
{
    *p = (struct parked_sql){0};
    for (int i = 0; i < PARKED_STATEMENTS; i++) {
        p->sql[i] = parked_statement_sql(d, (enum parked_statement)i, names, &p->params[i], err);
        if (p->sql[i] == NULL)
            return -1;
    }
    return 0;
}

void outrider__parked_sql_release(struct parked_sql *p)
{
    for (int i = 0; i < PARKED_STATEMENTS; i++)
        free(p->sql[i]);
    *p = (struct parked_sql){0};
}
