/* SPDX-License-Identifier: MIT */
#include "base/arena.h"

#include <stdalign.h>
#include <stdlib.h>

struct arena_chunk {
    struct arena_chunk *next;
    size_t size; /* of data */
    size_t used;
    alignas(max_align_t) char data[];
};

void outrider__arena_init(struct arena *a, size_t chunk_size)
{
    *a = (struct arena){.chunk_size = chunk_size};
}

static struct arena_chunk *arena_chunk_new(size_t size)
{
    struct arena_chunk *c = malloc(sizeof *c + size);
    if (c != NULL) {
        c->next = NULL;
        c->size = size;
        c->used = 0;
    }
    return c;
}

static struct arena_chunk *arena_chunk_for(struct arena *a, size_t need)
{
    if (need > a->chunk_size)
        return arena_chunk_new(need);
    struct arena_chunk *c = a->spare;
    if (c == NULL)
        return arena_chunk_new(a->chunk_size);
    a->spare = c->next;
    return c;
}

void *outrider__arena_alloc(struct arena *a, size_t size)
{
    const size_t align = alignof(max_align_t);
    if (size > SIZE_MAX / 2)
        return NULL;
    size_t need = (size + align - 1) & ~(align - 1);
    struct arena_chunk *c = a->head;
    if (c == NULL || c->size - c->used < need) {
        c = arena_chunk_for(a, need);
        if (c == NULL)
            return NULL;
        c->next = a->head;
        a->head = c;
    }
    void *p = c->data + c->used;
    c->used += need;
    a->used += need;
    return p;
}

int outrider__arena_dup(struct arena *a, struct bytes b, struct bytes *ret_copy)
{
    if (bytes_is_null(b)) {
        *ret_copy = BYTES_NULL;
        return 0;
    }
    char *p = outrider__arena_alloc(a, b.len + 1);
    if (p == NULL)
        return -1;
    memcpy(p, b.data, b.len);
    p[b.len] = '\0';
    *ret_copy = bytes_of(p, b.len);
    return 0;
}

static void arena_free_chunks(struct arena_chunk *c)
{
    for (struct arena_chunk *next; c != NULL; c = next) {
        next = c->next;
        free(c);
    }
}

void outrider__arena_reset(struct arena *a)
{
    size_t kept = 0;
    for (struct arena_chunk *c = a->spare; c != NULL; c = c->next)
        kept++;
    for (struct arena_chunk *c = a->head, *next; c != NULL; c = next) {
        next = c->next;
        if (c->size != a->chunk_size || kept == ARENA_KEEP) {
            free(c);
            continue;
        }
        c->used = 0;
        c->next = a->spare;
        a->spare = c;
        kept++;
    }
    a->head = NULL;
    a->used = 0;
    a->generation++;
}

void outrider__arena_release(struct arena *a)
{
    arena_free_chunks(a->head);
    arena_free_chunks(a->spare);
    a->head = a->spare = NULL;
    a->used = 0;
}
