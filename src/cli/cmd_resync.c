/* SPDX-License-Identifier: MIT */
/* resync: sets a pipeline right whose database or sink has another history than it knows. */
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/out.h"

int outrider__report_print(const struct args *a, const struct pipeline_config *c,
                           const struct strbuf *report, struct outrider_error *err)
{
    struct json_out j;
    if (!outrider__args_has(a, F_JSON)) {
        bool has_end = report->len > 0 && report->data[report->len - 1] == '\n';
        printf("%s%s", strbuf_cstr(report), has_end ? "" : "\n");
        return 0;
    }
    outrider__jout_init(&j);
    outrider__jout_open(&j, NULL, '{');
    outrider__jout_text(&j, "pipeline", c->name);
    outrider__jout_bytes(&j, "report", strbuf_bytes(report));
    outrider__jout_close(&j);
    int r = outrider__jout_print(&j) < 0 ? outrider__fail_nomem(err) : 0;
    outrider__jout_release(&j);
    return r;
}

/* "17:8123" or "0": the number of a transaction, and its stamp. */
static int resync_mark_parse(const char *text, struct commit_mark *ret_mark)
{
    struct commit_mark m = {0};
    char *end;
    errno = 0;
    m.no = strtoull(text, &end, 10);
    if (end == text || text[0] < '0' || text[0] > '9')
        return -1;
    if (*end == ':') {
        const char *stamp = end + 1;
        m.stamp = strtoull(stamp, &end, 10);
        if (end == stamp || stamp[0] < '0' || stamp[0] > '9')
            return -1;
    } else if (m.no != 0) {
        return -1;
    }
    if (*end != '\0' || errno != 0 || m.no > INT64_MAX)
        return -1;
    *ret_mark = m;
    return 0;
}

static int resync_run(const struct args *a, const struct pipeline_config *c, struct store *s,
                      struct outrider_error *err)
{
    const char *progress = outrider__args_text(a, F_PROGRESS);
    struct commit_mark mark = {0};
    struct strbuf report;
    int r;
    outrider__strbuf_init(&report, REPORT_CAP);
    if (progress != NULL)
        r = resync_mark_parse(progress, &mark) < 0
                ? outrider__fail(err, OUTRIDER_INVALID, OUTRIDER_STOP,
                                 "--progress: '%.60s' is neither 0 nor NUMBER:STAMP as the relay's "
                                 "message has it",
                                 progress)
                : s->ops->reset_intent(s, &mark, &report, err);
    else if (outrider__args_has(a, F_FORGET_INTENT))
        r = s->ops->reset_intent(s, NULL, &report, err);
    else
        r = s->ops->resync(s, &report, err);
    if (r == 0)
        r = outrider__report_print(a, c, &report, err);
    outrider__strbuf_release(&report);
    return r;
}

int outrider__cmd_resync(const struct args *a)
{
    if (outrider__args_has(a, F_PROGRESS) && outrider__args_has(a, F_FORGET_INTENT))
        return outrider__cli_usage(a, "--progress and --forget-intent exclude each other");
    return outrider__with_store(a, resync_run);
}
