/* SPDX-License-Identifier: MIT */
/*
 * The form: "OI1", is_parked, the source's own bytes, the number of events, then
 * items until all events are there. An item is a tag and its content: a run of
 * events with one outcome, or one event. Numbers are 64 bits, little-endian;
 * bytes are their length (all ones: NULL) and themselves. "OI2" is the same with
 * one more flag of an event: an answer follows the event's failure.
 */
#include "core/intent.h"

#include "core/answer.h"

#define EVENTS_MAX (EXACT_BATCH * 100000) /* the largest source.batch */
#define NULL_LENGTH UINT64_MAX

enum item { ITEM_RUN, ITEM_BRIEF, ITEM_FULL };

enum event_flags { FLAG_PARKED = 1, FLAG_OVERSIZE = 2, FLAG_ANSWER = 4 };

/* The name of a form, of which only the last character differs. */
#define MAGIC_SIZE 3
static const char magic_plain[] = "OI1", magic_answers[] = "OI2";

/* The database goes on holding the event: the source writes its row when the intent is settled. */
static bool intent_is_held(const struct event *e)
{
    return e->outcome == OUTCOME_PARKED || e->outcome == OUTCOME_QUEUED ||
           e->outcome == OUTCOME_DEAD;
}

static enum item intent_item_of(const struct batch *b, const struct event *e, unsigned flags)
{
    if (intent_is_held(e))
        return (flags & INTENT_VALUES) != 0 && !e->is_parked ? ITEM_FULL : ITEM_BRIEF;
    bool is_last = e == &b->events[b->n - 1];
    return is_last || e->answer != NULL || e->is_parked || (flags & INTENT_EACH) != 0 ? ITEM_BRIEF
                                                                                      : ITEM_RUN;
}

static void intent_put(struct strbuf *out, uint64_t n)
{
    char raw[8];
    for (int i = 0; i < 8; i++)
        raw[i] = (char)(unsigned char)(n >> (8 * i));
    outrider__strbuf_append(out, bytes_of(raw, sizeof raw));
}

static void intent_put_bytes(struct strbuf *out, struct bytes b)
{
    intent_put(out, bytes_is_null(b) ? NULL_LENGTH : b.len);
    if (!bytes_is_null(b))
        outrider__strbuf_append(out, b);
}

static void intent_put_failure(struct strbuf *out, const struct outrider_error *why)
{
    intent_put_bytes(out, why != NULL ? bytes_str(outrider_code_name(why->code)) : BYTES_NULL);
    if (why == NULL)
        return;
    intent_put_bytes(out, bytes_str(why->origin));
    intent_put_bytes(out, bytes_str(why->message));
}

static void intent_put_answer(struct strbuf *out, const struct answer *a)
{
    intent_put(out, (uint64_t)(int64_t)a->status);
    intent_put(out, a->is_cut);
    intent_put_bytes(out, a->body);
}

static uint64_t intent_flags_of(const struct event *e)
{
    return (e->is_parked ? FLAG_PARKED : 0U) | (e->is_oversize ? FLAG_OVERSIZE : 0U) |
           (e->answer != NULL ? FLAG_ANSWER : 0U);
}

static void intent_put_event(struct strbuf *out, const struct event *e, enum item item)
{
    intent_put(out, e->outcome);
    intent_put(out, intent_flags_of(e));
    intent_put(out, (uint64_t)e->seq);
    intent_put(out, (uint64_t)e->arrival);
    intent_put(out, e->attempts);
    intent_put(out, (uint64_t)e->next_attempt_us);
    intent_put_bytes(out, e->id);
    intent_put_bytes(out, e->aggregate_id);
    intent_put_bytes(out, e->partition_key);
    intent_put_failure(out, intent_is_held(e) ? e->failure : NULL);
    if (e->answer != NULL)
        intent_put_answer(out, e->answer);
    if (item != ITEM_FULL)
        return;
    intent_put_bytes(out, e->aggregate_type);
    intent_put_bytes(out, e->event_type);
    intent_put_bytes(out, e->payload);
    intent_put_bytes(out, e->headers);
    intent_put_bytes(out, e->topic);
    intent_put(out, (uint64_t)(int64_t)e->partition);
    intent_put(out, (uint64_t)e->occurred_at_us);
    intent_put(out, (uint64_t)e->created_at_us);
    intent_put(out, (uint64_t)e->expires_at_us);
}

