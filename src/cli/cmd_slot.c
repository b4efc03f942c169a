/* SPDX-License-Identifier: MIT */
/* slot drop: gives back what a server keeps for a pipeline in mode cdc. */
#include "cli/cli.h"

#include <stdio.h>

#include "cli/out.h"

#define REPORT_CAP ((size_t)1 << 16)

static int drop_slot(const struct args *a, const struct pipeline_config *c, struct store *s,
                     struct outrider_error *err)
{
    struct strbuf report;
    (void)a;
    if (s->ops->slot_drop == NULL)
        return outrider__fail(err, OUTRIDER_UNSUPPORTED, OUTRIDER_STOP,
                              "%s has no replication slots; pipeline '%s' needs none",
                              s->description, c->name);
    outrider__strbuf_init(&report, REPORT_CAP);
    int r = s->ops->slot_drop(s, &report, err);
    if (r == 0)
        printf("%s", strbuf_cstr(&report));
    outrider__strbuf_release(&report);
    return r;
}

int outrider__cmd_slot(const struct args *a)
{
    return outrider__with_store(a, drop_slot);
}
