/* SPDX-License-Identifier: MIT */
/* Filling in a struct outrider_error. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include "outrider/error.h"

/* Fills err (which may be NULL) and returns -1, so that a caller can return it. */
int outrider__fail(struct outrider_error *err, enum outrider_code code,
                   enum outrider_disposition disposition, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* The same for a failed system call: the text of errno_value follows the
 * message, its name is the origin; ENOSPC and EDQUOT become NO_SPACE. */
int outrider__fail_errno(struct outrider_error *err, int errno_value, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

int outrider__fail_nomem(struct outrider_error *err);

/* Sets the other side's own code (SQLSTATE, "SQLITE_BUSY"). */
void outrider__error_origin(struct outrider_error *err, const char *origin);

#endif
