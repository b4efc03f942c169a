/* SPDX-License-Identifier: MIT */
/* What the shared library exports: outrider_* and nothing else. */
#ifndef OUTRIDER_EXPORT_H
#define OUTRIDER_EXPORT_H

#if defined(__GNUC__)
#define OUTRIDER_API __attribute__((visibility("default")))
#define OUTRIDER_MUST_CHECK __attribute__((warn_unused_result))
#else
#define OUTRIDER_API
#define OUTRIDER_MUST_CHECK
#endif

#endif
