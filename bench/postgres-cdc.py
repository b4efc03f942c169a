# SPDX-License-Identifier: MIT
"""Mode cdc against pg_recvlogical: the same transactions, each from a copy of
one slot, in turns. Prints a table; with BENCH_JSON=FILE the same for programs."""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "support"), os.path.join(HERE, "..", "tests", "support")]
from pgserver import Server, clean_environment, wait_for  # noqa: E402
from processes import cpu_of, peak_of  # noqa: E402
from report import Report  # noqa: E402

OUTRIDER = os.path.abspath(sys.argv[1])
EVENTS = int(os.environ.get("BENCH_EVENTS", 1000000))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", 3))
SECONDS = int(os.environ.get("BENCH_SECONDS", 10))
PAYLOAD = "jsonb_build_object('n', i, 'filler', repeat('x', 260))"
INSERT = ("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) SELECT 'order', (i % 1000)::text, "
          "'changed', " + PAYLOAD + " FROM generate_series({first}, {last}) i")


class Watch(threading.Thread):
    """The last that was seen of a program's CPU and memory, and of its walsender's CPU."""

    def __init__(self, server, slot, pid):
        super().__init__(daemon=True)
        self.server, self.slot, self.pid = server, slot, pid
        self.cpu = self.peak = self.sender_cpu = 0
        self.over = threading.Event()
        self.start()

    def run(self):
        sender = None
        with self.server.session() as session:
            while not self.over.wait(0.02):
                if sender is None:
                    rows = session.execute("SELECT active_pid FROM pg_replication_slots WHERE active AND "
                                           f"slot_name = '{self.slot}'")
                    sender = int(rows[0][0]) if rows else None
                self.cpu = cpu_of(self.pid) or self.cpu
                self.peak = peak_of(self.pid) or self.peak
                if sender is not None:
                    self.sender_cpu = cpu_of(sender) or self.sender_cpu


