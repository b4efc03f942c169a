/* SPDX-License-Identifier: MIT */
/* put: one event from flags, or many from JSON lines. */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/uuid.h"
#include "core/event_json.h"
#include "cli/lines.h"
#include "cli/out.h"

/* A byte may take six in a JSON string; the rest of a line is small. */
#define LINE_CAP(c) \
    ((size_t)((c)->source.max_payload + (c)->source.max_headers) * 6 + ((size_t)1 << 20))

static int put_check_id(const struct outrider_event *e, struct outrider_error *err)
{
    if (e->id == NULL || outrider__uuid_is_valid(bytes_str(e->id)))
        return 0;
    return outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP, "the id is not a UUID");
}

/* Many, in transactions. */

struct many {
    struct store *store;
    const struct pipeline_config *config;
    struct lines lines;
    struct arena arena;
    struct progress progress;
    bool is_open; /* a transaction is */
    uint64_t batch, in_batch, committed, transactions;
};

static int put_commit(struct many *m, struct outrider_error *err)
{
    if (m->in_batch == 0)
        return 0;
    if (m->store->ops->put_commit(m->store, err) < 0)
        return -1;
    m->committed += m->in_batch;
    m->transactions++;
    m->in_batch = 0;
    m->is_open = false;
    outrider__progress(&m->progress, "%" PRIu64 " events put", m->committed);
    return 0;
}

static int put_line(struct many *m, struct bytes line, struct outrider_error *err)
{
    struct outrider_event event;
    char id[OUTRIDER_ID_SIZE];
    if (outrider__event_from_json(line, &m->arena, &event, err) < 0 ||
        put_check_id(&event, err) < 0 || outrider__event_fits(m->config, &event, err) < 0)
        return -1;
    if (!m->is_open && m->store->ops->put_begin(m->store, err) < 0)
        return -1;
    m->is_open = true;
    if (m->store->ops->put(m->store, &event, id, err) < 0)
        return -1;
    m->in_batch++;
    return 0;
}

static bool put_is_blank(struct bytes line)
{
    for (size_t i = 0; i < line.len; i++) {
        if (!strchr(" \t\r", line.data[i]) || line.data[i] == '\0')
            return false;
    }
    return true;
}

static void put_rollback(struct many *m)
{
    if (m->is_open)
        m->store->ops->put_rollback(m->store);
    m->is_open = false;
}

/* Names the line, and says what became of the lines before it. */
static int put_bad_line(struct many *m, struct outrider_error *err)
{
    struct outrider_error why = *err;
    put_rollback(m);
    outrider__fail(err, why.code, why.disposition,
                   "%s:%" PRIu64 ": %.300s (%" PRIu64 " events committed before it, %" PRIu64
                   " rolled back with it)",
                   m->lines.name, m->lines.number, why.message, m->committed, m->in_batch);
    return -1;
}

static int put_lines(struct many *m, struct outrider_error *err)
{
    struct bytes line;
    int r;
    while ((r = outrider__lines_next(&m->lines, &line, err)) == 1) {
        outrider__arena_reset(&m->arena);
        if (put_is_blank(line))
            continue;
        if (put_line(m, line, err) < 0)
            return put_bad_line(m, err);
        if (m->in_batch == m->batch && put_commit(m, err) < 0)
            return put_bad_line(m, err);
    }
    if (r == 0 && put_commit(m, err) < 0)
        r = put_bad_line(m, err);
    else if (r < 0)
        put_rollback(m);
    return r;
}

static int put_many(const struct args *a, const struct pipeline_config *c, struct store *s,
                    struct outrider_error *err)
{
    struct many m = {
        .store = s, .config = c, .batch = (uint64_t)outrider__args_number(a, F_BATCH, 1000)};
    if (outrider__lines_open(&m.lines, outrider__args_text(a, F_JSONL), LINE_CAP(c), err) < 0)
        return -1;
    outrider__arena_init(&m.arena, 65536);
    outrider__progress_init(&m.progress);
    int r = put_lines(&m, err);
    outrider__progress_end(&m.progress);
    outrider__arena_release(&m.arena);
    outrider__lines_close(&m.lines);
    if (r < 0)
        return -1;
    if (outrider__args_has(a, F_JSON))
        printf("{\"events\":%" PRIu64 ",\"transactions\":%" PRIu64 "}\n", m.committed,
               m.transactions);
    else
        outrider__cli_say("put %" PRIu64 " event%s", m.committed, m.committed == 1 ? "" : "s");
    return 0;
}

/* One. */

