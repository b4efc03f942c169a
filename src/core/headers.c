/* SPDX-License-Identifier: MIT */
#include "core/headers.h"

#include <strings.h>

#include "base/hex.h"
#include "base/json.h"

#define CONTENT_TYPE "content-type"

int outrider__header_name_check(struct bytes name, struct outrider_error *err)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.data[i];
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))
            continue;
        if (c == '\0' || strchr("!#$%&'*+-.^_`|~", c) == NULL)
            return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                                  "'%.*s' is not a header's name: letters, digits and "
                                  "!#$%%&'*+-.^_`|~ only",
                                  name.len > 60 ? 60 : (int)name.len, name.data);
    }
    return name.len <= 255 ? 0
                           : outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                                            "a header's name is longer than 255 bytes");
}

static void headers_plan_add(struct header_plan *plan, const char *name, enum header_value value)
{
    if (name == NULL || name[0] == '\0')
        return;
    plan->ours[plan->n].name = bytes_str(name);
    plan->ours[plan->n].value = value;
    plan->names.len += strlen(name);
    plan->n++;
}

static void headers_plan_all(struct header_plan *plan, const struct pipeline_config *c)
{
    headers_plan_add(plan, c->headers.event_id, HEADER_EVENT_ID);
    headers_plan_add(plan, c->headers.event_type, HEADER_EVENT_TYPE);
    headers_plan_add(plan, c->headers.aggregate_type, HEADER_AGGREGATE_TYPE);
    if (c->form == FORM_CLOUDEVENTS)
        headers_plan_add(plan, CONTENT_TYPE, HEADER_STRUCTURED_TYPE);
    if (c->form != FORM_CLOUDEVENTS_BINARY)
        return;
    headers_plan_add(plan, "ce-specversion", HEADER_SPECVERSION);
    headers_plan_add(plan, "ce-id", HEADER_EVENT_ID);
    headers_plan_add(plan, "ce-source", HEADER_SOURCE);
    headers_plan_add(plan, "ce-type", HEADER_EVENT_TYPE);
    headers_plan_add(plan, "ce-subject", HEADER_SUBJECT);
    headers_plan_add(plan, "ce-time", HEADER_TIME);
    plan->with_content_type = true;
}

static int headers_plan_columns(struct header_plan *plan, const struct string_map *columns,
                                struct arena *arena, struct outrider_error *err)
{
    plan->columns = outrider__arena_alloc(arena, columns->n * sizeof *plan->columns);
    if (plan->columns == NULL)
        return outrider__fail_nomem(err);
    for (; plan->n_columns < columns->n; plan->n_columns++)
        if (outrider__arena_dup(arena, bytes_str(columns->items[plan->n_columns].name),
                                &plan->columns[plan->n_columns]) < 0)
            return outrider__fail_nomem(err);
    return 0;
}

/* Where it stands among them, or how many there are. */
static size_t headers_column_rank(const struct header_plan *plan, struct bytes name)
{
    size_t i = 0;
    while (i < plan->n_columns && !bytes_eq(plan->columns[i], name))
        i++;
    return i;
}

/* "header", or "header=member". */
static int headers_plan_member(struct header_plan *plan, const char *item, struct arena *arena,
                               struct outrider_error *err)
{
    struct object_member *o = &plan->members[plan->n_members];
    struct bytes text;
    if (outrider__arena_dup(arena, bytes_str(item), &text) < 0)
        return outrider__fail_nomem(err);
    const char *equals = text.len > 0 ? memchr(text.data, '=', text.len) : NULL;
    o->header = equals != NULL ? bytes_of(text.data, (size_t)(equals - text.data)) : text;
    o->name = equals != NULL ? bytes_of(equals + 1, text.len - o->header.len - 1) : text;
    o->is_column = headers_column_rank(plan, o->header) < plan->n_columns;
    bool is_taken = bytes_eq_str(o->name, "payload") || o->name.len == 0;
    for (size_t i = 0; i < plan->n_members; i++)
        is_taken |= bytes_eq(plan->members[i].name, o->name);
    if (is_taken)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "option 'object.members': '%.80s' needs a name that no other member "
                              "has; 'payload' is the payload's: write HEADER=NAME",
                              item);
    plan->n_members++;
    return 0;
}

