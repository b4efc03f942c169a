/* SPDX-License-Identifier: MIT */
#include "common/findings.h"

#include <inttypes.h>

#include "base/clock.h"

#define LAG_LARGE 1000
#define LAG_OLD_US (5LL * 60 * 1000000)
#define LARGE_PAYLOAD (64 * 1024)

void outrider__find_lag(const struct finder *f, const struct store_status *st, const char *holder)
{
    int64_t age_us =
        st->oldest_pending_us == 0 ? 0 : outrider__clock_now().wall_us - st->oldest_pending_us;
    bool lags = st->pending > LAG_LARGE || age_us > LAG_OLD_US;
    const char *advice =
        !lags ? NULL
        : holder != NULL
            ? "look at the relay's log: its sink may be down or slow"
            : "start it with `outrider relay`; clean-up waits for the slowest pipeline";
    outrider__find(f, lags ? FINDING_WARNING : FINDING_OK, advice,
                   "pipeline '%s' to %s: position %" PRId64 " of %" PRId64 ", %" PRIu64
                   " pending; %s",
                   st->pipeline, st->sink[0] != '\0' ? st->sink : "(no sink yet)", st->position,
                   st->head, st->pending, holder != NULL ? holder : "no relay is active");
}

void outrider__find_failed(const struct finder *f, const struct store_status *st)
{
    if (st->parked + st->queued > 0)
        outrider__find(f, FINDING_NOTE, "`outrider dead list` shows why",
                       "pipeline '%s': %" PRIu64 " parked, %" PRIu64 " queued behind them",
                       st->pipeline, st->parked, st->queued);
    if (st->dead > 0)
        outrider__find(f, FINDING_WARNING,
                       "`outrider dead list`, then `dead retry` or `dead discard`",
                       "pipeline '%s': %" PRIu64 " dead letters", st->pipeline, st->dead);
}

void outrider__find_payload(const struct finder *f, int64_t largest, int64_t max_payload)
{
    if (max_payload > 0 && largest > max_payload)
        outrider__find(f, FINDING_WARNING,
                       "keep the data elsewhere and send a reference, or raise source.max_payload",
                       "a payload of %" PRId64 " bytes is above max_payload (%" PRId64
                       "): it becomes a dead letter",
                       largest, max_payload);
    else
        outrider__find(f, FINDING_OK, NULL,
                       "the largest of the last 1000 payloads has %" PRId64 " bytes", largest);
}

void outrider__find_headers(const struct finder *f, int64_t largest, int64_t max_headers)
{
    if (max_headers > 0 && largest > max_headers)
        outrider__find(f, FINDING_WARNING,
                       "put the data into the payload, or raise source.max_headers",
                       "headers of %" PRId64 " bytes are above max_headers (%" PRId64
                       "): the event becomes a dead letter",
                       largest, max_headers);
}

void outrider__find_retention(const struct finder *f, int64_t retention_us)
{
    if (retention_us <= 0)
        outrider__find(f, FINDING_WARNING,
                       "set cleanup.retention, or run `outrider cleanup` from time to time",
                       "no retention: settled events stay in the outbox for ever");
}

void outrider__find_below_first(const struct finder *f, const char *table, int64_t n_rows)
{
    if (n_rows > 0)
        outrider__find(f, FINDING_WARNING, "insert them anew without a seq, and delete these",
                       "%" PRId64 " rows%s%s have a seq below 1: nobody delivers them", n_rows,
                       table != NULL ? " of " : "", table != NULL ? table : "");
}

void outrider__find_map(const struct finder *f, const struct outbox_table *t)
{
    struct strbuf text;
    outrider__strbuf_init(&text, 8192);
    outrider__map_describe(&t->map, &text);
    for (size_t i = 0; i < text.len; i++)
        if (text.data[i] == '\n')
            text.data[i] = i + 1 < text.len ? ';' : '\0';
    outrider__find(f, FINDING_OK, NULL, "%s: layout status%s; %s", t->outbox,
                   t->is_ours ? "" : ", adopted", strbuf_cstr(&text));
    outrider__strbuf_release(&text);
}

static void findings_find_order(const struct finder *f, const struct outbox_table *t)
{
    const struct map_column *time = t->map.columns[ROLE_CREATED_AT] != NULL
                                        ? t->map.columns[ROLE_CREATED_AT]
                                        : t->map.columns[ROLE_OCCURRED_AT];
    if (t->map.is_ordered)
        return;
    outrider__find(f, FINDING_WARNING, t->table.phrases->add_sequence,
                   "%s has no sequence: order is by %s%s%s (a transaction counts from its begin, "
                   "not from its commit)",
                   t->outbox, time != NULL ? time->name : "", time != NULL ? ", then by " : "",
                   t->table.phrases->order_without_sequence);
}

