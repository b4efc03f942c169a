/* SPDX-License-Identifier: MIT */
#include "base/event_check.h"

#include "base/bytes.h"
#include "base/json.h"
#include "base/uuid.h"
#include "outrider/inbox.h"

const struct grown outrider__event_grown = {
    .what = "event",
    .unset = "event: the size field is not set; start from OUTRIDER_EVENT_INIT",
    .first = GROWN_FIRST(struct outrider_event, expires_at_us),
    .now = sizeof(struct outrider_event),
    .align = _Alignof(struct outrider_event),
    .disposition = OUTRIDER_DEAD,
};

int outrider__event_fail_field(struct outrider_error *err, const char *field, const char *what)
{
    return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_DEAD, "event: %s %s", field, what);
}

static int check_text(const char *field, const char *value, bool is_required,
                      struct outrider_error *err)
{
    if (value == NULL || *value == '\0')
        return is_required ? outrider__event_fail_field(err, field, "is missing") : 0;
    struct bytes text = bytes_str(value);
    if (text.len > OUTRIDER_TEXT_MAX)
        return outrider__fail(err, OUTRIDER_TOO_LARGE, OUTRIDER_DEAD,
                              "event: %s of %zu bytes is above %d, the most that it may have; "
                              "shorten it",
                              field, text.len, OUTRIDER_TEXT_MAX);
    return outrider__bytes_is_utf8(text) ? 0
                                         : outrider__event_fail_field(err, field, "is not UTF-8");
}

static int check_headers(const char *headers, size_t max, struct outrider_error *err)
{
    struct json_members m;
    struct bytes name, value;
    if (headers == NULL)
        return 0;
    if (strlen(headers) > max)
        return outrider__event_fail_field(err, "headers", "are larger than the database's limit");
    if (outrider__json_members_begin(&m, bytes_str(headers)) < 0)
        return outrider__fail(err, OUTRIDER_NOT_JSON, OUTRIDER_DEAD,
                              "event: headers are not a JSON object");
    while (outrider__json_members_next(&m, &name, &value) == 1)
        if (value.len == 0 || value.data[0] != '"')
            return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_DEAD,
                                  "event: header '%.*s' is not a string", (int)name.len, name.data);
    return 0;
}

int outrider__event_check(const struct outrider_event *given, size_t max_payload,
                          struct outrider_error *err)
{
    if (outrider__grown_check(&outrider__event_grown, given, err) < 0)
        return -1;
    struct outrider_event copy = event_grown(given), *e = &copy;
    if (e->payload == NULL && e->payload_len > 0)
        return outrider__event_fail_field(err, "payload", "is NULL but has a length");
    if (e->payload_len > max_payload)
        return outrider__event_fail_field(err, "payload", "is larger than the database's limit");
    if (e->id != NULL && !outrider__uuid_is_valid(bytes_str(e->id)))
        return outrider__event_fail_field(err, "id", "is not a UUID");
    if (check_text("aggregate_type", e->aggregate_type, true, err) < 0 ||
        check_text("aggregate_id", e->aggregate_id, true, err) < 0 ||
        check_text("event_type", e->event_type, true, err) < 0 ||
        check_text("topic", e->topic, false, err) < 0 ||
        check_text("partition_key", e->partition_key, false, err) < 0)
        return -1;
    return check_headers(e->headers, max_payload, err);
}

static int check_name(const char *what, const char *value, struct outrider_error *err)
{
    size_t len = value != NULL ? strnlen(value, OUTRIDER_INBOX_TEXT_MAX + 1) : 0;
    if (len == 0)
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_DEAD, "inbox: %s is missing", what);
    if (len > OUTRIDER_INBOX_TEXT_MAX)
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_DEAD,
                              "inbox: %s is longer than %d bytes", what, OUTRIDER_INBOX_TEXT_MAX);
    if (!outrider__bytes_is_utf8(bytes_of(value, len)))
        return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_DEAD, "inbox: %s is not UTF-8", what);
    return 0;
}

int outrider__inbox_check_names(const char *consumer, const char *event_id,
                                struct outrider_error *err)
{
    return check_name("the consumer's name", consumer, err) < 0 ||
                   check_name("the event's id", event_id, err) < 0
               ? -1
               : 0;
}
