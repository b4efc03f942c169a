# SPDX-License-Identifier: MIT
"""The Kafka sink against a real broker, read back with kcat and Kafka's own tools."""
import json
import sys

import harness
import kafkaserver
import kafkatest

cluster = None


def setUpModule():
    global cluster
    if kafkaserver.jars() is not None:
        cluster = kafkaserver.Cluster(sasl=True, auto_create_topics_enable="true").start()


def tearDownModule():
    if cluster is not None:
        cluster.close()


class KafkaTest(kafkatest.KafkaTest):
    """One broker for all."""

    def setUp(self):
        self.cluster = cluster
        super().setUp()


class Reading(KafkaTest):
    def test_kcat_and_the_console_consumer_see_every_byte(self):
        # Retention goes by the message's time: the broker would soon delete these.
        cluster.create_topic(self.topic, 3, retention_ms=-1)
        self.db = self.path("bytes.db")
        self.url = "sqlite:" + self.db
        self.init("--payload", "bytea")
        payloads = {"json": b'{"a": [1.50, "x"]}', "text": "Grüße, 世界\n".encode(),
                    "binary": b"\x00\xff\x00\x80\r\n\x00", "empty": b"", "null": None}
        for key, payload in payloads.items():
            self.sql("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, "
                     "headers, topic, occurred_at) VALUES ('order', ?, 'Made', ?, ?, ?, "
                     "'2026-01-02T03:04:05.678Z')", key, payload,
                     json.dumps({"X-Correlation-ID": "c-" + key, "traceparent": "00-ab-cd-01"}),
                     self.topic)
        ids = dict(self.sql("SELECT aggregate_id, id FROM outbox"))
        self.relay_once()
        seen = {m["key"].decode(): m for m in cluster.read(self.topic)}
        self.assertEqual(set(seen), set(payloads))
        for key, payload in payloads.items():
            m = seen[key]
            self.assertEqual(m["payload"], payload, key)
            self.assertEqual(m["timestamp"], 1767323045678)
            self.assertEqual(m["headers"], {
                "event-id": str(ids[key]), "event-type": "Made", "aggregate-type": "order",
                "X-Correlation-ID": "c-" + key, "traceparent": "00-ab-cd-01"})
        out = kafkaserver.java(
            "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server",
            cluster.servers, "--topic", self.topic, "--from-beginning", "--max-messages", "5",
            "--timeout-ms", "60000", *[x for name in ("key", "headers", "timestamp", "partition")
                                       for x in ("--property", "print.%s=true" % name)],
            output=True)
        for key, payload in payloads.items():
            m = seen[key]
            line = b"CreateTime:1767323045678\tPartition:%d\t" % m["partition"]
            self.assertIn(line, out)
            rest = b"\t" + key.encode() + b"\t" + (b"null" if payload is None else payload) + b"\n"
            self.assertIn(rest, out)
            self.assertIn(("event-id:%s," % ids[key]).encode(), out)

    def test_keys_land_where_javas_producer_puts_them(self):
        cluster.create_topic(self.topic, 7)
        cluster.create_topic(self.topic + "-java", 7)
        keys = ["k%d" % i for i in range(60)] + ["", "ü", "a long key with spaces", "0"]
        keys = [k for k in keys if k]
        self.put_many([self.row(k, 0) for k in keys])
        self.relay_once()
        kafkaserver.java("org.apache.kafka.tools.ConsoleProducer", "--bootstrap-server",
                         cluster.servers, "--topic", self.topic + "-java",
                         "--property", "parse.key=true", "--property",
                         "key.separator=|", stdin="".join(k + "|x\n" for k in keys).encode())
        ours = {m["key"]: m["partition"] for m in cluster.read(self.topic)}
        java = {m["key"]: m["partition"] for m in cluster.read(self.topic + "-java")}
        self.assertEqual(len(ours), len(keys))
        self.assertEqual(ours, java)
        self.assertGreater(len(set(ours.values())), 4)

    def test_an_explicit_partition_is_obeyed_and_compression_is_an_option(self):
        cluster.create_topic(self.topic, 5)
        self.put_many([self.row("same", i, partition=i % 5) for i in range(10)])
        self.relay_once("--set", "sink.kafka.compression.type=lz4")
        seen = cluster.read(self.topic)
        self.assertEqual({(m["partition"], json.loads(m["payload"])["n"]) for m in seen},
                         {(i % 5, i) for i in range(10)})

    def test_topics_are_created_only_if_asked_whatever_the_broker_would_do(self):
        self.put_many([self.row("a", 0)])
        r = self.relay_once("--set", "retry.delays=0", "--set", "retry.max_attempts=100", code=3)
        self.assertIn("'%s' is missing" % self.topic, r.err)
        self.assertIn("create_topics", r.err)
        self.assertEqual(cluster.partitions(self.topic), 0)
        self.relay_once("--set", "sink.create_topics={partitions: 4, replication: 1}")
        self.assertEqual(cluster.partitions(self.topic), 4)
        self.assertEqual(self.numbers(), {"a": [0]})
        # Now it is there, and asking again does no harm.
        self.put_many([self.row("a", 1)])
        self.relay_once("--set", "sink.create_topics={partitions: 9, replication: 1}")
        self.assertEqual(cluster.partitions(self.topic), 4)

    def test_a_topic_that_cannot_be_created_says_why(self):
        self.put_many([self.row("a", 0)])
        r = self.relay_once("--set", "sink.create_topics={partitions: 1, replication: 5}", code=3)
        self.assertIn("cannot be created", r.err)


