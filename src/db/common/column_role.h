/* SPDX-License-Identifier: MIT */
/*
 * The roles that columns can have, the names that such columns usually have, and the
 * types that a name needs before it counts.
 *
 *  (1) Names are compared without case, '_' and '-'.
 *  (2) The names of a role stand in the order of preference.
 */
#ifndef COMMON_COLUMN_ROLE_H
#define COMMON_COLUMN_ROLE_H

#include "common/column_map.h"

#define ROLE_RANK_NONE (-1)

/* Where a column's name stands among the names of a role: 0 is the best. */
int outrider__role_rank(enum column_role role, const char *column);
/* The same in a list of names, with a space before and behind each name. */
int outrider__names_rank(const char *names, const char *column);
/* Whether a column of that type can have the role by its name. */
bool outrider__role_takes(enum column_role role, const struct map_column *c);

#endif
