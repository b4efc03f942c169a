# SPDX-License-Identifier: MIT
"""bench/enqueue.py: starts a PostgreSQL server, and runs build/bench/enqueue on it."""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "support"))
from pgserver import Server, clean_environment  # noqa: E402


def main():
    directory = os.environ.get("BENCH_DIR", "build/bench/data")
    os.makedirs(directory, exist_ok=True)
    with Server(fsync="on", shared_buffers="128MB") as server, \
            tempfile.TemporaryDirectory(prefix="enqueue.", dir=directory) as data:
        url = server.url(server.create_database())
        subprocess.run(["build/outrider", "init", "--db", url], check=True, env=clean_environment(),
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        subprocess.run(["build/bench/enqueue", data, url], check=True, env=clean_environment())


if __name__ == "__main__":
    main()
