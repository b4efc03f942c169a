/* SPDX-License-Identifier: MIT */
/*
 * The outbox event router (io.debezium.transforms.outbox.EventRouter): which
 * columns are what, which topic, what stands in headers and beside the payload.
 * Names of options that older versions had are taken too.
 *
 * The router's own word for our aggregate type is the column that it routes by,
 * and for our aggregate id the column of its key: it knows no others.
 */
#include <stdio.h>

#include "cli/debezium_props.h"
#include "core/regex_route.h"

#define DEFAULT_REGEX "(?<routedByValue>.*)"
#define DEFAULT_REPLACEMENT "outbox.event.${routedByValue}"
#define TEXT_CAP 16384

static const struct {
    const char *name, *older, *initial, *option;
} columns[] = {
    {"table.field.event.id", NULL, "id", "map.id"},
    {"table.field.event.payload", "table.field.payload", "payload", "map.payload"},
    {"table.field.event.key", "table.field.payload.id", "aggregateid", "map.aggregate_id"},
    {"route.by.field", NULL, "aggregatetype", "map.aggregate_type"},
    {"table.field.event.timestamp", NULL, NULL, "map.occurred_at"},
};

/* What our tables may have and the router does not look at. */
static const char *const unknown_roles[] = {"map.headers", "map.topic", "map.partition_key",
                                            "map.partition", "map.expires_at"};

/* A column that may be missing: see "map.h" of PostgreSQL. */
static int router_set_optional(struct debezium *d, const char *option, const char *column,
                               struct outrider_error *err)
{
    char name[DEBEZIUM_NAME_MAX];
    (void)snprintf(name, sizeof name, "%.200s?", column);
    return outrider__debezium_set(d, option, name, err);
}

static int router_set_columns(struct debezium *d, struct outrider_error *err)
{
    const char *type = outrider__debezium_get_router(d, "table.field.event.type", NULL);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        const char *value = outrider__debezium_get_router(d, columns[i].name, columns[i].older);
        if (value == NULL)
            value = columns[i].initial;
        if (value != NULL && outrider__debezium_set(d, columns[i].option, value, err) < 0 &&
            outrider__debezium_note(d, err) < 0)
            return -1;
    }
    /* A time that is a plain number is one of milliseconds there. */
    if (outrider__debezium_set(d, "map.epoch", "ms", err) < 0)
        return -1;
    for (size_t i = 0; i < sizeof unknown_roles / sizeof *unknown_roles; i++)
        if (outrider__debezium_set(d, unknown_roles[i], "-", err) < 0)
            return -1;
    /* The router has this option and never reads the column. */
    if (type != NULL && router_set_optional(d, "map.event_type", type, err) < 0)
        return -1;
    if (outrider__debezium_get_router(d, "table.field.event.schema.version",
                                      "table.field.schema.version") != NULL)
        outrider__debezium_warn(d,
                                "table.field.event.schema.version: messages have no schema here, "
                                "so its version stands nowhere");
    return outrider__debezium_set(d, "headers.event_id", "id", err) < 0 ||
                   outrider__debezium_set(d, "headers.event_type", "", err) < 0 ||
                   outrider__debezium_set(d, "headers.aggregate_type", "", err) < 0
               ? -1
               : 0;
}

static int router_fail_option(const char *name, const struct outrider_error *why,
                              struct outrider_error *err)
{
    return outrider__fail(err, why->code, why->disposition, "%s: %s", name, why->message);
}

/* Where the pattern takes all of the value, a template says it, and needs no search. */
static bool router_takes_all(const char *regex)
{
    return strcmp(regex, DEFAULT_REGEX) == 0 || strcmp(regex, "(.*)") == 0 ||
           strcmp(regex, ".*") == 0;
}

