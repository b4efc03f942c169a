/* SPDX-License-Identifier: MIT */
#include "postgres/poll_status/status.h"
#include "postgres/shared/source.h"

const struct pg_layout *const outrider__pg_layouts[PG_LAYOUTS] = {
    &outrider__pg_layout_cdc, &outrider__pg_layout_status, &outrider__pg_layout_log};
