# SPDX-License-Identifier: MIT
"""A server and the outboxes for build/bench/hybrid, which measures and reports."""
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tests", "support"))
from pgserver import Server, clean_environment  # noqa: E402

OUTRIDER, BENCH = map(os.path.abspath, sys.argv[1:])
LAYOUTS = {"hybrid": "status", "cdc": "log", "poll": "log", "status": "status"}
OURS = {name: value for name, value in os.environ.items() if name.startswith("BENCH_")}


def main():
    root = os.environ.get("BENCH_DIR", os.path.join(os.path.dirname(BENCH), "data"))
    os.makedirs(root, exist_ok=True)
    env = clean_environment(OUTRIDER_MODULE_PATH=os.path.join(os.path.dirname(OUTRIDER), "modules"), **OURS)
    server = Server(wal_level="logical", fsync="on", shared_buffers="128MB")
    try:
        server.initialise()
        server.start()
        for name, layout in LAYOUTS.items():
            server.query(f"CREATE DATABASE {name}")
            subprocess.run([OUTRIDER, "init", "--db", server.url(name), "--layout", layout], check=True, env=env,
                           stderr=subprocess.DEVNULL)
        with tempfile.TemporaryDirectory(dir=root) as directory:
            subprocess.run([BENCH, OUTRIDER, directory, server.url("").rstrip("/")], check=True, env=env)
    finally:
        server.remove()


if __name__ == "__main__":
    main()
