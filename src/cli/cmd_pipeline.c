/* SPDX-License-Identifier: MIT */
/* pipeline: what an operator changes of a pipeline as a whole. */
#include "cli/cli.h"

#include "cli/out.h"
#include "run/pipeline.h"

/* The new sink must be one that a relay could use: nothing is changed for a slip. */
static int pipeline_move(const struct args *a, const struct pipeline_config *c, struct store *s,
                         struct outrider_error *err)
{
    struct relay_setup setup = {0};
    struct strbuf report;
    if (outrider__pipeline_sink(c, &setup, err) < 0)
        return -1;
    outrider__strbuf_init(&report, REPORT_CAP);
    int r = s->ops->move(s, &report, err);
    if (r == 0)
        r = outrider__report_print(a, c, &report, err);
    outrider__strbuf_release(&report);
    return r;
}

int outrider__cmd_pipeline(const struct args *a)
{
    if (a->n_operands == 0)
        return outrider__cli_usage(a, "say what to do: move");
    if (!outrider__args_has(a, F_TO))
        return outrider__cli_usage(a, "move needs the new sink: --to URL");
    return outrider__with_store(a, pipeline_move);
}
