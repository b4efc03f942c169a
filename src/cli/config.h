/* SPDX-License-Identifier: MIT */
/*
 * The configuration file: YAML in, checked pipelines out.
 *
 *     pipelines:                        one or more, or a single one's keys at the top
 *       - name: orders                  may be left out where there is only one
 *         source: {url: "${SHOP}"}
 *         sink: {url: "file:events"}
 *         on_dead: block                a section may be left out where the rest is unique
 *     log: {level: info, format: logfmt}
 *
 *  (1) An error says where: "outrider.yaml:12: unknown option 'retry.delay'
 *      (did you mean 'retry.delays'?)".
 *  (2) ${NAME}, in capitals, is taken from the environment, in values only, and
 *      not in templates, where ${...} means something else; an unset one is an
 *      error. $${NAME} stands for itself.
 *  (3) What needs the whole pipeline (a missing URL) is config_check's business,
 *      after the command line had its say.
 *  (4) Whoever wants all errors (ret_errors, else NULL) gets them one a line; the file is
 *      read on behind each of them, and succeeds unless that is impossible. is_broken tells
 *      the pipelines that are not as they were meant.
 *  (5) Bytes are foreign: at most CONFIG_FILE_MAX of them, no aliases, no tags,
 *      one document.
 */
#ifndef CLI_CONFIG_H
#define CLI_CONFIG_H

#include "core/options.h"

#define CONFIG_FILE_MAX (1024 * 1024)

/* Must stay where it is: each pipeline points at the arena. */
struct config_file {
    struct arena arena;
    struct pipeline_config *pipelines;
    size_t n;
    bool *is_broken; /* of each pipeline; NULL: no file was read */
    struct program_config program;
};

int outrider__config_load(const char *path, struct config_file *ret_file, struct strbuf *ret_errors,
                          struct outrider_error *err);
/* A file's bytes, at most CONFIG_FILE_MAX, which the caller frees. */
int outrider__config_read(const char *path, struct bytes *ret_text, struct outrider_error *err);
/* name stands for the file in errors. */
int outrider__config_parse(struct bytes text, const char *name, struct config_file *ret_file,
                           struct strbuf *ret_errors, struct outrider_error *err);
/* As if from a file with one pipeline and nothing in it: all defaults. */
int outrider__config_empty(const char *pipeline, struct config_file *ret_file,
                           struct outrider_error *err);
/* Also legal on a zeroed struct. */
void outrider__config_release(struct config_file *f);

#endif
