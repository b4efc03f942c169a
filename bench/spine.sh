#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# bench/spine.sh: SQLite to null: and file:, compared with bare loops over the
# same rows. BENCH_EVENTS=1000000 BENCH_ROUNDS=3 BENCH_SECONDS=10 BENCH_FULL=1
# BENCH_DIR=build/bench/data (its file system is what is measured).
set -euo pipefail
cd "$(dirname "$0")/.."
dir=${BENCH_DIR:-build/bench/data}
mkdir -p "$dir"
data=$(mktemp -d "$dir/spine.XXXXXX")
trap 'rm -rf "$data"' EXIT
build/bench/spine build/outrider "$data"
