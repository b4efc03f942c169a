# SPDX-License-Identifier: MIT
"""exactly_once from PostgreSQL into a real broker: relays that do not know that
they were replaced, and rows that are in the stream before anybody sees them."""
import json
import os
import random
import re
import signal
import threading

import harness
import kafkaserver
import pgcdc
from pgserver import Proxy

BUILD = os.environ.get("OUTRIDER_BUILD", "build-test")
TWO_RELAYS = os.path.join(BUILD, "tests", "two_relays")
cluster = None
EXACT = ("--set", "exactly_once=true")
KEYS = ("a", "b", "c")


def setUpModule():
    global cluster
    kafkaserver.need()
    cluster = kafkaserver.Cluster(auto_create_topics_enable="false").start()


def tearDownModule():
    if cluster is not None:
        cluster.close()


class ExactlyOnce(pgcdc.CdcTest):
    def setUp(self):
        super().setUp()
        self.topic = "t%08x" % random.getrandbits(32)
        cluster.create_topic(self.topic, 3, retention_ms=-1)
        self.sink = cluster.url

    def write(self, first, n):
        rows = [{"aggregate_type": "order", "aggregate_id": key, "event_type": "Counted",
                 "topic": self.topic, "payload": {"n": i}} for i in range(first, first + n) for key in KEYS]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        self.run_outrider("put", "--db", self.owner_url, "--jsonl", "-", stdin=text)

    def killed(self, *args):
        """A relay of the stream that dies between its commit and settling it."""
        self.once(*args)
        dying = self.relay(*args, env={"OUTRIDER_FAILPOINTS": "exact.after_commit=kill"})
        self.wait_streaming(dying)
        return dying

    def seen(self):
        """What a reader of committed messages sees of each key, in order."""
        seen = {}
        for m in cluster.read(self.topic):
            seen.setdefault(m["key"].decode(), []).append(json.loads(m["payload"])["n"])
        return seen

    def state(self):
        rows = self.run_outrider("status", "--db", self.owner_url, "--json").json()["pipelines"]
        return next((r for r in rows if r["pipeline"] == self.name), {"pending": 1})

    def wait_settled(self, *relays):
        def are_settled():
            for r in relays:
                self.assertTrue(r.is_running(), r.err())
            return self.state()["pending"] == 0
        harness.wait_until(are_settled, "everything to be settled" + "".join("\n" + r.err() for r in relays))


class TwoRelays(ExactlyOnce):
    def ready(self, mode, env=None):
        relay = self.relay(*EXACT, mode=mode, env=env)
        if mode == "cdc":
            self.wait_streaming(relay)
        return relay

    def zombie(self, mode, proxy):
        """Frozen between its intent and its commit, and cut off: the server takes it
        for dead, and it does not hear of that."""
        direct, self.url = self.url, self.server.url(self.database, "relay", port=proxy.port)
        zombie = self.ready(mode, {"OUTRIDER_FAILPOINTS": "exact.after_intent=stop"})
        self.url = direct
        self.write(5, 5)
        harness.wait_until(zombie.is_frozen, "the zombie to be frozen")
        proxy.freeze()
        self.owner("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'relay' "
                   f"AND datname = '{self.database}'")
        return zombie

    def replace_a_zombie(self, mode, proxy):
        first = self.ready(mode)
        self.write(0, 5)
        self.wait_settled(first)
        self.stop_relay(first)
        zombie = self.zombie(mode, proxy)
        successor = self.ready(mode)
        self.wait_settled(successor)
        self.assertEqual(self.seen(), {key: list(range(10)) for key in KEYS})
        zombie.send(signal.SIGCONT)
        self.wait_log(zombie, "Kafka has shut this relay out: another one publishes as")
        proxy.thaw()
        zombie.wait_for_log("standing by")
        self.write(10, 5)
        self.wait_settled(successor, zombie)
        self.assertEqual(self.seen(), {key: list(range(15)) for key in KEYS})
        self.assertEqual(zombie.err().count("shut this relay out"), 1, zombie.err())
        self.assertNotIn("shut this relay out", successor.err())
        # It is of use again once it is alone.
        self.stop_relay(successor)
        self.write(15, 5)
        self.wait_settled(zombie)
        self.assertEqual(self.seen(), {key: list(range(20)) for key in KEYS})
        self.stop_relay(zombie)

    def start_two_by_mistake(self, mode):
        first = self.ready(mode)
        second = self.relay(*EXACT, mode=mode, wait=False)
        second.wait_for_log("standing by")
        self.write(0, 10)
        self.wait_settled(first, second)
        first.kill()
        self.write(10, 10)
        self.wait_settled(second)
        self.assertEqual(self.seen(), {key: list(range(20)) for key in KEYS})
        self.stop_relay(second)

    def test_a_zombie_of_the_log_is_shut_out_and_says_so(self):
        with Proxy(self.server.port) as proxy:
            self.replace_a_zombie("poll", proxy)

    def test_a_zombie_of_the_stream_is_shut_out_and_says_so(self):
        with Proxy(self.server.port) as proxy:
            self.replace_a_zombie("cdc", proxy)

    def test_two_relays_of_the_log_started_by_mistake_publish_once(self):
        self.start_two_by_mistake("poll")

    def test_two_relays_of_the_stream_started_by_mistake_publish_once(self):
        self.start_two_by_mistake("cdc")


