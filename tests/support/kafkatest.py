# SPDX-License-Identifier: MIT
"""What the tests of the Kafka sink share: rows with numbers, and a consumer that
checks them key by key."""
import json
import random
import sqlite3
import threading

import harness
import kafkaserver


class KafkaTest(harness.OutriderTest):
    """Set `cluster` before setUp(); each test has a topic name of its own."""

    cluster = None

    def setUp(self):
        super().setUp()
        kafkaserver.need()
        self.topic = "t%08x" % random.getrandbits(32)
        self.sink = self.cluster.url
        self.init()

    def row(self, key, n, topic=None, **more):
        return dict({"aggregate_type": "order", "aggregate_id": key, "event_type": "Counted",
                     "topic": topic or self.topic, "payload": {"n": n}}, **more)

    def numbers(self, topic=None):
        """What a consumer saw of each key, in order."""
        seen = {}
        for m in self.cluster.read(topic or self.topic):
            seen.setdefault(m["key"].decode(), []).append(json.loads(m["payload"])["n"])
        return seen

    def assert_in_order(self, keys, n, topic=None):
        """Every number came, the first ones in order; a duplicate may follow."""
        seen = self.numbers(topic)
        self.assertEqual(set(seen), set(keys))
        for key, numbers in seen.items():
            first = list(dict.fromkeys(numbers))
            self.assertEqual(first, list(range(n if isinstance(n, int) else n[key])), key)
        return sum(len(x) for x in seen.values())


class Writer(threading.Thread):
    """Commits numbered events of some keys, in transactions of a few, until told to end."""

    def __init__(self, path, topic, keys, size=200, pause=0.002):
        super().__init__(daemon=True)
        self.path, self.topic, self.keys = path, topic, keys
        self.fill, self.pause = "x" * size, pause
        self.done = threading.Event()
        self.counts = {k: 0 for k in keys}
        self.total = 0
        self.failure = None

    def run(self):
        try:
            db = sqlite3.connect(self.path, timeout=harness.DEADLINE)
            rng = random.Random(1)
            while not self.done.is_set():
                with db:
                    for _ in range(rng.randrange(1, 12)):
                        key = rng.choice(self.keys)
                        db.execute("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, "
                                   "topic, payload) VALUES ('order', ?, 'Counted', ?, ?)",
                                   (key, self.topic, json.dumps({"n": self.counts[key],
                                                                 "fill": self.fill})))
                        self.counts[key] += 1
                        self.total += 1
                self.done.wait(self.pause)
            db.close()
        except BaseException as e:  # told by end()
            self.failure = e

    def end(self):
        self.done.set()
        self.join(harness.DEADLINE)
        if self.failure is not None:
            raise self.failure
        return self.counts
