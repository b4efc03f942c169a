/* SPDX-License-Identifier: MIT */
/*
 * An event as an application writes it.
 *
 * Start from OUTRIDER_EVENT_INIT, which sets the size field: the struct may
 * grow at its end by fields whose zero means "not used", and a program compiled
 * against another version's header keeps working.
 */
#ifndef OUTRIDER_EVENT_H
#define OUTRIDER_EVENT_H

#include <stddef.h>
#include <stdint.h>

#include "outrider/export.h"

#ifdef __cplusplus
extern "C" {
#endif

struct outrider_event {
    size_t size;                /* sizeof(struct outrider_event) */
    const char *id;             /* a UUID as text; NULL: a new UUIDv7 */
    const char *aggregate_type; /* required: "order" */
    const char *aggregate_id;   /* required: "42" */
    const char *event_type;     /* required: "OrderCreated" */
    const void *payload;        /* opaque bytes; NULL with length 0 is an empty payload */
    size_t payload_len;
    const char *headers;       /* a JSON object of strings, or NULL */
    const char *topic;         /* overrides routing, or NULL */
    const char *partition_key; /* overrides aggregate_id as the key, or NULL */
    int32_t partition;         /* explicit partition; negative: chosen by the key */
    int64_t occurred_at_us;    /* microseconds since 1970; 0: now */
    int64_t expires_at_us;     /* 0: never */
};

#define OUTRIDER_EVENT_INIT                                                                        \
    {                                                                                              \
        sizeof(struct outrider_event), NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL, NULL, -1, 0, 0 \
    }

/* Bytes that aggregate_type, aggregate_id, event_type, topic and partition_key may each
 * have: enqueue refuses more, and a relay makes a dead letter of such a row. */
#define OUTRIDER_TEXT_MAX 16384

/* Room for a UUID as text and its final zero byte. */
#define OUTRIDER_ID_SIZE 37

#ifdef __cplusplus
}
#endif
#endif