class TakeOvers(ExactlyOnce):
    """The leader's session is ended again and again, in the middle of its transactions:
    neither relay ends, and every event is there once."""
    rounds = 500 if harness.SOAK else 15

    def insert(self, n):
        values = ", ".join(f"('order', '{key}', 'Counted', '{self.topic}', '{{\"n\": {n}}}')" for key in KEYS)
        return f"INSERT INTO outbox (aggregate_type, aggregate_id, event_type, topic, payload) VALUES {values}"

    def write_until(self, ended):
        n = 0
        writer = self.session()
        while not ended.is_set():
            writer.execute(self.insert(n))
            n += 1
            self.written = n

    def take_over_and_over(self, *apps):
        ended = threading.Event()
        writer = threading.Thread(target=self.write_until, args=(ended,))
        writer.start()
        try:
            for _ in range(self.rounds):
                pid = harness.wait_until(self.active_backend, "an active relay")
                harness.wait_until(lambda: self.transactions() > 0, "a transaction")
                self.owner(f"SELECT pg_terminate_backend({pid})")
                harness.wait_until(lambda gone=pid: self.active_backend() not in (None, gone), "a relay to take over")
                for app in apps:
                    self.assertTrue(app.is_running(), app.err())
        finally:
            ended.set()
            writer.join()
        self.wait_settled(*apps)
        self.assertEqual(self.seen(), {key: list(range(self.written)) for key in KEYS})
        for app in apps:
            self.assertEqual(app.stop(), 0, app.err())

    def transactions(self):
        """How many were begun since this was last asked."""
        rows = self.owner("SELECT no FROM outrider_intent")
        number = int(rows[0][0] or 0) if rows else 0
        n, self.last = number - getattr(self, "last", 0), number
        return n

    def test_of_two_relays(self):
        self.take_over_and_over(*(self.relay(*EXACT, mode="poll", wait=False) for _ in range(2)))

    def test_of_two_relays_inside_an_application(self):
        app = self.start(self.name, f"source.url={self.url}", f"sink.url={self.sink}", "exactly_once=true",
                         program=TWO_RELAYS, env={"OUTRIDER_MODULE_PATH": os.path.join(BUILD, "modules")})
        self.take_over_and_over(app)


class Failover(ExactlyOnce):
    """With durable: standby the survivor of a failover knows the last transaction, and goes on."""

    def test_a_transaction_waits_until_a_standby_has_its_intent(self):
        self.owner("GRANT pg_monitor TO relay")
        standby = self.server.standby()
        self.addCleanup(standby.remove)
        durable = (*EXACT, "--set", "source.durable=standby")
        first = self.relay(*durable, mode="poll")
        self.write(0, 5)
        self.wait_settled(first)
        self.stop_relay(first)
        second = self.relay(*durable, mode="poll", env={"OUTRIDER_FAILPOINTS": "exact.before_intent=stop"})
        self.write(5, 5)
        harness.wait_until(second.is_frozen, "the relay to have read what a standby has")
        standby.configure(primary_conninfo="''")
        harness.wait_until(lambda: not self.owner("SELECT 1 FROM pg_stat_replication"), "the standby to be cut off")
        second.send(signal.SIGCONT)
        harness.wait_until(lambda: "no standby has confirmed" in second.err() or len(self.seen()["a"]) > 5, "the relay to wait")
        self.assertEqual(self.seen(), {key: list(range(5)) for key in KEYS})
        self.addCleanup(self.server.start)
        self.server.stop("immediate")
        second.kill()
        standby.promote()
        self.url, self.owner_url = standby.url(self.database, "relay"), standby.url(self.database)
        survivor = self.relay(*EXACT, mode="poll")
        self.write(10, 5)
        self.wait_settled(survivor)
        self.assertEqual(self.seen(), {key: list(range(15)) for key in KEYS})
        self.stop_relay(survivor)


