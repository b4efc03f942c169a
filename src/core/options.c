/* SPDX-License-Identifier: MIT */
/*
 * The tables, and finding a row by what somebody typed. Rows stand in the order
 * in which the reference page and the sample file show them, section by section.
 */
#include "core/options.h"

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

static int day_time_check(struct bytes value, struct outrider_error *err)
{
    int64_t us;
    if (value.len == 0 || outrider__day_time_parse(value, &us) == 0)
        return 0;
    return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                          "'%.*s' is not a time of day such as 02:00",
                          value.len > 60 ? 60 : (int)value.len, value.data);
}

/* What SQL takes without quotes. */
static int publication_check(struct bytes value, struct outrider_error *err)
{
    bool is_name = value.len < 64;
    for (size_t i = 0; i < value.len; i++) {
        char c = value.data[i];
        is_name &= (c >= 'a' && c <= 'z') || c == '_' || (i > 0 && c >= '0' && c <= '9');
    }
    if (is_name)
        return 0;
    return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                          "'%.*s' is not a publication's name: at most 63 small letters, digits "
                          "and '_'",
                          value.len > 60 ? 60 : (int)value.len, value.data);
}

/* clang-format off */
static const struct option table[] = {
    {"source.url", OPTION_SECRET_URL, AT(source.url), .example = "sqlite:shop.db",
     .text = "Where the outbox is: the database's URL."},
    {"source.mode", OPTION_ENUM, AT(source.mode), .initial = "poll", .values = "poll|cdc",
     .text = "How committed events are found: by reading the outbox, or from the database's log of changes."},
    {"source.tables", OPTION_STRINGS, AT(source.tables), .initial = "[]", .example = "[outbox]",
     .text = "Tables that are read as outboxes; none means the table 'outbox'."},
    {"source.publication", OPTION_STRING, AT(source.publication), .example = "dbz_publication", .check = publication_check,
     .text = "postgresql, mode cdc: the publication that is read, which is made if it is missing; unset: outrider_ and the pipeline's name."},
    {"source.slot_failover", OPTION_BOOL, AT(source.slot_failover), .initial = "false",
     .text = "postgresql 17 and newer, mode cdc: the replication slot is kept on standbys too, so that the relay goes on there after a failover."},
    {"source.poll_interval", OPTION_DURATION, AT(source.poll_interval_us), .initial = "100ms", .min = 0.001, .max = HOUR,
     .reloadable = true, .text = "Maximum polling interval when idle. SQLite with inotify polls once a second after 5 s without a change."},
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
     .text = "postgresql: what must have an event on disk before it is delivered: the server itself, or also a standby, for those who fail over."},
    {"source.max_gaps", OPTION_INT, AT(source.max_gaps), .initial = "5000", .min = 1, .max = 1000000,
     .text = "postgresql: above this many ranges of seqs that open transactions may still fill, new events wait until some are decided."},
    {"source.min_age", OPTION_DURATION, AT(source.min_age_us), .initial = "0", .example = "5s", .max = DAY,
     .text = "Layout status: rows younger than this are left to an application that publishes them itself."},
    {"source.lease", OPTION_DURATION, AT(source.lease_us), .initial = "30s", .min = 0.1, .max = DAY,
     .text = "Layout status: how long a claimed row is left to its relay, which renews it; then others may take it."},
    {"source.concurrency", OPTION_INT, AT(source.concurrency), .initial = "0", .example = "4", .max = 1000000,
     .text = "Layout status: how many events may be claimed and not yet settled; 0: as many as fit into the batches."},
    {"source.existing_rows", OPTION_ENUM, AT(source.existing_rows), .initial = "deliver", .values = "deliver|skip",
     .text = "postgresql, mode cdc: whether rows that are in the table when a pipeline begins are delivered first. skip: a new pipeline delivers what is committed from its beginning on, and nothing else."},
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
     .text = "postgresql: headers of the message that come from columns of the table, beside the event's own; NULL: no header."},
    {"map.missing_columns", OPTION_ENUM, AT(map.missing_columns), .initial = "error", .values = "error|ignore",
     .text = "What a column of map.header_columns means that the table does not have: an error, or neither a header nor a member of the object."},
    {"map.epoch", OPTION_ENUM, AT(map.epoch), .initial = "none", .values = "none|s|ms|us|ns",
     .text = "postgresql: what a column counts that is a time and has an integer type: seconds, milliseconds, microseconds or nanoseconds since 1970 in UTC; "
             "it holds for every time that is read or written. none: there is no such column, and one is refused."},

    {"sink.url", OPTION_SECRET_URL, AT(sink.url), .example = "file:/var/lib/outrider/events",
     .text = "Where events go: the receiver's URL."},
    {"sink.send_timeout", OPTION_DURATION, AT(sink.send_timeout_us), .initial = "30s", .min = 0.001, .max = DAY,
     .reloadable = true, .text = "How long one try may take before it counts as failed."},
    {"sink.rotate_size", OPTION_SIZE, AT(sink.rotate_size), .initial = "64MiB", .min = KIB, .max = 1024 * GIB,
     .text = "file: a new segment is begun above this size."},
    {"sink.kafka", OPTION_MAP, AT(sink.kafka), .initial = "{}", .example = "{compression.type: lz4, linger.ms: 5}", .has_secrets = true,
     .text = "kafka: properties of librdkafka, which see; also one by one as sink.kafka.NAME."},
    {"sink.create_topics", OPTION_MAP, AT(sink.create_topics), .initial = "{}", .example = "{partitions: 6, replication: 3}",
     .text = "kafka: topics that are missing are made, with so many partitions and replicas; {auto: true} leaves it to the broker "
             "(auto.create.topics.enable); empty: they are not made."},
    {"sink.progress_topic", OPTION_STRING, AT(sink.progress_topic), .initial = "outrider.progress",
     .text = "kafka: the compacted topic in which exactly_once keeps the number of each pipeline's last transaction; made where it is missing."},
    {"sink.empty_is_tombstone", OPTION_BOOL, AT(sink.empty_is_tombstone), .initial = "false",
     .text = "kafka: whether a payload that is empty, or white space only, is published as a tombstone (null), as a missing one always is."},

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
    {"cleanup.at", OPTION_STRING, AT(cleanup.at), .example = "02:00", .reloadable = true, .check = day_time_check,
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
             "when; for sinks that have transactions (kafka)."},
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

