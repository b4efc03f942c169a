# SPDX-License-Identifier: MIT
"""Into Kafka: the relay against librdkafka alone, pg_recvlogical, and Debezium in
Kafka Connect. Prints a table; with BENCH_JSON=FILE the same for programs."""
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "support"), os.path.join(HERE, "..", "tests", "support")]
OUTRIDER, PRODUCER = (os.path.abspath(x) for x in sys.argv[1:3])
os.environ.setdefault("OUTRIDER", OUTRIDER)
os.environ.setdefault("OUTRIDER_BUILD", os.path.dirname(OUTRIDER))
os.environ.setdefault("OUTRIDER_SOURCE", os.path.join(HERE, ".."))
import kafkaserver  # noqa: E402
from debezium import Debezium  # noqa: E402
from pgserver import Server, clean_environment, wait_for  # noqa: E402
from processes import cpu_of, peak_of  # noqa: E402
from report import Report  # noqa: E402

EVENTS = int(os.environ.get("BENCH_EVENTS", 1000000))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", 3))
SECONDS = int(os.environ.get("BENCH_SECONDS", 10))
PARTITIONS = 6
# As Kafka's own start script has it: tests ask for a quick start instead of a quick broker.
BROKER_FLAGS = ["-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35"]
INSERT = ("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) SELECT 'order', (i % 1000)::text, "
          "'changed', jsonb_build_object('n', i, 'filler', repeat('x', 260)) FROM generate_series({first}, {last}) i")


