/* SPDX-License-Identifier: MIT */
#include "common/late_ids.h"

#include <stdlib.h>

#define GENERATION_US 1000000

static void late_list_clear(struct late_list *l)
{
    outrider__arena_release(&l->arena);
    free(l->items);
    *l = (struct late_list){0};
}

int outrider__late_ids_note(struct late_ids *l, int64_t table, struct bytes id, int64_t now_us)
{
    struct late_list *list = &l->lists[0];
    if (now_us - l->since_us > GENERATION_US && !l->is_frozen) {
        late_list_clear(&l->lists[1]);
        l->lists[1] = *list;
        *list = (struct late_list){0};
        l->since_us = now_us;
    }
    if (list->items == NULL)
        outrider__arena_init(&list->arena, 65536);
    if (list->n == list->capacity) {
        size_t capacity = list->capacity > 0 ? list->capacity * 2 : 1024;
        struct late_id *items = realloc(list->items, capacity * sizeof *items);
        if (items == NULL)
            return -1;
        list->items = items;
        list->capacity = capacity;
    }
    struct late_id *item = &list->items[list->n];
    item->table = table;
    if (outrider__arena_dup(&list->arena, id, &item->id) < 0)
        return -1;
    list->n++;
    return 0;
}

static int late_id_compare(const void *va, const void *vb)
{
    const struct late_id *a = va, *b = vb;
    if (a->table != b->table)
        return a->table < b->table ? -1 : 1;
    if (a->id.len != b->id.len)
        return a->id.len < b->id.len ? -1 : 1;
    return a->id.len > 0 ? memcmp(a->id.data, b->id.data, a->id.len) : 0;
}

void outrider__late_ids_freeze(struct late_ids *l)
{
    l->is_frozen = true;
    for (int i = 0; i < 2; i++)
        if (l->lists[i].n > 0)
            qsort(l->lists[i].items, l->lists[i].n, sizeof *l->lists[i].items, late_id_compare);
}

bool outrider__late_ids_has(const struct late_ids *l, int64_t table, struct bytes id)
{
    struct late_id key = {table, id};
    for (int i = 0; i < 2; i++) {
        const struct late_list *list = &l->lists[i];
        if (list->n > 0 &&
            bsearch(&key, list->items, list->n, sizeof *list->items, late_id_compare) != NULL)
            return true;
    }
    return false;
}

void outrider__late_ids_release(struct late_ids *l)
{
    late_list_clear(&l->lists[0]);
    late_list_clear(&l->lists[1]);
    *l = (struct late_ids){0};
}
