/* SPDX-License-Identifier: MIT */
/*
 * Roles and the names they usually have.
 *
 * What a table lacks:
 *     aggregate type   the table's name without _outbox and outbox_
 *     aggregate id     the column X_id, X being that name, or the only *_id
 *                      there is; else the idempotency key
 *     event type       the payload column's name without _json, _payload and
 *                      _body, if it has one of its own; else the aggregate type
 *     seq              the id if a sequence numbers it; else order is by time
 *                      and insertion, as far as the database tells
 */
#include "common/column_map.h"

#include <stdio.h>
#include <strings.h>

#define KINDS(...) ((const enum map_kind[]){__VA_ARGS__, KIND_OTHER})

/* Names in the order of preference, as outrider__map_normalise() leaves them. */
static const struct role {
    const char *option;
    const char *names;
    const enum map_kind *kinds;
} roles[ROLE_COUNT] = {
    [ROLE_ID] = {"map.id", " eventid messageid id uuid outboxid eventuuid ",
                 KINDS(KIND_UUID, KIND_INTEGER, KIND_TEXT)},
    [ROLE_SEQ] = {"map.seq",
                  " seq sequence sequencenum sequencenumber sequenceno seqno seqnum eventseq "
                  "globalseq globalposition position ",
                  KINDS(KIND_INTEGER)},
    [ROLE_AGGREGATE_TYPE] = {"map.aggregate_type",
                             " aggregatetype aggregatename entitytype aggregate ",
                             KINDS(KIND_TEXT, KIND_ENUM)},
    [ROLE_AGGREGATE_ID] = {"map.aggregate_id",
                           " aggregateid aggregatekey entityid streamid recordkey ",
                           KINDS(KIND_TEXT, KIND_UUID, KIND_INTEGER, KIND_BYTES)},
    [ROLE_EVENT_TYPE] = {"map.event_type",
                         " eventtype eventname messagetype recordtype type kind event ",
                         KINDS(KIND_TEXT, KIND_ENUM)},
    [ROLE_PAYLOAD] = {"map.payload",
                      " payload eventpayload payloadjson eventdata eventbody data body message "
                      "content json value serializedevent ",
                      KINDS(KIND_JSON, KIND_TEXT, KIND_BYTES)},
    [ROLE_HEADERS] = {"map.headers", " headers eventheaders messageheaders header metadata ",
                      KINDS(KIND_JSON, KIND_TEXT, KIND_BYTES)},
    [ROLE_TOPIC] = {"map.topic", " topic topicname targettopic kafkatopic destination ",
                    KINDS(KIND_TEXT)},
    [ROLE_PARTITION_KEY] = {"map.partition_key",
                            " partitionkey messagekey kafkakey routingkey eventkey ",
                            KINDS(KIND_TEXT, KIND_UUID, KIND_INTEGER, KIND_BYTES)},
    [ROLE_PARTITION] = {"map.partition", " partition kafkapartition partitionno partitionnumber ",
                        KINDS(KIND_INTEGER)},
    [ROLE_OCCURRED_AT] = {"map.occurred_at",
                          " occurredat occurredon eventtime eventtimestamp timestamp ",
                          KINDS(KIND_TIME)},
    [ROLE_CREATED_AT] = {"map.created_at",
                         " createdat createdon created createdtime createtime createddate "
                         "insertedat enqueuedat publicationdate added ",
                         KINDS(KIND_TIME)},
    [ROLE_EXPIRES_AT] = {"map.expires_at", " expiresat expireat expiry expireson validuntil ",
                         KINDS(KIND_TIME)},
    [ROLE_IDEMPOTENCY_KEY] = {"map.idempotency_key",
                              " idempotencykey idempotentkey deduplicationkey dedupkey "
                              "deduplicationid ",
                              KINDS(KIND_TEXT, KIND_UUID, KIND_INTEGER)},
    [ROLE_REQUEST_DIGEST] = {"map.request_digest", " requestdigest requesthash digest ",
                             KINDS(KIND_TEXT, KIND_BYTES)},
    [ROLE_STATUS] = {"map.status",
                     " status eventstatus outboxstatus publishstatus processingstatus "
                     "deliverystatus state statusname ",
                     KINDS(KIND_TEXT, KIND_ENUM, KIND_INTEGER)},
    [ROLE_PUBLISHED] = {"map.published",
                        " published ispublished sent issent dispatched isdispatched delivered "
                        "isdelivered processed isprocessed ",
                        KINDS(KIND_BOOLEAN, KIND_INTEGER)},
    [ROLE_PUBLISHED_AT] = {"map.published_at",
                           " publishedat publishedon sentat senton dispatchedat deliveredat "
                           "processedat processedon completedat completiondate succeededat ",
                           KINDS(KIND_TIME)},
    [ROLE_ATTEMPTS] = {"map.attempts",
                       " attempts attemptcount retrycount retries tries failurecount "
                       "deliveryattempts attempt completionattempts ",
                       KINDS(KIND_INTEGER)},
    [ROLE_NEXT_ATTEMPT_AT] = {"map.next_attempt_at",
                              " nextattemptat nextretryat nextattempt nextretry retryat "
                              "retryafter dueat availableat ",
                              KINDS(KIND_TIME)},
    [ROLE_LAST_ERROR] = {"map.last_error",
                         " lasterror lasterrormsg lasterrormessage lasterrortext errormessage "
                         "errormsg error failurereason ",
                         KINDS(KIND_TEXT)},
    [ROLE_LAST_ERROR_CODE] = {"map.last_error_code", " lasterrorcode errorcode failurecode ",
                              KINDS(KIND_TEXT)},
    [ROLE_LOCKED_BY] = {"map.locked_by",
                        " lockedby lockowner claimedby processingby workerid owner ",
                        KINDS(KIND_TEXT, KIND_UUID)},
    [ROLE_LOCKED_AT] = {"map.locked_at",
                        " lockedat claimedat lockedsince lockedon processingstartedat ",
                        KINDS(KIND_TIME)},
    [ROLE_LOCKED_UNTIL] = {"map.locked_until",
                           " lockeduntil leaseuntil leaseexpiresat lockexpiresat ",
                           KINDS(KIND_TIME)},
    [ROLE_CLAIM] = {"map.claim", " claim claimno claimnumber fencingtoken ", KINDS(KIND_INTEGER)},
    [ROLE_UPDATED_AT] = {"map.updated_at",
                         " updatedat updatedon modifiedat modifiedon lastmodified lastmodifiedat "
                         "lastupdated updatetime ",
                         KINDS(KIND_TIME)},
};

