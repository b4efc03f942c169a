/* SPDX-License-Identifier: MIT */
/*
 * The pages that are made from the tables and kept in the source tree (man
 * page, reference, sample file, completion). scripts/generate writes them; a
 * test fails when they drift.
 */
#include "cli/help.h"

#include <stdio.h>

#include "core/options.h"
#include "outrider/version.h"

#define RENDER_CAP ((size_t)1 << 20)

/* Text for troff: a backslash, a dash and a leading dot mean something there. */
static void render_append_roff(struct strbuf *out, const char *text)
{
    for (const char *p = text; *p; p++) {
        bool at_start = p == text || p[-1] == '\n';
        if (*p == '\\')
            strbuf_append_str(out, "\\e");
        else if (*p == '-')
            strbuf_append_str(out, "\\-");
        else if (at_start && (*p == '.' || *p == '\''))
            outrider__strbuf_appendf(out, "\\&%c", *p);
        else
            strbuf_append_char(out, *p);
    }
}

static void render_roff_section(struct strbuf *out, const char *macro, const char *title)
{
    outrider__strbuf_appendf(out, ".%s \"%s\"\n", macro, title);
}

static void render_roff_lines(struct strbuf *out, const char *lines, const char *prefix)
{
    while (lines && *lines) {
        size_t len = strcspn(lines, "\n");
        char line[400];
        snprintf(line, sizeof(line), "%s%.*s", prefix, (int)len, lines);
        render_append_roff(out, line);
        strbuf_append_char(out, '\n');
        lines += len + (lines[len] == '\n');
    }
}

static void render_roff_command(struct strbuf *out, const struct command *c)
{
    size_t n;
    const struct flag *all = outrider__flags(&n);
    char prefix[64], form[96];
    render_roff_section(out, "SS", c->name);
    snprintf(prefix, sizeof(prefix), "outrider %s ", c->name);
    strbuf_append_str(out, ".nf\n");
    render_roff_lines(out, c->usage, prefix);
    strbuf_append_str(out, ".fi\n.PP\n");
    render_append_roff(out, c->text);
    strbuf_append_char(out, '\n');
    for (size_t i = 0; i < n; i++) {
        if (!outrider__flag_belongs(&all[i], c) || all[i].hidden || all[i].id == F_HELP)
            continue;
        outrider__help_flag_form(&all[i], form, sizeof(form));
        strbuf_append_str(out, ".TP\n.B ");
        render_append_roff(out, form);
        strbuf_append_char(out, '\n');
        render_append_roff(out, all[i].text);
        strbuf_append_char(out, '\n');
    }
    strbuf_append_str(out, ".PP\n.nf\n");
    render_roff_lines(out, c->examples, "    ");
    strbuf_append_str(out, ".fi\n");
}

static void render_roff_options(struct strbuf *out)
{
    size_t n;
    const struct option *all = outrider__options(&n);
    for (size_t i = 0; i < n; i++) {
        strbuf_append_str(out, ".TP\n.B ");
        render_append_roff(out, all[i].name);
        strbuf_append_char(out, '\n');
        render_append_roff(out, all[i].text);
        if (all[i].values) {
            strbuf_append_str(out, " One of ");
            render_append_roff(out, all[i].values);
            strbuf_append_char(out, '.');
        }
        if (all[i].initial && all[i].initial[0]) {
            strbuf_append_str(out, " Default: ");
            render_append_roff(out, all[i].initial);
        }
        strbuf_append_char(out, '\n');
    }
}

