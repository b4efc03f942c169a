/* SPDX-License-Identifier: MIT */
#ifndef CLI_DEBEZIUM_CHECK_H
#define CLI_DEBEZIUM_CHECK_H

#include "cli/cli.h"

/* A redacted password in the URL of the connector's database is left out, because the client of
 * that database takes one from the environment; the reader is told. */
void outrider__debezium_without_password(struct strbuf *url);
/* The connector does not say where its broker is; the file that is printed must. */
int outrider__debezium_guess_sink(struct cli_setup *s, struct outrider_error *err);

#endif
