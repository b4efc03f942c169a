/* SPDX-License-Identifier: MIT */
#ifndef OUTRIDER_VERSION_H
#define OUTRIDER_VERSION_H

#include "outrider/export.h"

#define OUTRIDER_VERSION "0.1.0"

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the library in use, which may be newer than the header's. */
OUTRIDER_API const char *outrider_version(void);

#ifdef __cplusplus
}
#endif
#endif
