/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as a replication stream. An input is a row of messages, each behind
 * its length in two bytes, so that what one leaves behind meets the next.
 */
#include <stdint.h>
#include <stdlib.h>

#include "postgres/cdc/decode.h"

/* One column has two roles, and there is none for others. */
static const struct cdc_outbox adopted = {
    .oid = 16500,
    .schema = "public",
    .table = "adopted",
    .columns = {[COL_ID] = "id",
                [COL_AGGREGATE_ID] = "aggregate_id",
                [COL_PARTITION_KEY] = "aggregate_id",
                [COL_PAYLOAD] = "payload",
                [COL_CREATED_AT] = "created_at"},
    .is_mapped = true,
    .aggregate_type = "thing",
    .event_type = "happened",
    .headers = {{"aggregate", "aggregate_id"}, {"when", "created_at"}, {"what", "payload"}},
    .n_headers = 3,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MAX_PAYLOAD 512
#define MAX_HEADERS 512
#define MAX_TEXT (4 * EVENT_TEXT_CUT)

static void must(bool condition)
{
    if (!condition)
        abort();
}

/* Reads every byte that an event claims to have. */
static unsigned touch(struct bytes b)
{
    unsigned sum = 0;
    must(b.data != NULL || b.len == 0);
    for (size_t i = 0; i < b.len; i++)
        sum += (unsigned char)b.data[i];
    return sum;
}

static void check_event(const struct event *e)
{
    volatile unsigned sum = 0;
    must(e->id.len > 0);
    must(!bytes_is_null(e->aggregate_type) && !bytes_is_null(e->aggregate_id));
    must(!bytes_is_null(e->event_type));
    must(e->payload.len <= MAX_PAYLOAD);
    must(e->headers.len <= MAX_HEADERS);
    must(e->aggregate_type.len <= MAX_TEXT && e->aggregate_id.len <= MAX_TEXT);
    must(e->event_type.len <= MAX_TEXT && e->topic.len <= MAX_TEXT);
    must(e->partition_key.len <= MAX_TEXT);
    must(!e->is_oversize || e->large_len > 0);
    must(e->is_malformed == (e->failure != NULL));
    must(e->partition >= -1);
    must(outrider__bytes_is_utf8(e->aggregate_id) || e->is_malformed);
    sum += touch(e->id) + touch(e->aggregate_type) + touch(e->aggregate_id) + touch(e->event_type);
    sum += touch(e->payload) + touch(e->headers) + touch(e->topic) + touch(e->partition_key);
    (void)sum;
}

/* A copy of its own, so that a read past its end is caught. */
static int feed(struct cdc_decoder *d, const uint8_t *data, size_t len, struct batch *b)
{
    struct cdc_message m;
    struct outrider_error err;
    int64_t before = d->n_events;
    char *copy = malloc(len > 0 ? len : 1);
    must(copy != NULL);
    if (len > 0)
        memcpy(copy, data, len);
    int rc = outrider__cdc_decode(d, bytes_of(copy, len), &m, &err);
    if (rc == 0 && m.kind == CDC_EVENT) {
        must(m.number == before + 1 && m.commit_lsn == d->commit_lsn && d->in_transaction);
        if (batch_is_full(b))
            outrider__batch_reset(b);
        must(outrider__cdc_event(d, &m, b, &err) == 0);
        check_event(&b->events[b->n - 1]);
    }
    free(copy);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cdc_decoder d;
    struct batch b;
    struct outrider_error err;
    static struct cdc_outbox outboxes[2];
    outboxes[0] = outrider__cdc_own_outbox(16400, "public", "outbox");
    outboxes[1] = adopted;
    d = (struct cdc_decoder){.outboxes = outboxes,
                             .n_outboxes = 2,
                             .max = {MAX_PAYLOAD, MAX_HEADERS, MAX_TEXT, MAX_TEXT}};
    must(outrider__batch_init(&b, 8, 1 << 20, &err) == 0);
    while (size >= 2) {
        size_t len = (size_t)data[0] << 8 | data[1];
        data += 2;
        size -= 2;
        if (len > size)
            len = size;
        if (feed(&d, data, len, &b) < 0)
            break;
        data += len;
        size -= len;
    }
    outrider__cdc_decoder_release(&d);
    outrider__batch_release(&b);
    return 0;
}
