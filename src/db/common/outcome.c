/* SPDX-License-Identifier: MIT */
#include "common/outcome.h"

#include "base/error.h"

struct bytes outrider__outcome_state(const struct event *e)
{
    return bytes_str(e->outcome == OUTCOME_DEAD     ? "dead"
                     : e->outcome == OUTCOME_PARKED ? "parked"
                                                    : "queued");
}

struct bytes outrider__outcome_code(const struct event *e)
{
    if (e->outcome == OUTCOME_EXPIRED)
        return bytes_str(outrider_code_name(OUTRIDER_EXPIRED));
    return e->failure != NULL ? bytes_str(outrider_code_name(e->failure->code)) : BYTES_NULL;
}

struct bytes outrider__outcome_origin(const struct event *e)
{
    return e->failure != NULL ? bytes_str(e->failure->origin) : BYTES_NULL;
}

/* The beginning of a text that is valid UTF-8. */
static struct bytes outcome_valid_text(struct bytes text)
{
    size_t good = 0;
    while (good < text.len) {
        size_t n = outrider__utf8_length(text.data + good, text.len - good);
        if (n == 0)
            break;
        good += n;
    }
    return bytes_of(text.data, good);
}

struct bytes outrider__outcome_message(const struct event *e)
{
    if (e->outcome == OUTCOME_EXPIRED)
        return bytes_str(outrider_code_text(OUTRIDER_EXPIRED));
    return e->failure != NULL ? outcome_valid_text(bytes_str(e->failure->message)) : BYTES_NULL;
}

struct outcome_failure outrider__outcome_failure(const struct event *e)
{
    return (struct outcome_failure){.code = outrider__outcome_code(e),
                                    .origin = outrider__outcome_origin(e),
                                    .message = outrider__outcome_message(e)};
}
