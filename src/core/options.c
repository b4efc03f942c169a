/* SPDX-License-Identifier: MIT */
/*
 * The rows that core itself has. They stand in the order in which the reference page and the
 * sample file show them, section by section. Adapters have rows of their own.
 */
#include "core/adapter.h"

#include <stdio.h>

#include "base/clock.h"
#include "core/headers.h"
#include "core/regex_route.h"
#include "core/template.h"

#define AT(field) offsetof(struct pipeline_config, field)
#define KIB 1024.0
#define MIB (1024.0 * KIB)
#define GIB (1024.0 * MIB)
#define MINUTE 60.0
#define HOUR 3600.0
#define DAY 86400.0

static int options_day_time_check(struct bytes value, struct outrider_error *err)
{
    int64_t us;
    if (value.len == 0 || outrider__day_time_parse(value, &us) == 0)
        return 0;
    return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                          "'%.*s' is not a time of day such as 02:00",
                          value.len > 60 ? 60 : (int)value.len, value.data);
}

/* clang-format off */
static const struct option table[] = {
    {"source.url", OPTION_SECRET_URL, AT(source.url), .example = OPTION_EXAMPLE_SOURCE,
     .text = "Where the outbox is: the database's URL."},
    {"source.mode", OPTION_ENUM, AT(source.mode), .initial = "poll", .values = "poll|cdc",
     .text = "How committed events are found: by reading the outbox, or from the database's log of changes."},
    {"source.tables", OPTION_STRINGS, AT(source.tables), .initial = "[]", .example = "[outbox]",
     .text = "Tables that are read as outboxes; none means the table 'outbox'."},
    {"source.poll_interval", OPTION_DURATION, AT(source.poll_interval_us), .initial = "100ms", .min = 0.001, .max = HOUR,
     .reloadable = true, .text = "Maximum polling interval when idle. A database that tells of changes by itself is polled once a second after 5 s without a change."},
    {"source.batch", OPTION_INT, AT(source.batch), .initial = "1000", .min = 1, .max = 100000,
     .text = "Events read and settled together."},
    {"source.batch_bytes", OPTION_SIZE, AT(source.batch_bytes), .initial = "1MiB", .min = KIB, .max = GIB,
     .text = "A batch ends with the event that passes this size."},
    {"source.max_payload", OPTION_SIZE, AT(source.max_payload), .initial = "1MiB", .min = 1, .max = GIB,
     .text = "A larger payload is not read: the event becomes a dead letter."},
    {"source.max_headers", OPTION_SIZE, AT(source.max_headers), .initial = "64KiB", .min = 1, .max = GIB,
     .text = "The same for an event's headers, as JSON, with those of map.header_columns."},
    {"source.connect_timeout", OPTION_DURATION, AT(source.connect_timeout_us), .initial = "10s", .min = 0.001, .max = HOUR,
     .text = "How long a connection may take to come up, and how long --once waits for one."},
    {"source.initial_delay", OPTION_DURATION, AT(source.initial_delay_us), .initial = "0", .max = DAY,
     .text = "How long to wait after the start before the first look."},
    {"source.durable", OPTION_ENUM, AT(source.durable), .initial = "local", .values = "local|standby",
     .text = "What must have an event on disk before the event is delivered: the server itself, or also a standby, for those who fail over. Databases without standbys refuse standby."},
    {"source.max_gaps", OPTION_INT, AT(source.max_gaps), .initial = "5000", .min = 1, .max = 1000000,
     .text = "Databases with many writers at once, layout log: above this many ranges of seqs that open transactions may still fill, new events wait until some are decided."},
    {"source.min_age", OPTION_DURATION, AT(source.min_age_us), .initial = "0", .example = "5s", .max = DAY,
     .text = "Layout status: rows younger than this are left to an application that publishes them itself."},
    {"source.lease", OPTION_DURATION, AT(source.lease_us), .initial = "30s", .min = 0.1, .max = DAY,
     .text = "Layout status: how long a claimed row is left to its relay, which renews it; then others may take it."},
    {"source.concurrency", OPTION_INT, AT(source.concurrency), .initial = "0", .example = "4", .max = 1000000,
     .text = "Layout status: how many events may be claimed and not yet settled; 0: as many as fit into the batches."},
    {"source.existing_rows", OPTION_ENUM, AT(source.existing_rows), .initial = "deliver", .values = "deliver|skip",
     .text = "Mode cdc: whether rows that are in the table when a pipeline begins are delivered first. skip: a new pipeline delivers what is committed from its beginning on, and nothing else."},
    {"source.after_publish", OPTION_ENUM, AT(source.after_publish), .initial = "auto", .values = "auto|none|mark|delete",
     .text = "What becomes of a published row: mark (layout status, adopted tables), delete, or none, which only mode cdc can do. auto: mark when polling, none in mode cdc."},

#define X(role, name, what) \
    {"map." name, OPTION_STRING, AT(map.columns[ROLE_##role]), .example = name, .text = "Column of " what "."},
    COLUMN_ROLES(X)
#undef X
    {"map.status_values", OPTION_MAP, AT(map.status_values), .initial = "{}",
     .example = "{pending: NEW, processing: SENDING, published: SENT, failed: ERROR, dead: GAVE_UP}",
     .text = "Values of that status column, by state: pending, processing, published, failed, dead, expired."},
    {"map.header_columns", OPTION_MAP, AT(map.header_columns), .initial = "{}", .example = "{tenant: tenant_id, eventType: event_type}",
     .text = "Headers of the message that come from columns of the table, beside the event's own; NULL: no header. For outbox tables of your own."},
    {"map.missing_columns", OPTION_ENUM, AT(map.missing_columns), .initial = "error", .values = "error|ignore",
     .text = "What a column of map.header_columns means that the table does not have: an error, or neither a header nor a member of the object."},
    {"map.epoch", OPTION_ENUM, AT(map.epoch), .initial = "none", .values = "none|s|ms|us|ns",
     .text = "What a column counts that is a time and has an integer type: seconds, milliseconds, microseconds or nanoseconds since 1970 in UTC; "
             "it holds for every time that is read or written. none: there is no such column, and one is refused."},

    {"sink.url", OPTION_SECRET_URL, AT(sink.url), .example = "file:/var/lib/outrider/events",
     .text = "Where events go: the receiver's URL."},
    {"sink.send_timeout", OPTION_DURATION, AT(sink.send_timeout_us), .initial = "30s", .min = 0.001, .max = DAY,
     .reloadable = true, .text = "How long one try may take before it counts as failed."},
    {"sink.empty_is_tombstone", OPTION_BOOL, AT(sink.empty_is_tombstone), .initial = "false",
     .text = "Whether a payload that is empty, or white space only, is published as a tombstone (null), as a missing one always is. For sinks that know null."},

    {"route.topic", OPTION_STRING, AT(route.topic), .initial = "${aggregate_type}.${event_type}",
     .reloadable = true, .is_template = true, .check = outrider__template_check,
     .text = "Template of the topic for events that nothing else routes: ${aggregate_type}, ${event_type}, ${aggregate_id}, "
             "${partition_key}, ${header:NAME}, each also as ${event_type:kebab} (or snake, lower, upper)."},
    {"route.by_type", OPTION_MAP, AT(route.by_type), .initial = "{}", .example = "{OrderCreated: orders, OrderPaid: payments}",
     .reloadable = true, .is_template = true, .check = outrider__template_check,
     .text = "Topics (templates) by event type; comes before route.regex and route.topic."},
    {"route.regex_field", OPTION_STRING, AT(route.regex_field), .initial = "event_type",
     .reloadable = true, .is_template = true, .check = outrider__template_check_field,
     .text = "The field that route.regex is searched in: aggregate_type, event_type, aggregate_id, partition_key or header:NAME."},
    {"route.regex", OPTION_STRING, AT(route.regex), .example = "^(?<domain>[a-z]+)\\.",
     .reloadable = true, .is_template = true, .check = outrider__regex_check,
     .text = "Regular expression (PCRE2); where it is found, route.replacement is the topic."},
    {"route.replacement", OPTION_STRING, AT(route.replacement), .example = "${domain}-events",
     .reloadable = true, .is_template = true,
     .text = "The topic of events that route.regex matches, with $1, ${1} or ${name} for its groups, and the template's variables."},

    {"form", OPTION_ENUM, AT(form), .initial = "raw", .values = "raw|envelope|cloudevents|cloudevents-binary|object",
     .reloadable = true, .text = "What a message is: the payload untouched, a JSON envelope around it, a CloudEvent (structured or binary), or an "
             "object of the payload and some of the event's headers (object.members)."},
    {"cloudevents.source", OPTION_STRING, AT(source_uri), .initial = "outrider",
     .reloadable = true, .text = "The attribute 'source' of CloudEvents: a URI that names the producer."},
    {"object.members", OPTION_STRINGS, AT(object.members), .initial = "[]", .example = "[eventType, tenant]",
     .reloadable = true, .text = "With form object: headers of the event that stand beside the payload instead of among the message's headers, under their "
             "own names or as HEADER=NAME; null where the event has none of that name."},
    {"object.payload", OPTION_ENUM, AT(object.payload), .initial = "json", .values = "json|string",
     .reloadable = true, .text = "With form object: whether a payload that is JSON stands in it as such, or as a string."},

    {"headers.event_id", OPTION_STRING, AT(headers.event_id), .initial = "event-id", .reloadable = true, .check = outrider__header_name_check,
     .text = "Name of the header with the event's id; empty: no such header. An event's own header of this name gives way to it."},
    {"headers.event_type", OPTION_STRING, AT(headers.event_type), .initial = "event-type", .reloadable = true, .check = outrider__header_name_check,
     .text = "Name of the header with the event's type; empty: no such header."},
    {"headers.aggregate_type", OPTION_STRING, AT(headers.aggregate_type), .initial = "aggregate-type", .reloadable = true, .check = outrider__header_name_check,
     .text = "Name of the header with the aggregate's type; empty: no such header."},

    {"select.aggregate_types", OPTION_STRINGS, AT(select.aggregate_types), .initial = "[]", .example = "[order, payment]",
     .reloadable = true, .text = "Only events of these aggregate types are delivered, the others are settled as skipped; none means all."},
    {"select.event_types", OPTION_STRINGS, AT(select.event_types), .initial = "[]", .example = "[OrderCreated]",
     .reloadable = true, .text = "Only events of these types are delivered, the others are settled as skipped; none means all."},

    {"retry.delays", OPTION_DURATIONS, AT(retry.delays), .initial = "[1s, 5s, 30s, 5m, 30m]", .max = 365 * DAY,
     .reloadable = true, .text = "Waits between the tries of a failed event; the last one repeats."},
    {"retry.base", OPTION_DURATION, AT(retry.base_us), .initial = "0", .example = "5s", .max = 365 * DAY,
     .reloadable = true, .text = "First wait, where waits grow by retry.factor instead of standing in retry.delays; 0: they stand there."},
    {"retry.factor", OPTION_NUMBER, AT(retry.factor), .initial = "2", .min = 1, .max = 100,
     .reloadable = true, .text = "By what each wait is longer than the one before it (with retry.base)."},
    {"retry.max", OPTION_DURATION, AT(retry.max_us), .initial = "1h", .min = 0.001, .max = 365 * DAY,
     .reloadable = true, .text = "Longest wait (with retry.base)."},
    {"retry.jitter", OPTION_NUMBER, AT(retry.jitter), .initial = "0.2", .max = 1,
     .reloadable = true, .text = "Share of each wait that is random (with retry.base); a list is taken as it stands."},
    {"retry.max_attempts", OPTION_INT, AT(retry.max_attempts), .initial = "6", .min = 1, .max = 1000000,
     .reloadable = true, .text = "Tries of an event, the first one counted, before it becomes a dead letter."},
    {"retry.on_dead", OPTION_ENUM, AT(retry.on_dead), .initial = "skip", .values = "skip|block",
     .text = "Whether later events with the same key go on past a dead letter, or wait until it is retried or discarded."},

    {"dead_letter.topic", OPTION_STRING, AT(dead_letter.topic), .example = "${topic}.dead",
     .reloadable = true, .is_template = true, .check = outrider__template_check_dead_letter,
     .text = "Template of the topic to which dead letters are also published (${topic} is where the event should have gone); "
             "empty: they stay in the database only."},

    {"cleanup.retention", OPTION_DURATION, AT(cleanup.retention_us), .initial = "7d", .max = 36500 * DAY,
     .reloadable = true, .text = "How long settled events stay in the outbox; 0: for ever."},
    {"cleanup.every", OPTION_DURATION, AT(cleanup.every_us), .initial = "1h", .min = 0.001, .max = 365 * DAY,
     .reloadable = true, .text = "Time between two clean-ups."},
    {"cleanup.at", OPTION_STRING, AT(cleanup.at), .example = "02:00", .reloadable = true, .check = options_day_time_check,
     .text = "Time of day, in UTC, at which events are cleaned up, once a day and instead of cleanup.every; a relay that is not active then "
             "waits for the next day. Empty: cleanup.every says when."},
    {"cleanup.batch", OPTION_INT, AT(cleanup.batch), .initial = "1000", .min = 1, .max = 100000,
     .reloadable = true, .text = "Rows removed in one transaction."},
    {"cleanup.pause", OPTION_DURATION, AT(cleanup.pause_us), .initial = "10ms", .max = HOUR,
     .reloadable = true, .text = "Wait between two such transactions, which leaves the database to the application."},
    {"cleanup.adopted", OPTION_BOOL, AT(cleanup.adopted), .initial = "false",
     .reloadable = true, .text = "Whether published rows are also removed from tables that Outrider did not make."},

    {"hybrid.lease", OPTION_DURATION, AT(hybrid.lease_us), .initial = "5s", .min = 0.1, .max = HOUR,
     .text = "For applications that publish by themselves (outrider/hybrid.h): how long an event that one has claimed is left to it."},
    {"hybrid.queue", OPTION_INT, AT(hybrid.queue), .initial = "1000", .min = 1, .max = 1000000,
     .text = "For applications that publish by themselves: how many events one may have claimed at a time; what is above is left to the relay."},

    {"ordered", OPTION_BOOL, AT(ordered), .initial = "true",
     .text = "Whether events with the same key are delivered in order."},
    {"exactly_once", OPTION_BOOL, AT(exactly_once), .initial = "false",
     .text = "Whether events are published in transactions, so that a reader of committed ones sees each of them once, whatever is killed "
             "when; for sinks that have transactions."},
    {"shutdown_timeout", OPTION_DURATION, AT(shutdown_timeout_us), .initial = "10s", .max = HOUR,
     .reloadable = true, .text = "How long a stop may wait for what is in flight."},
};

#undef AT
#define AT(field) offsetof(struct program_config, field)
static const struct option program_table[] = {
    {"log.level", OPTION_ENUM, AT(log.level), .initial = "info", .values = "error|warn|info|debug",
     .reloadable = true, .text = "What is logged: this and everything more severe."},
    {"log.format", OPTION_ENUM, AT(log.format), .initial = "logfmt", .values = "logfmt|json",
     .reloadable = true, .text = "Form of a line of the log."},
};
/* clang-format on */

const struct option *outrider__core_options(size_t *ret_n)
{
    *ret_n = sizeof table / sizeof *table;
    return table;
}

const struct option *outrider__program_options(size_t *ret_n)
{
    *ret_n = sizeof program_table / sizeof *program_table;
    return program_table;
}
