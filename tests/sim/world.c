/* SPDX-License-Identifier: MIT */
#include "world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct world *the_world;

uint64_t world_random(struct world *w)
{
    /* splitmix64 */
    uint64_t z = w->rng += 0x9e3779b97f4a7c15ULL;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
    return z ^ z >> 31;
}

bool world_chance(struct world *w, double p)
{
    return p > 0 && (double)(world_random(w) >> 11) / 9007199254740992.0 < p;
}

void world_trace(struct world *w, const char *fmt, ...)
{
    if (!w->trace)
        return;
    va_list ap;
    va_start(ap, fmt);
    printf("%10.3f ms  ", (double)w->now.mono_us / 1000);
    vprintf(fmt, ap);
    putchar('\n');
    va_end(ap);
}

void world_broken(struct world *w, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    printf("seed %llu at %.3f ms: ", (unsigned long long)w->seed, (double)w->now.mono_us / 1000);
    vprintf(fmt, ap);
    printf("\n    replay: sim --first %llu --seeds 1%s --trace\n", (unsigned long long)w->seed,
           w->wants_exact ? " --exact" : "");
    va_end(ap);
    fflush(stdout);
    longjmp(w->failed, 1);
}

int world_event_of(const struct delivery *d, bool *ret_is_dead_letter)
{
    const struct event *e = event_of((struct delivery *)d);
    *ret_is_dead_letter = bytes_eq_str(d->topic, "dead");
    return (int)e->seq - 1;
}

/* Whether an event may never be seen although it is committed: dead under skip, expired, left out.
 */
static bool may_stay_unseen(const struct world *w, int k)
{
    const struct sim_event *e = &w->events[k];
    if (e->is_unwanted || e->is_oversize || e->never_works || e->was_discarded || w->db.expired[k])
        return true;
    if (e->expires_us != 0 && e->expires_us <= w->now.wall_us)
        return true;
    return e->retries_reported >= (int)w->least_attempts &&
           w->config.retry.on_dead != ON_DEAD_BLOCK;
}

static void check_once_only(struct world *w, int i, bool is_dead_letter)
{
    struct sim_event *e = &w->events[i];
    if (!w->config.exactly_once)
        return;
    if (is_dead_letter && !w->had_operators && ++e->n_letters > 1)
        world_broken(w, "event %d was published twice as a dead letter", i);
    if (!is_dead_letter && e->was_visible)
        world_broken(w, "event %d was published twice", i);
}

void world_visible(struct world *w, int i, bool is_dead_letter)
{
    struct sim_event *e = &w->events[i];
    if (i >= w->n_committed)
        world_broken(w, "event %d was invented: it is not committed", i);
    e->was_dead_letter |= is_dead_letter;
    check_once_only(w, i, is_dead_letter);
    if (is_dead_letter || e->was_visible)
        return;
    world_trace(w, "visible  %s key %s", e->id, e->key);
    e->was_visible = true;
    e->first_visible_no = w->log_no++;
    if (!w->config.ordered)
        return;
    for (int k = 0; k < i; k++) {
        const struct sim_event *f = &w->events[k];
        if (strcmp(f->key, e->key) == 0 && !f->was_visible && !may_stay_unseen(w, k))
            world_broken(w, "event %d of key %s was published before event %d", i, e->key, k);
    }
}

static bool row_is_live(const struct world *w, const struct sim_row *row)
{
    return row->state != ROW_DEAD || w->config.retry.on_dead == ON_DEAD_BLOCK;
}

bool world_lane_is_live(const struct world *w, const char *key)
{
    for (int i = 0; i < w->db.n_rows; i++)
        if (row_is_live(w, &w->db.rows[i]) && strcmp(w->events[w->db.rows[i].event].key, key) == 0)
            return true;
    return false;
}

bool world_is_head(const struct world *w, const struct sim_row *row)
{
    if (!w->config.ordered)
        return true;
    for (const struct sim_row *other = w->db.rows; other != row; other++)
        if (row_is_live(w, other) &&
            strcmp(w->events[other->event].key, w->events[row->event].key) == 0)
            return false;
    return true;
}

int64_t world_parked_due(const struct world *w)
{
    int64_t due = CLOCK_NEVER;
    for (int i = 0; i < w->db.n_rows; i++) {
        const struct sim_row *row = &w->db.rows[i];
        if (row->state != ROW_DEAD && row->next_us < due && world_is_head(w, row))
            due = row->next_us;
    }
    return due;
}

