/* SPDX-License-Identifier: MIT */
/* What becomes of a batch in outrider_parked: which statements, and which values. */
#include "common/parked.h"

#include "common/outcome.h"

#define COUNT_OF(a) (sizeof(a) / sizeof *(a))

static const enum parked_field parked_insert_fields[] = {PARKED_SEQ,          PARKED_ID,
                                                         PARKED_LANE,         PARKED_STATE,
                                                         PARKED_ATTEMPTS,     PARKED_NEXT,
                                                         PARKED_CODE,         PARKED_ORIGIN,
                                                         PARKED_MESSAGE,      PARKED_AGGREGATE_TYPE,
                                                         PARKED_AGGREGATE_ID, PARKED_EVENT_TYPE,
                                                         PARKED_PAYLOAD,      PARKED_HEADERS,
                                                         PARKED_TOPIC,        PARKED_PARTITION_KEY,
                                                         PARKED_PARTITION,    PARKED_OCCURRED_AT,
                                                         PARKED_CREATED_AT,   PARKED_EXPIRES_AT,
                                                         PARKED_IS_CUT};
/* Where the outbox's row is copied, the fields up to the error are sent. */
#define PARKED_COPY_FIELDS 9
static const enum parked_field parked_update_fields[] = {
    PARKED_ARRIVAL, PARKED_STATE,  PARKED_ATTEMPTS, PARKED_NEXT,
    PARKED_CODE,    PARKED_ORIGIN, PARKED_MESSAGE};
static const enum parked_field parked_lane_fields[] = {PARKED_LANE};
static const enum parked_field parked_row_fields[] = {PARKED_ARRIVAL};

static bool parked_is_touched(const struct event *e)
{
    return outcome_is_kept(e) || outcome_is_removed(e);
}

static bool parked_is_any(const struct event *e)
{
    (void)e;
    return true;
}

static bool parked_has(const struct event *events, size_t n, parked_test *wanted)
{
    for (size_t i = 0; i < n; i++)
        if (wanted(&events[i]))
            return true;
    return false;
}

size_t outrider__parked_steps(const struct event *events, size_t n, bool is_parked,
                              enum parked_statement ret_steps[3])
{
    size_t steps = 0;
    if (parked_has(events, n, outcome_is_removed))
        ret_steps[steps++] = PARKED_REMOVE;
    if (parked_has(events, n, outcome_is_kept))
        ret_steps[steps++] = is_parked ? PARKED_UPDATE : PARKED_INSERT;
    if (steps > 0)
        ret_steps[steps++] = PARKED_MEND;
    return steps;
}

struct parked_input outrider__parked_input(enum parked_statement which, bool sends_values)
{
    switch (which) {
    case PARKED_INSERT:
        return (struct parked_input){true, outcome_is_kept, parked_insert_fields,
                                     sends_values ? COUNT_OF(parked_insert_fields)
                                                  : PARKED_COPY_FIELDS};
    case PARKED_REMOVE:
        return (struct parked_input){false, outcome_is_removed, parked_row_fields, 1};
    case PARKED_UPDATE:
        return (struct parked_input){true, outcome_is_kept, parked_update_fields,
                                     COUNT_OF(parked_update_fields)};
    case PARKED_MEND:
        return (struct parked_input){true, parked_is_touched, parked_lane_fields, 1};
    case PARKED_BLOCKED:
        return (struct parked_input){false, parked_is_any, parked_lane_fields, 1};
    default:
        return (struct parked_input){.has_now = which == PARKED_FETCH};
    }
}