const char *outrider__map_option(enum column_role role)
{
    return roles[role].option;
}

bool outrider__map_is_time(enum column_role role)
{
    return roles[role].kinds[0] == KIND_TIME;
}

bool outrider__map_is_written(enum column_role role)
{
    return role >= ROLE_STATUS;
}

/* Of the ways in which two columns can mean the same, those that matter: a
 * wrong choice here would deliver the wrong thing, or twice, or not at all. */
static bool must_be_sure(const struct column_map *m, enum column_role role)
{
    bool is_mark = role == ROLE_PUBLISHED_AT && m->columns[ROLE_STATUS] == NULL &&
                   m->columns[ROLE_PUBLISHED] == NULL;
    return role == ROLE_PAYLOAD || role == ROLE_AGGREGATE_ID || role == ROLE_STATUS ||
           role == ROLE_PUBLISHED || is_mark;
}

bool outrider__map_normalise(struct bytes name, char *ret_text, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < name.len; i++) {
        char c = name.data[i];
        if (c == '_' || c == '-' || c == ' ')
            continue;
        if (n + 1 >= size)
            return false;
        ret_text[n++] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    ret_text[n] = '\0';
    return n > 0;
}

/* Where a column's name stands in a list: 0 is the best, negative: not there. */
static int rank_in(const char *names, const char *column)
{
    char word[80];
    word[0] = ' ';
    if (!outrider__map_normalise(bytes_str(column), word + 1, sizeof word - 2))
        return -1;
    size_t n = strlen(word);
    word[n] = ' ';
    word[n + 1] = '\0';
    const char *at = strstr(names, word);
    return at != NULL ? (int)(at - names) : -1;
}

