# SPDX-License-Identifier: MIT
"""Brokers and relays are killed under load; a consumer checks every key's numbers."""
import random
import sys
import time

import harness
import kafkaserver
import kafkatest

KEYS = ["k%d" % i for i in range(12)]
# A sanitizer keeps freed memory for a while: less of it, so that a leak can be told from that.
ENV = {"ASAN_OPTIONS": "quarantine_size_mb=4"}


def rss(pid):
    with open("/proc/%d/status" % pid, encoding="ascii") as f:
        return next(int(x.split()[1]) * 1024 for x in f if x.startswith("VmRSS"))


class FaultTest(kafkatest.KafkaTest):
    brokers, partitions, replication = 1, 4, 1

    @classmethod
    def setUpClass(cls):
        kafkaserver.need()
        cls.cluster = kafkaserver.Cluster(cls.brokers).start()
        cls.addClassCleanup(cls.cluster.close)

    def setUp(self):
        for node in self.cluster.nodes:
            if not node.is_running():
                self.restart(node)
        super().setUp()
        self.cluster.create_topic(self.topic, self.partitions, self.replication,
                                  min_insync_replicas=(self.replication + 1) // 2)

    def drain(self):
        harness.wait_until(lambda: self.status()["pending"] == 0, "the backlog", 120)

    def restart(self, node):
        node.start()
        self.cluster.wait_ready([node])

    def assert_nothing_failed(self):
        s = self.status()
        self.assertEqual((s["parked"], s["queued"], s["dead"]), (0, 0, 0))
        return s


class OneBroker(FaultTest):
    def test_order_holds_through_a_broker_that_is_killed_and_comes_back(self):
        relay = self.start_relay(env=ENV)
        writer = kafkatest.Writer(self.db, self.topic, KEYS)
        writer.start()
        node = self.cluster.nodes[0]
        for i in range(4 if harness.SOAK else 2):
            harness.wait_until(lambda n=writer.total: writer.total > n + 300, "load")
            if i % 2 == 0:
                node.kill()
            else:
                node.stop()
            harness.wait_until(lambda n=writer.total: writer.total > n + 300, "writes go on")
            self.restart(node)
        counts = writer.end()
        self.drain()
        total = self.assert_in_order(KEYS, counts)
        self.assertEqual(self.assert_nothing_failed()["delivered_total"], writer.total)
        self.assertEqual(relay.stop(), 0, relay.err())
        print("\n%d events, %d messages" % (writer.total, total), file=sys.stderr)

    def test_an_outage_longer_than_every_timeout_spends_nothing_and_memory_stays_bounded(self):
        relay = self.start_relay("--set", "sink.kafka.socket.timeout.ms=1000", "--set",
                                 "sink.kafka.request.timeout.ms=500", "--set",
                                 "sink.kafka.socket.connection.setup.timeout.ms=1000", "--set",
                                 "send_timeout=1s", "--set", "connect_timeout=1s", "--set",
                                 "retry.delays=10ms", "--set", "retry.max_attempts=2", env=ENV)
        self.put_many([self.row("k0", 0)])
        self.drain()
        node = self.cluster.nodes[0]
        node.kill()
        away_since = time.monotonic()
        before = rss(relay.pid)
        # Sixty megabytes that nobody can take.
        fill = "x" * 1000
        counts = dict.fromkeys(KEYS, 0)
        counts["k0"] = 1
        rows = []
        for i in range(60000):
            key = KEYS[i % 12]
            rows.append(self.row(key, 0, payload={"n": counts[key], "fill": fill}))
            counts[key] += 1
        self.put_many(rows, "--batch", "5000")
        relay.wait_for_log("no broker of")
        # Several times as long as each of the timeouts above.
        outage = 120 if harness.SOAK else 6
        harness.wait_until(lambda: time.monotonic() - away_since > outage, "an outage", outage + harness.DEADLINE)
        self.assertLess(rss(relay.pid) - before, 40 << 20)
        self.assertGreaterEqual(self.assert_nothing_failed()["pending"], 59000)
        self.restart(node)
        back = time.monotonic()
        relay.wait_for_log("sink is up")
        # Nobody waits for a timer of ours: the client's own, of half a second, is the longest.
        print("\ndelivering again after %.2f s" % (time.monotonic() - back), file=sys.stderr)
        self.drain()
        self.assertLess(rss(relay.pid) - before, 60 << 20)
        self.assert_in_order(KEYS, counts)
        self.assertEqual(relay.stop(), 0, relay.err())
        # One outage is one line. A busy machine may take longer than send_timeout (1 s) to drain
        # sixty megabytes, which is told too; such a line does not speak of brokers.
        self.assertEqual(len([x for x in relay.err_lines if "no broker of" in x]), 1, relay.err())

    def test_a_stop_in_an_outage_does_not_wait_and_loses_nothing(self):
        relay = self.start_relay("--set", "shutdown_timeout=1h", env=ENV)
        self.cluster.nodes[0].kill()
        self.put_many([self.row("a", i) for i in range(10)])
        relay.wait_for_log("no broker of")
        self.assertEqual(relay.stop(), 0, relay.err())
        self.assertEqual(self.status()["pending"], 10)
        self.restart(self.cluster.nodes[0])
        self.relay_once()
        self.assert_in_order(["a"], 10)

    def test_a_relay_that_is_killed_delivers_the_rest_in_order(self):
        writer = kafkatest.Writer(self.db, self.topic, KEYS)
        writer.start()
        rng = random.Random(7)
        for _ in range(20 if harness.SOAK else 4):
            relay = self.start_relay(env=ENV)
            goal = self.status()["delivered_total"] + rng.randrange(1, 400)
            harness.wait_until(lambda g=goal: self.status()["delivered_total"] >= g, "deliveries")
            relay.kill()
        counts = writer.end()
        self.relay_once()
        self.assert_in_order(KEYS, counts)


class ThreeBrokers(FaultTest):
    brokers, partitions, replication = 3, 3, 3

    def test_order_holds_while_leaders_are_killed_under_load(self):
        relay = self.start_relay(env=ENV)
        writer = kafkatest.Writer(self.db, self.topic, KEYS)
        writer.start()
        for i in range(6 if harness.SOAK else 2):
            harness.wait_until(lambda n=writer.total: writer.total > n + 300, "load")
            node = harness.wait_until(lambda p=i % 3: self.cluster.leader(self.topic, p), "a leader")
            node.kill()
            # The others take over, and deliver, while it is away.
            before = self.status()["delivered_total"]
            harness.wait_until(lambda b=before: self.status()["delivered_total"] > b + 200,
                               "deliveries through the other brokers", 120)
            self.restart(node)
        counts = writer.end()
        self.drain()
        self.assert_in_order(KEYS, counts)
        self.assert_nothing_failed()
        self.assertEqual(relay.stop(), 0, relay.err())


if __name__ == "__main__":
    sys.exit(harness.main())
