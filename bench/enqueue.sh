#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# bench/enqueue.sh: what an enqueue costs beside a bare INSERT of the same row,
# on SQLite and PostgreSQL. BENCH_EVENTS=100000. Needs a
# PostgreSQL server's programs (OUTRIDER_PG_BIN).
set -euo pipefail
cd "$(dirname "$0")/.."
exec python3 -B bench/enqueue.py