static void findings_find_uncovered(const struct finder *f, const struct table_facts *facts)
{
    uint64_t n = facts->n_uncovered;
    if (n > 0)
        outrider__find(f, FINDING_WARNING,
                       "say what the state means with map.status_values, or give the rows a state "
                       "that is known",
                       "%" PRIu64
                       " %s of %s %s in a state that no word covers, and nobody delivers "
                       "them: %s",
                       n, n == 1 ? "row" : "rows", facts->table->outbox, n == 1 ? "is" : "are",
                       facts->uncovered);
}

static void findings_find_words(const struct finder *f, const struct table_facts *facts)
{
    const struct outbox_table *t = facts->table;
    if (t->map.mark != MARK_STATUS)
        return;
    const char *status = t->map.columns[ROLE_STATUS]->name;
    if (t->map.waits_for_words) {
        outrider__find(f, FINDING_WARNING,
                       "a default or a CHECK constraint on the column, or map.status_values, would "
                       "say it",
                       "%s: nothing tells yet which value of '%s' means pending: a relay waits for "
                       "the first rows",
                       t->outbox, status);
        return;
    }
    if (t->map.values_are_remembered)
        outrider__find(
            f, FINDING_OK, NULL,
            "%s: the words of '%s' are those of an earlier start (outrider_cursor.words)",
            t->outbox, status);
    if (t->map.values_are_assumed)
        outrider__find(
            f, FINDING_NOTE,
            "a CHECK constraint on the column, or map.status_values, would make it certain",
            "%s: some values of '%s' are the usual ones, nothing in the table confirms them",
            t->outbox, status);
    findings_find_uncovered(f, facts);
}

static void findings_find_retries(const struct finder *f, const struct outbox_table *t)
{
    if (t->parks_retries)
        outrider__find(f, FINDING_NOTE, NULL,
                       "%s has no columns for attempts and the next one's time: they are kept in "
                       "outrider_parked",
                       t->outbox);
    if (!outrider__map_can_compete(&t->map))
        outrider__find(
            f, FINDING_NOTE, NULL,
            "%s has no columns for a lock's owner and time: one relay at a time reads it",
            t->outbox);
}

static void findings_find_sizes(const struct finder *f, const struct table_facts *facts)
{
    const char *table = facts->table->outbox;
    int64_t max = facts->config->source.max_payload, payload = facts->payload_size;
    int64_t max_headers = facts->config->source.max_headers, headers = facts->headers_size;
    if (max > 0 && payload > max)
        outrider__find(f, FINDING_WARNING,
                       "keep the data elsewhere and send a reference, or raise source.max_payload",
                       "%s: a payload of %" PRId64 " bytes is above max_payload (%" PRId64
                       "): it becomes a dead letter",
                       table, payload, max);
    else if (payload > LARGE_PAYLOAD)
        outrider__find(f, FINDING_WARNING, "keep the data elsewhere and send a reference",
                       "%s: large payloads, up to %" PRId64 " bytes", table, payload);
    if (max_headers > 0 && headers > max_headers)
        outrider__find(f, FINDING_WARNING,
                       "put the data into the payload, or raise source.max_headers",
                       "%s: headers of %" PRId64 " bytes are above max_headers (%" PRId64
                       "): the event becomes a dead letter",
                       table, headers, max_headers);
}

static void findings_find_table_retention(const struct finder *f, const struct table_facts *facts)
{
    const struct pipeline_config *c = facts->config;
    bool is_ours = facts->table->is_ours;
    if (c->source.after_publish == AFTER_PUBLISH_DELETE)
        return;
    if (c->cleanup.retention_us <= 0 || (!is_ours && !c->cleanup.adopted))
        outrider__find(f, FINDING_WARNING,
                       is_ours ? "set cleanup.retention"
                               : "set cleanup.adopted: true (and cleanup.retention), or "
                                 "after_publish: delete, unless the application cleans up itself",
                       "%s: no retention: published rows stay for ever", facts->table->outbox);
}

void outrider__find_table(const struct finder *f, const struct table_facts *facts)
{
    findings_find_order(f, facts->table);
    findings_find_words(f, facts);
    findings_find_retries(f, facts->table);
    if (facts->lacks_index)
        outrider__find(
            f, FINDING_WARNING, facts->index_advice,
            "%s has no index for what is not published yet: every look reads the whole table",
            facts->table->outbox);
    findings_find_sizes(f, facts);
    findings_find_table_retention(f, facts);
}

void outrider__find_pipeline(const struct finder *f, const struct store_status *st)
{
    outrider__find(f, FINDING_OK, NULL, "pipeline '%s' to %s: %" PRIu64 " pending; %s",
                   st->pipeline, st->sink[0] != '\0' ? st->sink : "(no sink yet)", st->pending,
                   st->relay_active ? "a relay is active" : "no relay is active");
    if (st->parked > 0)
        outrider__find(f, FINDING_NOTE, "`outrider dead list` shows why",
                       "pipeline '%s': %" PRIu64 " wait for their next try", st->pipeline,
                       st->parked);
    if (st->dead > 0)
        outrider__find(f, FINDING_WARNING,
                       "`outrider dead list`, then `dead retry` or `dead discard`",
                       "pipeline '%s': %" PRIu64 " dead letters", st->pipeline, st->dead);
}
