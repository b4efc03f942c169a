#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# bench/kafka.sh: from SQLite and PostgreSQL into Kafka, against librdkafka alone
# and against Debezium, on one server and one broker. BENCH_EVENTS=1000000
# BENCH_ROUNDS=3 BENCH_SECONDS=10. Needs a PostgreSQL server's programs
# (OUTRIDER_PG_BIN), Java 17, Maven and kcat; without Debezium's jars its rows are
# left out, loudly.
set -euo pipefail
cd "$(dirname "$0")/.."
exec python3 -B bench/kafka.py build/outrider build/bench/kafka
