/* SPDX-License-Identifier: MIT */
/*
 * Named points at which a test build can be made to die or to fail.
 *
 *     OUTRIDER_FAILPOINTS="settle.before_commit=kill@3,file.write=enospc"
 *
 * name=action[@n]: at the n-th pass (default the first; @* at every pass)
 *     kill     SIGKILL to this process
 *     stop     SIGSTOP to this process
 *     NAME     an errno by name (enospc, eio): the point reports it
 *     delay:D  sleeps for the duration D
 * A release build contains none of this: FAILPOINT is the constant 0 there.
 */
#ifndef BASE_FAILPOINT_H
#define BASE_FAILPOINT_H

#ifdef OUTRIDER_FAILPOINTS
/* 0, or the errno that the test asked for. */
int outrider__failpoint(const char *name);
#define FAILPOINT(name) outrider__failpoint(name)
#else
#define FAILPOINT(name) 0
#endif

#endif
