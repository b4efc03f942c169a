# SPDX-License-Identifier: MIT
"""200 pipelines from SQLite to file: in one process, with nothing to do: their share of a
processor, their memory and their threads. A commit at the end shows that they are awake."""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from processes import cpu_of  # noqa: E402
from report import Report  # noqa: E402

OUTRIDER = os.path.abspath(sys.argv[1])
PIPELINES = int(os.environ.get("BENCH_PIPELINES", "200"))
SECONDS = int(os.environ.get("BENCH_SECONDS", "10"))
QUIET_AFTER = 8  # seconds: an outbox counts as quiet after five
MIB_EACH, PERCENT = 0.7, 2.0


def status_of(pid, field):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field + ":"))


def wait_for(condition, what):
    deadline = time.monotonic() + 60
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(f"bench/idle.py: {what}")
        time.sleep(0.01)


def write_config(root, n):
    """A configuration with n pipelines, each with a database of its own."""
    lines = ["pipelines:"]
    for i in range(n):
        db = root / f"{i}.db"
        subprocess.run([OUTRIDER, "init", "--db", f"sqlite:{db}"], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        lines.append(f"  - name: p{i}\n    source: {{url: 'sqlite:{db}'}}\n    sink: {{url: 'file:{root}/log{i}'}}")
    path = root / f"{n}.yaml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def put(root, i):
    subprocess.run([OUTRIDER, "put", "--db", f"sqlite:{root}/{i}.db", "--aggregate-type", "order",
                    "--aggregate-id", "1", "--type", "made", "--payload", "{}"], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def is_delivered(root, i):
    return any((root / f"log{i}").glob("*/*.jsonl"))


def measure(root, n):
    """Percent of a processor, KiB and threads of a relay with n quiet pipelines."""
    with open(root / "log.txt", "w+b") as log:
        relay = subprocess.Popen([OUTRIDER, "relay", "-c", str(write_config(root, n))], stderr=log)
        try:
            put(root, n - 1)
            wait_for(lambda: is_delivered(root, n - 1), "the first event does not arrive")
            time.sleep(QUIET_AFTER)
            before, began = cpu_of(relay.pid), time.monotonic()
            time.sleep(SECONDS)
            percent = 100 * (cpu_of(relay.pid) - before) / (time.monotonic() - began)
            found = percent, status_of(relay.pid, "VmRSS"), status_of(relay.pid, "Threads")
            if n > 1:
                put(root, 0)
                wait_for(lambda: is_delivered(root, 0), "an event after the quiet does not arrive")
            return found
        finally:
            relay.send_signal(signal.SIGTERM)
            relay.wait()


def main():
    base = os.environ.get("BENCH_DIR", os.path.join(os.path.dirname(OUTRIDER), "bench", "data"))
    os.makedirs(base, exist_ok=True)
    report = Report("idle")
    with tempfile.TemporaryDirectory(dir=base) as one, tempfile.TemporaryDirectory(dir=base) as many:
        _, kib_one, _ = measure(pathlib.Path(one), 1)
        percent, kib, threads = measure(pathlib.Path(many), PIPELINES)
    report.add(f"{PIPELINES} idle pipelines together", percent, "% of a core", goal=PERCENT, at_least=False)
    report.add("memory of each further pipeline", (kib - kib_one) / 1024 / (PIPELINES - 1), "MiB", goal=MIB_EACH,
               at_least=False)
    report.add("memory of a process with one", kib_one / 1024, "MiB")
    report.add(f"threads of a process with {PIPELINES}", threads, "threads")
    report.write_json()


if __name__ == "__main__":
    main()