#define N_OPTIONS (sizeof table / sizeof *table)
#define N_PROGRAM (sizeof program_table / sizeof *program_table)
#define NAME_MAX_LEN 64

const struct option *outrider__options(size_t *ret_n)
{
    *ret_n = N_OPTIONS;
    return table;
}

const struct option *outrider__program_options(size_t *ret_n)
{
    *ret_n = N_PROGRAM;
    return program_table;
}

/* Columns have the names of half the other options, and an application's lease that of
 * a relay's: they need their section. */
static const char *short_name(const struct option *o)
{
    if (strncmp(o->name, "map.", 4) == 0 || strncmp(o->name, "hybrid.", 7) == 0)
        return o->name;
    const char *dot = strchr(o->name, '.');
    return dot != NULL ? dot + 1 : o->name;
}

/* What stands before the dot of some option; a test compares the two. */
static const char *const section_names[] = {"source",      "map",         "sink",    "route",
                                            "cloudevents", "object",      "headers", "select",
                                            "retry",       "dead_letter", "cleanup", "hybrid"};
#define N_SECTIONS (sizeof section_names / sizeof *section_names)

bool outrider__option_is_section(struct bytes name)
{
    for (size_t i = 0; i < N_SECTIONS; i++)
        if (bytes_eq_str(name, section_names[i]))
            return true;
    return false;
}

const struct option *outrider__option_find(struct bytes name)
{
    const struct option *found = NULL;
    for (size_t i = 0; i < N_OPTIONS; i++)
        if (bytes_eq_str(name, table[i].name))
            return &table[i];
    if (outrider__option_is_section(name))
        return NULL;
    for (size_t i = 0; i < N_OPTIONS; i++) {
        if (!bytes_eq_str(name, short_name(&table[i])))
            continue;
        if (found != NULL)
            return NULL;
        found = &table[i];
    }
    return found;
}

