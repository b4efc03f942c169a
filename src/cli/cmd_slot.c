/* SPDX-License-Identifier: MIT */
/* slot: what a server keeps for a pipeline in mode cdc, given back or taken over. */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>

#include "cli/debezium_offset.h"
#include "cli/lines.h"
#include "cli/out.h"

static int slot_has_none(const struct store *s, const struct pipeline_config *c,
                         struct outrider_error *err)
{
    return outrider__fail(err, OUTRIDER_UNSUPPORTED, OUTRIDER_STOP,
                          "%s has no replication slots; pipeline '%s' needs none", s->description,
                          c->name);
}

static int drop_slot(const struct args *a, const struct pipeline_config *c, struct store *s,
                     struct outrider_error *err)
{
    struct strbuf report;
    (void)a;
    if (s->ops->stream_drop == NULL)
        return slot_has_none(s, c, err);
    outrider__strbuf_init(&report, REPORT_CAP);
    int r = s->ops->stream_drop(s, &report, err);
    if (r == 0)
        printf("%s", strbuf_cstr(&report));
    outrider__strbuf_release(&report);
    return r;
}

static int slot_read_offset(const char *path, struct stream_offset *ret_offset,
                            struct outrider_error *err)
{
    char *data = NULL;
    size_t len = 0;
    if (outrider__read_all(path, DEBEZIUM_OFFSET_MAX, &data, &len, err) < 0)
        return -1;
    int r = outrider__debezium_offset(bytes_of(data, len), ret_offset, err);
    free(data);
    return r;
}

static int adopt_slot(const struct args *a, const struct pipeline_config *c, struct store *s,
                      struct outrider_error *err)
{
    const char *path = outrider__args_text(a, F_OFFSET);
    struct stream_offset offset;
    struct stream_adoption o = {.from = outrider__args_text(a, F_FROM_SLOT)};
    struct strbuf report;
    if (s->ops->stream_adopt == NULL)
        return slot_has_none(s, c, err);
    if (path != NULL && slot_read_offset(path, &offset, err) < 0)
        return -1;
    if (path != NULL)
        o.offset = &offset;
    outrider__strbuf_init(&report, REPORT_CAP);
    int r = s->ops->stream_adopt(s, &o, &report, err);
    if (r == 0)
        printf("%s", strbuf_cstr(&report));
    outrider__strbuf_release(&report);
    return r;
}

int outrider__cmd_slot(const struct args *a)
{
    const char *word = a->n_operands > 0 ? a->operands[0] : NULL;
    const char *from = outrider__args_text(a, F_FROM_SLOT);
    bool is_url = from != NULL && strchr(from, ':') != NULL;
    if (word == NULL)
        return outrider__cli_usage(a, "say what to do: drop or adopt");
    if (strcmp(word, "drop") == 0) {
        if (from != NULL && !is_url)
            return outrider__cli_usage(a, "drop has no use for --from SLOT: the slot of pipeline "
                                          "--name is dropped");
        if (outrider__args_has(a, F_OFFSET))
            return outrider__cli_usage(a, "--offset is for adopt");
        return outrider__with_store(a, drop_slot);
    }
    if (from == NULL || is_url)
        return outrider__cli_usage(a, "adopt needs the other program's slot: --from SLOT, and the "
                                      "database as --db URL");
    return outrider__with_store(a, adopt_slot);
}