static void add_row(struct world *w, const struct event *e)
{
    int i = (int)e->seq - 1;
    for (int k = 0; k < w->db.n_rows; k++)
        if (w->db.rows[k].event == i)
            world_broken(w, "event %d was parked twice", i);
    struct sim_row *row = &w->db.rows[w->db.n_rows++];
    *row = (struct sim_row){.arrival = w->db.next_arrival++, .event = i, .attempts = e->attempts};
    row->state = e->outcome == OUTCOME_DEAD     ? ROW_DEAD
                 : e->outcome == OUTCOME_PARKED ? ROW_PARKED
                                                : ROW_QUEUED;
    row->next_us = e->outcome == OUTCOME_PARKED ? e->next_attempt_us : 0;
}

static void check_attempts(struct world *w, const struct event *e)
{
    const struct sim_event *s = &w->events[e->seq - 1];
    int spent = s->retries_reported + s->n_dead_reported;
    if ((int)e->attempts > spent && !s->is_oversize)
        world_broken(w, "event %lld has spent %u attempts, the sink failed it %d times",
                     (long long)e->seq - 1, e->attempts, spent);
    if (e->outcome == OUTCOME_DEAD && !s->is_oversize && !s->never_works &&
        e->attempts < (uint32_t)w->least_attempts)
        world_broken(w, "event %lld died after %u attempts", (long long)e->seq - 1, e->attempts);
    if (e->outcome == OUTCOME_DEAD && w->config.dead_letter.topic != NULL && !w->was_reloaded &&
        !s->was_dead_letter)
        world_broken(w, "event %lld died, and its topic was not told", (long long)e->seq - 1);
}

static void settle_new(struct world *w, const struct event *e)
{
    int i = (int)e->seq - 1;
    if (i != w->db.position)
        world_broken(w, "event %d was settled when %lld was next", i, (long long)w->db.position);
    switch (e->outcome) {
    case OUTCOME_DELIVERED:
        if (!w->events[i].was_visible)
            world_broken(w, "event %d was settled as delivered and is not in the log", i);
        break;
    case OUTCOME_SKIPPED:
        if (!w->events[i].is_unwanted)
            world_broken(w, "event %d was skipped", i);
        w->db.skipped[i] = true;
        break;
    case OUTCOME_EXPIRED:
        if (w->events[i].expires_us == 0 || w->events[i].expires_us > w->now.wall_us)
            world_broken(w, "event %d was settled as expired and is not", i);
        w->db.expired[i] = true;
        break;
    case OUTCOME_PARKED:
    case OUTCOME_QUEUED:
    case OUTCOME_DEAD:
        check_attempts(w, e);
        add_row(w, e);
        break;
    default:
        world_broken(w, "event %d was settled without an outcome", i);
    }
    w->db.position = i + 1;
}

static void remove_row(struct world *w, struct sim_row *row)
{
    size_t behind = (size_t)(&w->db.rows[w->db.n_rows] - (row + 1));
    memmove(row, row + 1, behind * sizeof *row);
    w->db.n_rows--;
}

static void settle_parked(struct world *w, const struct event *e)
{
    struct sim_row *row = NULL;
    for (int k = 0; k < w->db.n_rows; k++)
        if (w->db.rows[k].arrival == e->arrival)
            row = &w->db.rows[k];
    if (row == NULL)
        world_broken(w, "parked row %lld is gone", (long long)e->arrival);
    switch (e->outcome) {
    case OUTCOME_DELIVERED:
        if (!w->events[row->event].was_visible)
            world_broken(w, "parked event %d is not in the log", row->event);
        remove_row(w, row);
        break;
    case OUTCOME_EXPIRED:
        w->db.expired[row->event] = true;
        remove_row(w, row);
        break;
    case OUTCOME_PARKED:
    case OUTCOME_DEAD:
        check_attempts(w, e);
        row->state = e->outcome == OUTCOME_DEAD ? ROW_DEAD : ROW_PARKED;
        row->attempts = e->attempts;
        row->next_us = e->next_attempt_us;
        break;
    case OUTCOME_RELEASED:
        break;
    default:
        world_broken(w, "parked event %d got the outcome %s", row->event,
                     outrider__outcome_name(e->outcome));
    }
}

bool world_answer(const struct world *w, int event, enum sink_result result,
                  struct answer *ret_answer)
{
    static const int32_t statuses[] = {
        [SINK_DELIVERED] = 200, [SINK_RETRY] = 503, [SINK_DEAD] = 422, [SINK_UNTRIED] = 0};
    *ret_answer =
        (struct answer){.status = statuses[result], .body = bytes_str(w->events[event].id)};
    return event % 3 == 0 && ret_answer->status != 0;
}