static void render_man(struct strbuf *out)
{
    size_t n;
    const struct command *all = outrider__commands(&n);
    strbuf_append_str(out, ".\\\" SPDX-License-Identifier: MIT\n"
                           ".\\\" Made by scripts/generate: edit src/cli/commands.c instead.\n"
                           ".TH OUTRIDER 1 \"\" \"outrider " OUTRIDER_VERSION "\" \"\"\n"
                           ".SH NAME\noutrider \\- transactional outbox and its relay\n"
                           ".SH SYNOPSIS\n.B outrider\n.I command\n[\\fIflags\\fR]\n"
                           ".SH DESCRIPTION\n");
    render_append_roff(out, HELP_ABOUT);
    strbuf_append_str(out, "\n.SH COMMANDS\n");
    for (size_t i = 0; i < n; i++)
        render_roff_command(out, &all[i]);
    render_roff_section(out, "SH", "OPTIONS OF A PIPELINE");
    strbuf_append_str(out, "In the file that\n.B \\-c\nnames, or with\n.B \\-\\-set\n.IR "
                           "KEY=VALUE .\n");
    render_roff_options(out);
    strbuf_append_str(
        out, ".SH \"EXIT STATUS\"\n0 done; 1 failed; 2 usage or configuration; 3 done, but "
             "something is parked or dead.\n"
             ".SH ENVIRONMENT\n.TP\n.B OUTRIDER_MODULE_PATH\nDirectories to look for adapters "
             "in, before the usual ones, separated by colons.\n"
             ".TP\n.B NO_COLOR\nIf set and not empty, no colour is used on a terminal.\n"
             ".SH SIGNALS\nA relay finishes what is in flight on SIGTERM and SIGINT, and reads "
             "its configuration file again on SIGHUP.\n");
}

static void render_markdown_flags(struct strbuf *out, const struct command *c)
{
    size_t n;
    const struct flag *all = outrider__flags(&n);
    strbuf_append_str(out, "\n| flag | |\n|---|---|\n");
    for (size_t i = 0; i < n; i++) {
        char form[96];
        if (!outrider__flag_belongs(&all[i], c) || all[i].hidden || all[i].id == F_HELP)
            continue;
        outrider__help_flag_form(&all[i], form, sizeof(form));
        strbuf_append_str(out, "| `");
        for (const char *p = form; *p; p++) {
            if (*p == '|')
                strbuf_append_char(out, '\\');
            strbuf_append_char(out, *p);
        }
        outrider__strbuf_appendf(out, "` | %s |\n", all[i].text);
    }
}

static void render_commands(struct strbuf *out)
{
    size_t n;
    const struct command *all = outrider__commands(&n);
    strbuf_append_str(out, "# Commands\n\n"
                           "<!-- Made by scripts/generate: edit src/cli/commands.c instead. -->\n\n"
                           "Data goes to standard output, talk to standard error; `--json` output "
                           "is stable.\n\n"
                           "| exit status | |\n|---|---|\n| 0 | done |\n| 1 | failed |\n"
                           "| 2 | usage or configuration |\n"
                           "| 3 | done, but something is parked or dead |\n");
    for (size_t i = 0; i < n; i++) {
        const struct command *c = &all[i];
        char prefix[64];
        snprintf(prefix, sizeof(prefix), "outrider %s ", c->name);
        outrider__strbuf_appendf(out, "\n## outrider %s\n\n```\n", c->name);
        outrider__help_lines(out, c->usage, prefix, prefix);
        strbuf_append_str(out, "```\n\n");
        outrider__help_wrap(out, c->text, 0, 80);
        render_markdown_flags(out, c);
        strbuf_append_str(out, "\n```sh\n");
        outrider__help_lines(out, c->examples, "", "");
        strbuf_append_str(out, "```\n");
    }
}

static void render_completion_flags(struct strbuf *out, const struct command *c)
{
    size_t n;
    const struct flag *all = outrider__flags(&n);
    outrider__strbuf_appendf(out, "    %s) flags=\"", c->name);
    for (size_t i = 0; i < n; i++) {
        const struct flag *f = &all[i];
        if (!outrider__flag_belongs(f, c) || f->hidden)
            continue;
        outrider__strbuf_appendf(out, "--%s ", f->name);
        if (f->alias)
            outrider__strbuf_appendf(out, "--%s ", f->alias);
    }
    out->len--; /* the last blank */
    strbuf_append_str(out, "\" ;;\n");
}