static bool is_kind(const struct map_column *c, const enum map_kind *kinds)
{
    for (; *kinds != KIND_OTHER; kinds++)
        if (c->kind == *kinds)
            return true;
    return false;
}

static int ambiguous(const struct column_map *m, enum column_role role, const char *a,
                     const char *b, struct outrider_error *err)
{
    return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                          "table %s: '%s' and '%s' could both be %s; say which with %s: %s",
                          m->table->quoted, a, b, roles[role].option + 4, roles[role].option, a);
}

static int missing(const struct column_map *m, enum column_role role, const char *what,
                   struct outrider_error *err)
{
    return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                          "table %s: %s; name the column with %s: COLUMN", m->table->quoted, what,
                          roles[role].option);
}

/* The column of this name, else the only one that has it but for case, '_' and '-'. */
static const struct map_column *column_named(struct column_map *m, const char *name)
{
    const struct map_column *like = NULL;
    char wanted[80], has[80];
    size_t n_like = 0;
    bool can_compare = outrider__map_normalise(bytes_str(name), wanted, sizeof wanted);
    for (size_t i = 0; i < m->table->n; i++) {
        const struct map_column *c = &m->table->columns[i];
        if (strcmp(c->name, name) == 0)
            return c;
        if (can_compare && outrider__map_normalise(bytes_str(c->name), has, sizeof has) &&
            strcmp(wanted, has) == 0) {
            like = c;
            n_like++;
        }
    }
    if (n_like != 1)
        return NULL;
    size_t n = strlen(m->respelled);
    (void)snprintf(m->respelled + n, sizeof m->respelled - n, "%s'%s' for '%s'", n > 0 ? ", " : "",
                   like->name, name);
    return like;
}

/* "name?": a column that the table may have. NULL: it does not. */
static const struct map_column *column_if_any(struct column_map *m, const char *name)
{
    char plain[80];
    (void)snprintf(plain, sizeof plain, "%.*s", (int)strlen(name) - 1, name);
    return strlen(name) <= sizeof plain ? column_named(m, plain) : NULL;
}

/* A column that the configuration names. 1: found, or not needed; 0: nothing is set. */
static int take_given(struct column_map *m, const struct pipeline_config *config,
                      enum column_role role, struct outrider_error *err)
{
    const char *name = config->map.columns[role];
    if (name == NULL || *name == '\0')
        return 0;
    if (strcmp(name, "-") == 0)
        return 1;
    m->columns[role] = column_named(m, name);
    if (m->columns[role] != NULL)
        return 1;
    if (name[strlen(name) - 1] == '?') {
        m->columns[role] = column_if_any(m, name);
        return 1;
    }
    return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                          "table %s has no column '%s', which %s names", m->table->quoted, name,
                          roles[role].option);
}

static bool has_record_key(const struct column_map *m)
{
    for (size_t i = 0; i < m->table->n; i++)
        if (rank_in(" recordkey ", m->table->columns[i].name) >= 0)
            return true;
    return false;
}

/* DEFAULT 0, which says that the number is a mark and not a count of something. */
static bool begins_at_zero(const struct map_column *c)
{
    return c->initial != NULL && (strcmp(c->initial, "0") == 0 ||
                                  (c->initial_value != NULL && strcmp(c->initial_value, "0") == 0));
}

/* Beyond its name and its type. */
static bool is_likely(const struct column_map *m, enum column_role role, const struct map_column *c)
{
    if (c->is_fixed && outrider__map_is_written(role))
        return false;
    if (role == ROLE_ID && !c->is_unique && !c->is_key)
        return false;
    if (role == ROLE_HEADERS && c->kind != KIND_JSON && strcasestr(c->name, "header") == NULL)
        return false;
    /* Namastack's own division of its work is none of the receiver's. */
    if (role == ROLE_PARTITION && has_record_key(m))
        return false;
    return role != ROLE_PUBLISHED || c->kind != KIND_INTEGER || begins_at_zero(c);
}