/* source.h (19). What is recalled has no answers to delivered events. */
static void check_answer(struct world *w, const struct event *e, bool is_recalled)
{
    int i = (int)e->seq - 1;
    int32_t status = e->answer != NULL ? e->answer->status : 0;
    bool is_answered = i % 3 == 0, fits = status == 0;
    if (e->outcome == OUTCOME_DELIVERED && is_answered)
        fits = status == 200 || (is_recalled && fits);
    else if (e->outcome == OUTCOME_PARKED)
        fits |= status == 503;
    else if (e->outcome == OUTCOME_DEAD)
        fits |= status == 503 || status == 422;
    if (!fits || (status != 0 && !is_answered))
        world_broken(w, "event %d was settled as %s with the answer %d", i,
                     outrider__outcome_name(e->outcome), (int)status);
    if (status != 0 && !bytes_eq_str(e->answer->body, w->events[i].id))
        world_broken(w, "event %d was settled with the answer of another event", i);
}

static void settle(struct world *w, const struct batch *b, bool is_recalled)
{
    for (size_t i = 0; i < b->n_settle; i++) {
        const struct event *e = &b->events[i];
        world_trace(w, "settled  e%lld as %s", (long long)e->seq - 1,
                    outrider__outcome_name(e->outcome));
        check_answer(w, e, is_recalled);
        if (b->is_parked)
            settle_parked(w, e);
        else
            settle_new(w, e);
    }
}

void world_settle(struct world *w, const struct batch *b)
{
    settle(w, b, false);
}

static bool is_whole(const struct batch *b)
{
    return b->n_settle == b->n && b->n <= MAX_BATCH;
}

void world_intent(struct world *w, const struct batch *settled, const struct batch *next,
                  struct commit_mark progress)
{
    struct sim_intent *intent = &w->db.intent;
    if (settled != NULL) {
        if (!intent->exists || settled->n != intent->n || settled->is_parked != intent->is_parked)
            world_broken(w, "a batch is settled that is not the intent's");
        if (!progress_is(w->progress, w->db.saved) && !w->is_progress_lost)
            world_broken(w, "intent %llu is settled and was not committed",
                         (unsigned long long)w->db.saved.no);
        world_settle(w, settled);
    } else if (intent->exists) {
        if (w->progress.no >= w->db.saved.no || w->txn.exists)
            world_broken(w, "intent %llu is saved over and may have been committed",
                         (unsigned long long)w->db.saved.no);
    }
    *intent = (struct sim_intent){.exists = next != NULL};
    w->is_restored = false;
    if (next == NULL)
        return;
    if (!is_whole(next))
        world_broken(w, "an intent is not whole");
    world_trace(w, "intent   %llu of %zu", (unsigned long long)progress.no, next->n);
    intent->n = next->n;
    intent->is_parked = next->is_parked;
    memcpy(intent->events, next->events, next->n * sizeof next->events[0]);
    for (size_t i = 0; i < next->n; i++) {
        const struct answer *answer = next->events[i].answer;
        intent->answers[i] = answer != NULL ? answer->status : 0;
        intent->events[i].answer = NULL; /* the batch does not live as long */
    }
    w->db.saved = progress;
}

void world_recall(struct world *w, struct commit_mark progress, enum recall_verdict verdict)
{
    struct sim_intent intent = w->db.intent;
    bool applies = intent.exists && progress_is(progress, w->db.saved);
    bool drops = intent.exists && progress.no + 1 == w->db.saved.no;
    world_trace(w, "recall   %llu: %s", (unsigned long long)w->db.saved.no,
                applies ? "applied"
                : drops ? "dropped"
                        : "left alone");
    if (applies != (verdict == RECALL_CAME_TRUE) || drops != (verdict == RECALL_NEVER_WAS))
        world_broken(w, "the engine's verdict on intent %llu is %d",
                     (unsigned long long)w->db.saved.no, (int)verdict);
    if (!applies && !drops)
        return;
    w->db.intent.exists = false;
    w->db.saved = progress;
    struct batch b = {.events = intent.events,
                      .n = intent.n,
                      .n_settle = intent.n,
                      .is_parked = intent.is_parked};
    if (!applies)
        return;
    struct answer answers[MAX_BATCH];
    for (size_t i = 0; i < b.n; i++) {
        struct event *e = &b.events[i];
        answers[i] = (struct answer){.status = intent.answers[i],
                                     .body = bytes_str(w->events[e->seq - 1].id)};
        e->answer = answers[i].status != 0 ? &answers[i] : NULL;
    }
    settle(w, &b, true);
}

void world_decide(struct world *w, bool commits)
{
    struct sim_txn *t = &w->txn;
    if (!t->exists)
        return;
    t->exists = false;
    world_trace(w, "%s %llu", commits ? "commit  " : "abort   ",
                (unsigned long long)t->progress.no);
    if (!commits)
        return;
    for (size_t i = 0; i < t->n; i++)
        world_visible(w, t->records[i].event, t->records[i].is_dead_letter);
    if (t->progress.no != w->progress.no + 1)
        world_broken(w, "transaction %llu follows %llu", (unsigned long long)t->progress.no,
                     (unsigned long long)w->progress.no);
    w->progress = t->progress;
}

