/* SPDX-License-Identifier: MIT */
/* dead: list, show, retry and discard dead letters. */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/out.h"

#define ERROR_SHOWN 60

struct printer {
    bool as_json, with_payload;
    bool is_cut; /* a line for a person's terminal; a program gets whole values */
    uint64_t n;
    bool failed;
    struct strbuf text;
    struct json_out json;
};

static void dead_json_row(struct printer *p, const struct dead_row *r)
{
    struct json_out *j = &p->json;
    const struct event *e = r->event;
    outrider__jout_open(j, NULL, '{');
    outrider__jout_bytes(j, "id", e->id);
    outrider__jout_text(j, "pipeline", r->pipeline);
    outrider__jout_text(j, "state", r->state);
    outrider__jout_bytes(j, "aggregate_type", e->aggregate_type);
    outrider__jout_bytes(j, "aggregate_id", e->aggregate_id);
    outrider__jout_bytes(j, "event_type", e->event_type);
    outrider__jout_bytes(j, "key", event_key(e));
    outrider__jout_int(j, "attempts", e->attempts);
    outrider__jout_text(j, "error_code", r->error_code);
    outrider__jout_text(j, "error", r->error_message);
    outrider__jout_int(j, "seq", e->seq);
    outrider__jout_time(j, "created_at", e->created_at_us);
    outrider__jout_time(j, "parked_at", r->parked_at_us);
    outrider__jout_time(j, "updated_at", r->updated_at_us);
    outrider__jout_time(j, "next_attempt_at", r->next_attempt_us);
    if (p->with_payload) {
        outrider__jout_time(j, "occurred_at", e->occurred_at_us);
        outrider__jout_time(j, "expires_at", e->expires_at_us);
        outrider__jout_bytes(j, "topic", e->topic);
        outrider__jout_bytes(j, "partition_key", e->partition_key);
        if (e->partition >= 0)
            outrider__jout_int(j, "partition", e->partition);
        outrider__jout_raw(j, "headers", bytes_is_null(e->headers) ? BYTES_LIT("{}") : e->headers);
        outrider__jout_payload(j, e->payload);
    }
    outrider__jout_close(j);
    fputs(p->n ? ",\n" : "\n", stdout);
    if (j->sb.failed)
        p->failed = true;
    else
        fwrite(j->sb.data, 1, j->sb.len, stdout);
    outrider__strbuf_clear(&j->sb);
}

static void dead_field(struct strbuf *sb, const char *name, struct bytes value)
{
    if (bytes_is_null(value))
        return;
    outrider__strbuf_appendf(sb, "  %-15s ", name);
    outrider__out_plain(sb, value);
    strbuf_append_char(sb, '\n');
}

static void dead_time_field(struct strbuf *sb, const char *name, int64_t wall_us)
{
    char text[CLOCK_TEXT_SIZE];
    if (wall_us == 0)
        return;
    outrider__clock_format(wall_us, text);
    dead_field(sb, name, bytes_str(text));
}

static void dead_show_row(struct printer *p, const struct dead_row *r)
{
    struct strbuf *sb = &p->text;
    const struct event *e = r->event;
    outrider__strbuf_appendf(sb, "%.*s\n", (int)e->id.len, e->id.data);
    dead_field(sb, "pipeline", bytes_str(r->pipeline));
    dead_field(sb, "state", bytes_str(r->state));
    dead_field(sb, "aggregate type", e->aggregate_type);
    dead_field(sb, "aggregate id", e->aggregate_id);
    dead_field(sb, "event type", e->event_type);
    dead_field(sb, "topic", e->topic);
    dead_field(sb, "partition key", e->partition_key);
    outrider__strbuf_appendf(sb, "  %-15s %u\n", "attempts", e->attempts);
    dead_field(sb, "error code", bytes_str(r->error_code));
    dead_field(sb, "error", bytes_str(r->error_message));
    dead_time_field(sb, "occurred at", e->occurred_at_us);
    dead_time_field(sb, "created at", e->created_at_us);
    dead_time_field(sb, "expires at", e->expires_at_us);
    dead_time_field(sb, "parked at", r->parked_at_us);
    dead_time_field(sb, "updated at", r->updated_at_us);
    dead_time_field(sb, "next attempt at", r->next_attempt_us);
    dead_field(sb, "headers", e->headers);
    if (outrider__bytes_is_utf8(e->payload)) {
        dead_field(sb, "payload", e->payload);
    } else {
        outrider__strbuf_appendf(sb, "  %-15s ", "payload base64");
        outrider__strbuf_append_base64(sb, e->payload);
        strbuf_append_char(sb, '\n');
    }
}

static void dead_cut(struct printer *p, struct bytes value, size_t max)
{
    outrider__out_cut(&p->text, value, p->is_cut ? max : SIZE_MAX);
}

