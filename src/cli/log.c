/* SPDX-License-Identifier: MIT */
#include "cli/log.h"

#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

#define LINE_CAP 16384
/* A key or an error text may be long; the head of it tells enough. */
#define VALUE_MAX 512

static const char *const level_names[] = {
    [LOG_LEVEL_ERROR] = "error",
    [LOG_LEVEL_WARN] = "warn",
    [LOG_LEVEL_INFO] = "info",
    [LOG_LEVEL_DEBUG] = "debug",
};

static void log_begin_field(struct log_entry *l, const char *name)
{
    if (l->format == LOG_FORMAT_JSON) {
        strbuf_append_char(&l->sb, l->sb.len ? ',' : '{');
        outrider__strbuf_append_json(&l->sb, bytes_str(name));
        strbuf_append_char(&l->sb, ':');
        return;
    }
    if (l->sb.len)
        strbuf_append_char(&l->sb, ' ');
    strbuf_append_str(&l->sb, name);
    strbuf_append_char(&l->sb, '=');
}

bool outrider__log_begin(struct log_entry *l, struct log *log, enum log_level level,
                         const char *msg)
{
    char now[CLOCK_TEXT_SIZE];
    if ((int)level > atomic_load(&log->level))
        return false;
    *l = (struct log_entry){.log = log, .format = atomic_load(&log->format)};
    outrider__strbuf_init(&l->sb, LINE_CAP);
    outrider__clock_format(outrider__clock_now().wall_us, now);
    outrider__log_text(l, "ts", now);
    outrider__log_text(l, "level", level_names[level]);
    outrider__log_text(l, "msg", msg);
    return true;
}

/* Whether a logfmt value may stand without quotes. */
static bool log_is_bare(struct bytes b)
{
    for (size_t i = 0; i < b.len; i++) {
        unsigned char c = (unsigned char)b.data[i];
        if (c <= ' ' || c >= 0x7f || c == '"' || c == '=' || c == '\\')
            return false;
    }
    return b.len > 0;
}

void outrider__log_bytes(struct log_entry *l, const char *name, struct bytes value)
{
    if (bytes_is_null(value))
        return;
    if (value.len > VALUE_MAX) {
        size_t n = VALUE_MAX;
        while (n > 0 && ((unsigned char)value.data[n] & 0xc0) == 0x80)
            n--;
        value.len = n;
    }
    log_begin_field(l, name);
    if (l->format == LOG_FORMAT_LOGFMT && log_is_bare(value))
        outrider__strbuf_append(&l->sb, value);
    else
        outrider__strbuf_append_json(&l->sb, value);
}

void outrider__log_text(struct log_entry *l, const char *name, const char *value)
{
    outrider__log_bytes(l, name, bytes_str(value));
}

void outrider__log_int(struct log_entry *l, const char *name, int64_t value)
{
    log_begin_field(l, name);
    outrider__strbuf_appendf(&l->sb, "%" PRId64, value);
}

void outrider__log_time(struct log_entry *l, const char *name, int64_t wall_us)
{
    char text[CLOCK_TEXT_SIZE];
    if (wall_us == 0)
        return;
    outrider__clock_format(wall_us, text);
    outrider__log_text(l, name, text);
}

void outrider__log_duration(struct log_entry *l, const char *name, int64_t us)
{
    char text[CLOCK_TEXT_SIZE];
    outrider__duration_format(us, text);
    outrider__log_text(l, name, text);
}

void outrider__log_error(struct log_entry *l, const struct outrider_error *why)
{
    if (why == NULL || why->code == OUTRIDER_OK)
        return;
    outrider__log_text(l, "error_code", outrider_code_name(why->code));
    outrider__log_text(l, "error", why->message);
    if (why->origin[0])
        outrider__log_text(l, "origin", why->origin);
}

