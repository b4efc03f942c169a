/* SPDX-License-Identifier: MIT */
#include "postgres/poll_log/gaps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t outrider__pg_writer_parse(const char *text)
{
    char *end;
    long long backend = strtoll(text, &end, 10);
    if (end == text || *end != '/')
        return 0;
    const char *number = end + 1;
    unsigned long long local = strtoull(number, &end, 10);
    if (end == number || *end != '\0' || backend < -1 || backend > 0x3fffffff)
        return 0;
    uint64_t low = local & 0xffffffffULL;
    return backend < 0 ? PG_WRITER_PREPARED | low : ((uint64_t)(backend + 1) << 32) | low;
}

void outrider__pg_writer_format(uint64_t writer, char ret_text[PG_WRITER_TEXT])
{
    bool is_prepared = (writer & PG_WRITER_PREPARED) != 0;
    (void)snprintf(ret_text, PG_WRITER_TEXT, "%lld/%llu",
                   is_prepared ? -1LL : (long long)(writer >> 32) - 1,
                   (unsigned long long)(writer & 0xffffffffULL));
}

void outrider__gaps_init(struct gap_set *g)
{
    *g = (struct gap_set){0};
}

static void gaps_group_free(struct gap_group *group)
{
    free(group->writers);
    free(group);
}

void outrider__gaps_release(struct gap_set *g)
{
    while (g->groups != NULL) {
        struct gap_group *group = g->groups;
        g->groups = group->next;
        gaps_group_free(group);
    }
    free(g->items);
    *g = (struct gap_set){0};
}

void outrider__gaps_begin_group(struct gap_set *g)
{
    g->fresh = NULL;
}

static int gaps_reserve(struct gap_set *g, size_t n)
{
    if (n <= g->size)
        return 0;
    size_t size = n + n / 2 + 16;
    struct gap *items = realloc(g->items, size * sizeof *items);
    if (items == NULL)
        return -1;
    g->items = items;
    g->size = size;
    return 0;
}

int outrider__gaps_add(struct gap_set *g, int64_t low, int64_t high)
{
    if (gaps_reserve(g, g->n + 1) < 0)
        return -1;
    if (g->fresh == NULL) {
        g->fresh = calloc(1, sizeof *g->fresh);
        if (g->fresh == NULL)
            return -1;
        g->fresh->next = g->groups;
        g->groups = g->fresh;
    }
    g->items[g->n++] = (struct gap){low, high, g->fresh};
    g->fresh->n_ranges++;
    return 0;
}

static int gaps_compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static bool gaps_is_among(const uint64_t *sorted, size_t n, uint64_t w)
{
    return n > 0 && bsearch(&w, sorted, n, sizeof w, gaps_compare) != NULL;
}

static int gaps_note(struct gap_group *group, const uint64_t *writers, size_t n)
{
    if (n > 0) {
        group->writers = malloc(n * sizeof *writers);
        if (group->writers == NULL)
            return -1;
        memcpy(group->writers, writers, n * sizeof *writers);
    }
    group->n_writers = n;
    group->is_noted = true;
    return 0;
}

/* Contract (3): one that is gone may be back under the name of a prepared one. */
static int gaps_join_prepared(struct gap_group *group, const uint64_t *writers, size_t n)
{
    size_t kept = group->n_writers;
    for (size_t i = 0; i < n; i++) {
        if ((writers[i] & PG_WRITER_PREPARED) == 0 ||
            gaps_is_among(group->writers, kept, writers[i]))
            continue;
        uint64_t *more = realloc(group->writers, (group->n_writers + 1) * sizeof *more);
        if (more == NULL)
            return -1;
        group->writers = more;
        group->writers[group->n_writers++] = writers[i];
    }
    if (group->n_writers > kept)
        qsort(group->writers, group->n_writers, sizeof *group->writers, gaps_compare);
    return 0;
}

static int gaps_drop_ended(struct gap_group *group, const uint64_t *writers, size_t n)
{
    size_t kept = 0;
    bool may_be_prepared = false;
    for (size_t i = 0; i < group->n_writers; i++) {
        if (gaps_is_among(writers, n, group->writers[i]))
            group->writers[kept++] = group->writers[i];
        else if ((group->writers[i] & PG_WRITER_PREPARED) == 0)
            may_be_prepared = true;
    }
    group->n_writers = kept;
    return may_be_prepared ? gaps_join_prepared(group, writers, n) : 0;
}

int outrider__gaps_note_writers(struct gap_set *g, uint64_t *writers, size_t n)
{
    if (n > 1)
        qsort(writers, n, sizeof *writers, gaps_compare);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || writers[kept - 1] != writers[i])
            writers[kept++] = writers[i];
    for (struct gap_group *group = g->groups; group != NULL; group = group->next) {
        int rc = group->is_noted ? gaps_drop_ended(group, writers, kept)
                                 : gaps_note(group, writers, kept);
        if (rc < 0)
            return -1;
    }
    return 0;
}

static void gaps_put(struct gap_set *g, size_t *n, int64_t low, int64_t high,
                     struct gap_group *group)
{
    g->items[(*n)++] = (struct gap){low, high, group};
    group->n_ranges++;
}

static void gaps_drop_empty_groups(struct gap_set *g)
{
    struct gap_group **at = &g->groups;
    while (*at != NULL) {
        struct gap_group *group = *at;
        if (group->n_ranges > 0) {
            at = &group->next;
            continue;
        }
        *at = group->next;
        if (g->fresh == group)
            g->fresh = NULL;
        gaps_group_free(group);
    }
}

int outrider__gaps_apply_read(struct gap_set *g, const int64_t *found, size_t n, int64_t covered)
{
    /* Each seq found splits a range in two at most: the old ones move to the end. */
    size_t old_n = g->n, at = 0, f = 0;
    if (old_n == 0)
        return 0;
    if (gaps_reserve(g, old_n * 2 + n) < 0)
        return -1;
    struct gap *old = g->items + old_n + n;
    memmove(old, g->items, old_n * sizeof *old);
    for (struct gap_group *group = g->groups; group != NULL; group = group->next)
        group->n_ranges = 0;
    for (size_t i = 0; i < old_n; i++) {
        struct gap gap = old[i];
        int64_t low = gap.low;
        bool is_over = gap.high <= covered && gap.group->is_noted && gap.group->n_writers == 0;
        for (; f < n && found[f] <= gap.high; f++) {
            if (found[f] > low && !is_over)
                gaps_put(g, &at, low, found[f] - 1, gap.group);
            low = found[f] + 1;
        }
        if (low <= gap.high && !is_over)
            gaps_put(g, &at, low, gap.high, gap.group);
    }
    g->n = at;
    gaps_drop_empty_groups(g);
    return 0;
}

uint64_t outrider__gaps_oldest_writer(const struct gap_set *g)
{
    uint64_t writer = 0;
    /* Newer groups stand in front. */
    for (const struct gap_group *group = g->groups; group != NULL; group = group->next)
        if (group->is_noted && group->n_writers > 0)
            writer = group->writers[0];
    return writer;
}

bool outrider__gaps_needs_writers(const struct gap_set *g)
{
    for (const struct gap_group *group = g->groups; group != NULL; group = group->next)
        if (!group->is_noted)
            return true;
    return false;
}
