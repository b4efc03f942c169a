/* SPDX-License-Identifier: MIT */
/* How a session on PostgreSQL is told from others. */
#ifndef POSTGRES_CLIENT_SESSION_H
#define POSTGRES_CLIENT_SESSION_H

#include "base/session.h"

extern const struct session_ops outrider__pg_session_ops;

#endif