static bool intent_has_answers(const struct batch *b)
{
    for (size_t i = 0; i < b->n; i++)
        if (b->events[i].answer != NULL)
            return true;
    return false;
}

int outrider__intent_write(const struct batch *b, unsigned flags, struct bytes own,
                           struct strbuf *out, struct outrider_error *err)
{
    const char *magic = intent_has_answers(b) ? magic_answers : magic_plain;
    outrider__strbuf_append(out, bytes_of(magic, MAGIC_SIZE));
    intent_put(out, b->is_parked);
    intent_put_bytes(out, own);
    intent_put(out, b->n);
    for (size_t i = 0; i < b->n;) {
        const struct event *e = &b->events[i];
        enum item item = intent_item_of(b, e, flags);
        intent_put(out, item);
        if (item != ITEM_RUN) {
            intent_put_event(out, e, item);
            i++;
            continue;
        }
        size_t n = 1;
        while (b->events[i + n].outcome == e->outcome &&
               intent_item_of(b, &b->events[i + n], flags) == ITEM_RUN)
            n++;
        intent_put(out, e->outcome);
        intent_put(out, n);
        i += n;
    }
    return out->failed ? outrider__fail_nomem(err) : 0;
}

/* Reading: a failure sticks, and everything behind it is zero. */
struct reader {
    const char *p, *end;
    struct arena *arena;
    bool may_have_answers; /* the form has them */
    bool failed, is_out_of_memory;
};

static uint64_t intent_get(struct reader *r)
{
    uint64_t n = 0;
    if (r->failed || r->end - r->p < 8) {
        r->failed = true;
        return 0;
    }
    for (int i = 0; i < 8; i++)
        n |= (uint64_t)(unsigned char)r->p[i] << (8 * i);
    r->p += 8;
    return n;
}

static uint64_t intent_get_below(struct reader *r, uint64_t limit)
{
    uint64_t n = intent_get(r);
    r->failed |= n >= limit;
    return r->failed ? 0 : n;
}

static struct bytes intent_get_bytes(struct reader *r)
{
    uint64_t len = intent_get(r);
    struct bytes copy = BYTES_NULL;
    if (r->failed || len == NULL_LENGTH)
        return BYTES_NULL;
    if (len > (uint64_t)(r->end - r->p)) {
        r->failed = true;
        return BYTES_NULL;
    }
    if (outrider__arena_dup(r->arena, bytes_of(r->p, len), &copy) < 0)
        r->failed = r->is_out_of_memory = true;
    r->p += len;
    return copy;
}

static void intent_copy_text(char *to, size_t size, struct bytes from)
{
    size_t n = from.len < size ? from.len : size - 1;
    if (n > 0)
        memcpy(to, from.data, n);
    to[n] = '\0';
}

static struct outrider_error *intent_get_failure(struct reader *r)
{
    char name[64];
    struct bytes code = intent_get_bytes(r);
    if (r->failed || bytes_is_null(code))
        return NULL;
    struct outrider_error *why = outrider__arena_alloc(r->arena, sizeof *why);
    if (why == NULL) {
        r->failed = r->is_out_of_memory = true;
        return NULL;
    }
    intent_copy_text(name, sizeof name, code);
    why->code = outrider_code_by_name(name);
    if (why->code == OUTRIDER_CODE_COUNT) /* of a newer version */
        why->code = OUTRIDER_REJECTED;
    why->disposition = OUTRIDER_RETRY;
    intent_copy_text(why->origin, sizeof why->origin, intent_get_bytes(r));
    intent_copy_text(why->message, sizeof why->message, intent_get_bytes(r));
    return why;
}

static const struct answer *intent_get_answer(struct reader *r)
{
    struct answer *a = outrider__arena_alloc(r->arena, sizeof *a);
    if (a == NULL) {
        r->failed = r->is_out_of_memory = true;
        return NULL;
    }
    a->status = (int32_t)(int64_t)intent_get(r);
    a->is_cut = intent_get_below(r, 2) != 0;
    a->body = intent_get_bytes(r);
    r->failed |= a->body.len > ANSWER_MAX;
    return a;
}