class Bench:
    def __init__(self, server, report):
        self.server = server
        self.add = report.add
        self.copies = 0

    def relay(self, url, name, *more):
        return [OUTRIDER, "relay", "--from", url, "--mode", "cdc", "--name", name, "--log-level", "warn", *more]

    def database(self):
        name = self.server.create_database()
        subprocess.run([OUTRIDER, "init", "--db", self.server.url(name)], check=True, stdout=subprocess.DEVNULL)
        return name

    def base(self, database):
        """An empty pipeline in mode cdc, whose slot and cursor are copied for each run."""
        name = "base" + database
        # A publication must be older than what is read through it.
        for copy in range(self.copies + 1, self.copies + 4 * ROUNDS + 1):
            self.server.query(f"CREATE PUBLICATION outrider_copy{copy} FOR TABLE outbox WITH (publish = 'insert', "
                              "publish_via_partition_root = true)", database)
        subprocess.run(self.relay(self.server.url(database), name, "--to", "null:", "--once"), check=True)
        return name

    def copy(self, database, base):
        self.copies += 1
        name = f"copy{self.copies}"
        self.server.query(f"SELECT pg_copy_logical_replication_slot('outrider_{base}', 'outrider_{name}')", database)
        self.server.query(f"INSERT INTO outrider_cursor (pipeline, outbox, mode, slot) SELECT '{name}', outbox, mode, "
                          f"'outrider_{name}' FROM outrider_cursor WHERE pipeline = '{base}'", database)
        return name

    def drop(self, database, name):
        wait_for(lambda: not self.server.query("SELECT 1 FROM pg_replication_slots WHERE active AND "
                                               f"slot_name = 'outrider_{name}'"), "the slot to be free")
        self.server.query(f"SELECT pg_drop_replication_slot('outrider_{name}')", database)

    def run(self, database, name, command):
        begin = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=clean_environment())
        watch = Watch(self.server, "outrider_" + name, process.pid)
        code = process.wait()
        took = time.monotonic() - begin
        watch.over.set()
        watch.join()
        if code != 0:
            raise RuntimeError(f"{command[0]} ended with {code}")
        self.drop(database, name)
        return took, watch

    def drain(self, shape, database, base, tcp):
        url = self.server.url(database, tcp=tcp)
        where = "TCP" if tcp else "Unix socket"
        ours, peer, cpus, peer_cpus, peaks = [], [], [], [], []
        end = self.server.query("SELECT pg_current_wal_flush_lsn()")[0][0]
        self.server.query("SELECT pg_logical_emit_message(true, 'bench', '')", database)
        for _ in range(ROUNDS):
            name = self.copy(database, base)
            took, watch = self.run(database, name, self.relay(url, name, "--to", "null:", "--once"))
            ours.append(EVENTS / took)
            cpus.append((watch.cpu, watch.sender_cpu))
            peaks.append(watch.peak)
            name = self.copy(database, base)
            took, watch = self.run(database, name, [
                os.path.join(self.server.bin, "pg_recvlogical"), "-d", url, "-S", "outrider_" + name, "--start",
                "--no-loop", "-f", "/dev/null", "-E", end, "-F", "0", "-o", "proto_version=1", "-o",
                f"publication_names=outrider_{name}", "-o", "binary=true", "-o", "messages=true"])
            peer.append(EVENTS / took)
            peer_cpus.append(watch.cpu)
        goal = 1.2 if shape == "one-row transactions" else 1.0
        self.add(f"{shape}, {where}", statistics.median(ours), "events/s", statistics.median(peer), goal)
        cpu, sender = cpus[ours.index(statistics.median_high(ours))]
        self.add("  CPU, of the walsender's", cpu, "s", max(sender, 1e-9), 1 / 3, at_least=False)
        self.add("  CPU, of pg_recvlogical's", cpu, "s", max(statistics.median(peer_cpus), 1e-9))
        self.add("  peak memory", max(peaks) / 1024, "MiB", goal=24, at_least=False)

    def shapes(self):
        for shape, rows in (("one-row transactions", 1), ("1,000-row transactions", 1000), ("one big transaction", EVENTS)):
            database = self.database()
            base = self.base(database)
            self.load(database, rows)
            for tcp in (False, True):
                self.drain(shape, database, base, tcp)
            self.drop(database, base)
            self.server.query(f"DROP DATABASE {database} WITH (FORCE)")

    def load(self, database, rows):
        per = max(rows, 1)
        loop = INSERT.format(first="s", last=f"least(s + {per - 1}, {EVENTS})")
        self.server.script("SET synchronous_commit = off;\n"
                           f"DO $$ BEGIN FOR s IN 1..{EVENTS} BY {per} LOOP {loop}; COMMIT; END LOOP; END $$;\n",
                           database)

    def latency(self):
        database = self.database()
        url = self.server.url(database)
        base = self.base(database)
        self.server.query("UPDATE outrider_cursor SET sink = 'stdout:'", database)
        relay = subprocess.Popen(self.relay(url, base, "--to", "stdout:"), stdout=subprocess.PIPE,
                                 env=clean_environment())
        wait_for(lambda: self.server.query("SELECT 1 FROM pg_replication_slots WHERE active AND "
                                           f"slot_name = 'outrider_{base}'"), "the stream to begin")
        with tempfile.NamedTemporaryFile("w", suffix=".sql") as script:
            os.chmod(script.name, 0o644)
            script.write("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) VALUES ('order', '1', "
                         "'changed', jsonb_build_object('at', extract(epoch FROM clock_timestamp())));\n")
            script.flush()
            load = subprocess.Popen([os.path.join(self.server.bin, "pgbench"), "-n", "-R", "500", "-c", "2", "-T",
                                     str(SECONDS), "-f", script.name, url], stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL, env=clean_environment())
            waits = []
            reader = threading.Thread(target=self.read_lines, args=(relay.stdout, waits), daemon=True)
            reader.start()
            load.wait()
            wait_for(lambda: len(waits) >= int(self.server.query("SELECT count(*) FROM outbox", database)[0][0]),
                     "the last event")
        relay.terminate()
        relay.wait()
        waits.sort()
        self.add("commit to sink, p50 (from the INSERT)", waits[len(waits) // 2] * 1000, "ms", goal=1, at_least=False)
        self.add("commit to sink, p99", waits[len(waits) * 99 // 100] * 1000, "ms", goal=5, at_least=False)
        self.drop(database, base)

    @staticmethod
    def read_lines(stream, waits):
        for line in stream:
            now = time.time()
            waits.append(now - float(json.loads(line)["payload"]["at"]))


def main():
    server = Server(wal_level="logical", max_replication_slots=20, max_wal_size="16GB", shared_buffers="128MB",
                    autovacuum="off")
    try:
        server.initialise()
        server.start()
        report = Report("postgres-cdc")
        bench = Bench(server, report)
        bench.shapes()
        bench.latency()
    finally:
        server.remove()
    report.write_json()


if __name__ == "__main__":
    main()