static int take_named(struct column_map *m, enum column_role role, const enum map_kind *kinds,
                      struct outrider_error *err)
{
    const struct map_column *best = NULL, *second = NULL;
    int rank = 0;
    for (size_t i = 0; i < m->table->n; i++) {
        const struct map_column *c = &m->table->columns[i];
        int r = rank_in(roles[role].names, c->name);
        if (r < 0 || !is_kind(c, kinds) || !is_likely(m, role, c))
            continue;
        if (best == NULL || r < rank) {
            second = best;
            best = c;
            rank = r;
        } else {
            second = c;
        }
    }
    if (second != NULL && must_be_sure(m, role))
        return ambiguous(m, role, best->name, second->name, err);
    m->columns[role] = best;
    return 0;
}

/* A time may be a number, if there is none that is a time: map.epoch says what it counts. */
static int take_by_name(struct column_map *m, enum column_role role, struct outrider_error *err)
{
    if (take_named(m, role, roles[role].kinds, err) < 0)
        return -1;
    if (m->columns[role] != NULL || !outrider__map_is_time(role))
        return 0;
    return take_named(m, role, KINDS(KIND_INTEGER), err);
}

static bool is_used(const struct column_map *m, const struct map_column *c)
{
    for (int i = 0; i < ROLE_COUNT; i++)
        if (m->columns[i] == c)
            return true;
    return false;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), k = strlen(end);
    return n > k && strcasecmp(text + n - k, end) == 0;
}

/* order_outbox, outbox_orders, outbox: "order", "orders", "outbox". */
static void name_of_table(const char *table, char *ret_name, size_t size)
{
    size_t n = strlen(table);
    if (ends_with(table, "_outbox"))
        n -= 7;
    else if (n > 7 && strncasecmp(table, "outbox_", 7) == 0) {
        table += 7;
        n -= 7;
    }
    (void)snprintf(ret_name, size, "%.*s", (int)n, table);
}

static int infer_id(struct column_map *m, struct outrider_error *err)
{
    const struct map_column *key = NULL;
    if (take_by_name(m, ROLE_ID, err) < 0)
        return -1;
    if (m->columns[ROLE_ID] != NULL)
        return 0;
    for (size_t i = 0; i < m->table->n; i++)
        if (m->table->columns[i].is_key)
            key = &m->table->columns[i];
    if (key == NULL || m->table->n_key != 1)
        return missing(m, ROLE_ID, "no column is the unique id of an event", err);
    m->columns[ROLE_ID] = key;
    return 0;
}

static int infer_payload(struct column_map *m, struct outrider_error *err)
{
    if (take_by_name(m, ROLE_PAYLOAD, err) < 0)
        return -1;
    for (int pass = 0; m->columns[ROLE_PAYLOAD] == NULL && pass < 2; pass++) {
        for (size_t i = 0; i < m->table->n; i++) {
            const struct map_column *c = &m->table->columns[i];
            bool is_named = ends_with(c->name, "_json") || ends_with(c->name, "_payload") ||
                            ends_with(c->name, "_body") || ends_with(c->name, "_data");
            bool fits = pass == 0 ? c->kind == KIND_JSON
                                  : is_named && is_kind(c, roles[ROLE_PAYLOAD].kinds);
            if (!fits || is_used(m, c))
                continue;
            if (m->columns[ROLE_PAYLOAD] != NULL)
                return ambiguous(m, ROLE_PAYLOAD, m->columns[ROLE_PAYLOAD]->name, c->name, err);
            m->columns[ROLE_PAYLOAD] = c;
        }
    }
    if (m->columns[ROLE_PAYLOAD] == NULL)
        return missing(m, ROLE_PAYLOAD, "no column is the payload", err);
    return 0;
}

/* Ids of other things than the aggregate. */
static const char other_ids[] =
    " correlationid causationid traceid spanid requestid tenantid userid messageid eventid "
    "parentid sessionid workerid transactionid ";