static void intent_get_event(struct reader *r, struct event *e, enum item item)
{
    e->outcome = (enum outcome)intent_get_below(r, OUTCOME_COUNT);
    uint64_t flags = intent_get_below(r, r->may_have_answers ? 2 * FLAG_ANSWER : FLAG_ANSWER);
    e->is_parked = (flags & FLAG_PARKED) != 0;
    e->is_oversize = (flags & FLAG_OVERSIZE) != 0;
    e->seq = (int64_t)intent_get(r);
    e->arrival = (int64_t)intent_get(r);
    e->attempts = (uint32_t)intent_get_below(r, UINT32_MAX);
    e->next_attempt_us = (int64_t)intent_get(r);
    e->id = intent_get_bytes(r);
    e->aggregate_id = intent_get_bytes(r);
    e->partition_key = intent_get_bytes(r);
    e->failure = intent_get_failure(r);
    if ((flags & FLAG_ANSWER) != 0)
        e->answer = intent_get_answer(r);
    /* Early versions wrote no flag for it. */
    e->is_oversize |= e->failure != NULL && e->failure->code == OUTRIDER_TOO_LARGE;
    if (item != ITEM_FULL)
        return;
    e->aggregate_type = intent_get_bytes(r);
    e->event_type = intent_get_bytes(r);
    e->payload = intent_get_bytes(r);
    e->headers = intent_get_bytes(r);
    e->topic = intent_get_bytes(r);
    e->partition = (int32_t)(int64_t)intent_get(r);
    e->occurred_at_us = (int64_t)intent_get(r);
    e->created_at_us = (int64_t)intent_get(r);
    e->expires_at_us = (int64_t)intent_get(r);
    e->payload_len = e->payload.len;
}

static void intent_get_events(struct reader *r, struct batch *b)
{
    while (!r->failed && b->n < b->capacity) {
        enum item item = (enum item)intent_get_below(r, ITEM_FULL + 1);
        if (item != ITEM_RUN) {
            struct event *e = &b->events[b->n];
            *e = (struct event){.partition = -1, .batch = b};
            intent_get_event(r, e, item);
            b->n++;
            continue;
        }
        enum outcome outcome = (enum outcome)intent_get_below(r, OUTCOME_COUNT);
        uint64_t n = intent_get_below(r, b->capacity - b->n + 1);
        r->failed |= n == 0;
        for (; n > 0; n--)
            b->events[b->n++] =
                (struct event){.partition = -1, .batch = b, .outcome = outcome, .seq = INT64_MIN};
    }
}

int outrider__intent_read(struct bytes body, struct batch *ret_batch, struct bytes *ret_own,
                          struct outrider_error *err)
{
    struct batch b = {0};
    bool has_form = body.len >= MAGIC_SIZE;
    bool is_plain = has_form && memcmp(body.data, magic_plain, MAGIC_SIZE) == 0;
    bool is_newer = has_form && memcmp(body.data, magic_answers, MAGIC_SIZE) == 0;
    struct reader r = {.p = body.data,
                       .end = body.data + body.len,
                       .may_have_answers = is_newer,
                       .failed = !is_plain && !is_newer};
    struct arena early;
    r.p += r.failed ? 0 : MAGIC_SIZE;
    outrider__arena_init(&early, 64 * 1024);
    r.arena = &early;
    bool is_parked = intent_get_below(&r, 2) != 0;
    struct bytes own = intent_get_bytes(&r);
    uint64_t n = intent_get_below(&r, EVENTS_MAX + 1);
    if (!r.failed && outrider__batch_init(&b, n > 0 ? n : 1, SIZE_MAX, err) < 0) {
        outrider__arena_release(&early);
        return -1;
    }
    if (!r.failed) {
        outrider__arena_release(&b.arena);
        b.arena = early;
        b.capacity = n;
        r.arena = &b.arena;
        intent_get_events(&r, &b);
    }
    if (r.failed || r.p != r.end || b.n != n) {
        if (b.events == NULL)
            outrider__arena_release(&early);
        else
            outrider__batch_release(&b);
        return r.is_out_of_memory
                   ? outrider__fail_nomem(err)
                   : outrider__fail(err, OUTRIDER_HISTORY, OUTRIDER_STOP,
                                    "the intent of exactly_once cannot be read: it was made by "
                                    "another version, or changed by somebody");
    }
    b.is_parked = is_parked;
    b.n_settle = b.n;
    for (size_t i = 0; i < b.n; i++)
        b.events[i].batch = ret_batch;
    *ret_batch = b;
    *ret_own = own;
    return 0;
}