class Failures(KafkaTest):
    def test_a_missing_topic_blocks_its_own_lanes_only_and_recovers(self):
        cluster.create_topic(self.topic)
        missing = self.topic + "-later"
        relay = self.start_relay("--set", "retry.delays=200ms", "--set", "retry.max_attempts=1000")
        self.put_many([self.row("a", i, missing) for i in range(5)] +
                      [self.row("b", i) for i in range(5)])
        relay.wait_for_log("is missing")
        harness.wait_until(lambda: self.numbers() == {"b": [0, 1, 2, 3, 4]}, "the other lane")
        self.put_many([self.row("a", 5, missing), self.row("c", 0)])
        harness.wait_until(lambda: "c" in self.numbers(), "another lane")
        s = harness.wait_until(lambda: self.status()["pending"] == 0 and self.status(), "parking")
        self.assertEqual((s["parked"] + s["queued"], s["dead"]), (6, 0))
        cluster.create_topic(missing)
        harness.wait_until(lambda: self.status()["parked"] + self.status()["queued"] == 0,
                           "the lane to open")
        self.assert_in_order(["a"], 6, missing)
        self.assertEqual(relay.stop(), 0, relay.err())

    def reject_first_of_three(self, on_dead):
        """The topic takes little; the first of three pipelined events of a key is large."""
        cluster.create_topic(self.topic, 1, max_message_bytes=2000)
        self.put_many([self.row("k", 0)])
        self.put_many([self.row("k", 1, payload={"n": 1, "x": "x" * 5000}), self.row("k", 2),
                       self.row("k", 3), self.row("other", 0)])
        r = self.relay_once("--set", "retry.on_dead=" + on_dead, "--set", "sink.kafka.linger.ms=50",
                            code=3)
        self.assertIn("too large", r.err)
        return self.numbers()

    def test_a_rejected_event_is_dead_and_those_behind_it_follow_under_skip(self):
        seen = self.reject_first_of_three("skip")
        self.assertEqual(seen, {"k": [0, 2, 3], "other": [0]})
        s = self.status()
        self.assertEqual((s["dead"], s["parked"], s["queued"]), (1, 0, 0))

    def test_a_rejected_event_is_dead_and_those_behind_it_wait_under_block(self):
        seen = self.reject_first_of_three("block")
        self.assertEqual(seen, {"k": [0], "other": [0]})
        s = self.status()
        self.assertEqual((s["dead"], s["parked"] + s["queued"]), (1, 2))
        self.run_outrider("dead", "discard", "--all", "--db", self.url)
        self.relay_once("--set", "retry.on_dead=block")
        self.assertEqual(self.numbers(), {"k": [0, 2, 3], "other": [0]})

    def test_the_first_batch_of_a_producer_is_not_overtaken(self):
        # A broker that does not know the producer yet accepts the second batch of a
        # sequence whose first one it rejected: 1 shares a batch with 0, 2 does not.
        cluster.create_topic(self.topic, 1, max_message_bytes=2000)
        rows = [self.row("k", n) for n in range(40)]
        rows[0]["payload"]["x"] = "x" * 5000
        self.put_many(rows)
        self.relay_once("--set", "sink.kafka.batch.num.messages=2", "--set",
                        "sink.kafka.linger.ms=50", code=3)
        self.assertEqual(list(dict.fromkeys(self.numbers()["k"])), list(range(1, 40)))
        self.assertEqual(self.status()["dead"], 1)

    def test_innocent_events_never_die_of_their_neighbours(self):
        cluster.create_topic(self.topic, 2, max_message_bytes=3000)
        keys = ["k%d" % i for i in range(7)]
        rows, bad = [], set()
        for n in range(60):
            for key in keys:
                row = self.row(key, n)
                if (n * 7 + len(rows)) % 83 == 5:
                    row["payload"]["x"] = "x" * 6000
                    bad.add((key, n))
                rows.append(row)
        self.put_many(rows)
        self.relay_once(code=3)
        self.assertEqual(self.status()["dead"], len(bad))
        for key, numbers in self.numbers().items():
            self.assertEqual(list(dict.fromkeys(numbers)),
                             [n for n in range(60) if (key, n) not in bad])

    def test_wrong_credentials_stop_with_one_line(self):
        self.put_many([self.row("a", 0)])
        url = "kafka://relay:wrong-hunter2@127.0.0.1:%d?security.protocol=sasl_plaintext" % (
            cluster.nodes[0].sasl_port)
        relay = self.start("relay", "--from", self.url, "--to", url)
        self.assertEqual(relay.join(), 1)
        self.assertEqual(len([x for x in relay.err_lines if "refuses these credentials" in x
                              and "level=error" in x]), 1, relay.err())
        self.assertNotIn("hunter2", relay.err())
        self.assertEqual(self.status()["pending"], 1)
        good = url.replace("wrong-hunter2", "right")
        cluster.create_topic(self.topic)
        self.relay_once(sink=good)
        self.assertEqual(self.numbers(), {"a": [0]})
        r = self.run_outrider("doctor", "--from", self.url, "--to", url, code=1)
        self.assertIn("refuses these credentials", r.out)
        self.assertNotIn("hunter2", r.out + r.err)

    def test_once_without_a_broker_fails_and_spends_nothing(self):
        (port,) = kafkaserver.free_ports(1)
        self.put_many([self.row("a", 0)])
        r = self.relay_once("--set", "connect_timeout=2s", sink="kafka://127.0.0.1:%d" % port,
                            code=1)
        self.assertIn("no broker of 127.0.0.1:%d answers" % port, r.err)
        s = self.status()
        self.assertEqual((s["pending"], s["parked"], s["dead"]), (1, 0, 0))

    def test_an_unknown_property_is_an_error_with_the_nearest_name(self):
        r = self.relay_once("--set", "sink.kafka.compresion.type=lz4", code=2)
        self.assertIn("did you mean 'compression.type'?", r.err)
        path = self.path("outrider.yaml")
        for value, word in (("compresion.type: lz4", "did you mean 'compression.type'?"),
                            ("acks: 1", "cannot be changed"), ("linger.ms: soon", "linger.ms")):
            with open(path, "w", encoding="utf-8") as f:
                f.write("source: {url: '%s'}\nsink: {url: '%s', kafka: {%s}}\n"
                        % (self.url, self.sink, value))
            r = self.run_outrider("check", "-c", path, code=2)
            self.assertIn(word, r.err)