static int headers_plan_members(struct header_plan *plan, const struct pipeline_config *c,
                                struct arena *arena, struct outrider_error *err)
{
    size_t n = c->form == FORM_OBJECT ? c->object.members.n : 0;
    plan->members = outrider__arena_alloc(arena, n * sizeof *plan->members);
    if (plan->members == NULL)
        return outrider__fail_nomem(err);
    for (size_t i = 0; i < n; i++)
        if (headers_plan_member(plan, c->object.members.items[i], arena, err) < 0)
            return -1;
    return 0;
}

int outrider__headers_plan(const struct pipeline_config *c, struct arena *arena,
                           struct header_plan *ret_plan, struct outrider_error *err)
{
    struct header_plan plan = {.n = 0};
    const char *source = c->source_uri != NULL ? c->source_uri : "";
    headers_plan_all(&plan, c);
    char *p = outrider__arena_alloc(arena, plan.names.len);
    if (p == NULL || outrider__arena_dup(arena, bytes_str(source), &plan.source) < 0)
        return outrider__fail_nomem(err);
    if (headers_plan_columns(&plan, &c->map.header_columns, arena, err) < 0 ||
        headers_plan_members(&plan, c, arena, err) < 0)
        return -1;
    plan.names.data = p;
    for (size_t i = 0; i < plan.n; i++) {
        struct bytes *name = &plan.ours[i].name;
        memcpy(p, name->data, name->len);
        name->data = p;
        p += name->len;
    }
    *ret_plan = plan;
    return 0;
}

static bool headers_same_name(struct bytes a, struct bytes b)
{
    return a.len == b.len && (a.len == 0 || strncasecmp(a.data, b.data, a.len) == 0);
}

static bool headers_is_left_out(const struct header_plan *plan, struct bytes name, struct bytes raw,
                                bool is_column)
{
    for (size_t i = 0; i < plan->n; i++)
        if (is_column ? bytes_eq(plan->ours[i].name, name)
                      : headers_same_name(plan->ours[i].name, name))
            return true;
    for (size_t i = 0; i < plan->n_members; i++)
        if (bytes_eq(plan->members[i].header, name))
            return true;
    return is_column && bytes_eq_str(raw, "null");
}

/* Those of columns come first, as configured; the rest stays as it is. Nearly always all
 * of them are in place. */
static void headers_put_in_order(const struct header_plan *plan, struct header *out, size_t n)
{
    for (size_t i = 1; plan->n_columns > 0 && i < n; i++) {
        struct header h = out[i];
        size_t rank = headers_column_rank(plan, h.name), k = i;
        for (; k > 0 && headers_column_rank(plan, out[k - 1].name) > rank; k--)
            out[k] = out[k - 1];
        out[k] = h;
    }
}

static int headers_value_of(const struct header_plan *plan, enum header_value value,
                            const struct event *e, struct arena *arena, struct bytes *ret)
{
    char time[CLOCK_TEXT_SIZE];
    switch (value) {
    case HEADER_EVENT_ID:
        *ret = e->id;
        return 0;
    case HEADER_EVENT_TYPE:
        *ret = e->event_type;
        return 0;
    case HEADER_AGGREGATE_TYPE:
        *ret = e->aggregate_type;
        return 0;
    case HEADER_SUBJECT:
        return outrider__hex_show(e->aggregate_id, arena, ret);
    case HEADER_SOURCE:
        return outrider__arena_dup(arena, plan->source, ret);
    case HEADER_TIME:
        outrider__clock_format(event_time_us(e), time);
        return outrider__arena_dup(arena, bytes_str(time), ret);
    case HEADER_SPECVERSION:
        *ret = BYTES_LIT("1.0");
        return 0;
    case HEADER_STRUCTURED_TYPE:
        *ret = BYTES_LIT("application/cloudevents+json");
        return 0;
    }
    return -1;
}