static int router_set_template(struct debezium *d, const char *replacement,
                               struct outrider_error *err)
{
    static const char *const whole[] = {"${routedByValue}", "${0}", "${1}"};
    struct strbuf topic;
    outrider__strbuf_init(&topic, TEXT_CAP);
    for (const char *p = replacement; *p != '\0';) {
        size_t i = 0, n = sizeof whole / sizeof *whole;
        while (i < n && strncmp(p, whole[i], strlen(whole[i])) != 0)
            i++;
        if (strncmp(p, "$$", 2) == 0) {
            strbuf_append_str(&topic, "$$");
            p += 2;
        } else if (i < n) {
            strbuf_append_str(&topic, "${aggregate_type}");
            p += strlen(whole[i]);
        } else {
            strbuf_append_char(&topic, *p++);
        }
    }
    int r = topic.failed ? outrider__fail_nomem(err)
                         : outrider__debezium_set(d, "route.topic", strbuf_cstr(&topic), err);
    outrider__strbuf_release(&topic);
    return r;
}

/* Java's router leaves a topic as it is where its pattern does not match. */
static int router_set_regex(struct debezium *d, const char *pattern, const char *replacement,
                            struct outrider_error *err)
{
    if (outrider__debezium_set(d, "route.topic", "${aggregate_type}", err) < 0 ||
        outrider__debezium_set(d, "route.regex_field", "aggregate_type", err) < 0 ||
        outrider__debezium_set(d, "route.regex", pattern, err) < 0)
        return -1;
    return outrider__debezium_set(d, "route.replacement", replacement, err);
}

static int router_set_route(struct debezium *d, struct outrider_error *err)
{
    const char *regex = outrider__debezium_get_router(d, "route.topic.regex", NULL);
    const char *java = outrider__debezium_get_router(d, "route.topic.replacement", NULL);
    struct strbuf pattern, replacement;
    struct outrider_error why = {0};
    unsigned groups = 0;
    int r = 0;
    if (regex == NULL)
        regex = DEFAULT_REGEX;
    if (java == NULL)
        java = DEFAULT_REPLACEMENT;
    outrider__strbuf_init(&pattern, TEXT_CAP);
    outrider__strbuf_init(&replacement, TEXT_CAP);
    if (outrider__java_pattern(regex, &pattern, &why) < 0 ||
        outrider__regex_groups(strbuf_bytes(&pattern), &groups, &why) < 0)
        r = router_fail_option("route.topic.regex", &why, err);
    else if (outrider__java_replacement(java, groups, &replacement, &why) < 0)
        r = router_fail_option("route.topic.replacement", &why, err);
    else if (router_takes_all(regex))
        r = router_set_template(d, strbuf_cstr(&replacement), err);
    else
        r = router_set_regex(d, strbuf_cstr(&pattern), strbuf_cstr(&replacement), err);
    outrider__strbuf_release(&pattern);
    outrider__strbuf_release(&replacement);
    return r;
}

static char *router_next_part(char **item)
{
    char *part = strsep(item, ":");
    return part != NULL ? outrider__debezium_trim(part) : NULL;
}

enum place { PLACE_HEADER, PLACE_ENVELOPE, PLACE_PARTITION };

struct placement {
    enum place where;
    const char *column, *name; /* name: the alias, or the column's */
};

#define PLACEMENT "table.fields.additional.placement"

/* "column:header", "column:envelope:alias", "column:partition". */
static int router_parse_placement(char *item, struct placement *ret, struct outrider_error *err)
{
    static const char *const places[] = {"header", "envelope", "partition"};
    char *column = router_next_part(&item), *where = router_next_part(&item),
         *alias = router_next_part(&item);
    size_t i = 0, n = sizeof places / sizeof *places;
    if (where == NULL || *column == '\0' || item != NULL || (alias != NULL && *alias == '\0'))
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              PLACEMENT ": '%.80s' is not column:header, column:envelope or "
                                        "column:partition, with :alias behind it or not",
                              column);
    while (i < n && strcasecmp(where, places[i]) != 0)
        i++;
    if (i == n)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              PLACEMENT ": '%.80s' is no place: header, envelope or partition",
                              where);
    *ret = (struct placement){(enum place)i, column, alias != NULL ? alias : column};
    return 0;
}

