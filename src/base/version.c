/* SPDX-License-Identifier: MIT */
#include "outrider/version.h"

const char *outrider_version(void)
{
    return OUTRIDER_VERSION;
}