/* Names are copied because the plan may be replaced while a sink holds the delivery. */
static int headers_put_ours(const struct header_plan *plan, const struct event *e,
                            struct arena *arena, struct header *out)
{
    struct bytes names;
    if (outrider__arena_dup(arena, plan->names, &names) < 0)
        return -1;
    for (size_t i = 0; i < plan->n; i++) {
        struct bytes name = plan->ours[i].name;
        out[i].name = bytes_of(names.data + (name.data - plan->names.data), name.len);
        if (headers_value_of(plan, plan->ours[i].value, e, arena, &out[i].value) < 0)
            return -1;
    }
    return 0;
}

static bool headers_has_own(const struct event *e)
{
    return e->headers.len > 0 && !bytes_eq(e->headers, BYTES_LIT("{}"));
}

#define COMMAS_MAX 64

/* No more members than this: one comma between two. Where there are many, they may stand
 * in values, each of which would take the room of a header: then members are counted. */
static size_t headers_own_bound(const struct event *e)
{
    struct json_members m;
    struct bytes key, raw;
    size_t n = 1;
    for (size_t i = 0; i < e->headers.len; i++)
        n += e->headers.data[i] == ',';
    if (n <= COMMAS_MAX || outrider__json_members_begin(&m, e->headers) < 0)
        return n <= COMMAS_MAX ? n : 0;
    for (n = 1; outrider__json_members_next(&m, &key, &raw) > 0;)
        n++;
    return n;
}

/* How many were put, or -1 for want of memory, or -2 where they are malformed. */
static ssize_t headers_put_own(const struct header_plan *plan, const struct event *e,
                               struct arena *arena, struct header *out, bool *ret_has_content_type)
{
    struct json_members m;
    struct bytes key, raw;
    size_t n = 0;
    int more;
    if (outrider__json_members_begin(&m, e->headers) < 0)
        return -2;
    while ((more = outrider__json_members_next(&m, &key, &raw)) > 0) {
        struct header *h = &out[n];
        if (outrider__json_unescape(key, arena, &h->name) < 0 ||
            outrider__json_text(raw, arena, &h->value) < 0)
            return -1;
        if (headers_is_left_out(plan, h->name, raw,
                                headers_column_rank(plan, h->name) < plan->n_columns))
            continue;
        if (headers_same_name(h->name, BYTES_LIT(CONTENT_TYPE)))
            *ret_has_content_type = true;
        n++;
    }
    headers_put_in_order(plan, out, n);
    return more < 0 ? -2 : (ssize_t)n;
}

static struct header headers_content_type_of(const struct event *e)
{
    struct header h = {BYTES_LIT(CONTENT_TYPE), BYTES_LIT("application/octet-stream")};
    if (outrider__json_is_valid(e->payload))
        h.value = BYTES_LIT("application/json");
    else if (outrider__bytes_is_utf8(e->payload))
        h.value = BYTES_LIT("text/plain; charset=utf-8");
    return h;
}

int outrider__headers_build(const struct header_plan *plan, const struct event *e, size_t spare,
                            bool lenient, struct arena *arena, struct header **ret_headers,
                            size_t *ret_n, struct outrider_error *err)
{
    bool own = headers_has_own(e), has_content_type = false;
    size_t room = plan->n + (own ? headers_own_bound(e) : 0) + 1 + spare;
    struct header *out = outrider__arena_alloc(arena, room * sizeof *out);
    if (out == NULL || headers_put_ours(plan, e, arena, out) < 0)
        return outrider__fail_nomem(err);
    size_t n = plan->n;
    ssize_t added = own ? headers_put_own(plan, e, arena, out + n, &has_content_type) : 0;
    if (added == -1)
        return outrider__fail_nomem(err);
    if (added < 0 && !lenient)
        return outrider__fail(err, OUTRIDER_NOT_JSON, OUTRIDER_DEAD,
                              "the event's headers are not a JSON object: correct the row's "
                              "headers, then retry the dead letter");
    n += added > 0 ? (size_t)added : 0;
    if (plan->with_content_type && !has_content_type && !bytes_is_null(e->payload))
        out[n++] = headers_content_type_of(e);
    *ret_headers = out;
    *ret_n = n;
    return 0;
}