/* The column of the header of this name, or NULL. */
static const char *router_header_column(const struct debezium *d, const char *name)
{
    const struct string_map *headers = &d->config->map.header_columns;
    for (size_t i = 0; i < headers->n; i++)
        if (strcmp(headers->items[i].name, name) == 0)
            return headers->items[i].value;
    return NULL;
}

static bool router_has_member(const struct debezium *d, const char *name)
{
    const struct string_list *members = &d->config->object.members;
    for (size_t i = 0; i < members->n; i++) {
        const char *equals = strchr(members->items[i], '=');
        if (strcmp(equals != NULL ? equals + 1 : members->items[i], name) == 0)
            return true;
    }
    return false;
}

static int router_fail_twice(const char *name, struct outrider_error *err)
{
    return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                          PLACEMENT ": two columns have the name '%.80s': give one an alias", name);
}

static int router_place_header(struct debezium *d, const struct placement *p,
                               struct outrider_error *err)
{
    const char *other = router_header_column(d, p->name);
    if (other != NULL)
        return strcmp(other, p->column) == 0 ? 0 : router_fail_twice(p->name, err);
    return outrider__debezium_add(d, "map.header_columns", p->name, p->column, err);
}

/* A member of the object comes from a header of the event that is not among the message's.
 * Where the message has one of that name too, the other has a name in front. */
static int router_place_member(struct debezium *d, const struct placement *p,
                               struct outrider_error *err)
{
    char header[DEBEZIUM_NAME_MAX], item[2 * DEBEZIUM_NAME_MAX];
    if (strcmp(p->name, "payload") == 0)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              PLACEMENT ": 'payload' is the payload's own name in the envelope: "
                                        "give column '%.80s' another alias",
                              p->column);
    if (router_has_member(d, p->name))
        return router_fail_twice(p->name, err);
    bool is_taken = router_header_column(d, p->name) != NULL;
    (void)snprintf(header, sizeof header, "%s%.200s", is_taken ? "envelope." : "", p->name);
    (void)snprintf(item, sizeof item, "%s%s%.200s", header, is_taken ? "=" : "",
                   is_taken ? p->name : "");
    if (is_taken && router_header_column(d, header) != NULL)
        return router_fail_twice(p->name, err);
    if (outrider__debezium_add(d, "map.header_columns", header, p->column, err) < 0)
        return -1;
    return outrider__debezium_add(d, "object.members", NULL, item, err);
}

/* All of one place: headers first, so that members know which names are taken. */
static int router_place_all(struct debezium *d, const char *list, enum place where, bool must_exist,
                            struct outrider_error *err)
{
    char *item, *rest = outrider__debezium_copy(d, list);
    struct placement p = {PLACE_HEADER, "", ""};
    if (rest == NULL)
        return outrider__fail_nomem(err);
    while ((item = outrider__debezium_next(&rest)) != NULL) {
        int r = router_parse_placement(item, &p, err);
        if (r < 0 && where != PLACE_HEADER)
            continue; /* told with the headers */
        if (r == 0 && p.where != where)
            continue;
        if (r == 0 && where == PLACE_PARTITION)
            r = must_exist ? outrider__debezium_set(d, "map.partition", p.column, err)
                           : router_set_optional(d, "map.partition", p.column, err);
        else if (r == 0)
            r = where == PLACE_HEADER ? router_place_header(d, &p, err)
                                      : router_place_member(d, &p, err);
        if (r < 0 && outrider__debezium_note(d, err) < 0)
            return -1;
    }
    return 0;
}

/* Two names: true or false until Debezium 3.4, error or ignore behind that. */
static int router_read_must_exist(struct debezium *d, bool *ret_must_exist,
                                  struct outrider_error *err)
{
    static const char older[] = "table.fields.additional.error.on.missing";
    static const char newer[] = "table.field.additional.missing";
    const char *strict = outrider__debezium_get_router(d, older, NULL);
    const char *missing = outrider__debezium_get_router(d, newer, NULL);
    *ret_must_exist = true;
    if (strict != NULL && outrider__debezium_bool(older, strict, ret_must_exist, err) < 0)
        return -1;
    if (missing == NULL)
        return 0;
    if (strcasecmp(missing, "error") != 0 && strcasecmp(missing, "ignore") != 0)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "%s: '%.40s' is not error or ignore", newer, missing);
    *ret_must_exist = strcasecmp(missing, "error") == 0;
    return 0;
}

