/* SPDX-License-Identifier: MIT */
/*
 * Errors: what went wrong, and what may be done about it.
 *
 * Every fallible call returns 0 or a negative number and takes, as its last
 * argument, a caller-owned struct outrider_error that it fills on failure
 * only. NULL is allowed there: the caller then gets the number alone. There is
 * no global or thread-local error state.
 */
#ifndef OUTRIDER_ERROR_H
#define OUTRIDER_ERROR_H

#include <stdbool.h>
#include <stddef.h>

#include "outrider/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One row makes the code, its name in logs, and its text for people. */
#define OUTRIDER_ERRORS(X)                               \
    X(OK, "no error")                                    \
    X(NOMEM, "out of memory")                            \
    X(INVALID, "invalid argument")                       \
    X(CONFIG, "invalid configuration")                   \
    X(URL, "invalid URL")                                \
    X(UNSUPPORTED, "not supported")                      \
    X(NOT_FOUND, "not found")                            \
    X(IO, "input or output failed")                      \
    X(NO_SPACE, "no space left")                         \
    X(CONNECT, "cannot connect")                         \
    X(TIMEOUT, "timed out")                              \
    X(AUTH, "access denied")                             \
    X(DB, "database error")                              \
    X(DB_LOCKED, "database is locked")                   \
    X(DB_READONLY, "database is read-only")              \
    X(NOT_A_DATABASE, "not a database")                  \
    X(NO_OUTBOX, "no outbox table")                      \
    X(SCHEMA_NEWER, "schema is newer than this program") \
    X(SCHEMA_UNSUITABLE, "schema is unsuitable")         \
    X(NO_TRANSACTION, "no transaction is open")          \
    X(SINK_MISMATCH, "pipeline belongs to another sink") \
    X(FENCED, "another relay took over")                 \
    X(STANDBY, "another relay is active")                \
    X(HISTORY, "history of the outbox was rewritten")    \
    X(SINK_DOWN, "sink is unavailable")                  \
    X(REJECTED, "rejected by the sink")                  \
    X(TOO_LARGE, "payload is too large")                 \
    X(NOT_JSON, "not valid JSON")                        \
    X(ROUTE, "no topic for the event")                   \
    X(TOPIC, "invalid topic name")                       \
    X(EXPIRED, "event expired")                          \
    X(CANCELLED, "cancelled")                            \
    X(DUPLICATE, "handled already")

enum outrider_code {
#define OUTRIDER_X(name, text) OUTRIDER_##name,
    OUTRIDER_ERRORS(OUTRIDER_X)
#undef OUTRIDER_X
        OUTRIDER_CODE_COUNT
};

/* What may be done about it. */
enum outrider_disposition {
    OUTRIDER_RETRY, /* the same call may work later */
    OUTRIDER_DEAD,  /* this event can never work */
    OUTRIDER_STOP   /* a person must act first */
};

struct outrider_error {
    enum outrider_code code;
    enum outrider_disposition disposition;
    char origin[24];   /* the other side's own code: SQLSTATE, broker code, errno name */
    char message[512]; /* one line, without secrets and payloads */
};

/* Name of a code as it stands in logs ("TOO_LARGE"), and its text. */
OUTRIDER_API const char *outrider_code_name(enum outrider_code code);
OUTRIDER_API const char *outrider_code_text(enum outrider_code code);
/* Code by name; OUTRIDER_CODE_COUNT if there is none. */
OUTRIDER_API enum outrider_code outrider_code_by_name(const char *name);
OUTRIDER_API const char *outrider_disposition_name(enum outrider_disposition d);

#ifdef __cplusplus
}
#endif
#endif
