/* SPDX-License-Identifier: MIT */
/*
 * ${NAME} in a value, taken from the environment. Names are in capitals, digits
 * and underscores; everything else, ${name} too, stays as it stands. $${NAME}
 * stands for ${NAME}. What is put in is not looked at again.
 */
#ifndef CLI_CONFIG_ENV_H
#define CLI_CONFIG_ENV_H

#include "base/arena.h"
#include "base/error.h"

/* Borrows the text where there is nothing to put in. An error names the
 * variable, never a value. */
int outrider__config_env(struct bytes text, struct arena *arena, struct bytes *ret_text,
                         struct outrider_error *err);

#endif
