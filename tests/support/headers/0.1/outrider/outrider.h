/* SPDX-License-Identifier: MIT */
/* Everything that needs no database client: errors, events, writers, version. */
#ifndef OUTRIDER_OUTRIDER_H
#define OUTRIDER_OUTRIDER_H

#include "outrider/error.h"
#include "outrider/event.h"
#include "outrider/inbox.h"
#include "outrider/version.h"
#include "outrider/writer.h"

#endif