/* Whether the column is X_id, X being the table's own name, also in the plural. */
static bool is_own_id(const struct map_column *c, const char *name)
{
    char column[80], own[80];
    if (!outrider__map_normalise(bytes_str(c->name), column, sizeof column) ||
        !outrider__map_normalise(bytes_str(name), own, sizeof own - 2))
        return false;
    size_t n = strlen(own);
    for (int plural = 0; plural < 2; plural++) {
        if (plural == 1 && (n < 2 || own[n - 1] != 's'))
            return false;
        (void)snprintf(own + n - plural, sizeof own - n, "id");
        if (strcmp(column, own) == 0)
            return true;
    }
    return false;
}

static int infer_aggregate_id(struct column_map *m, const char *name, struct outrider_error *err)
{
    const struct map_column *only = NULL, *second = NULL;
    if (take_by_name(m, ROLE_AGGREGATE_ID, err) < 0)
        return -1;
    for (size_t i = 0; m->columns[ROLE_AGGREGATE_ID] == NULL && i < m->table->n; i++) {
        const struct map_column *c = &m->table->columns[i];
        if (!ends_with(c->name, "_id") || c->kind == KIND_BYTES ||
            !is_kind(c, roles[ROLE_AGGREGATE_ID].kinds))
            continue;
        if (is_own_id(c, name))
            m->columns[ROLE_AGGREGATE_ID] = c;
        else if (!is_used(m, c) && rank_in(other_ids, c->name) < 0) {
            second = only;
            only = c;
        }
    }
    if (m->columns[ROLE_AGGREGATE_ID] != NULL)
        return 0;
    if (second != NULL)
        return ambiguous(m, ROLE_AGGREGATE_ID, second->name, only->name, err);
    m->columns[ROLE_AGGREGATE_ID] = only != NULL ? only : m->columns[ROLE_IDEMPOTENCY_KEY];
    if (m->columns[ROLE_AGGREGATE_ID] == NULL)
        m->columns[ROLE_AGGREGATE_ID] = m->columns[ROLE_PARTITION_KEY];
    if (m->columns[ROLE_AGGREGATE_ID] == NULL)
        return missing(m, ROLE_AGGREGATE_ID, "no column is the aggregate's id", err);
    return 0;
}

static void infer_names(struct column_map *m, const char *name)
{
    static const char *const ends[] = {"_json", "_payload", "_body", "_data"};
    (void)snprintf(m->aggregate_type, sizeof m->aggregate_type, "%s", name);
    (void)snprintf(m->event_type, sizeof m->event_type, "%s", name);
    const char *payload = m->columns[ROLE_PAYLOAD]->name;
    if (rank_in(roles[ROLE_PAYLOAD].names, payload) >= 0)
        return;
    size_t n = strlen(payload);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (ends_with(payload, ends[i]))
            n = strlen(payload) - strlen(ends[i]);
    (void)snprintf(m->event_type, sizeof m->event_type, "%.*s", (int)n, payload);
}

static void infer_order(struct column_map *m)
{
    const struct map_column *id = m->columns[ROLE_ID];
    if (m->columns[ROLE_SEQ] == NULL) {
        for (size_t i = 0; i < m->table->n; i++) {
            const struct map_column *c = &m->table->columns[i];
            bool is_plain_key = c->is_key && m->table->n_key == 1;
            if (c->is_numbered && c->kind == KIND_INTEGER && (c == id || is_plain_key))
                m->columns[ROLE_SEQ] = c;
        }
    }
    m->is_ordered = m->columns[ROLE_SEQ] != NULL;
}

static void infer_mark(struct column_map *m)
{
    const struct map_column *published = m->columns[ROLE_PUBLISHED];
    if (m->columns[ROLE_STATUS] == NULL && published != NULL && published->kind == KIND_INTEGER) {
        m->columns[ROLE_STATUS] = published;
        m->columns[ROLE_PUBLISHED] = NULL;
        m->is_counted = true;
    }
    if (m->columns[ROLE_STATUS] != NULL)
        m->mark = MARK_STATUS;
    else if (m->columns[ROLE_PUBLISHED] != NULL)
        m->mark = MARK_BOOLEAN;
    else if (m->columns[ROLE_PUBLISHED_AT] != NULL)
        m->mark = MARK_TIME;
}