static int router_set_placement(struct debezium *d, bool *ret_has_envelope,
                                struct outrider_error *err)
{
    const char *list = outrider__debezium_get_router(d, PLACEMENT, NULL);
    bool must_exist;
    if (router_read_must_exist(d, &must_exist, err) < 0)
        return -1;
    for (int where = PLACE_HEADER; list != NULL && where <= PLACE_PARTITION; where++)
        if (router_place_all(d, list, (enum place)where, must_exist, err) < 0)
            return -1;
    *ret_has_envelope = d->config->object.members.n > 0;
    if (*ret_has_envelope && outrider__debezium_set(d, "form", "object", err) < 0)
        return -1;
    return must_exist ? 0 : outrider__debezium_set(d, "map.missing_columns", "ignore", err);
}

static bool router_is_class(const char *value, const char *name)
{
    size_t n = strlen(value), k = strlen(name);
    return n >= k && strcmp(value + n - k, name) == 0 && (n == k || value[n - k - 1] == '.');
}

enum converter { CONVERTER_BYTES, CONVERTER_STRING, CONVERTER_JSON };

static int router_read_converter(struct debezium *d, const char *name,
                                 enum converter *ret_converter, struct outrider_error *err)
{
    static const char *const plain[] = {"ByteArrayConverter",    "BinaryDataConverter",
                                        "ByteBufferConverter",   "StringConverter",
                                        "SimpleHeaderConverter", "JsonConverter"};
    const char *value = outrider__debezium_get(d, name);
    size_t i = 0, n = sizeof plain / sizeof *plain;
    *ret_converter = CONVERTER_BYTES;
    if (value == NULL)
        return 0;
    while (i < n && !router_is_class(value, plain[i]))
        i++;
    if (i == n)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "%s: %.100s would publish other bytes than the outbox holds, which "
                              "is not done here; StringConverter, ByteArrayConverter, "
                              "BinaryDataConverter and JsonConverter are taken",
                              name, value);
    *ret_converter = i == n - 1 ? CONVERTER_JSON : i >= 3 ? CONVERTER_STRING : CONVERTER_BYTES;
    if (*ret_converter == CONVERTER_JSON)
        outrider__debezium_warn(d,
                                "%s: JsonConverter: %s published as it is, without quotes and "
                                "without a schema around it",
                                name,
                                strcmp(name, "value.converter") == 0 ? "the payload is"
                                : strcmp(name, "key.converter") == 0 ? "the key is"
                                                                     : "headers are");
    return 0;
}

static int router_set_converters(struct debezium *d, bool has_envelope, bool expands,
                                 struct outrider_error *err)
{
    enum converter value, other;
    if (router_read_converter(d, "value.converter", &value, err) < 0 ||
        router_read_converter(d, "key.converter", &other, err) < 0 ||
        router_read_converter(d, "header.converter", &other, err) < 0)
        return -1;
    for (size_t i = 0; i < d->n; i++)
        if (strncmp(d->props[i].name, "value.converter.", 16) == 0 ||
            strncmp(d->props[i].name, "key.converter.", 14) == 0 ||
            strncmp(d->props[i].name, "header.converter.", 17) == 0)
            d->props[i].is_used = true;
    if (!has_envelope)
        return 0;
    if (value == CONVERTER_STRING)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "value.converter: a StringConverter cannot write columns that are "
                              "placed in the envelope: use a JsonConverter, or place them in "
                              "headers");
    return outrider__debezium_set(d, "object.payload", expands ? "json" : "string", err);
}

