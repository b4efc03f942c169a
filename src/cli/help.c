/* SPDX-License-Identifier: MIT */
/*
 * Text made from the command table: --help for people at a terminal. The pages
 * that are kept in the source tree are in help_render.c.
 */
#include "cli/help.h"

#include <stdio.h>
#include <unistd.h>

#include "cli/out.h"
#include "core/adapter.h"

#define HELP_CAP ((size_t)1 << 20)
#define HELP_WIDTH 80

void outrider__help_wrap(struct strbuf *out, const char *text, size_t indent, size_t width)
{
    size_t column = indent;
    while (*text) {
        size_t len = strcspn(text, " ");
        if (column > indent && column + 1 + len > width) {
            outrider__strbuf_appendf(out, "\n%*s", (int)indent, "");
            column = indent;
        } else if (column > indent) {
            strbuf_append_char(out, ' ');
            column++;
        }
        outrider__strbuf_append(out, bytes_of(text, len));
        column += len;
        text += len;
        text += strspn(text, " ");
    }
    strbuf_append_char(out, '\n');
}

void outrider__help_lines(struct strbuf *out, const char *lines, const char *first,
                          const char *other)
{
    bool is_first = true;
    while (lines && *lines) {
        const char *end = strchrnul(lines, '\n');
        strbuf_append_str(out, is_first ? first : other);
        outrider__strbuf_append(out, bytes_of(lines, (size_t)(end - lines)));
        strbuf_append_char(out, '\n');
        lines = *end ? end + 1 : NULL;
        is_first = false;
    }
}

void outrider__help_flag_form(const struct flag *f, char *ret_text, size_t size)
{
    char letter[8] = "";
    if (f->letter)
        snprintf(letter, sizeof(letter), "-%c, ", f->letter);
    snprintf(ret_text, size, "%s--%s%s%s", letter, f->name, f->value ? " " : "",
             f->value ? f->value : "");
}

static void help_flag_lines(struct strbuf *out, const struct command *c)
{
    size_t n;
    const struct flag *all = outrider__flags(&n);
    for (size_t i = 0; i < n; i++) {
        char form[80];
        if (!outrider__flag_belongs(&all[i], c) || all[i].hidden)
            continue;
        outrider__help_flag_form(&all[i], form, sizeof(form));
        outrider__strbuf_appendf(out, "  %-23s", form);
        if (strlen(form) > 22)
            outrider__strbuf_appendf(out, "\n%25s", "");
        outrider__help_wrap(out, all[i].text, 25, HELP_WIDTH);
    }
}

static void help_heading(struct strbuf *out, const char *text)
{
    outrider__strbuf_appendf(out, "\n%s%s%s\n", outrider__colour(STDOUT_FILENO, COLOUR_BOLD), text,
                             outrider__colour_end(STDOUT_FILENO));
}

static void help_print(struct strbuf *out)
{
    fwrite(strbuf_cstr(out), 1, out->len, stdout);
    outrider__strbuf_release(out);
}

void outrider__help_command(const struct command *c)
{
    struct strbuf out;
    char first[64], other[64];
    outrider__strbuf_init(&out, HELP_CAP);
    snprintf(first, sizeof(first), "usage: outrider %s ", c->name);
    snprintf(other, sizeof(other), "       outrider %s ", c->name);
    outrider__help_lines(&out, c->usage, first, other);
    strbuf_append_char(&out, '\n');
    outrider__help_wrap(&out, c->text, 0, HELP_WIDTH);
    help_heading(&out, "Flags");
    help_flag_lines(&out, c);
    if (strcmp(c->name, "relay") == 0) {
        strbuf_append_char(&out, '\n');
        outrider__options_help(&out);
    }
    help_heading(&out, "Examples");
    outrider__help_lines(&out, c->examples, "  ", "  ");
    strbuf_append_str(&out, "\nExit status: 0 done, 1 failed, 2 usage or configuration");
    strbuf_append_str(&out, strcmp(c->name, "relay") == 0
                                ? ",\n3 done with --once, but something is parked or dead.\n"
                                : ".\n");
    help_print(&out);
}

void outrider__help_overview(void)
{
    struct strbuf out;
    size_t n;
    const struct command *all = outrider__commands(&n);
    outrider__strbuf_init(&out, HELP_CAP);
    strbuf_append_str(&out, "usage: outrider COMMAND [FLAGS]\n\n");
    outrider__help_wrap(&out, HELP_ABOUT, 0, HELP_WIDTH);
    help_heading(&out, "Commands");
    for (size_t i = 0; i < n; i++)
        outrider__strbuf_appendf(&out, "  %-9s %s\n", all[i].name, all[i].summary);
    help_heading(&out, "To begin with");
    const char *db = outrider__adapter_example(EXAMPLE_SOURCE);
    outrider__strbuf_appendf(
        &out,
        "  outrider init  --db %s\n"
        "  outrider put   --db %s --aggregate-type order --aggregate-id 42 \\\n"
        "                 --type OrderCreated --payload '{\"total\":10}'\n"
        "  outrider relay --from %s --to file:events --once\n"
        "  outrider tail  events order.OrderCreated\n",
        db, db, db);
    strbuf_append_str(&out, "\nEach command explains itself: outrider COMMAND --help\n");
    help_print(&out);
}

int outrider__cmd_help(const struct args *a)
{
    struct outrider_error err = {0};
    const char *page = outrider__args_text(a, F_RENDER);
    if (page)
        return outrider__help_render(page, &err) < 0 ? outrider__cli_fail(&err) : CLI_DONE;
    if (a->n_operands == 0) {
        outrider__help_overview();
        return CLI_DONE;
    }
    const struct command *c = outrider__command_find(a->operands[0]);
    if (c == NULL)
        return outrider__cli_usage(a, "there is no command '%.40s'",
                                   strpbrk(a->operands[0], ":@") ? "..." : a->operands[0]);
    outrider__help_command(c);
    return CLI_DONE;
}