/* Roles whose inference needs those of others stand last. */
static int infer_role(struct column_map *m, const struct pipeline_config *config,
                      enum column_role role, const char *name, struct outrider_error *err)
{
    int given = take_given(m, config, role, err);
    if (given != 0)
        return given < 0 ? -1 : 0;
    if (role == ROLE_ID)
        return infer_id(m, err);
    if (role == ROLE_PAYLOAD)
        return infer_payload(m, err);
    if (role == ROLE_AGGREGATE_ID)
        return infer_aggregate_id(m, name, err);
    return take_by_name(m, role, err);
}

static int take_headers(struct column_map *m, const struct pipeline_config *config,
                        struct outrider_error *err)
{
    const struct string_map *wanted = &config->map.header_columns;
    const struct map_column *own = m->columns[ROLE_HEADERS];
    for (size_t i = 0; i < wanted->n; i++) {
        const struct map_column *c = column_named(m, wanted->items[i].value);
        if (c == NULL && config->map.missing_columns == MISSING_IS_LEFT_OUT)
            continue;
        if (c == NULL)
            return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                                  "table %s has no column '%.80s', which map.header_columns names "
                                  "(map.missing_columns: ignore leaves it out)",
                                  m->table->quoted, wanted->items[i].value);
        if (c->kind == KIND_BYTES)
            return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                                  "table %s: map.header_columns: '%s' holds bytes, which are no "
                                  "header",
                                  m->table->quoted, c->name);
        if (m->n_headers == MAP_HEADERS_MAX)
            return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                                  "map.header_columns names more than %d columns", MAP_HEADERS_MAX);
        m->headers[m->n_headers].column = c;
        m->headers[m->n_headers++].name = wanted->items[i].name;
    }
    if (m->n_headers > 0 && own != NULL && own->kind != KIND_JSON)
        return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                              "table %s: map.header_columns adds to the headers in column '%s', "
                              "which is not JSON; leave that column out with map.headers: '-'",
                              m->table->quoted, own->name);
    return 0;
}

static int infer_columns(const struct map_table *t, const struct pipeline_config *config,
                         struct column_map *ret_map, struct outrider_error *err)
{
    struct column_map m = {.table = t, .epoch = config->map.epoch};
    char name[64];
    name_of_table(t->name, name, sizeof name);
    for (int role = 0; role < ROLE_COUNT; role++)
        if (role != ROLE_PAYLOAD && role != ROLE_AGGREGATE_ID &&
            infer_role(&m, config, (enum column_role)role, name, err) < 0)
            return -1;
    if (infer_role(&m, config, ROLE_PAYLOAD, name, err) < 0 ||
        infer_role(&m, config, ROLE_AGGREGATE_ID, name, err) < 0)
        return -1;
    if (m.columns[ROLE_ID] == NULL || m.columns[ROLE_PAYLOAD] == NULL ||
        m.columns[ROLE_AGGREGATE_ID] == NULL)
        return outrider__fail(
            err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
            "table %s: map.id, map.payload and map.aggregate_id cannot be '-', nor "
            "name a column that is missing",
            t->quoted);
    if (take_headers(&m, config, err) < 0)
        return -1;
    infer_names(&m, name);
    infer_order(&m);
    infer_mark(&m);
    /* The log itself says what is new. */
    if (m.mark == MARK_NONE && !m.is_ordered && config->source.mode != MODE_CDC)
        return outrider__fail(
            err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
            "table %s has neither a mark (a status, a boolean, a time that is NULL until an event "
            "is published) nor a sequence; set map.status, map.published, map.published_at or "
            "map.seq: COLUMN",
            t->quoted);
    *ret_map = m;
    return 0;
}

