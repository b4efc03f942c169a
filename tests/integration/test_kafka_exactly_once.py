# SPDX-License-Identifier: MIT
"""exactly_once into a real broker: what a reader of committed messages sees."""
import json

import harness
import kafkaserver
import kafkatest

cluster = None
EXACT = ("--set", "exactly_once=true")


def setUpModule():
    global cluster
    if kafkaserver.jars() is not None:
        cluster = kafkaserver.Cluster(auto_create_topics_enable="false").start()


def tearDownModule():
    if cluster is not None:
        cluster.close()


class ExactlyOnce(kafkatest.KafkaTest):
    def setUp(self):
        self.cluster = cluster
        super().setUp()
        cluster.create_topic(self.topic, 3, retention_ms=-1)

    def assert_exact(self, wanted):
        """Each number once, in order."""
        self.assertEqual(self.numbers(), {key: list(range(n)) for key, n in wanted.items()})

    def progress(self):
        """The newest number of each identity, as the topic has it."""
        newest = {}
        for m in cluster.read("outrider.progress"):
            newest[m["key"].decode()] = json.loads(m["payload"])
        return newest


class Delivering(ExactlyOnce):
    def test_events_are_delivered_once_and_the_intent_is_settled(self):
        self.put_many([self.row("k%d" % (i % 5), i // 5) for i in range(50)])
        self.relay_once(*EXACT)
        self.assert_exact({"k%d" % i: 10 for i in range(5)})
        (no, body), = self.sql("SELECT no, body FROM outrider_intent")
        self.assertEqual((no, body), (1, None))
        self.put_many([self.row("k0", i) for i in range(10, 13)])
        self.relay_once(*EXACT)
        self.assertEqual(self.numbers()["k0"], list(range(13)))
        self.assertEqual(self.status()["pending"], 0)


if __name__ == "__main__":
    harness.main()
