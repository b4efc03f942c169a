/* SPDX-License-Identifier: MIT */
/*
 * A topic by a regular expression: the pattern is searched in one field of the
 * event, and where it is found the topic is the replacement with its groups
 * filled in. Patterns are an operator's but fields are foreign: the work of one
 * match is bounded.
 */
#ifndef CORE_REGEX_ROUTE_H
#define CORE_REGEX_ROUTE_H

#include "core/template.h"

struct regex_route;

int outrider__regex_route_new(const char *field, const char *pattern, const char *replacement,
                              struct regex_route **ret_route, struct outrider_error *err);
void outrider__regex_route_free(struct regex_route *r);

/* 1 with the topic in the arena, 0 where the pattern is not found, -1 with the
 * event's error. Uses scratch space in r: one thread at a time. */
int outrider__regex_route_apply(struct regex_route *r, const struct event *e, struct arena *arena,
                                struct bytes *ret_topic, struct outrider_error *err);

/* For the option table: whether it is a pattern. */
int outrider__regex_check(struct bytes pattern, struct outrider_error *err);
/* How many groups it has. */
int outrider__regex_groups(struct bytes pattern, unsigned *ret_n, struct outrider_error *err);

#endif
