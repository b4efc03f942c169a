/* SPDX-License-Identifier: MIT */
/*
 * The headers of a message: ours (named by configuration and form), then those
 * that come from columns (map.header_columns), in the configured order whatever
 * order the database gave them, then the event's own, untouched. An own header
 * with the name of one of ours is left out: consumers recognise duplicates by the
 * event id and must be able to trust it. Names compare without regard to case, as
 * HTTP does; but what comes from a column was named on purpose, and is left out
 * for the very same name only. A column that is NULL makes no header.
 */
#ifndef CORE_HEADERS_H
#define CORE_HEADERS_H

#include "core/config.h"
#include "core/envelope.h"
#include "core/event.h"

enum header_value {
    HEADER_EVENT_ID,
    HEADER_EVENT_TYPE,
    HEADER_AGGREGATE_TYPE,
    HEADER_SUBJECT, /* CloudEvents from here on */
    HEADER_SOURCE,
    HEADER_TIME,
    HEADER_SPECVERSION,
    HEADER_STRUCTURED_TYPE
};

#define HEADERS_OURS_MAX 10

/* What is the same for every event. */
struct header_plan {
    struct {
        struct bytes name; /* in `names` */
        enum header_value value;
    } ours[HEADERS_OURS_MAX];
    size_t n;
    struct object_member *members; /* of the event's headers, and not among the message's */
    size_t n_members;
    struct bytes *columns; /* names of headers that come from columns, in their order */
    size_t n_columns;
    struct bytes names; /* all names end to end: copied to a batch in one go */
    struct bytes source;
    bool with_content_type; /* of the payload, unless the event says it itself */
};

int outrider__headers_plan(const struct pipeline_config *c, struct arena *arena,
                           struct header_plan *ret_plan, struct outrider_error *err);

/* Headers of e, with room for `spare` more behind them. Malformed ones of its
 * own are the event's error, or left out where `lenient`. */
int outrider__headers_build(const struct header_plan *plan, const struct event *e, size_t spare,
                            bool lenient, struct arena *arena, struct header **ret_headers,
                            size_t *ret_n, struct outrider_error *err);

/* For the option table: letters, digits and !#$%&'*+-.^_`|~, or nothing. */
int outrider__header_name_check(struct bytes name, struct outrider_error *err);

#endif
