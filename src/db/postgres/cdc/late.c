/* SPDX-License-Identifier: MIT */
/*
 * Between the moment from which on the slot streams, and the last settle of
 * polling, events are settled that come again. The relay learns of that moment
 * within milliseconds: so what was settled in the last second is remembered, and
 * the list starts over each second until then.
 */
#include <stdlib.h>

#include "postgres/cdc/tables.h"

#define GENERATION_US 1000000

static void clear(struct cdc_late_list *l)
{
    outrider__arena_release(&l->arena);
    free(l->items);
    *l = (struct cdc_late_list){0};
}

int outrider__cdc_late_note(struct cdc_late *l, int64_t oid, struct bytes id, int64_t now_us)
{
    struct cdc_late_list *list = &l->lists[0];
    if (now_us - l->since_us > GENERATION_US && !l->is_frozen) {
        clear(&l->lists[1]);
        l->lists[1] = *list;
        *list = (struct cdc_late_list){0};
        l->since_us = now_us;
    }
    if (list->items == NULL)
        outrider__arena_init(&list->arena, 65536);
    if (list->n == list->capacity) {
        size_t capacity = list->capacity > 0 ? list->capacity * 2 : 1024;
        struct cdc_late_id *items = realloc(list->items, capacity * sizeof *items);
        if (items == NULL)
            return -1;
        list->items = items;
        list->capacity = capacity;
    }
    struct cdc_late_id *item = &list->items[list->n];
    item->oid = oid;
    if (outrider__arena_dup(&list->arena, id, &item->id) < 0)
        return -1;
    list->n++;
    return 0;
}

static int compare(const void *va, const void *vb)
{
    const struct cdc_late_id *a = va, *b = vb;
    if (a->oid != b->oid)
        return a->oid < b->oid ? -1 : 1;
    if (a->id.len != b->id.len)
        return a->id.len < b->id.len ? -1 : 1;
    return a->id.len > 0 ? memcmp(a->id.data, b->id.data, a->id.len) : 0;
}

void outrider__cdc_late_freeze(struct cdc_late *l)
{
    l->is_frozen = true;
    for (int i = 0; i < 2; i++)
        if (l->lists[i].n > 0)
            qsort(l->lists[i].items, l->lists[i].n, sizeof *l->lists[i].items, compare);
}

bool outrider__cdc_late_has(const struct cdc_late *l, int64_t oid, struct bytes id)
{
    struct cdc_late_id key = {oid, id};
    for (int i = 0; i < 2; i++) {
        const struct cdc_late_list *list = &l->lists[i];
        if (list->n > 0 &&
            bsearch(&key, list->items, list->n, sizeof *list->items, compare) != NULL)
            return true;
    }
    return false;
}

void outrider__cdc_late_release(struct cdc_late *l)
{
    clear(&l->lists[0]);
    clear(&l->lists[1]);
    *l = (struct cdc_late){0};
}