class Watch(threading.Thread):
    """The last that was seen of a program's CPU time and memory."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.cpu, self.peak = pid, 0.0, 0.0
        self.over = threading.Event()
        self.start()

    def look(self):
        self.cpu = cpu_of(self.pid) or self.cpu
        self.peak = (peak_of(self.pid) or 0) / 1024 or self.peak

    def run(self):
        while not self.over.wait(0.02):
            self.look()

    def end(self):
        self.over.set()
        self.join()


class Figures:
    """What one way of doing it takes: events/s, CPU seconds per million, MiB."""

    def __init__(self):
        self.rates, self.cpus, self.peaks = [], [], []

    def add(self, events, seconds, cpu, peak):
        self.rates.append(events / seconds)
        self.cpus.append(cpu / events * 1e6)
        self.peaks.append(peak)

    @property
    def rate(self):
        return statistics.median(self.rates)

    @property
    def cpu(self):
        return statistics.median(self.cpus)

    @property
    def peak(self):
        return max(self.peaks)


class Consumer(threading.Thread):
    """kcat at the end of a topic; notes when each line came, and what it says of its INSERT."""

    def __init__(self, cluster, topic):
        super().__init__(daemon=True)
        self.seen = []
        self.process = subprocess.Popen(
            ["kcat", "-C", "-q", "-u", "-b", cluster.servers, "-t", topic, "-o", "beginning", "-X",
             "fetch.wait.max.ms=100", "-f", "%s\n"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.start()

    def run(self):
        for line in self.process.stdout:
            self.seen.append((time.time(), float(json.loads(line).get("at", 0))))

    def wait(self, n, what):
        wait_for(lambda: len(self.seen) >= n, what, 120)

    def end(self):
        self.process.kill()
        self.process.wait()
        self.join()
        return self.seen


class Bench:
    def __init__(self, server, cluster, directory, report):
        self.server, self.cluster, self.directory = server, cluster, directory
        self.add, self.topics, self.figures = report.add, 0, {}

    def topic(self):
        self.topics += 1
        name = f"bench{self.topics}"
        self.cluster.create_topic(name, PARTITIONS)
        return name

    def count(self, topic):
        """Messages in a topic that is not compacted and has no transactions, by its ends."""
        p = subprocess.run(["kcat", "-Q", "-b", self.cluster.servers, *[
            x for i in range(PARTITIONS) for x in ("-t", f"{topic}:{i}:-1")]], stdout=subprocess.PIPE, text=True,
            check=True)
        return sum(int(x.rsplit(" ", 1)[1]) for x in p.stdout.splitlines())

    def check(self, topic, exactly=True):
        n = self.count(topic)
        if n != EVENTS if exactly else n < EVENTS:
            raise RuntimeError(f"{topic} has {n} messages instead of {EVENTS}")
        self.cluster.delete_topic(topic)

    def measure(self, figures, command):
        begin = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=clean_environment())
        watch = Watch(process.pid)
        code = process.wait()
        took = time.monotonic() - begin
        watch.end()
        if code != 0:
            raise RuntimeError(f"{command[0]} ended with {code}")
        figures.add(EVENTS, took, watch.cpu, watch.peak)

    def relay(self, url, topic, *more):
        return [OUTRIDER, "relay", "--from", url, "--to", self.cluster.url, "--log-level", "warn", "--set",
                f"route.topic={topic}", *more]

    def row(self, what):
        figures = self.figures[what]
        self.add(what, figures.rate, "events/s")
        self.add("  CPU per million events", figures.cpu, "s")
        self.add("  peak memory", figures.peak, "MiB")

    # Throughput

    def alone(self):
        # A broker that has just started finds its coordinators first.
        subprocess.run([PRODUCER, self.cluster.servers, self.topic(), "1000"], check=True, stderr=subprocess.DEVNULL)
        self.figures["librdkafka alone"] = f = Figures()
        for _ in range(ROUNDS):
            topic = self.topic()
            self.measure(f, [PRODUCER, self.cluster.servers, topic, str(EVENTS)])
            self.check(topic)
        self.row("librdkafka alone")

    def polled(self, source, url):
        """At least once and exactly once, in turns: a broker becomes faster while it runs."""
        once = source + ", exactly once"
        self.figures.update({source: Figures(), once: Figures()})
        for i in range(ROUNDS):
            for what, more in ((source, []), (once, ["--set", "exactly_once=true"])):
                topic = self.topic()
                self.measure(self.figures[what], self.relay(url, topic, "--name", f"{'once' if more else 'least'}{i}",
                                                            "--once", *more))
                self.check(topic, not more)
        self.row(source)
        self.row(once)
        self.add(f"  {source}: exactly once of at least once", self.figures[once].rate, "events/s",
                 self.figures[source].rate, 0.7)

    def sqlite(self):
        path = os.path.join(self.directory, "bench.db")
        url = "sqlite:" + path
        subprocess.run([OUTRIDER, "init", "--db", url], check=True, stderr=subprocess.DEVNULL)
        db = sqlite3.connect(path)
        with db:
            db.execute("WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < ?) INSERT INTO outbox "
                       "(aggregate_type, aggregate_id, event_type, payload) SELECT 'order', i % 1000, 'changed', "
                       "'{\"n\": ' || i || ', \"filler\": \"' || ? || '\"}' FROM s", (EVENTS, "x" * 260))
        db.close()
        self.polled("SQLite", url)
        os.unlink(path)

    def database(self):
        name = self.server.create_database()
        subprocess.run([OUTRIDER, "init", "--db", self.server.url(name)], check=True, stderr=subprocess.DEVNULL)
        return name

    def load(self, database):
        """In transactions of 1,000."""
        loop = INSERT.format(first="s", last=f"least(s + 999, {EVENTS})")
        self.server.script("SET synchronous_commit = off;\n"
                           f"DO $$ BEGIN FOR s IN 1..{EVENTS} BY 1000 LOOP {loop}; COMMIT; END LOOP; END $$;\n",
                           database)

    def log(self):
        database = self.database()
        self.load(database)
        self.polled("PostgreSQL log", self.server.url(database))
        self.server.query(f"DROP DATABASE {database} WITH (FORCE)")

    def begin_cdc(self, database, name, *more):
        """The slot is older than what is read through it."""
        subprocess.run(self.relay(self.server.url(database), "none", "--mode", "cdc", "--name", name, "--once", *more),
                       check=True)

    def drop_slots(self, database):
        def free():
            self.server.query("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = "
                              f"'{database}' AND NOT active", database)
            return not self.server.query(f"SELECT 1 FROM pg_replication_slots WHERE database = '{database}'")
        wait_for(free, "the slots to be free")

    def received(self, url, slot, end):
        """Seconds that pg_recvlogical takes for the same."""
        begin = time.monotonic()
        subprocess.run([os.path.join(self.server.bin, "pg_recvlogical"), "-d", url, "-S", slot,
                        "--start", "--no-loop", "-f", "/dev/null", "-E", end, "-F", "0", "-o", "proto_version=1",
                        "-o", f"publication_names={slot}", "-o", "binary=true", "-o", "messages=true"], check=True,
                       stdout=subprocess.DEVNULL, env=clean_environment())
        return time.monotonic() - begin

    def both_limits(self, url, slot, end):
        """Seconds that pg_recvlogical and librdkafka take side by side: they share the cores, as in a relay."""
        topic = self.topic()
        begin = time.monotonic()
        producer = subprocess.Popen([PRODUCER, self.cluster.servers, topic, str(EVENTS)], stderr=subprocess.DEVNULL)
        self.received(url, slot, end)
        if producer.wait() != 0:
            raise RuntimeError("the producer failed")
        took = time.monotonic() - begin
        self.check(topic)
        return took

    def cdc(self):
        """Ours, pg_recvlogical and Debezium read the same transactions, each from a slot of its own. Debezium
        has TCP only, so that is how ours is compared with it; a Unix socket is measured beside it."""
        database = self.database()
        tcp, unix = self.server.url(database, tcp=True), self.server.url(database)
        cdc, once, local = "PostgreSQL cdc", "PostgreSQL cdc, exactly once", "PostgreSQL cdc, Unix socket"
        ways = {cdc: (tcp, []), once: (tcp, ["--set", "exactly_once=true"]), local: (unix, [])}
        limits = {"pg_recvlogical": tcp, "pg_recvlogical, Unix socket": unix}
        for k, (_, more) in enumerate(ways.values()):
            for i in range(ROUNDS):
                self.begin_cdc(database, f"cdc{k}x{i}", *more)
        for i in range(ROUNDS):
            for slot in (f"limit0x{i}", f"limit1x{i}", f"both{i}"):
                self.server.query(f"CREATE PUBLICATION {slot} FOR TABLE outbox", database)
                self.server.query(f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')", database)
        debezium = Debezium.fetch(self.server, database, self.cluster, self.directory)
        if debezium is not None:
            debezium.start("none")
            debezium.stop()
        self.load(database)
        end = self.server.query("SELECT pg_current_wal_flush_lsn()")[0][0]
        self.server.query("SELECT pg_logical_emit_message(true, 'bench', '')", database)
        self.figures.update({what: Figures() for what in ways})
        received, together = {what: [] for what in limits}, []
        for i in range(ROUNDS):
            for k, (what, (url, more)) in enumerate(ways.items()):
                topic = self.topic()
                self.measure(self.figures[what], self.relay(url, topic, "--mode", "cdc", "--name", f"cdc{k}x{i}",
                                                            "--once", *more))
                self.check(topic, not more)
            for k, (what, url) in enumerate(limits.items()):
                received[what].append(EVENTS / self.received(url, f"limit{k}x{i}", end))
            together.append(EVENTS / self.both_limits(tcp, f"both{i}", end))
        for what in ways:
            self.row(what)
        for what, rates in received.items():
            self.add(what, statistics.median(rates), "events/s")
        alone, ours = self.figures["librdkafka alone"].rate, self.figures[cdc]
        for what, where, limit in zip((cdc, local), ("TCP", "Unix"), received.values()):
            self.add(f"  cdc, {where}: of the slower of its two limits", self.figures[what].rate, "events/s",
                     min(statistics.median(limit), alone), 0.8)
        self.add("  cdc, of both limits side by side", ours.rate, "events/s", statistics.median(together))
        self.add("  cdc: exactly once of at least once", self.figures[once].rate, "events/s", ours.rate, 0.7)
        if debezium is not None:
            self.run_debezium(debezium, ours)
        self.drop_slots(database)
        self.server.query(f"DROP DATABASE {database} WITH (FORCE)")

    def run_debezium(self, debezium, ours):
        """From its first event to its last, so without the start of its machine; ours is with it."""
        topic = self.topic()
        self.figures["Debezium"] = f = Figures()
        debezium.start(topic)
        watch = Watch(debezium.process.pid)
        wait_for(lambda: self.count(topic) > 0, "Debezium's first event", 120)
        begin, cpu, before = time.monotonic(), watch.cpu, self.count(topic)
        wait_for(lambda: debezium.check() or self.count(topic) >= EVENTS, "Debezium's last event", 1800, 0.5)
        took = time.monotonic() - begin
        watch.look()
        watch.end()
        f.add(EVENTS - before, took, watch.cpu - cpu, watch.peak)
        debezium.stop()
        self.check(topic, False)
        self.row("Debezium")
        self.add("  throughput, ours of Debezium's", ours.rate, "events/s", f.rate, 3)
        self.add("  CPU per million, ours of Debezium's", ours.cpu, "s", f.cpu, 0.1, at_least=False)
        self.add("  memory, ours of Debezium's", ours.peak, "MiB", f.peak, 0.05, at_least=False)

    # From a commit to a consumer

    def put(self, database):
        self.server.query("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) VALUES ('order', "
                          "'1', 'changed', jsonb_build_object('at', extract(epoch FROM clock_timestamp())))", database)

    def rate(self, database, consumer):
        """500 transactions a second; milliseconds from the INSERT's own clock to the consumer."""
        first = len(consumer.seen)
        with tempfile.NamedTemporaryFile("w", suffix=".sql") as script:
            os.chmod(script.name, 0o644)
            script.write("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) VALUES ('order', "
                         "(random() * 1000)::int::text, 'changed', jsonb_build_object('at', extract(epoch FROM "
                         "clock_timestamp())));\n")
            script.flush()
            subprocess.run([os.path.join(self.server.bin, "pgbench"), "-n", "-R", "500", "-c", "2", "-T", str(SECONDS),
                            "-f", script.name, self.server.url(database)], stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, env=clean_environment(), check=True)
        total = int(self.server.query("SELECT count(*) FROM outbox", database)[0][0])
        consumer.wait(total, "the last event")
        waits = sorted((seen - at) * 1000 for seen, at in consumer.seen[first:])
        return waits[len(waits) // 2], waits[len(waits) * 99 // 100]

    def lively(self, what, start, stop, goal):
        """A new database each: the time to the first event, then 500 a second."""
        database = self.database()
        topic = self.topic()
        consumer = Consumer(self.cluster, topic)
        begin = start(database, topic)
        self.put(database)
        consumer.wait(1, "the first event of " + what)
        self.add(f"{what}: start to first event", consumer.seen[0][0] - begin, "s")
        self.rate(database, consumer)  # for a machine that compiles while it runs
        p50, p99 = self.rate(database, consumer)
        stop()
        consumer.end()
        self.add(f"{what}: commit to consumer, p50", p50, "ms")
        self.add(f"{what}: commit to consumer, p99", p99, "ms", goal=goal, at_least=False)
        self.drop_slots(database)

    def latency(self, what, *more):
        started = []

        def start(database, topic):
            started.append(subprocess.Popen(self.relay(self.server.url(database), topic, "--name", f"live{self.topics}",
                                                       *more), env=clean_environment()))
            return time.time()

        def stop():
            started[0].terminate()
            started[0].wait()
        self.lively(what, start, stop, 20)

    def latencies(self):
        self.latency("PostgreSQL log")
        self.latency("PostgreSQL cdc", "--mode", "cdc")
        self.latency("cdc, exactly once", "--mode", "cdc", "--set", "exactly_once=true")
        started = []

        def start(database, topic):
            started.append(Debezium.fetch(self.server, database, self.cluster, self.directory))
            begin = time.time()
            started[0].start(topic)
            return begin
        if Debezium.is_there():
            self.lively("Debezium", start, lambda: started[0].stop(), None)

    def run(self):
        self.alone()
        self.sqlite()
        self.log()
        self.cdc()
        self.latencies()


def main():
    kafkaserver.need()
    with tempfile.TemporaryDirectory(prefix="outrider-bench-") as directory:
        server = Server(wal_level="logical", max_replication_slots=40, max_wal_senders=20, max_wal_size="16GB",
                        shared_buffers="128MB", autovacuum="off")
        cluster = kafkaserver.Cluster(log_segment_delete_delay_ms=1000)
        cluster.java_flags = BROKER_FLAGS
        try:
            server.initialise()
            server.start()
            cluster.start()
            report = Report("kafka")
            Bench(server, cluster, directory, report).run()
        finally:
            cluster.close()
            server.remove()
    report.write_json()


if __name__ == "__main__":
    main()
