/* SPDX-License-Identifier: MIT */
/*
 * What stands around a payload. A payload that is JSON is embedded as it is,
 * without white space; other text becomes a JSON string, anything else base64.
 *
 *     envelope     {"eventId":"..","eventType":"..","aggregateId":"..","aggregateType":"..",
 *                   "occurredAt":"RFC 3339","version":"1.0.0","payload":..}
 *                  base64 stands under "payloadBase64"
 *     cloudevents  {"specversion":"1.0","id":"..","source":"..","type":"..","subject":"..",
 *                   "time":"..","datacontenttype":"..","data":..}
 *                  base64 stands under "data_base64"; no payload, no data
 *     object       {"payload":..,"NAME":..}, with headers of the event as further members
 */
#ifndef CORE_ENVELOPE_H
#define CORE_ENVELOPE_H

#include "core/event.h"

/* When it happened; where nobody said, when it was written. */
static inline int64_t event_time_us(const struct event *e)
{
    return e->occurred_at_us != 0 ? e->occurred_at_us : e->created_at_us;
}

int outrider__envelope_build(const struct event *e, struct arena *arena, struct bytes *ret_payload,
                             struct outrider_error *err);
/* A header of the event that stands in an object, under a name of its own. */
struct object_member {
    struct bytes header, name;
    bool is_column; /* of the table: absent where the table does not have it, else null */
};

/* {"payload":..,"name":..}: the values of these headers, as they stand. base64 stands
 * under "payload" too. */
int outrider__object_build(const struct event *e, const struct object_member *members, size_t n,
                           bool payload_is_string, struct arena *arena, struct bytes *ret_payload,
                           struct outrider_error *err);
int outrider__cloudevent_build(const struct event *e, struct bytes source, struct arena *arena,
                               struct bytes *ret_payload, struct outrider_error *err);

#endif