const struct option *outrider__program_option_find(struct bytes name)
{
    for (size_t i = 0; i < N_PROGRAM; i++)
        if (bytes_eq_str(name, program_table[i].name))
            return &program_table[i];
    return NULL;
}

/* Lower case without - and _, so that maxAttempts is near max_attempts. */
static size_t normalise(struct bytes name, char out[NAME_MAX_LEN])
{
    size_t n = 0;
    for (size_t i = 0; i < name.len && n < NAME_MAX_LEN; i++) {
        char c = name.data[i];
        if (c != '-' && c != '_')
            out[n++] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    return n;
}

unsigned outrider__name_distance(struct bytes left, struct bytes right)
{
    char a[NAME_MAX_LEN], b[NAME_MAX_LEN];
    size_t n = normalise(left, a), m = normalise(right, b);
    unsigned rows[3][NAME_MAX_LEN + 1];
    for (size_t j = 0; j <= m; j++)
        rows[0][j] = (unsigned)j;
    for (size_t i = 1; i <= n; i++) {
        unsigned *row = rows[i % 3], *up = rows[(i + 2) % 3], *up2 = rows[(i + 1) % 3];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= m; j++) {
            unsigned best = up[j - 1] + (a[i - 1] != b[j - 1]);
            if (up[j] + 1 < best)
                best = up[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                up2[j - 2] + 1 < best)
                best = up2[j - 2] + 1;
            row[j] = best;
        }
    }
    return rows[n % 3][m];
}

struct nearest {
    const char *name;
    unsigned distance;
};

static void consider(struct nearest *best, struct bytes typed, struct bytes known,
                     const char *stands_for, unsigned penalty)
{
    unsigned d = outrider__name_distance(typed, known) + penalty;
    if (d < best->distance) {
        best->distance = d;
        best->name = stands_for;
    }
}

const char *outrider__option_nearest(struct bytes name)
{
    if (name.len == 0 || name.len > NAME_MAX_LEN)
        return NULL;
    const char *dot = memchr(name.data, '.', name.len);
    struct bytes last =
        dot != NULL ? bytes_of(dot + 1, name.len - (size_t)(dot - name.data) - 1) : name;
    /* A third of it may be wrong: more is a guess, not a slip. */
    size_t wrong = last.len < 3 ? last.len / 2 : last.len < 6 ? 2 : last.len / 3;
    struct nearest best = {NULL, (unsigned)wrong + 1};
    /* The first of those that are equally near stays, and a key of a file is a section. */
    for (size_t i = 0; dot == NULL && i < N_SECTIONS; i++)
        consider(&best, name, bytes_str(section_names[i]), section_names[i], 0);
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const struct option *o = &table[i];
        consider(&best, name, bytes_str(o->name), o->name, 0);
        /* The right name in the wrong section, or without one. */
        consider(&best, last, bytes_str(short_name(o)), o->name, dot != NULL ? 1 : 0);
    }
    return best.name;
}

/* "write 'source.batch' or 'cleanup.batch'" for a short name that several have. */
static size_t full_names(struct bytes name, struct strbuf *out)
{
    size_t n = 0;
    for (size_t i = 0; i < N_OPTIONS; i++)
        if (bytes_eq_str(name, short_name(&table[i])))
            outrider__strbuf_appendf(out, "%s'%s'", n++ > 0 ? " or " : "", table[i].name);
    return n;
}

int outrider__option_unknown(struct bytes name, struct outrider_error *err)
{
    struct strbuf names;
    const char *near = outrider__option_nearest(name);
    int shown = name.len > 80 ? 80 : (int)name.len;
    const char *text = name.len > 0 ? name.data : "";
    int r;
    outrider__strbuf_init(&names, 300);
    if (outrider__option_is_section(name))
        r = outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                           "'%.*s' is a section, not an option", shown, text);
    else if (full_names(name, &names) > 1)
        r = outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                           "option '%.*s' is not unique: write %s", shown, text,
                           strbuf_cstr(&names));
    else if (near != NULL)
        r = outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                           "unknown option '%.*s' (did you mean '%s'?)", shown, text, near);
    else
        r = outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP, "unknown option '%.*s'", shown,
                           text);
    outrider__strbuf_release(&names);
    return r;
}
