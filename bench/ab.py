# SPDX-License-Identifier: MIT
"""Two builds of the program take turns on the same backlog: bench/ab prints how fast
the second one is beside the first one, and how much memory each took.

ab.py A B: paths of the programs. Each build has databases of its own, made by its
own `init` and filled with the same rows, because the schema may differ."""
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "support"), os.path.join(HERE, "..", "tests", "support")]
PROGRAMS = dict(zip("AB", (os.path.abspath(p) for p in sys.argv[1:3])))
os.environ.setdefault("OUTRIDER", PROGRAMS["B"])
os.environ.setdefault("OUTRIDER_BUILD", os.path.dirname(PROGRAMS["B"]))
os.environ.setdefault("OUTRIDER_SOURCE", os.path.join(HERE, ".."))
import kafkaserver  # noqa: E402
from pgserver import Server, clean_environment, wait_for  # noqa: E402
from processes import peak_of  # noqa: E402
from report import Report  # noqa: E402

EVENTS = int(os.environ.get("BENCH_EVENTS", 300000))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", 5))
GOAL = 0.97
INSERT = ("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) SELECT 'order', (i %% 1000)::text, "
          "'changed', jsonb_build_object('n', i, 'filler', repeat('x', 260)) FROM generate_series(%d, %d) i")


class Way:
    """One way through the program. prepare() is not timed; arguments() is the relay's command line."""

    def __init__(self, place):
        self.place = place

    def outrider(self, which, *args):
        subprocess.run([PROGRAMS[which], *args], check=True, env=clean_environment(), capture_output=True)

    def prepare(self, which, turn):
        pass

    def done(self, which, turn):
        pass


class SqliteToFile(Way):
    name = "SQLite to file:"

    def set_up(self, which):
        path = os.path.join(self.place, which + ".db")
        self.outrider(which, "init", "--db", f"sqlite:{path}")
        with sqlite3.connect(path) as db:
            db.executemany("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) VALUES "
                           "('order', ?, 'changed', ?)",
                           ((str(i % 1000), '{"n":%d,"filler":"%s"}' % (i, "x" * 260)) for i in range(EVENTS)))

    def arguments(self, which, turn):
        return ["--from", f"sqlite:{self.place}/{which}.db", "--to", f"file:{self.place}/{which}{turn}"]


class Postgres(Way):
    layout, mode, sink = "log", "poll", "null:"

    def __init__(self, place, server):
        super().__init__(place)
        self.server, self.databases = server, {}

    def load(self, which):
        statements = [INSERT % (first, min(first + 999, EVENTS)) for first in range(1, EVENTS + 1, 1000)]
        self.server.script("SET synchronous_commit = off;\n" + ";\n".join(statements) + ";\nCHECKPOINT;\n",
                           self.databases[which])

    def set_up(self, which):
        self.databases[which] = self.server.create_database()
        self.outrider(which, "init", "--db", self.server.url(self.databases[which]), "--layout", self.layout)

    def arguments(self, which, turn):
        return ["--from", self.server.url(self.databases[which]), "--mode", self.mode, "--to", self.sink]


class PostgresLog(Postgres):
    name = "PostgreSQL log to null:"

    def set_up(self, which):
        super().set_up(which)
        self.load(which)


class PostgresStatus(Postgres):
    name, layout = "PostgreSQL status to null:", "status"

    def prepare(self, which, turn):
        self.server.query("TRUNCATE outbox", self.databases[which])
        self.load(which)


class PostgresCdc(Postgres):
    name, mode = "PostgreSQL cdc to null:", "cdc"

    def prepare(self, which, turn):
        self.server.query("TRUNCATE outbox", self.databases[which])
        self.outrider(which, "relay", *self.arguments(which, turn), "--name", f"t{turn}", "--once", "--log-level", "warn")
        self.load(which)

    def done(self, which, turn):
        wait_for(lambda: not self.server.query("SELECT 1 FROM pg_replication_slots WHERE active"), "the slot to be free")
        self.outrider(which, "slot", "drop", "--db", self.server.url(self.databases[which]), "--name", f"t{turn}")


class KafkaCdc(PostgresCdc):
    name = "PostgreSQL cdc to Kafka"

    def __init__(self, place, server, cluster):
        super().__init__(place, server)
        self.sink = cluster.url


def drain(way, which, turn):
    """Seconds, and the most memory in MiB, of one relay that delivers all."""
    way.prepare(which, turn)
    command = [PROGRAMS[which], "relay", *way.arguments(which, turn), "--name", f"t{turn}", "--once", "--log-level", "warn"]
    begin = time.monotonic()
    process = subprocess.Popen(command, env=clean_environment(), stdout=subprocess.DEVNULL)
    peak = 0
    while True:
        peak = peak_of(process.pid) or peak
        try:
            process.wait(0.02)
            break
        except subprocess.TimeoutExpired:
            continue
    took = time.monotonic() - begin
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    way.done(which, turn)
    return took, peak / 1024


def compare(way, report):
    speed, memory = {"A": [], "B": []}, {"A": [], "B": []}
    for which in "AB":
        way.set_up(which)
    for turn in range(ROUNDS):
        for which in ("AB", "BA")[turn % 2]:
            took, peak = drain(way, which, turn)
            speed[which].append(EVENTS / took)
            memory[which].append(peak)
    report.add(way.name, statistics.median(speed["B"]), "events/s", statistics.median(speed["A"]), GOAL)
    report.add("  peak memory", max(memory["B"]), "MiB", max(memory["A"]))


def main():
    report = Report("ab")
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as place:
        compare(SqliteToFile(place), report)
        server = Server(wal_level="logical", max_wal_size="8GB")
        try:
            server.initialise()
            server.start()
            for kind in (PostgresLog, PostgresStatus, PostgresCdc):
                compare(kind(place, server), report)
            kafkaserver.need()
            with kafkaserver.Cluster(log_segment_delete_delay_ms=1000) as cluster:
                cluster.create_topic("order.changed", partitions=6)
                compare(KafkaCdc(place, server, cluster), report)
        finally:
            server.remove()
    report.write_json()


if __name__ == "__main__":
    main()