void world_restore(struct world *w)
{
    if (!w->has_backup || w->is_restored || w->is_progress_lost)
        return; /* if both forget, nobody can know */
    world_trace(w, "the database is restored");
    w->newest = w->db;
    w->db = w->backup;
    w->is_restored = true;
}

/* The first one cannot be told from one that never was, so it is never lost. */
void world_lose_progress(struct world *w)
{
    if (w->is_progress_lost || w->is_restored || w->progress.no < 2 || w->txn.exists)
        return;
    world_trace(w, "progress is lost");
    w->lost_progress = w->progress;
    w->progress = (struct commit_mark){0};
    w->is_progress_lost = true;
}

bool world_mend(struct world *w)
{
    bool had = w->is_restored || w->is_progress_lost;
    if (w->is_restored)
        w->db = w->newest;
    if (w->is_progress_lost)
        w->progress = w->lost_progress;
    w->is_restored = w->is_progress_lost = false;
    return had;
}

/* The which-th dead row, counted round. */
static struct sim_row *dead_row(struct world *w, int which)
{
    int n = 0;
    for (int i = 0; i < w->db.n_rows; i++)
        n += w->db.rows[i].state == ROW_DEAD;
    for (int i = 0; n > 0 && i < w->db.n_rows; i++)
        if (w->db.rows[i].state == ROW_DEAD && which-- % n == 0)
            return &w->db.rows[i];
    return NULL;
}

void world_dead_retry(struct world *w, int which)
{
    struct sim_row *row = dead_row(w, which);
    if (row == NULL)
        return;
    world_trace(w, "operator retries e%d", row->event);
    w->had_operators = true;
    row->state = ROW_PARKED;
    row->attempts = 0;
    row->next_us = 0;
}

void world_dead_discard(struct world *w, int which)
{
    struct sim_row *row = dead_row(w, which);
    if (row == NULL)
        return;
    world_trace(w, "operator discards e%d", row->event);
    w->db.discarded[row->event] = w->events[row->event].was_discarded = true;
    remove_row(w, row);
}

bool world_is_done(const struct world *w)
{
    if (w->db.intent.exists)
        return false;
    if (w->n_committed < w->n_total || w->db.position < w->n_total)
        return false;
    for (int i = 0; i < w->db.n_rows; i++) {
        const struct sim_row *row = &w->db.rows[i];
        if (row->state == ROW_DEAD)
            continue;
        if (w->config.retry.on_dead == ON_DEAD_SKIP || !w->config.ordered || world_is_head(w, row))
            return false;
        /* Behind a dead letter that blocks: waits for a person. */
        bool blocked = false;
        for (int k = 0; k < i; k++)
            blocked |= w->db.rows[k].state == ROW_DEAD &&
                       strcmp(w->events[w->db.rows[k].event].key, w->events[row->event].key) == 0;
        if (!blocked)
            return false;
    }
    return true;
}

void world_check_end(struct world *w)
{
    if (!world_is_done(w))
        world_broken(w, "not everything is settled: position %lld of %d, %d rows parked",
                     (long long)w->db.position, w->n_total, w->db.n_rows);
    for (int i = 0; i < w->n_total; i++) {
        bool parked = false;
        for (int k = 0; k < w->db.n_rows; k++)
            parked |= w->db.rows[k].event == i;
        bool is_settled = w->db.expired[i] || w->db.skipped[i] || w->db.discarded[i] || parked;
        if (!w->events[i].was_visible && !is_settled)
            world_broken(w, "event %d was lost", i);
    }
}

bool world_refuses(const struct world *w)
{
    return w->refusal != REFUSES_NOT && w->db.position >= w->n_total / 2;
}

int world_refuse(struct world *w, struct outrider_error *err)
{
    if (!world_refuses(w))
        return 0;
    bool is_final = w->refusal == REFUSES_FOR_GOOD;
    /* What was published comes again after each: two relays may be told twice. */
    if (++w->n_refused > (is_final ? 1 : 4))
        world_broken(w, "a settle that cannot succeed was tried %d times", w->n_refused);
    return outrider__fail(err, OUTRIDER_AUTH, is_final ? OUTRIDER_STOP : OUTRIDER_RETRY,
                          "simulated: refused");
}

bool world_mend_settles(struct world *w, const struct outrider_error *why)
{
    if (strcmp(why->message, "simulated: refused") != 0)
        return false;
    w->refusal = REFUSES_NOT;
    return true;
}