void outrider__log_end(struct log_entry *l)
{
    if (l->format == LOG_FORMAT_JSON)
        strbuf_append_char(&l->sb, '}');
    strbuf_append_char(&l->sb, '\n');
    if (atomic_load(&l->log->clears_line))
        (void)!write(l->log->fd, "\r\033[K", 4);
    struct bytes line = strbuf_bytes(&l->sb);
    while (!l->sb.failed && line.len > 0) {
        ssize_t n = write(l->log->fd, line.data, line.len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        line = bytes_of(line.data + n, line.len - (size_t)n);
    }
    outrider__strbuf_release(&l->sb);
}

/* Durations in a log need no more than milliseconds. */
static int64_t log_duration_us(int64_t from_us, int64_t to_us)
{
    return (to_us - from_us) / 1000 * 1000;
}

static void log_note_up(struct log_pipeline *p, struct instant now, const char *msg,
                        const char *what, const char *url, int64_t *down_us)
{
    struct log_entry l;
    if (outrider__log_begin(&l, p->log, LOG_LEVEL_INFO, msg)) {
        outrider__log_text(&l, "pipeline", p->name);
        outrider__log_text(&l, what, url);
        if (*down_us)
            outrider__log_duration(&l, "outage", log_duration_us(*down_us, now.mono_us));
        outrider__log_end(&l);
    }
    *down_us = 0;
}

/* An outage is told when it begins and when it ends, and at debug in between. */
static void log_note_down(struct log_pipeline *p, struct instant now, const char *msg,
                          const char *what, const char *url, const struct outrider_error *why,
                          int64_t *down_us)
{
    struct log_entry l;
    /* One warning per outage, and one more where its reason becomes another. */
    bool is_news = *down_us == 0 || (why != NULL && why->code != p->down_code);
    if (*down_us == 0)
        *down_us = now.mono_us;
    p->down_code = why != NULL ? why->code : OUTRIDER_OK;
    if (!outrider__log_begin(&l, p->log, is_news ? LOG_LEVEL_WARN : LOG_LEVEL_DEBUG, msg))
        return;
    outrider__log_text(&l, "pipeline", p->name);
    outrider__log_text(&l, what, url);
    outrider__log_error(&l, why);
    outrider__log_end(&l);
}

static void log_note_plain(struct log_pipeline *p, enum log_level level, const char *msg,
                           const char *count_name, uint64_t count, const struct outrider_error *why)
{
    struct log_entry l;
    if (!outrider__log_begin(&l, p->log, level, msg))
        return;
    outrider__log_text(&l, "pipeline", p->name);
    if (count_name)
        outrider__log_int(&l, count_name, (int64_t)count);
    outrider__log_error(&l, why);
    outrider__log_end(&l);
}

static void log_note_warning(struct log_pipeline *p, const struct outrider_error *why)
{
    struct log_entry l;
    if (!outrider__log_begin(&l, p->log, LOG_LEVEL_WARN, "warning of the source"))
        return;
    outrider__log_text(&l, "pipeline", p->name);
    if (why != NULL)
        outrider__log_text(&l, "warning", why->message);
    outrider__log_end(&l);
}

static void log_on_note(void *ctx, struct instant now, enum relay_note note, uint64_t count,
                        const struct outrider_error *why)
{
    struct log_pipeline *p = ctx;
    switch (note) {
    case NOTE_SOURCE_CONNECTED:
        log_note_up(p, now, "connected and active", "source", p->source, &p->source_lost_us);
        break;
    case NOTE_SOURCE_LOST:
        log_note_down(p, now, "source lost, will reconnect", "source", p->source, why,
                      &p->source_lost_us);
        break;
    case NOTE_STANDBY:
        log_note_plain(p, LOG_LEVEL_INFO, "standing by, another relay is active", NULL, 0, why);
        break;
    case NOTE_SOURCE_WARNING:
        log_note_warning(p, why);
        break;
    case NOTE_SINK_UP:
        log_note_up(p, now, "sink is up", "sink", p->sink, &p->sink_down_us);
        break;
    case NOTE_SINK_DOWN:
        log_note_down(p, now, "sink is down, waiting", "sink", p->sink, why, &p->sink_down_us);
        break;
    case NOTE_CLEANUP:
        log_note_plain(p, count ? LOG_LEVEL_INFO : LOG_LEVEL_DEBUG, "cleaned up", "removed", count,
                       why);
        break;
    case NOTE_STOPPING:
        log_note_plain(p, LOG_LEVEL_INFO, "stopping", NULL, 0, why);
        break;
    case NOTE_STOPPED:
        /* Why it failed is told once, by whoever waits for the pipeline's end. */
        log_note_plain(p, LOG_LEVEL_INFO, "stopped", NULL, 0, NULL);
        break;
    }
}

static enum log_level log_outcome_level(enum outcome o)
{
    switch (o) {
    case OUTCOME_DEAD:
        return LOG_LEVEL_ERROR;
    case OUTCOME_PARKED:
        return LOG_LEVEL_WARN;
    case OUTCOME_EXPIRED:
        return LOG_LEVEL_INFO;
    default:
        return LOG_LEVEL_DEBUG;
    }
}

static void log_on_event(void *ctx, struct instant now, const struct event *e)
{
    (void)now;
    struct log_pipeline *p = ctx;
    struct log_entry l;
    if (!outrider__log_begin(&l, p->log, log_outcome_level(e->outcome), "event"))
        return;
    outrider__log_text(&l, "pipeline", p->name);
    outrider__log_bytes(&l, "event_id", e->id);
    outrider__log_bytes(&l, "type", e->event_type);
    outrider__log_bytes(&l, "key", event_key(e));
    outrider__log_text(&l, "status", outrider__outcome_name(e->outcome));
    outrider__log_int(&l, "attempts", e->attempts);
    if (e->outcome == OUTCOME_PARKED || e->outcome == OUTCOME_DEAD)
        outrider__log_error(&l, e->failure);
    if (e->outcome == OUTCOME_PARKED)
        outrider__log_time(&l, "next_attempt", e->next_attempt_us);
    outrider__log_text(&l, "sink", p->sink);
    outrider__log_end(&l);
}

static void log_on_settled(void *ctx, struct instant now, const struct batch *b)
{
    (void)now;
    struct log_pipeline *p = ctx;
    struct log_entry l;
    if (!outrider__log_begin(&l, p->log, LOG_LEVEL_DEBUG, "batch settled"))
        return;
    outrider__log_text(&l, "pipeline", p->name);
    outrider__log_int(&l, "events", (int64_t)b->n_settle);
    outrider__log_int(&l, "position", b->position);
    outrider__log_end(&l);
}

struct relay_observer outrider__log_observer(struct log_pipeline *p)
{
    return (struct relay_observer){
        .ctx = p,
        .note = log_on_note,
        .event = log_on_event,
        .wants_delivered = atomic_load(&p->log->level) >= LOG_LEVEL_DEBUG,
        .settled = log_on_settled,
    };
}