class RowsOfTheStream(ExactlyOnce):
    """A row is in the stream before anybody sees it, and for as long as its commit
    waits for a standby. A payload above max_payload is copied from it inside the server."""
    settings = {**pgcdc.CdcTest.settings, "synchronous_standby_names": "nobody", "synchronous_commit": "local"}
    limit = (*EXACT, "--set", "source.max_payload=2000", "--set", "retry.delays=[1h]")

    def insert_large(self, key):
        return ("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, topic, payload) VALUES "
                f"('order', '{key}', 'Counted', '{self.topic}', '{{\"n\": 1, \"x\": \"{'x' * 5000}\"}}')")

    def test_a_large_payload_is_kept_when_it_waits_behind_another_event(self):
        self.once(*self.limit)
        missing = self.topic + ".missing"
        self.owner("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, topic, payload) VALUES "
                   f"('order', 'k', 'Counted', '{missing}', '{{\"n\": 0}}')")
        self.once(*self.limit, code=3)
        self.owner(self.insert_large("k"))
        self.once(*self.limit, code=3)
        self.assertEqual(self.owner("SELECT state, octet_length(payload) > 5000 FROM outrider_parked ORDER BY arrival"),
                         [("parked", "f"), ("queued", "t")])
        self.owner(f"UPDATE outrider_parked SET next_attempt_at = now(), topic = '{self.topic}' WHERE state = 'parked'")
        self.once(*EXACT)
        self.assertEqual(self.seen(), {"k": [0, 1]})

    def test_a_large_payload_is_kept_when_the_relay_dies_before_it_settles(self):
        dying = self.killed(*self.limit)
        self.owner(self.insert_large("k"))
        self.assertEqual(dying.join(), -signal.SIGKILL, dying.err())
        self.once(*self.limit, code=3)
        self.assertEqual(self.owner("SELECT state, octet_length(payload) > 5000 FROM outrider_parked"), [("dead", "t")])

    def test_a_large_payload_is_waited_for_when_the_relay_dies_before_it_is_visible(self):
        dying = self.killed(*self.limit)
        writer = self.session()
        writer.execute("SET synchronous_commit = on")
        writer.start(self.insert_large("large"))
        self.assertEqual(dying.join(), -signal.SIGKILL, dying.err())
        self.assertEqual(self.owner("SELECT count(*) FROM outbox"), [("0",)], "nobody sees it yet")
        relay = self.relay(*self.limit)
        waits = ("SELECT 1 FROM pg_stat_activity WHERE usename = 'relay' AND wait_event = 'PgSleep' "
                 f"AND datname = '{self.database}'")
        harness.wait_until(lambda: self.owner(waits) or self.owner("SELECT 1 FROM outrider_parked"),
                           "the relay to wait for the row, or to have given it up")
        self.owner("ALTER SYSTEM SET synchronous_standby_names = ''")
        self.owner("SELECT pg_reload_conf()")
        writer.wait()
        harness.wait_until(lambda: self.owner("SELECT state FROM outrider_parked") == [("dead",)], "a dead letter")
        self.assertEqual(self.owner("SELECT octet_length(payload) > 5000 FROM outrider_parked"), [("t",)])
        self.stop_relay(relay)
        self.run_outrider("dead", "retry", "--db", self.owner_url, "--all", "--name", self.name)
        self.once(*EXACT)
        self.assertEqual(self.seen(), {"large": [1]})

    def test_what_is_published_is_removed_although_the_relay_died_before_it_settled(self):
        removing = (*EXACT, "--set", "after_publish=delete")
        dying = self.killed(*removing)
        self.write(0, 5)
        self.assertEqual(dying.join(), -signal.SIGKILL, dying.err())
        self.once(*removing)
        self.assertEqual(self.seen(), {key: list(range(5)) for key in KEYS})
        self.assertEqual(self.owner("SELECT count(*) FROM outbox"), [("0",)])