static int put_read_payload(const struct args *a, const struct pipeline_config *c,
                            struct outrider_event *e, char **ret_file, struct outrider_error *err)
{
    const char *value = outrider__args_text(a, F_PAYLOAD);
    bool is_file = value[0] == '@' || strcmp(value, "-") == 0;
    size_t len;
    if (!is_file) {
        e->payload = value;
        e->payload_len = strlen(value);
        return 0;
    }
    if (outrider__read_all(value[0] == '@' ? value + 1 : "-", (size_t)c->source.max_payload,
                           ret_file, &len, err) < 0)
        return -1;
    e->payload = *ret_file ? *ret_file : "";
    e->payload_len = len;
    return 0;
}

static int put_read_headers(const struct args *a, struct strbuf *out, struct outrider_error *err)
{
    const char *pair, *other;
    for (size_t i = 0; (pair = outrider__args_at(a, F_HEADER, i)) != NULL; i++) {
        size_t len = strcspn(pair, "=");
        for (size_t k = 0; k < i; k++) {
            other = outrider__args_at(a, F_HEADER, k);
            if (bytes_eq(bytes_of(other, strcspn(other, "=")), bytes_of(pair, len)))
                return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                                      "header '%.*s' is given twice", (int)len, pair);
        }
        strbuf_append_char(out, i ? ',' : '{');
        outrider__strbuf_append_json(out, bytes_of(pair, len));
        strbuf_append_char(out, ':');
        outrider__strbuf_append_json(out, bytes_str(pair + len + 1));
    }
    if (out->len)
        strbuf_append_char(out, '}');
    return out->failed ? outrider__fail_nomem(err) : 0;
}

/* A duration is from now on, not back from it. */
static int64_t put_expiry(const struct args *a, int64_t now_us)
{
    const char *text = outrider__args_text(a, F_EXPIRES_AT);
    int64_t us;
    if (text && outrider__duration_parse(bytes_str(text), &us) == 0)
        return now_us + us;
    return outrider__args_time(a, F_EXPIRES_AT, now_us);
}

static int put_insert(struct store *s, const struct outrider_event *e, char id[OUTRIDER_ID_SIZE],
                      struct outrider_error *err)
{
    if (s->ops->put_begin(s, err) < 0)
        return -1;
    if (s->ops->put(s, e, id, err) == 0 && s->ops->put_commit(s, err) == 0)
        return 0;
    s->ops->put_rollback(s);
    return -1;
}

static void put_print_id(const struct args *a, const char *id)
{
    if (outrider__args_has(a, F_JSON))
        printf("{\"id\":\"%s\"}\n", id);
    else
        puts(id);
}

static int put_one(const struct args *a, const struct pipeline_config *c, struct store *s,
                   struct outrider_error *err)
{
    struct outrider_event e = OUTRIDER_EVENT_INIT;
    int64_t now_us = outrider__clock_now().wall_us;
    char id[OUTRIDER_ID_SIZE], *file = NULL;
    struct strbuf headers;
    outrider__strbuf_init(&headers, LINE_CAP(c));
    e.aggregate_type = outrider__args_text(a, F_AGGREGATE_TYPE);
    e.aggregate_id = outrider__args_text(a, F_AGGREGATE_ID);
    e.event_type = outrider__args_text(a, F_TYPE);
    e.id = outrider__args_text(a, F_ID);
    e.topic = outrider__args_text(a, F_TOPIC);
    e.partition_key = outrider__args_text(a, F_KEY);
    e.partition = (int32_t)outrider__args_number(a, F_PARTITION, -1);
    e.occurred_at_us = outrider__args_time(a, F_OCCURRED_AT, now_us);
    e.expires_at_us = put_expiry(a, now_us);
    int r = put_read_headers(a, &headers, err);
    e.headers = headers.len ? headers.data : NULL;
    if (r == 0)
        r = put_read_payload(a, c, &e, &file, err);
    if (r == 0)
        r = put_check_id(&e, err);
    if (r == 0)
        r = outrider__event_fits(c, &e, err);
    if (r == 0)
        r = put_insert(s, &e, id, err);
    if (r == 0)
        put_print_id(a, id);
    free(file);
    outrider__strbuf_release(&headers);
    return r;
}

int outrider__cmd_put(const struct args *a)
{
    static const struct {
        enum flag_id id;
        const char *name;
    } needed[] = {
        {F_AGGREGATE_TYPE, "--aggregate-type"},
        {F_AGGREGATE_ID, "--aggregate-id"},
        {F_TYPE, "--type"},
        {F_PAYLOAD, "--payload"},
    };
    bool is_many = outrider__args_has(a, F_JSONL);
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
        bool has = outrider__args_has(a, needed[i].id);
        if (is_many && has)
            return outrider__cli_usage(a, "--jsonl and %s do not go together", needed[i].name);
        if (!is_many && !has)
            return outrider__cli_usage(a, "put needs %s (or --jsonl FILE)", needed[i].name);
    }
    return outrider__with_store(a, is_many ? put_many : put_one);
}
