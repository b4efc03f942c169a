# SPDX-License-Identifier: MIT
"""exactly_once, and a relay that is killed: at every point by name, with events
in the batch that are parked and that die, and at random under load. A reader of
committed messages sees each event once, in order."""
import json
import random
import signal
import sys

import harness
import kafkaserver
import pgcase
import pgcdc

KILLS = 50 if harness.SOAK else 2
KEYS = ["k%d" % i for i in range(4)]
OPTIONS = ("exactly_once=true", "source.batch=16", "retry.delays=[10ms]", "retry.max_attempts=20",
           "cleanup.retention=0")

cluster = None


def setUpModule():
    global cluster
    kafkaserver.need()
    cluster = kafkaserver.Cluster(auto_create_topics_enable="false").start()


def tearDownModule():
    if cluster is not None:
        cluster.close()


def intent_points(room):
    names = sorted(n for n in harness.failpoints(room) if n.startswith("intent."))
    assert names, "no failpoint of intents in src/" + room
    return names


COMMON_POINTS = sorted(harness.failpoints("core", "sink/kafka") - {"relay.before_settle", "relay.delivered"})
SQLITE_POINTS = intent_points("db/sqlite")
POSTGRES_POINTS = intent_points("db/postgres")


class Shop:
    """Numbered events of a few keys; in every batch one that the broker never takes,
    and one that is refused at first (relay.delivered)."""

    def begin(self, mode):
        self.topic = "t%08x" % random.getrandbits(32)
        self.dead_topic = self.topic + ".dead"
        cluster.create_topic(self.topic, 2, retention_ms=-1, max_message_bytes=2000)
        cluster.create_topic(self.dead_topic, 1, retention_ms=-1)
        self.sink = cluster.url
        self.mode = mode
        self.written = {key: 0 for key in KEYS}
        self.poisoned = []

    def write(self, n):
        rows = []
        for _ in range(n):
            key = random.choice(KEYS)
            rows.append({"aggregate_type": "order", "aggregate_id": key, "event_type": "Counted",
                         "topic": self.topic, "payload": {"n": self.written[key]}})
            self.written[key] += 1
        poison = "p%d" % len(self.poisoned)
        self.poisoned.append(poison)
        rows.insert(n // 2, {"aggregate_type": "order", "aggregate_id": poison,
                             "event_type": "Counted", "topic": self.topic,
                             "payload": {"n": 0, "large": "x" * 3000}})
        self.put_many(rows)

    def args(self):
        sets = OPTIONS + ("dead_letter.topic=" + self.dead_topic,)
        return [w for s in sets for w in ("--set", s)] + ["--mode", self.mode, "--name", self.name]

    def exact_relay(self, points="", log="info"):
        env = {"OUTRIDER_FAILPOINTS": points} if points else None
        return self.start("relay", "--from", self.url, "--to", self.sink, "--log-level", log,
                          *self.args(), env=env)

    def drain(self):
        """Until nothing is pending: what was parked becomes due meanwhile."""
        relay = self.exact_relay()

        def is_settled():
            self.assertTrue(relay.is_running(), relay.err())
            s = self.state()
            return s["pending"] + s["parked"] + s["queued"] == 0
        harness.wait_until(is_settled, "everything to be settled", harness.DEADLINE * 2)
        self.assertEqual(relay.stop(), 0, relay.err())
        return relay

    def state(self):
        rows = self.run_outrider("status", "--db", self.url, "--json", "--name",
                                 self.name).json()["pipelines"]
        return rows[0] if isinstance(rows, list) else rows

    def assert_exact(self, poisoned=True):
        seen = {}
        for m in cluster.read(self.topic):
            seen.setdefault(m["key"].decode(), []).append(json.loads(m["payload"])["n"])
        self.assertEqual(seen, {k: list(range(n)) for k, n in self.written.items() if n})
        if poisoned:
            # A letter that relay.delivered refused is not told; none is told twice.
            letters = [m["key"].decode() for m in cluster.read(self.dead_topic)]
            self.assertEqual(len(letters), len(set(letters)))
            self.assertLessEqual(set(letters), set(self.poisoned))
            self.assertGreater(len(letters), len(self.poisoned) // 2)
            self.assertEqual(self.state()["dead"], len(self.poisoned))

    def kill_at(self, point, number):
        points = "relay.delivered=eio@3,%s=kill@%d" % (point, number)
        if point.endswith("recall"): # there must be something to recall
            dying = self.exact_relay("exact.after_intent=kill")
            self.write(12)
            self.assertEqual(dying.join(), -signal.SIGKILL, dying.err())
        relay = self.exact_relay(points)
        try:
            self.write_until_dead(relay, point)
        finally:
            relay.kill()  # one that was spared would be in the way of the others

    def write_until_dead(self, relay, point):
        for _ in range(20):
            self.write(12)
            try:
                harness.wait_until(lambda: not relay.is_running() or self.state()["pending"] == 0,
                                   "the relay to die or to be done")
            except AssertionError:
                self.fail("%s: it hangs:\n%s" % (point, relay.err()))
            if not relay.is_running():
                break
        self.assertFalse(relay.is_running(), "%s was never passed:\n%s" % (point, relay.err()))
        self.assertEqual(relay.join(), -signal.SIGKILL, "%s:\n%s" % (point, relay.err()))

    def try_points(self, points, numbers):
        for point in points:
            for number in numbers:
                with self.subTest(point=point, number=number):
                    self.kill_at(point, 1 if point.endswith("recall") else number)
        self.drain()
        self.assert_exact()

    def test_two_relays_killed_at_random_under_load(self):
        """Most often the one that is at work; the other one takes over."""
        relays = [self.exact_relay(), self.exact_relay()]
        n_at_work = 0
        for _ in range(KILLS):
            self.write(random.randrange(5, 60))
            at_work = harness.wait_until(lambda: [r for r in relays if "connected and active" in r.err()],
                                         "a relay at work")
            before = self.state()["pending"]
            harness.wait_until(lambda: random.random() < 0.3 or self.state()["pending"] < before // 2,
                               "some progress")
            victim = random.choice(at_work if random.random() < 0.75 else relays)
            n_at_work += victim in at_work
            victim.send(signal.SIGKILL)
            victim.join()
            relays[relays.index(victim)] = self.exact_relay()
        for relay in relays:
            self.assertTrue(relay.is_running(), relay.err())
            relay.stop()
        self.drain()
        self.assert_exact()
        print("%d kills, %d of them at work" % (KILLS, n_at_work), file=sys.stderr)


# Between them SQLite and the log try every point; a soak tries all with all, ten times.
NUMBERS = range(1, 11) if harness.SOAK else (2,)


def share(part):
    return COMMON_POINTS if harness.SOAK else COMMON_POINTS[part::2]


class FromSqlite(Shop, harness.OutriderTest):
    name = "default"

    def setUp(self):
        super().setUp()
        self.init()
        self.begin("poll")

    def test_killed_at_every_point_nothing_is_lost_doubled_or_reordered(self):
        self.try_points(share(0) + SQLITE_POINTS, NUMBERS)


class PostgresShop(Shop):
    def put_many(self, rows):
        text = "".join(json.dumps(r) + "\n" for r in rows)
        self.run_outrider("put", "--db", self.owner_url, "--jsonl", "-", stdin=text)

    def state(self):
        rows = self.run_outrider("status", "--db", self.owner_url, "--json").json()["pipelines"]
        return next((r for r in rows if r["pipeline"] == self.name), {"pending": 1})


class FromLog(PostgresShop, pgcase.PostgresTest):
    name = "default"

    def setUp(self):
        super().setUp()
        self.begin("poll")

    def test_killed_at_every_point_nothing_is_lost_doubled_or_reordered(self):
        self.try_points(share(1) + POSTGRES_POINTS, NUMBERS)


# What each layout has of its own: what an intent holds, and how it is settled from there.
CRUCIAL = ["exact.after_intent", "exact.after_commit", "exact.after_recall"]


class FromStatus(PostgresShop, pgcase.PostgresTest):
    init_arguments = ("--layout", "status")
    name = "default"

    def setUp(self):
        super().setUp()
        self.begin("poll")

    def test_killed_at_every_point_nothing_is_lost_doubled_or_reordered(self):
        self.try_points(COMMON_POINTS + POSTGRES_POINTS if harness.SOAK else CRUCIAL, NUMBERS)


class FromCdc(PostgresShop, pgcdc.CdcTest):
    def setUp(self):
        super().setUp()
        self.begin("cdc")

    def test_killed_at_every_point_nothing_is_lost_doubled_or_reordered(self):
        self.try_points(COMMON_POINTS + POSTGRES_POINTS if harness.SOAK else CRUCIAL, NUMBERS)


if __name__ == "__main__":
    harness.main()