enum sql_type outrider__parked_type(enum parked_field f)
{
    static const enum sql_type types[PARKED_FIELDS] = {[PARKED_SEQ] = SQL_INT8,
                                                       [PARKED_ARRIVAL] = SQL_INT8,
                                                       [PARKED_ID] = SQL_TEXT,
                                                       [PARKED_LANE] = SQL_STORED,
                                                       [PARKED_STATE] = SQL_TEXT,
                                                       [PARKED_ATTEMPTS] = SQL_INT4,
                                                       [PARKED_NEXT] = SQL_TIME,
                                                       [PARKED_CODE] = SQL_TEXT,
                                                       [PARKED_ORIGIN] = SQL_TEXT,
                                                       [PARKED_MESSAGE] = SQL_TEXT,
                                                       [PARKED_AGGREGATE_TYPE] = SQL_STORED,
                                                       [PARKED_AGGREGATE_ID] = SQL_STORED,
                                                       [PARKED_EVENT_TYPE] = SQL_STORED,
                                                       [PARKED_PAYLOAD] = SQL_BYTES,
                                                       [PARKED_HEADERS] = SQL_STORED,
                                                       [PARKED_TOPIC] = SQL_STORED,
                                                       [PARKED_PARTITION_KEY] = SQL_STORED,
                                                       [PARKED_PARTITION] = SQL_INT4,
                                                       [PARKED_OCCURRED_AT] = SQL_TIME,
                                                       [PARKED_CREATED_AT] = SQL_TIME,
                                                       [PARKED_EXPIRES_AT] = SQL_TIME,
                                                       [PARKED_IS_CUT] = SQL_INT4};
    return types[f];
}

static struct bytes parked_bytes_of(const struct pipeline_config *config, const struct event *e,
                                    enum parked_field f)
{
    switch (f) {
    case PARKED_ID:
        return e->id;
    case PARKED_LANE:
        return outcome_lane(e, config->ordered);
    case PARKED_STATE:
        return outrider__outcome_state(e);
    case PARKED_CODE:
        return outrider__outcome_code(e);
    case PARKED_ORIGIN:
        return outrider__outcome_origin(e);
    case PARKED_MESSAGE:
        return outrider__outcome_message(e);
    case PARKED_AGGREGATE_TYPE:
        return e->aggregate_type;
    case PARKED_AGGREGATE_ID:
        return e->aggregate_id;
    case PARKED_EVENT_TYPE:
        return e->event_type;
    case PARKED_PAYLOAD:
        return e->payload;
    case PARKED_HEADERS:
        return e->headers;
    case PARKED_TOPIC:
        return e->topic;
    case PARKED_PARTITION_KEY:
        return e->partition_key;
    default:
        return BYTES_NULL;
    }
}

static struct sql_value parked_time(int64_t wall_us, bool is_null)
{
    return (struct sql_value){.type = SQL_TIME, .is_null = is_null, .number = wall_us};
}

static struct sql_value parked_number(enum parked_field f, int64_t n, bool is_null)
{
    return (struct sql_value){.type = outrider__parked_type(f), .is_null = is_null, .number = n};
}

struct sql_value outrider__parked_value(const struct pipeline_config *config, const struct event *e,
                                        enum parked_field f)
{
    switch (f) {
    case PARKED_SEQ:
        return parked_number(f, e->seq, false);
    case PARKED_ARRIVAL:
        return parked_number(f, e->arrival, false);
    case PARKED_ATTEMPTS:
        return parked_number(f, (int64_t)e->attempts, false);
    case PARKED_PARTITION:
        return parked_number(f, e->partition, e->partition < 0);
    case PARKED_IS_CUT:
        return parked_number(f, e->is_oversize, false);
    case PARKED_NEXT:
        return parked_time(e->next_attempt_us, e->outcome != OUTCOME_PARKED);
    case PARKED_OCCURRED_AT:
        return parked_time(e->occurred_at_us, e->occurred_at_us == 0);
    case PARKED_CREATED_AT:
        return parked_time(e->created_at_us, e->created_at_us == 0);
    case PARKED_EXPIRES_AT:
        return parked_time(e->expires_at_us, e->expires_at_us == 0);
    default:
        break;
    }
    struct bytes b = parked_bytes_of(config, e, f);
    return (struct sql_value){
        .type = outrider__parked_type(f), .is_null = bytes_is_null(b), .bytes = b};
}
