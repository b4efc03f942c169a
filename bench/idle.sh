#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# bench/idle.sh: what many pipelines cost while nothing happens. BENCH_PIPELINES=200
# BENCH_SECONDS=10 BENCH_DIR=build/bench/data.
set -euo pipefail
cd "$(dirname "$0")/.."
exec python3 -B bench/idle.py build/outrider
