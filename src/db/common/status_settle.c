/* SPDX-License-Identifier: MIT */
#include "common/status_settle.h"

#include "common/outcome.h"

#define COUNT_OF(a) (sizeof(a) / sizeof *(a))

const struct status_step outrider__status_steps[STATUS_STEPS] = {
    {ST_UNPARK, GROUP_TRIED, true},
    {ST_PARK, GROUP_PARKED, false},
    {ST_CHANGE, GROUP_CHANGED, false},
    {ST_PUBLISH, GROUP_PUBLISHED, false},
};

static bool settle_has_word(const struct status_rows *r, enum map_state s)
{
    return r->table->map.values[s][0] != '\0';
}

/* Whether the outcome needs a place in outrider_parked. */
static bool settle_is_parked(const struct status_rows *r, const struct event *e)
{
    if (e->outcome == OUTCOME_EXPIRED)
        return r->table->parks_dead && !settle_has_word(r, STATE_EXPIRED);
    return (e->outcome == OUTCOME_PARKED && r->table->parks_retries) ||
           (e->outcome == OUTCOME_DEAD && r->table->parks_dead);
}

bool outrider__status_belongs(const struct status_rows *r, const struct event *e,
                              enum status_group g)
{
    switch (g) {
    case GROUP_PUBLISHED:
        return outcome_is_published(e);
    case GROUP_CHANGED:
        return e->outcome == OUTCOME_PARKED || outcome_is_given_up(e) ||
               (outcome_is_untried(e) && r->claims);
    case GROUP_PARKED:
        return settle_is_parked(r, e);
    default:
        return !outcome_is_untried(e);
    }
}

size_t outrider__status_members(const struct status_rows *r, const struct batch *b,
                                enum status_group g)
{
    size_t n = 0;
    for (size_t i = 0; i < b->n_settle; i++)
        n += outrider__status_belongs(r, &b->events[i], g);
    return n;
}

const enum status_field *outrider__status_fields(enum status_group g, size_t *ret_n)
{
    static const enum status_field published[] = {FIELD_CLAIM};
    static const enum status_field changed[] = {FIELD_CLAIM, FIELD_STATE, FIELD_ATTEMPTS,
                                                FIELD_DELAY, FIELD_CODE,  FIELD_MESSAGE};
    static const enum status_field parked[] = {FIELD_CLAIM,  FIELD_PARKED_STATE, FIELD_ATTEMPTS,
                                               FIELD_DELAY,  FIELD_CODE,         FIELD_MESSAGE,
                                               FIELD_ORIGIN, FIELD_LANE};
    switch (g) {
    case GROUP_PUBLISHED:
        *ret_n = COUNT_OF(published);
        return published;
    case GROUP_CHANGED:
        *ret_n = COUNT_OF(changed);
        return changed;
    case GROUP_PARKED:
        *ret_n = COUNT_OF(parked);
        return parked;
    default:
        *ret_n = 0;
        return NULL;
    }
}

enum sql_type outrider__status_field_type(enum status_field f)
{
    switch (f) {
    case FIELD_CLAIM:
    case FIELD_DELAY:
        return SQL_INT8;
    case FIELD_ATTEMPTS:
        return SQL_INT4;
    case FIELD_LANE:
        return SQL_STORED;
    default:
        return SQL_TEXT;
    }
}

static const char *settle_word_of(const struct status_rows *r, const struct event *e)
{
    const struct column_map *m = &r->table->map;
    if (e->outcome == OUTCOME_EXPIRED && settle_has_word(r, STATE_EXPIRED))
        return m->values[STATE_EXPIRED];
    if (outcome_is_given_up(e) && settle_has_word(r, STATE_DEAD))
        return m->values[STATE_DEAD];
    if ((outcome_is_given_up(e) || e->outcome == OUTCOME_PARKED) &&
        settle_has_word(r, STATE_FAILED))
        return m->values[STATE_FAILED];
    return m->values[STATE_PENDING];
}

static struct bytes settle_text_of(const struct status_rows *r, const struct event *e,
                                   enum status_field f)
{
    switch (f) {
    case FIELD_ID:
        return e->id;
    case FIELD_STATE:
        return bytes_str(settle_word_of(r, e));
    case FIELD_CODE:
        return outcome_is_untried(e) ? BYTES_NULL : outrider__outcome_code(e);
    case FIELD_MESSAGE:
        return outcome_is_untried(e) ? BYTES_NULL : outrider__outcome_message(e);
    case FIELD_ORIGIN:
        return outrider__outcome_origin(e);
    case FIELD_LANE:
        return outcome_lane(e, r->ordered);
    default:
        return bytes_str(outcome_is_given_up(e) ? "dead" : "parked");
    }
}

struct sql_value outrider__status_value(const struct status_rows *r, const struct event *e,
                                        enum status_field f, int64_t now_wall_us)
{
    struct sql_value v = {.type = outrider__status_field_type(f)};
    switch (f) {
    case FIELD_CLAIM:
        v.number = e->claim;
        return v;
    case FIELD_ATTEMPTS:
        v.number = (int64_t)e->attempts;
        return v;
    case FIELD_DELAY:
        v.is_null = e->outcome != OUTCOME_PARKED;
        v.number = v.is_null ? 0 : outcome_delay_us(e, now_wall_us);
        return v;
    default:
        v.bytes = settle_text_of(r, e, f);
        v.is_null = bytes_is_null(v.bytes);
        return v;
    }
}

void outrider__status_give_back_rest(const struct status_rows *r, struct batch *b)
{
    if (!r->claims)
        return;
    for (size_t i = b->n_settle; i < b->n; i++)
        b->events[i].outcome = OUTCOME_RELEASED;
    b->n_settle = b->n;
}
