/* SPDX-License-Identifier: MIT */
#include "postgres/poll_status/status.h"
#include "postgres/replay/replay.h"
#include "postgres/shared/source.h"

const struct pg_layout *const outrider__pg_layouts[] = {
    &outrider__pg_layout_cdc, &outrider__pg_layout_status, &outrider__pg_layout_log, NULL};

const struct pg_layout *const outrider__pg_readers[] = {&outrider__pg_replay_rows,
                                                        &outrider__pg_replay_log, NULL};
