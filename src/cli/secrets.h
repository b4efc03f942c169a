/* SPDX-License-Identifier: MIT */
/* Every user of the machine can read a command line in ps(1): secrets leave it. */
#ifndef CLI_SECRETS_H
#define CLI_SECRETS_H

#include "base/arena.h"

/*
 * Overwrites, in place, what is secret in one argument:
 *
 *  (1) the value of NAME=VALUE (also --set=NAME=VALUE), where the option NAME says that its
 *      value is secret (has_secrets in the option's row), or, of an item of a map, that
 *      the item's name sounds secret;
 *  (2) the same where no option has the name NAME but the name sounds secret: somebody
 *      has made a slip;
 *  (3) the password and secret parameters of a URL, wherever the URL stands.
 */
void outrider__hide_secrets(char *arg, struct arena *arena);

#endif
