/* SPDX-License-Identifier: MIT */
/*
 * From argv to a command, and from an error to a line on stderr and an exit
 * code.
 */
#include "cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/words.h"
#include "cli/out.h"
#include "cli/secrets.h"

void outrider__cli_say(const char *fmt, ...)
{
    char text[1024];
    struct strbuf line;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    /* Messages quote names from outside, which must not reach a terminal as they are. */
    outrider__strbuf_init(&line, 8192);
    outrider__out_plain(&line, bytes_str(text));
    fprintf(stderr, "%soutrider:%s %s\n", outrider__colour(STDERR_FILENO, COLOUR_BOLD),
            outrider__colour_end(STDERR_FILENO), strbuf_cstr(&line));
    outrider__strbuf_release(&line);
}

int outrider__cli_fail_as(int code, const struct outrider_error *err)
{
    outrider__cli_say("%s", err->message[0] ? err->message : outrider_code_text(err->code));
    return code;
}

int outrider__cli_fail(const struct outrider_error *err)
{
    switch (err->code) {
    case OUTRIDER_CONFIG:
    case OUTRIDER_URL:
    case OUTRIDER_UNSUPPORTED:
        return outrider__cli_fail_as(CLI_USAGE, err);
    default:
        return outrider__cli_fail_as(CLI_FAILED, err);
    }
}

int outrider__cli_usage(const struct args *a, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    outrider__cli_say("%s; see outrider %s --help", text, a->command->name);
    return CLI_USAGE;
}

int outrider__cli_flush(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    /* A reader such as head(1) has what it wanted. */
    if (errno != EPIPE)
        outrider__cli_say("cannot write to standard output: %s", strerror(errno));
    return code == CLI_DONE || code == CLI_PARKED ? CLI_FAILED : code;
}

/* Copies of the arguments, in the arena; the originals then lose their secrets. */
static char **cli_take_argv(int argc, char **argv, struct arena *arena)
{
    char **copy = outrider__arena_alloc(arena, ((size_t)argc + 1) * sizeof(*copy));
    if (copy == NULL)
        return NULL;
    for (int i = 0; i < argc; i++) {
        size_t len = strlen(argv[i]) + 1;
        copy[i] = outrider__arena_alloc(arena, len);
        if (copy[i] == NULL)
            return NULL;
        memcpy(copy[i], argv[i], len);
    }
    copy[argc] = NULL;
    for (int i = 1; i < argc; i++)
        outrider__hide_secrets(argv[i], arena);
    return copy;
}

static int cli_unknown_command(const char *name)
{
    size_t n, best = 4;
    const struct command *all = outrider__commands(&n);
    const char *nearest = NULL;
    for (size_t i = 0; i < n; i++) {
        size_t d = outrider__name_distance(bytes_str(name), bytes_str(all[i].name));
        if (d < best && d < strlen(all[i].name)) {
            best = d;
            nearest = all[i].name;
        }
    }
    if (nearest)
        outrider__cli_say("unknown command '%.40s' (did you mean '%s'?)", name, nearest);
    else
        outrider__cli_say("unknown command '%.40s'; see outrider help",
                          strpbrk(name, ":@") ? "..." : name);
    return CLI_USAGE;
}

static int cli_run_command(const struct command *c, int argc, char *const *argv)
{
    struct outrider_error err = {0};
    struct args args;
    int code;
    /* Help helps also where the rest of the line is wrong. */
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            outrider__help_command(c);
            return outrider__cli_flush(CLI_DONE);
        }
    }
    if (outrider__args_parse(c, argc, argv, &args, &err) < 0)
        return outrider__cli_fail_as(CLI_USAGE, &err);
    code = c->run(&args);
    outrider__args_release(&args);
    return outrider__cli_flush(code);
}

static int cli_dispatch(int argc, char *const *argv)
{
    const char *name = argc > 1 ? argv[1] : "help";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    else if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
        name = "version";
    const struct command *c = outrider__command_find(name);
    if (c == NULL)
        return cli_unknown_command(name);
    return cli_run_command(c, argc > 2 ? argc - 2 : 0, argv + 2);
}

int outrider__cli_main(int argc, char **argv)
{
    struct arena arena;
    int code = CLI_FAILED;
    /* A reader that goes away is an error of that write, not the end of us. */
    signal(SIGPIPE, SIG_IGN);
    outrider__arena_init(&arena, 4096);
    char **copy = cli_take_argv(argc, argv, &arena);
    if (copy)
        code = cli_dispatch(argc, copy);
    else
        outrider__cli_say("out of memory");
    outrider__arena_release(&arena);
    return code;
}
