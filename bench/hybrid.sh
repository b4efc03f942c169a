#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# bench/hybrid.sh: commit to consumer, for hybrid publishing, mode cdc and
# polling. BENCH_SECONDS=10. Needs a PostgreSQL server's programs (OUTRIDER_PG_BIN).
set -euo pipefail
cd "$(dirname "$0")/.."
exec python3 -B bench/hybrid.py build/outrider build/bench/hybrid
