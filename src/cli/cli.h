/* SPDX-License-Identifier: MIT */
/*
 * What the commands share: exit codes, how an error is told, and the way from
 * flags and a configuration file to pipelines and an open database.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "base/strbuf.h"
#include "cli/args.h"
#include "cli/config.h"
#include "core/config.h"
#include "core/store.h"

/* Stable: scripts rely on them. */
enum exit_code {
    CLI_DONE = 0,
    CLI_FAILED = 1,
    CLI_USAGE = 2,  /* usage or configuration */
    CLI_PARKED = 3, /* done, but something is parked or dead */
};

int outrider__cli_main(int argc, char **argv);

/* Tells an error on stderr, in one line; returns the exit code that fits it. */
int outrider__cli_fail(const struct outrider_error *err);
/* The same, with the exit code given. */
int outrider__cli_fail_as(int code, const struct outrider_error *err);
/* One line on stderr: talk, not data. */
void outrider__cli_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* A usage error in words: CLI_USAGE. */
int outrider__cli_usage(const struct args *a, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Flushes stdout; a reader that went away or a full disk is an error, not a success. */
int outrider__cli_flush(int code);

/* The pipelines that a command line speaks of: from its file, or one from its flags. */
struct cli_setup {
    struct config_file file;
    struct pipeline_config *selected; /* the one --name names, or the only one; NULL: all */
    const char *path;                 /* of the file, or NULL */
    bool is_debezium;                 /* the file is a connector's */
    struct strbuf warnings;           /* about it, one a line */
};

/* Flags override the file. Does not check what needs a sink: see config_check. */
int outrider__setup_load(const struct args *a, struct cli_setup *ret_setup,
                         struct outrider_error *err);
/* The same for whoever wants all errors, one a line: a success with errors is what could be
 * read in spite of them; after a failure they hold the last one too. */
int outrider__setup_load_all(const struct args *a, struct cli_setup *ret_setup,
                             struct strbuf *ret_errors);
void outrider__setup_release(struct cli_setup *s);
/* The pipeline whose database a command works on; an error says how to name it. */
int outrider__setup_database(const struct cli_setup *s, struct pipeline_config **ret_config,
                             struct outrider_error *err);

/* Loads the adapter of the configuration's source and opens its database. */
int outrider__store_open(const struct pipeline_config *c, struct store **ret_store,
                         struct outrider_error *err);
void outrider__store_close(struct store *s);
/* Opens the database that a command line names, runs the work on it, tells an error. */
typedef int store_work(const struct args *a, const struct pipeline_config *c, struct store *s,
                       struct outrider_error *err);
int outrider__with_store(const struct args *a, store_work *work);

/* What a command did to a pipeline, as text or, with --json, as an object. */
#define REPORT_CAP ((size_t)1 << 16)
int outrider__report_print(const struct args *a, const struct pipeline_config *c,
                           const struct strbuf *report, struct outrider_error *err);

int outrider__cmd_check(const struct args *a);
int outrider__cmd_cleanup(const struct args *a);
int outrider__cmd_dead(const struct args *a);
int outrider__cmd_doctor(const struct args *a);
int outrider__cmd_help(const struct args *a);
int outrider__cmd_init(const struct args *a);
int outrider__cmd_pipeline(const struct args *a);
int outrider__cmd_put(const struct args *a);
int outrider__cmd_relay(const struct args *a);
int outrider__cmd_replay(const struct args *a);
int outrider__cmd_resync(const struct args *a);
int outrider__cmd_slot(const struct args *a);
int outrider__cmd_status(const struct args *a);
int outrider__cmd_tail(const struct args *a);
int outrider__cmd_version(const struct args *a);

#endif
