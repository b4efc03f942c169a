/* SPDX-License-Identifier: MIT */
/* tail: reads what the file sink wrote. */
#include "cli/cli.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>

#include "base/arena.h"
#include "cli/out.h"
#include "sink/file/reader.h"

struct tail {
    struct file_reader *reader;
    bool has_bad_lines;
};

/* A damaged line is told and passed over; what follows it is still wanted. */
static int tail_next(struct tail *t, struct bytes *ret_line, struct outrider_error *err)
{
    int r;
    while ((r = outrider__file_reader_next(t->reader, ret_line, err)) < 0) {
        if (err->code == OUTRIDER_IO || err->code == OUTRIDER_NOMEM)
            return -1;
        outrider__cli_fail(err);
        t->has_bad_lines = true;
    }
    return r;
}

/* Moves on to the last n lines. */
static int tail_skip_to_last(struct tail *t, uint64_t n, struct outrider_error *err)
{
    struct arena arena;
    struct bytes line;
    struct file_line parsed = {0};
    uint64_t count = 0;
    int r;
    outrider__arena_init(&arena, 65536);
    while ((r = tail_next(t, &line, err)) == 1) {
        outrider__arena_reset(&arena);
        if (outrider__file_line_parse(line, &arena, &parsed, err) == 0)
            count = parsed.offset + 1;
    }
    outrider__arena_release(&arena);
    if (r < 0)
        return -1;
    t->has_bad_lines = false; /* told again below, where they are among the last */
    return outrider__file_reader_seek(t->reader, count > n ? count - n : 0, err);
}

static int tail_print_lines(struct tail *t, bool follow, struct outrider_error *err)
{
    for (;;) {
        struct bytes line;
        int r;
        while ((r = tail_next(t, &line, err)) == 1) {
            fwrite(line.data, 1, line.len, stdout);
            if (putchar('\n') == EOF)
                return 0; /* nobody reads any more: flush tells */
        }
        if (r < 0 || !follow || fflush(stdout) != 0)
            return r;
        struct pollfd fd = {.fd = outrider__file_reader_fd(t->reader), .events = POLLIN};
        if (poll(&fd, 1, -1) < 0 && errno != EINTR)
            return outrider__fail_errno(err, errno, "cannot wait for the log to grow");
    }
}

static int tail_topic(const struct args *a, const char *dir, const char *topic)
{
    struct outrider_error err = {0};
    struct tail t = {0};
    bool follow = outrider__args_has(a, F_FOLLOW);
    if (outrider__file_reader_open(dir, bytes_str(topic), follow, &t.reader, &err) < 0)
        return outrider__cli_fail(&err);
    int64_t n = outrider__args_number(a, F_LINES, -1);
    int r = n < 0 ? 0 : tail_skip_to_last(&t, (uint64_t)n, &err);
    if (r == 0)
        r = tail_print_lines(&t, follow, &err);
    outrider__file_reader_close(t.reader);
    if (r < 0)
        return outrider__cli_fail(&err);
    return t.has_bad_lines ? CLI_FAILED : CLI_DONE;
}

static int tail_list_topics(const char *dir)
{
    struct outrider_error err = {0};
    struct file_topics topics;
    struct arena arena;
    struct strbuf name;
    outrider__arena_init(&arena, 4096);
    int code = CLI_DONE;
    if (outrider__file_topics(dir, &arena, &topics, &err) < 0) {
        code = outrider__cli_fail(&err);
    } else {
        outrider__strbuf_init(&name, 4096);
        for (size_t i = 0; i < topics.n; i++) {
            outrider__strbuf_clear(&name);
            outrider__out_plain(&name, topics.names[i]);
            puts(strbuf_cstr(&name));
        }
        outrider__strbuf_release(&name);
        if (topics.n == 0)
            outrider__cli_say("no topics in %s", dir);
    }
    outrider__arena_release(&arena);
    return code;
}

int outrider__cmd_tail(const struct args *a)
{
    if (a->n_operands == 0)
        return outrider__cli_usage(a, "which directory? outrider tail DIR [TOPIC]");
    /* The sink's URL is what people have at hand. */
    const char *dir = a->operands[0];
    if (strncmp(dir, "file:", 5) == 0)
        dir += 5;
    if (a->n_operands == 1) {
        if (outrider__args_has(a, F_FOLLOW) || outrider__args_has(a, F_LINES))
            return outrider__cli_usage(a, "which topic? outrider tail %s TOPIC", dir);
        return tail_list_topics(dir);
    }
    return tail_topic(a, dir, a->operands[1]);
}
