#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# bench/postgres-cdc.sh: mode cdc into null:, against pg_recvlogical of a copy of
# the same slot into /dev/null. BENCH_EVENTS=1000000 BENCH_ROUNDS=3
# BENCH_SECONDS=10. Needs a PostgreSQL server's programs (OUTRIDER_PG_BIN).
set -euo pipefail
cd "$(dirname "$0")/.."
exec python3 -B bench/postgres-cdc.py build/outrider
