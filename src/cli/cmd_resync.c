/* SPDX-License-Identifier: MIT */
#include "cli/cli.h"

#include <stdio.h>

#include "cli/out.h"

#define REPORT_CAP ((size_t)1 << 16)

static int run_resync(const struct args *a, const struct pipeline_config *c, struct store *s,
                      struct outrider_error *err)
{
    struct strbuf report;
    struct json_out j;
    outrider__strbuf_init(&report, REPORT_CAP);
    int r = s->ops->resync(s, &report, err);
    if (r == 0 && outrider__args_has(a, F_JSON)) {
        outrider__jout_init(&j);
        outrider__jout_open(&j, NULL, '{');
        outrider__jout_text(&j, "pipeline", c->name);
        outrider__jout_bytes(&j, "report", strbuf_bytes(&report));
        outrider__jout_close(&j);
        r = outrider__jout_print(&j) < 0 ? outrider__fail_nomem(err) : 0;
        outrider__jout_release(&j);
    } else if (r == 0) {
        bool has_end = report.len && report.data[report.len - 1] == '\n';
        printf("%s%s", strbuf_cstr(&report), has_end ? "" : "\n");
    }
    outrider__strbuf_release(&report);
    return r;
}

int outrider__cmd_resync(const struct args *a)
{
    return outrider__with_store(a, run_resync);
}