static void dead_list_row(struct printer *p, const struct dead_row *r)
{
    struct strbuf *sb = &p->text;
    const struct event *e = r->event;
    char when[CLOCK_TEXT_SIZE];
    outrider__clock_format(r->updated_at_us / 1000000 * 1000000, when);
    outrider__out_plain(sb, e->id);
    outrider__strbuf_appendf(sb, "  %-6s %s  %2u  ", r->state, when, e->attempts);
    dead_cut(p, e->event_type, 30);
    strbuf_append_str(sb, "  ");
    dead_cut(p, event_key(e), 24);
    outrider__strbuf_appendf(sb, "  %s: ", r->error_code ? r->error_code : "-");
    dead_cut(p, bytes_str(r->error_message), ERROR_SHOWN);
    strbuf_append_char(sb, '\n');
}

static void dead_print_row(void *ctx, const struct dead_row *r)
{
    struct printer *p = ctx;
    if (p->as_json) {
        dead_json_row(p, r);
    } else {
        if (p->with_payload)
            dead_show_row(p, r);
        else
            dead_list_row(p, r);
        if (p->text.failed)
            p->failed = true;
        else
            fwrite(strbuf_cstr(&p->text), 1, p->text.len, stdout);
        outrider__strbuf_clear(&p->text);
    }
    p->n++;
}

static int dead_print_all(const struct args *a, struct store *s, const struct dead_filter *f,
                          bool with_payload, struct outrider_error *err)
{
    struct printer p = {.as_json = outrider__args_has(a, F_JSON),
                        .with_payload = with_payload,
                        .is_cut = isatty(STDOUT_FILENO) == 1};
    outrider__strbuf_init(&p.text, (size_t)1 << 31);
    outrider__jout_init(&p.json);
    if (p.as_json)
        putchar('[');
    int r = s->ops->dead_list(s, f, dead_print_row, &p, err);
    if (p.as_json)
        fputs(p.n ? "\n]\n" : "]\n", stdout);
    if (r == 0 && p.failed)
        r = outrider__fail_nomem(err);
    if (r == 0 && p.n == 0 && f->n_ids > 0)
        r = outrider__fail(err, OUTRIDER_NOT_FOUND, OUTRIDER_STOP, "no dead letter has that id");
    else if (r == 0 && p.n == 0 && !p.as_json)
        outrider__cli_say("no dead letters in %s", s->description);
    outrider__strbuf_release(&p.text);
    outrider__jout_release(&p.json);
    return r;
}

static int dead_change(const struct args *a, struct store *s, const struct dead_filter *f,
                       bool is_retry, struct outrider_error *err)
{
    uint64_t n = 0;
    bool has_filter = f->n_ids || f->event_type || f->since_us;
    if (!has_filter && !outrider__args_has(a, F_ALL))
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "dead %s needs --id, --type, --since or, to mean every one, --all",
                              a->operands[0]);
    if ((is_retry ? s->ops->dead_retry : s->ops->dead_discard)(s, f, &n, err) < 0)
        return -1;
    if (n == 0 && f->n_ids > 0)
        return outrider__fail(err, OUTRIDER_NOT_FOUND, OUTRIDER_STOP, "no dead letter has that id");
    if (outrider__args_has(a, F_JSON))
        printf("{\"%s\":%" PRIu64 "}\n", is_retry ? "retried" : "discarded", n);
    else
        printf("%" PRIu64 " event%s %s\n", n, n == 1 ? "" : "s",
               is_retry ? "will be tried again" : "discarded");
    return 0;
}

static int run_dead(const struct args *a, const struct pipeline_config *c, struct store *s,
                    struct outrider_error *err)
{
    const char *verb = a->operands[0];
    const char **ids = calloc(a->n_given + 1, sizeof(*ids));
    struct dead_filter f = {
        .pipeline = outrider__args_text(a, F_NAME),
        .ids = ids,
        .event_type = outrider__args_text(a, F_TYPE),
        .since_us = outrider__args_time(a, F_SINCE, outrider__clock_now().wall_us),
        .with_parked = outrider__args_has(a, F_PARKED),
    };
    int r;
    (void)c;
    if (ids == NULL)
        return outrider__fail_nomem(err);
    while ((ids[f.n_ids] = outrider__args_at(a, F_ID, f.n_ids)) != NULL)
        f.n_ids++;
    if (strcmp(verb, "list") == 0) {
        r = dead_print_all(a, s, &f, false, err);
    } else if (strcmp(verb, "show") == 0) {
        /* Who names an event wants to see it, in whatever state it is. */
        f.with_parked |= f.n_ids > 0;
        r = dead_print_all(a, s, &f, true, err);
    } else {
        r = dead_change(a, s, &f, strcmp(verb, "retry") == 0, err);
    }
    free(ids);
    return r;
}

int outrider__cmd_dead(const struct args *a)
{
    if (a->n_operands == 0)
        return outrider__cli_usage(a, "say what to do: dead list, show, retry or discard");
    return outrider__with_store(a, run_dead);
}