class Doctor(KafkaTest):
    def test_doctor_looks_at_connection_rights_topics_and_clock(self):
        cluster.create_topic(self.topic, 3)
        r = self.run_outrider("doctor", "--from", self.url, "--to", self.sink, "--set",
                              "route.topic=" + self.topic)
        for text in ("answers: 1 broker", "idempotent producer", "'%s' has 3 partitions"
                     % self.topic, "clock says"):
            self.assertIn(text, r.out)
        r = self.run_outrider("doctor", "--from", self.url, "--to", self.sink, "--set",
                              "route.topic=%s-none" % self.topic, "--json", code=1)
        found = [f for f in r.json()["findings"] if "-none" in f["what"]]
        self.assertEqual([f["level"] for f in found], ["problem"])
        self.assertEqual(cluster.partitions(self.topic + "-none"), 0)
        (port,) = kafkaserver.free_ports(1)
        r = self.run_outrider("doctor", "--from", self.url, "--to", "kafka://127.0.0.1:%d" % port,
                              "--set", "connect_timeout=1s", code=1)
        self.assertIn("no broker of", r.out)


class Mock(harness.OutriderTest):
    """What can be seen without a broker: librdkafka's own cluster inside the relay."""

    def test_events_are_delivered_to_the_mock_cluster(self):
        self.init()
        self.put_many([{"aggregate_type": "o", "aggregate_id": str(i % 3), "event_type": "E",
                        "topic": "t", "payload": i} for i in range(500)])
        self.relay_once("--set", "sink.kafka.test.mock.num.brokers=3", sink="kafka://mock:1")
        self.assertEqual(self.status()["delivered_total"], 500)


if __name__ == "__main__":
    sys.exit(harness.main())
