/* SPDX-License-Identifier: MIT */
#include "cli/cli.h"

#include <stdio.h>

#define SQL_CAP ((size_t)1 << 20)

static int run_init(const struct args *a, const struct pipeline_config *c, struct store *s,
                    struct outrider_error *err)
{
    (void)c;
    struct init_options o = {
        .layout = outrider__args_text(a, F_LAYOUT),
        .payload = outrider__args_text(a, F_PAYLOAD),
        .partition = outrider__args_text(a, F_PARTITION),
        .inbox = outrider__args_has(a, F_INBOX),
        .dry_run = outrider__args_has(a, F_DRY_RUN),
    };
    struct strbuf sql;
    outrider__strbuf_init(&sql, SQL_CAP);
    int r = s->ops->init(s, &o, &sql, err);
    if (r == 0 && o.dry_run)
        fputs(strbuf_cstr(&sql), stdout);
    else if (r == 0)
        outrider__cli_say(sql.len ? "the outbox is ready in %s" : "the outbox in %s is up to date",
                          s->description);
    outrider__strbuf_release(&sql);
    return r;
}

int outrider__cmd_init(const struct args *a)
{
    return outrider__with_store(a, run_init);
}
