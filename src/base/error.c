/* SPDX-License-Identifier: MIT */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define OUTRIDER_X(name, text) {#name, text},
static const struct {
    const char *name;
    const char *text;
} codes[OUTRIDER_CODE_COUNT] = {OUTRIDER_ERRORS(OUTRIDER_X)};
#undef OUTRIDER_X

const char *outrider_code_name(enum outrider_code code)
{
    return (unsigned)code < OUTRIDER_CODE_COUNT ? codes[code].name : "UNKNOWN";
}

const char *outrider_code_text(enum outrider_code code)
{
    return (unsigned)code < OUTRIDER_CODE_COUNT ? codes[code].text : "unknown error";
}

enum outrider_code outrider_code_by_name(const char *name)
{
    for (int i = 0; i < OUTRIDER_CODE_COUNT; i++)
        if (strcmp(codes[i].name, name) == 0)
            return (enum outrider_code)i;
    return OUTRIDER_CODE_COUNT;
}

const char *outrider_disposition_name(enum outrider_disposition d)
{
    switch (d) {
    case OUTRIDER_RETRY:
        return "retry";
    case OUTRIDER_DEAD:
        return "dead";
    case OUTRIDER_STOP:
        return "stop";
    }
    return "unknown";
}

/* Messages are one line each, whatever another program put into them. */
static void error_one_line(char *s)
{
    for (char *p = s; *p != '\0'; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = ' ';
    size_t n = strlen(s);
    while (n > 0 && s[n - 1] == ' ')
        s[--n] = '\0';
}

__attribute__((format(printf, 4, 0))) static void error_fill(struct outrider_error *err,
                                                             enum outrider_code code,
                                                             enum outrider_disposition disposition,
                                                             const char *fmt, va_list ap)
{
    struct outrider_error e = {.code = code, .disposition = disposition};
    (void)vsnprintf(e.message, sizeof e.message, fmt, ap);
    error_one_line(e.message);
    *err = e;
}

int outrider__fail(struct outrider_error *err, enum outrider_code code,
                   enum outrider_disposition disposition, const char *fmt, ...)
{
    if (err != NULL) {
        va_list ap;
        va_start(ap, fmt);
        error_fill(err, code, disposition, fmt, ap);
        va_end(ap);
    }
    return -1;
}

int outrider__fail_errno(struct outrider_error *err, int errno_value, const char *fmt, ...)
{
    if (err == NULL)
        return -1;
    bool full = errno_value == ENOSPC || errno_value == EDQUOT;
    va_list ap;
    va_start(ap, fmt);
    error_fill(err, full ? OUTRIDER_NO_SPACE : OUTRIDER_IO, OUTRIDER_RETRY, fmt, ap);
    va_end(ap);
    size_t n = strlen(err->message);
    (void)snprintf(err->message + n, sizeof err->message - n, ": %s", strerror(errno_value));
    const char *name = strerrorname_np(errno_value);
    outrider__error_origin(err, name ? name : "errno");
    return -1;
}

int outrider__fail_nomem(struct outrider_error *err)
{
    return outrider__fail(err, OUTRIDER_NOMEM, OUTRIDER_RETRY, "out of memory");
}

void outrider__error_origin(struct outrider_error *err, const char *origin)
{
    if (err != NULL)
        (void)snprintf(err->origin, sizeof err->origin, "%s", origin);
}
