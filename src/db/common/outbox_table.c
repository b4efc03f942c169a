/* SPDX-License-Identifier: MIT */
#include "common/outbox_table.h"

void outrider__table_complete(const struct outbox_table *t, struct event *e)
{
    if (bytes_is_null(e->aggregate_type))
        e->aggregate_type = bytes_str(t->map.aggregate_type);
    if (bytes_is_null(e->event_type))
        e->event_type = bytes_str(t->map.event_type);
    if (bytes_is_null(e->aggregate_id))
        e->aggregate_id = BYTES_LIT("");
}
