/* SPDX-License-Identifier: MIT */
/*
 * A Debezium outbox connector's configuration, as it is, read as ours.
 *
 *     {"name": "orders", "config": {"connector.class": "...", ...}}     or config alone
 *
 *  (1) What the connector would publish is what we publish: columns, topic, key,
 *      headers and payload have Debezium's defaults, not ours.
 *  (2) An option that would change what is published, and that we do not do, is
 *      an error that names it; any other that has no meaning here is named in a
 *      warning.
 *  (3) The result is options of ours and nothing else, so that it can be written
 *      down as a configuration file (`outrider check --debezium`).
 *  (4) Bytes are foreign: bounded in size and count.
 */
#ifndef CLI_DEBEZIUM_H
#define CLI_DEBEZIUM_H

#include "cli/config.h"

/* pipeline: its name, or NULL: the connector's. Warnings are appended, one a line. Errors as
 * in cli/config.h: one, or all of them. */
int outrider__debezium_load(const char *path, const char *pipeline, struct config_file *ret_file,
                            struct strbuf *warnings, struct strbuf *ret_errors,
                            struct outrider_error *err);
/* name stands for the file in errors. */
int outrider__debezium_parse(struct bytes json, const char *name, const char *pipeline,
                             struct config_file *ret_file, struct strbuf *warnings,
                             struct strbuf *ret_errors, struct outrider_error *err);

#endif