class OneNameForSeveralOutboxes(ExactlyOnce):
    """A pipeline is its name and its outbox: the same name may stand beside it."""

    def setUp(self):
        super().setUp()
        for name in ("first_events", "second_events"):
            self.owner(f"CREATE TABLE {name} (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), seq bigserial, aggregate_type "
                       "text NOT NULL, aggregate_id text NOT NULL, event_type text NOT NULL, topic text, payload jsonb, "
                       "status text NOT NULL DEFAULT 'PENDING' CHECK (status IN ('PENDING', 'PUBLISHED', 'FAILED')), "
                       "created_at timestamptz NOT NULL DEFAULT now())")
            self.owner(f"GRANT SELECT, UPDATE ON {name} TO outrider_relay; GRANT SELECT ON {name}_seq_seq TO outrider_relay")

    def tables(self, *names):
        return [*EXACT, *(a for n in names for a in ("--table", n))]

    def add(self, table, key, first, n):
        self.owner(f"INSERT INTO {table} (aggregate_type, aggregate_id, event_type, topic, payload) SELECT 'order', '{key}', "
                   f"'Counted', '{self.topic}', jsonb_build_object('n', i) FROM generate_series({first}, {first + n - 1}) i")

    def wait_seen(self, expected, *relays):
        def is_seen():
            for r in relays:
                self.assertTrue(r.is_running(), r.err())
            return self.seen() == expected
        harness.wait_until(is_seen, f"{expected}" + "".join("\n" + r.err() for r in relays))

    def test_neither_shuts_the_other_out(self):
        groups = (("outbox",), ("first_events", "second_events"))
        relays = [self.relay(*self.tables(*names), mode="poll") for names in groups]
        for k in range(10):
            for table in ("outbox", "first_events", "second_events"):
                self.add(table, table, 10 * k, 10)
            self.wait_seen({t: list(range(10 * k + 10)) for t in ("outbox", "first_events", "second_events")}, *relays)
        for r in relays:
            self.assertNotRegex(r.err(), "shut|took over|FENCED|source lost|sink down")
            self.stop_relay(r)
        self.assertEqual(self.owner("SELECT outbox, tables, epoch FROM outrider_intent ORDER BY 1"), [
            ("public.first_events", "{public.first_events,public.second_events}", "0"),
            ("public.outbox", "{public.outbox}", "0")])

    def test_resync_of_one_leaves_the_intent_of_the_other(self):
        for table in ("outbox", "first_events"):
            self.add(table, table, 0, 5)
            self.run_outrider("relay", "--from", self.url, "--to", self.sink, "--name", self.name, "--once",
                              *self.tables(table), env={"OUTRIDER_FAILPOINTS": "exact.after_commit=kill"}, code=None)
        self.owner("DELETE FROM outbox; INSERT INTO outbox (aggregate_type, aggregate_id, event_type) VALUES ('a', 'b', 'c'); "
                   "UPDATE outrider_cursor SET position = 3, anchor_id = 'x' WHERE outbox = 'public.outbox'")
        self.run_outrider("resync", "--db", self.owner_url, "--name", self.name)
        self.assertEqual(self.owner("SELECT outbox, body IS NOT NULL FROM outrider_intent ORDER BY 1"),
                         [("public.first_events", "t"), ("public.outbox", "f")])
        self.once(*self.tables("first_events"), mode="poll")
        self.assertEqual(self.seen()["first_events"], list(range(5)))

    def test_other_tables_under_the_name_are_refused_while_a_transaction_is_not_settled(self):
        self.add("second_events", "k", 0, 5)
        both = self.tables("first_events", "second_events")
        self.run_outrider("relay", "--from", self.url, "--to", self.sink, "--name", self.name, "--once", *both,
                          env={"OUTRIDER_FAILPOINTS": "exact.after_commit=kill"}, code=None)
        for names in (("second_events", "first_events"), ("second_events",)):
            for args in (self.tables(*names), self.tables(*names)[2:]):
                with self.subTest(args):
                    result = self.once(*args, mode="poll", code=1)
                    self.assertRegex(result.err, "was killed.*once more with.*--table 'public.first_events'")
        self.once(*both, mode="poll")
        self.assertEqual(self.seen(), {"k": list(range(5))})
        result = self.once(*self.tables("second_events"), mode="poll", code=1)
        self.assertIn("public.first_events first", result.err)
        way_out = re.search(r"outrider (resync --forget-intent --name \S+ --table) '(.*?)'", result.err)
        self.run_outrider(*way_out.group(1).split(), way_out.group(2), "--db", self.url)
        self.add("second_events", "k", 5, 1)
        self.once(*self.tables("second_events"), mode="poll")
        self.assertEqual(self.seen(), {"k": list(range(6))})


if __name__ == "__main__":
    harness.main()