int outrider__map_columns(const struct map_table *t, const struct pipeline_config *config,
                          struct column_map *ret_map, struct outrider_error *err)
{
    if (infer_columns(t, config, ret_map, err) < 0)
        return -1;
    return outrider__map_check(ret_map, config, err);
}

int outrider__map_infer(const struct map_table *t, const struct pipeline_config *config,
                        struct column_map *ret_map, struct outrider_error *err)
{
    if (outrider__map_columns(t, config, ret_map, err) < 0)
        return -1;
    if (ret_map->mark != MARK_STATUS)
        return 0;
    return outrider__map_values(ret_map->columns[ROLE_STATUS], config,
                                ret_map->columns[ROLE_ATTEMPTS] != NULL, ret_map, err);
}

const struct map_column *outrider__map_status(const struct map_table *t,
                                              const struct pipeline_config *config)
{
    struct column_map m;
    return infer_columns(t, config, &m, NULL) < 0 ? NULL : m.columns[ROLE_STATUS];
}

bool outrider__map_is_given(const struct pipeline_config *config)
{
    for (int i = 0; i < ROLE_COUNT; i++)
        if (config->map.columns[i] != NULL && config->map.columns[i][0] != '\0')
            return true;
    return config->map.status_values.n > 0 || config->map.header_columns.n > 0;
}

bool outrider__map_keeps_retries(const struct column_map *m)
{
    return m->mark == MARK_STATUS && m->values[STATE_FAILED][0] != '\0' &&
           m->columns[ROLE_ATTEMPTS] != NULL &&
           (m->columns[ROLE_NEXT_ATTEMPT_AT] != NULL || m->columns[ROLE_UPDATED_AT] != NULL);
}

const struct map_column *outrider__map_mark_column(const struct column_map *m)
{
    switch (m->mark) {
    case MARK_STATUS:
        return m->columns[ROLE_STATUS];
    case MARK_BOOLEAN:
        return m->columns[ROLE_PUBLISHED];
    case MARK_TIME:
        return m->columns[ROLE_PUBLISHED_AT];
    default:
        return NULL;
    }
}

const struct map_column *outrider__map_order_column(const struct column_map *m)
{
    static const enum column_role roles_of_order[] = {ROLE_SEQ, ROLE_CREATED_AT, ROLE_ID};
    size_t i = 0;
    while (m->columns[roles_of_order[i]] == NULL && roles_of_order[i] != ROLE_ID)
        i++;
    return m->columns[roles_of_order[i]];
}

bool outrider__map_shows_claims(const struct column_map *m)
{
    return outrider__map_can_compete(m) ||
           (m->mark == MARK_STATUS && m->values[STATE_PROCESSING][0] != '\0');
}

bool outrider__map_can_compete(const struct column_map *m)
{
    return m->columns[ROLE_LOCKED_BY] != NULL &&
           (m->columns[ROLE_LOCKED_AT] != NULL || m->columns[ROLE_LOCKED_UNTIL] != NULL);
}

void outrider__map_describe(const struct column_map *m, struct strbuf *out)
{
    for (int i = 0; i < ROLE_COUNT; i++)
        if (m->columns[i] != NULL)
            outrider__strbuf_appendf(out, "%s: %s\n", roles[i].option + 4, m->columns[i]->name);
    for (size_t i = 0; i < m->n_headers; i++)
        outrider__strbuf_appendf(out, "header %s: %s\n", m->headers[i].name,
                                 m->headers[i].column->name);
    if (m->columns[ROLE_AGGREGATE_TYPE] == NULL)
        outrider__strbuf_appendf(out, "aggregate_type: '%s', from the table's name\n",
                                 m->aggregate_type);
    if (m->columns[ROLE_EVENT_TYPE] == NULL)
        outrider__strbuf_appendf(out, "event_type: '%s', from the names of table and payload\n",
                                 m->event_type);
    for (int i = 0; m->mark == MARK_STATUS && i < STATE_COUNT; i++)
        if (m->values[i][0] != '\0')
            outrider__strbuf_appendf(out, "status_values.%s: %s\n",
                                     outrider__state_name((enum map_state)i), m->values[i]);
}
