#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# bench/postgres-poll.sh: a PostgreSQL server of its own, with default settings
# but for its address, polled by the relay and by others. Variables: see README.md.
set -euo pipefail
cd "$(dirname "$0")/.."

find_bin() {
    local dir
    for dir in ${OUTRIDER_PG_BIN:-} /usr/lib/postgresql/15/bin $(printf '%s\n' /usr/lib/postgresql/*/bin | sort -rV) \
        "$(dirname "$(command -v postgres || echo /)")"; do
        [[ -x $dir/postgres && -x $dir/initdb ]] && echo "$dir" && return
    done
}
bin=$(find_bin)
if [[ -z $bin ]]; then
    scripts/setup test
    bin=$(find_bin)
fi
[[ -n $bin ]] || { echo "no PostgreSQL server: set OUTRIDER_PG_BIN" >&2; exit 1; }

dir=${BENCH_DIR:-build/bench/data}
mkdir -p "$dir"
data=$(cd "$(mktemp -d "$dir/postgres-poll.XXXXXX")" && pwd)
server=
as=() # a server refuses to run as root
if ((EUID == 0)); then
    as=(runuser -u postgres --)
    chmod 755 "$data"
    if ! "${as[@]}" test -x "$data"; then
        echo "user postgres cannot enter $data: set BENCH_DIR" >&2
        exit 1
    fi
fi
stop() {
    if [[ -n $server ]] && kill -INT "$server" 2>/dev/null; then # fast shutdown
        while kill -0 "$server" 2>/dev/null; do sleep 0.1; done
    fi
    rm -rf "$data"
}
trap stop EXIT

mkdir "$data/server" "$data/files"
((EUID)) || chown postgres "$data/server"
cd "$data"
"${as[@]}" "$bin/initdb" -D "$data/server/cluster" -A trust -U postgres -E UTF8 --locale=C >initdb.log ||
    { cat initdb.log >&2; exit 1; }
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"${as[@]}" "$bin/pg_ctl" -D "$data/server/cluster" -l "$data/server/log" -w -t 60 \
    -o "-c listen_addresses=127.0.0.1 -c port=$port -c unix_socket_directories=" start >pg_ctl.log ||
    { cat server/log >&2; exit 1; }
server=$(head -1 server/cluster/postmaster.pid)
url=postgresql://postgres@127.0.0.1:$port
for name in log status live; do
    psql -Xqd "$url/postgres" -c "CREATE DATABASE $name"
done
cd - >/dev/null
build/bench/postgres-poll build/outrider "$data/files" "$url" "$server"
