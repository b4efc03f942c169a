/* SPDX-License-Identifier: MIT */
/*
 * One option's value: from text into its field, and back. `base` is the struct
 * that the option's offset counts from.
 */
#ifndef CORE_OPTION_VALUE_H
#define CORE_OPTION_VALUE_H

#include "core/options.h"

/* Replaces the value. On failure the field keeps what it had. */
int outrider__value_set(const struct option *o, void *base, struct arena *arena, struct bytes text,
                        struct outrider_error *err);
/* Appends to a list or map; map_name is for maps only. */
int outrider__value_add(const struct option *o, void *base, struct arena *arena,
                        struct bytes map_name, struct bytes text, struct outrider_error *err);
/* Sets one item of a map, new or known; the others stay. */
int outrider__value_put(const struct option *o, void *base, struct arena *arena,
                        struct bytes map_name, struct bytes text, struct outrider_error *err);
/* Empties a list or map. */
void outrider__value_clear(const struct option *o, void *base);
int outrider__value_get(const struct option *o, const void *base, struct strbuf *ret_text);
/* A list, map or string is borrowed, not copied. */
void outrider__value_borrow(const struct option *o, void *base, const void *from);
bool outrider__value_differs(const struct option *o, const void *base_a, const void *base_b);

/* What the option takes, in words: "a duration from 1ms to 1h". */
void outrider__value_describe(const struct option *o, struct strbuf *out);
/* A value that shows the form, never NULL. */
const char *outrider__value_example(const struct option *o);

int outrider__size_parse(struct bytes text, int64_t *ret_bytes);
/* The shortest exact form: "64MiB", "1000000B". */
void outrider__size_format(int64_t bytes, char ret_text[CLOCK_TEXT_SIZE]);

/* "[a, 'b, c']", "a,b" or "{a: b}", taken apart. */
struct flow {
    const char *p, *end;
    bool is_first;
};

/* 0, or -1 where the brackets do not match. */
int outrider__flow_begin(struct flow *f, struct bytes text, char open, char close);
/* 1 with the next item in the arena, 0 at the end, -1 where the text is
 * malformed. ret_name is NULL for lists. */
int outrider__flow_next(struct flow *f, struct arena *arena, struct bytes *ret_name,
                        struct bytes *ret_item);
/* An item as flow_next takes it back. */
void outrider__flow_append(struct strbuf *out, const char *item);

#endif