/* What follows a flag: the values of a choice, an option's name, or a file. */
static void render_completion_values(struct strbuf *out)
{
    size_t n;
    const struct flag *all = outrider__flags(&n);
    for (size_t i = 0; i < n; i++) {
        const struct flag *f = &all[i];
        if (f->hidden || f->kind != FLAG_CHOICE)
            continue;
        const char *commands = f->commands;
        while (*commands) {
            size_t len = strcspn(commands, " ");
            outrider__strbuf_appendf(out, "    \"%.*s --%s\") words=\"", (int)len, commands,
                                     f->name);
            for (const char *p = f->choices; *p; p++)
                strbuf_append_char(out, *p == '|' ? ' ' : *p);
            strbuf_append_str(out, "\" ;;\n");
            commands += len;
            commands += strspn(commands, " ");
        }
    }
    size_t m;
    const struct option *options = outrider__options(&m);
    strbuf_append_str(out, "    *\" --set\") words=\"");
    for (size_t i = 0; i < m; i++)
        outrider__strbuf_appendf(out, "%s%s=", i ? " " : "", options[i].name);
    strbuf_append_str(out, "\" ;;\n");
}

static void render_completion(struct strbuf *out)
{
    size_t n;
    const struct command *all = outrider__commands(&n);
    strbuf_append_str(out,
                      "# SPDX-License-Identifier: MIT\n"
                      "# Made by scripts/generate: edit src/cli/commands.c instead.\n"
                      "# shellcheck shell=bash disable=SC2207\n"
                      "_outrider()\n{\n"
                      "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
                      "    local command=${COMP_WORDS[1]} flags= words=\n"
                      "    COMPREPLY=()\n"
                      "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        words=\"");
    for (size_t i = 0; i < n; i++)
        outrider__strbuf_appendf(out, "%s%s", i ? " " : "", all[i].name);
    strbuf_append_str(out, "\"\n        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
                           "        return\n    fi\n"
                           "    case \"$command $prev\" in\n");
    render_completion_values(out);
    strbuf_append_str(out, "    \"dead dead\") words=\"list show retry discard\" ;;\n"
                           "    \"help help\") words=\"");
    for (size_t i = 0; i < n; i++)
        outrider__strbuf_appendf(out, "%s%s", i ? " " : "", all[i].name);
    strbuf_append_str(out, "\" ;;\n"
                           "    *\" -c\" | *\" --config\" | *\" --jsonl\" | \"tail \"*)\n"
                           "        [[ $cur == -* ]] || { compopt -o default; return; } ;;\n"
                           "    esac\n"
                           "    if [ -n \"$words\" ]; then\n"
                           "        [ \"$prev\" = --set ] && compopt -o nospace\n"
                           "        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
                           "        return\n    fi\n"
                           "    case $command in\n");
    for (size_t i = 0; i < n; i++)
        render_completion_flags(out, &all[i]);
    strbuf_append_str(out, "    esac\n"
                           "    COMPREPLY=($(compgen -W \"$flags\" -- \"$cur\"))\n"
                           "}\ncomplete -F _outrider outrider\n");
}

int outrider__help_render(const char *what, struct outrider_error *err)
{
    static const struct {
        const char *name;
        void (*render)(struct strbuf *out);
    } pages[] = {
        {"man", render_man},
        {"completion", render_completion},
        {"commands", render_commands},
        {"options", outrider__options_markdown},
        {"sample", outrider__options_sample_yaml},
    };
    struct strbuf out;
    outrider__strbuf_init(&out, RENDER_CAP);
    for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
        if (strcmp(pages[i].name, what) == 0)
            pages[i].render(&out);
    }
    int r = out.failed ? outrider__fail_nomem(err) : 0;
    if (r == 0)
        fwrite(strbuf_cstr(&out), 1, out.len, stdout);
    outrider__strbuf_release(&out);
    return r;
}