/* One of the words, or an error; NULL: not given. */
static int router_check_word(struct debezium *d, const char *name, const char *older,
                             const char *const words[], const char **ret_word,
                             struct outrider_error *err)
{
    const char *value = outrider__debezium_get_router(d, name, older);
    *ret_word = NULL;
    for (size_t i = 0; value != NULL && words[i] != NULL; i++)
        if (strcasecmp(value, words[i]) == 0)
            *ret_word = words[i];
    if (value == NULL || *ret_word != NULL)
        return 0;
    return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP, "%s: '%.40s' is not %s%s%s%s%s",
                          name, value, words[0], words[2] != NULL ? ", " : " or ", words[1],
                          words[2] != NULL ? " or " : "", words[2] != NULL ? words[2] : "");
}

static int router_set_behaviours(struct debezium *d, struct outrider_error *err)
{
    static const char *const nulls[] = {"ignore", "optional_bytes", NULL};
    static const char *const arrays[] = {"ignore", "optional_string", NULL};
    static const char *const updates[] = {"warn", "error", "fatal", NULL};
    const char *word;
    /* JSON is published as the table has it: nothing of it is left out. */
    if (router_check_word(d, "table.json.payload.null.behavior", NULL, nulls, &word, err) < 0 ||
        router_check_word(d, "table.json.payload.empty.array.behavior", NULL, arrays, &word, err) <
            0 ||
        router_check_word(d, "table.op.invalid.behavior", "debezium.op.invalid.behavior", updates,
                          &word, err) < 0)
        return -1;
    if (word != NULL && strcmp(word, "fatal") == 0)
        outrider__debezium_warn(d, "table.op.invalid.behavior: only inserts are read here, so an "
                                   "update of the outbox stops nothing");
    return 0;
}

/* Debezium makes spans only where OpenTelemetry stands beside it. */
static void router_warn_of_tracing(struct debezium *d)
{
    static const char *const names[] = {"tracing.operation.name",
                                        "tracing.with.context.field.only"};
    const char *column = outrider__debezium_get_router(d, "tracing.span.context.field", NULL);
    if (column != NULL)
        outrider__debezium_warn(d,
                                "tracing.span.context.field: no spans are made here; to hand the "
                                "context on as it stands in the table, place its column: "
                                "table.fields.additional.placement: %.80s:header",
                                column);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (outrider__debezium_get_router(d, names[i], NULL) != NULL)
            outrider__debezium_warn(d, "%s: no spans are made here", names[i]);
}

static int router_set_flags(struct debezium *d, bool *ret_expands, struct outrider_error *err)
{
    const char *tombstone =
        outrider__debezium_get_router(d, "route.tombstone.on.empty.payload", NULL);
    const char *expand = outrider__debezium_get_router(d, "table.expand.json.payload", NULL);
    bool is_wanted;
    router_warn_of_tracing(d);
    if (tombstone != NULL) {
        if (outrider__debezium_bool("route.tombstone.on.empty.payload", tombstone, &is_wanted,
                                    err) < 0 ||
            outrider__debezium_set(d, "sink.empty_is_tombstone", is_wanted ? "true" : "false",
                                   err) < 0)
            return -1;
    }
    if (expand != NULL &&
        outrider__debezium_bool("table.expand.json.payload", expand, ret_expands, err) < 0)
        return -1;
    return router_set_behaviours(d, err);
}

int outrider__debezium_router(struct debezium *d, struct outrider_error *err)
{
    bool has_envelope = false, expands = false;
    if (router_set_columns(d, err) < 0 && outrider__debezium_note(d, err) < 0)
        return -1;
    if (router_set_route(d, err) < 0 && outrider__debezium_note(d, err) < 0)
        return -1;
    if (router_set_placement(d, &has_envelope, err) < 0 && outrider__debezium_note(d, err) < 0)
        return -1;
    if (router_set_flags(d, &expands, err) < 0 && outrider__debezium_note(d, err) < 0)
        return -1;
    if (router_set_converters(d, has_envelope, expands, err) < 0)
        return outrider__debezium_note(d, err);
    return 0;
}
