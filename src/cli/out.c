/* SPDX-License-Identifier: MIT */
#include "cli/out.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"

/* Above any payload that max_payload allows, in its base64 form. */
#define JSON_OUT_CAP ((size_t)3 << 30)

void outrider__jout_init(struct json_out *j)
{
    *j = (struct json_out){0};
    outrider__strbuf_init(&j->sb, JSON_OUT_CAP);
}

void outrider__jout_release(struct json_out *j)
{
    if (j)
        outrider__strbuf_release(&j->sb);
}

static void out_member(struct json_out *j, const char *name)
{
    if (j->depth > 0) {
        if (j->has_members[j->depth - 1])
            strbuf_append_char(&j->sb, ',');
        j->has_members[j->depth - 1] = true;
    }
    if (name) {
        outrider__strbuf_append_json(&j->sb, bytes_str(name));
        strbuf_append_char(&j->sb, ':');
    }
}

void outrider__jout_open(struct json_out *j, const char *name, char bracket)
{
    out_member(j, name);
    strbuf_append_char(&j->sb, bracket);
    if (j->depth == JSON_OUT_DEPTH)
        abort(); /* nesting is fixed by the code that calls this */
    j->close[j->depth] = bracket == '{' ? '}' : ']';
    j->has_members[j->depth++] = false;
}

void outrider__jout_close(struct json_out *j)
{
    strbuf_append_char(&j->sb, j->close[--j->depth]);
}

void outrider__jout_bytes(struct json_out *j, const char *name, struct bytes value)
{
    out_member(j, name);
    if (bytes_is_null(value))
        strbuf_append_str(&j->sb, "null");
    else
        outrider__strbuf_append_json(&j->sb, value);
}

void outrider__jout_text(struct json_out *j, const char *name, const char *value)
{
    outrider__jout_bytes(j, name, bytes_str(value));
}

void outrider__jout_raw(struct json_out *j, const char *name, struct bytes json)
{
    out_member(j, name);
    outrider__strbuf_append(&j->sb, json);
}

void outrider__jout_int(struct json_out *j, const char *name, int64_t value)
{
    out_member(j, name);
    outrider__strbuf_appendf(&j->sb, "%" PRId64, value);
}

void outrider__jout_bool(struct json_out *j, const char *name, bool value)
{
    out_member(j, name);
    strbuf_append_str(&j->sb, value ? "true" : "false");
}

void outrider__jout_time(struct json_out *j, const char *name, int64_t wall_us)
{
    char text[CLOCK_TEXT_SIZE];
    if (wall_us == 0) {
        outrider__jout_text(j, name, NULL);
        return;
    }
    outrider__clock_format(wall_us, text);
    outrider__jout_text(j, name, text);
}

void outrider__jout_payload(struct json_out *j, struct bytes payload)
{
    if (bytes_is_null(payload)) {
        outrider__jout_text(j, "payload", NULL);
    } else if (outrider__json_is_valid(payload)) {
        out_member(j, "payload");
        char *room = outrider__strbuf_reserve(&j->sb, payload.len + 1);
        ssize_t n = room ? outrider__json_minify(payload, room) : 0;
        if (n > 0) {
            j->sb.len += (size_t)n;
            j->sb.data[j->sb.len] = '\0';
        }
    } else if (outrider__bytes_is_utf8(payload)) {
        outrider__jout_bytes(j, "payload_text", payload);
    } else {
        out_member(j, "payload_base64");
        strbuf_append_char(&j->sb, '"');
        outrider__strbuf_append_base64(&j->sb, payload);
        strbuf_append_char(&j->sb, '"');
    }
}

int outrider__jout_print(struct json_out *j)
{
    int r = j->sb.failed ? -1 : 0;
    if (r == 0) {
        strbuf_append_char(&j->sb, '\n');
        fwrite(j->sb.data, 1, j->sb.len, stdout);
    }
    outrider__strbuf_clear(&j->sb);
    j->depth = 0;
    return r;
}

/* How many bytes at b form one printable UTF-8 character; 0: none. */
static size_t out_printable(struct bytes b)
{
    unsigned char c = (unsigned char)b.data[0];
    if (c < 0x80)
        return c >= 0x20 && c != 0x7f;
    /* U+0080 to U+009F are control characters to a terminal. */
    if (c == 0xc2 && b.len > 1 && (unsigned char)b.data[1] < 0xa0)
        return 0;
    for (size_t n = 2; n <= 4 && n <= b.len; n++) {
        if (outrider__bytes_is_utf8(bytes_of(b.data, n)))
            return n;
    }
    return 0;
}

void outrider__out_plain(struct strbuf *sb, struct bytes b)
{
    while (b.len > 0) {
        size_t n = out_printable(b);
        if (n)
            outrider__strbuf_append(sb, bytes_of(b.data, n));
        else
            outrider__strbuf_appendf(sb, "\\x%02x", (unsigned char)b.data[0]);
        n = n ? n : 1;
        b = bytes_of(b.data + n, b.len - n);
    }
}

void outrider__out_cut(struct strbuf *sb, struct bytes b, size_t max)
{
    if (b.len <= max) {
        outrider__out_plain(sb, b);
        return;
    }
    size_t n = max > 3 ? max - 3 : 0;
    /* Not in the middle of a character. */
    while (n > 0 && ((unsigned char)b.data[n] & 0xc0) == 0x80)
        n--;
    outrider__out_plain(sb, bytes_of(b.data, n));
    strbuf_append_str(sb, "...");
}

static bool out_is_coloured(int fd)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    return isatty(fd) && !(no && *no) && !(term && strcmp(term, "dumb") == 0);
}

const char *outrider__colour(int fd, enum colour c)
{
    static const char *const codes[] = {
        [COLOUR_RED] = "\033[31m", [COLOUR_GREEN] = "\033[32m", [COLOUR_YELLOW] = "\033[33m",
        [COLOUR_BOLD] = "\033[1m", [COLOUR_DIM] = "\033[2m",
    };
    return out_is_coloured(fd) ? codes[c] : "";
}

const char *outrider__colour_end(int fd)
{
    return out_is_coloured(fd) ? "\033[0m" : "";
}

void outrider__progress_init(struct progress *p)
{
    const char *term = getenv("TERM");
    *p = (struct progress){.on = isatty(STDERR_FILENO) && !(term && strcmp(term, "dumb") == 0)};
}

void outrider__progress(struct progress *p, const char *fmt, ...)
{
    char text[200];
    va_list ap;
    int64_t now = outrider__clock_now().mono_us;
    if (!p->on || (p->shown && now - p->last_us < 100000))
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    fprintf(stderr, "\r\033[K%s", text);
    fflush(stderr);
    p->shown = true;
    p->last_us = now;
}

void outrider__progress_end(struct progress *p)
{
    if (p->shown)
        fputs("\r\033[K", stderr);
    p->shown = false;
}
