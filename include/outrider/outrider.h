/* SPDX-License-Identifier: MIT */
/* Everything that needs no database client: errors, events, version. */
#ifndef OUTRIDER_OUTRIDER_H
#define OUTRIDER_OUTRIDER_H

#include "outrider/error.h"
#include "outrider/event.h"
#include "outrider/version.h"

#endif
