# SPDX-License-Identifier: MIT
"""Moving over from Debezium, and back, while applications go on: they insert and delete
an event in one transaction, so what nobody streams is lost. Debezium is stopped or
killed under that load, its slot is adopted, and the relay goes on: together they
publish everything once, in order."""
import json
import os
import re
import subprocess
import unittest

import connectserver
import harness
import kafkaserver
import pgcase
import pgtest

cluster = None
STRING = "org.apache.kafka.connect.storage.StringConverter"
KEYS = ("k0", "k1", "k2")


def setUpModule():
    global cluster
    kafkaserver.need()
    if not connectserver.jars():
        raise unittest.SkipTest("no Debezium")
    pgtest.start_server(wal_level="logical")
    cluster = kafkaserver.Cluster(auto_create_topics_enable="false").start()


def tearDownModule():
    if cluster is not None:
        pgtest.stop_server()
        cluster.close()


class Load(pgcase.Load):
    """One transaction after the other, each with one to five events of a key of its own."""

    def __init__(self, test, key, committed=()):
        self._before = list(committed)
        super().__init__(test, key)

    def wait(self, n):
        harness.wait_until(lambda: len(self.committed) >= len(self._before) or self.failure, "the load to begin")
        super().wait(n)

    def _run(self):
        session = self._test.server.session(self._test.database)
        self.committed += self._before
        try:
            while not self._stop.is_set():
                n = len(self.committed)
                labels = [f"{self._key}-{n + i}" for i in range(1 + n % 5)]
                rows = ", ".join(f"('order', '{self._key}', 'Made', '{label}')" for label in labels)
                session.execute(f"BEGIN; INSERT INTO outbox (aggregatetype, aggregateid, type, payload) VALUES {rows}; "
                                f"DELETE FROM outbox WHERE aggregateid = '{self._key}'; COMMIT")
                self.committed += labels
                self._stop.wait(0.002)
        except BaseException as e:  # the test's thread tells it
            self.failure = e
        finally:
            session.kill()


class Moving(pgtest.PostgresTest):
    maxDiff = None

    def setUp(self):
        super().setUp()
        self.name = self.database
        self.slot = "debezium_" + self.name
        self.script("CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype varchar(255) NOT NULL, "
                    "aggregateid varchar(255) NOT NULL, type varchar(255) NOT NULL, payload text)")
        for who in ("theirs", "ours"):
            cluster.create_topic(f"{who}.{self.name}", 3, retention_ms=-1)
        self.connect = connectserver.Connect(cluster, os.path.join(self.dir, "connect"))
        self.loads = []
        self.addCleanup(self.end)

    def end(self):
        for load in self.loads:
            load.stop()
        self.connect.stop()

    def connector(self, who, **more):
        return {"name": self.name, "config": {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector", "tasks.max": "1",
            "database.hostname": "127.0.0.1", "database.port": str(self.server.port),
            "database.user": self.server.user, "database.password": "none", "database.dbname": self.database,
            "topic.prefix": self.name, "table.include.list": "public.outbox", "plugin.name": "pgoutput",
            "slot.name": self.slot, "publication.autocreate.mode": "filtered", "key.converter": STRING,
            "value.converter": STRING, "transforms": "outbox",
            "transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter",
            "transforms.outbox.route.topic.replacement": f"{who}.{self.name}", **more}}

    def labels(self, who, word=None):
        """Of each key, in order."""
        seen = {key: [] for key in KEYS}
        for m in cluster.read(f"{who}.{word or self.name}"):
            seen[m["key"].decode()].append(m["payload"].decode())
        return seen

    def run_debezium(self):
        self.connect.run([self.connector("theirs")], "-Xmx1G", *kafkaserver.JAVA_FLAGS)

    def published(self, who, n):
        self.connect.check(self.name)
        return all(len(rows) >= n for rows in self.labels(who).values())

    def wait_published(self, who, n, what):
        harness.wait_until(lambda: self.published(who, n), what, harness.DEADLINE * 3)

    def start_load(self):
        self.run_debezium()
        harness.wait_until(lambda: self.connect.check(self.name) or self.sql(
            f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{self.slot}' AND active"), "Debezium's slot",
            harness.DEADLINE * 3)
        self.sql("CHECKPOINT")  # a running transaction from before is no doubt any more
        self.loads = [Load(self, key) for key in KEYS]
        self.wait_published("theirs", 50, "Debezium to publish")

    def wait_free(self):
        harness.wait_until(lambda: self.sql(f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{self.slot}' AND "
                                              "NOT active"), "Debezium's slot to be free")

    def adopt(self, offset=None):
        """offset: what is stored, as JSON."""
        path = self.path("connector.json", json.dumps(self.connector("ours")))
        more = ("--offset", self.path("offset.json", json.dumps(offset))) if offset is not None else ()
        return self.run_outrider("slot", "adopt", "--from", self.slot, "--debezium", path, *more)

    def start_relay_beside_load(self):
        """From the adopted place; the load goes on."""
        relay = self.start("relay", "--debezium", self.path("connector.json"), "--to", cluster.url, "--log-level", "info")
        relay.wait_for_log("connected and active")
        before = [len(load.committed) for load in self.loads]
        for load in self.loads:
            load.wait(20)
        for load in self.loads:
            load.stop()
        self.assertTrue(all(len(load.committed) > n for load, n in zip(self.loads, before)))
        return relay

    def committed(self):
        return {load._key: load.committed for load in self.loads}

    def wait_ours(self, relay):
        """Everything that is committed, published by either."""
        def is_all():
            if not relay.is_running():
                raise AssertionError("the relay ended:\n" + relay.err()[-4000:])
            ours = self.labels("ours")
            return all(ours[key] and ours[key][-1] == rows[-1] for key, rows in self.committed().items())
        harness.wait_until(is_all, "the relay to publish the rest", harness.DEADLINE * 2)
        self.assertEqual(relay.stop(), 0, relay.err()[-4000:])

    def assert_joined(self, overlap):
        """What both published is the end of Debezium's, and the beginning of ours: as much
        of it as may be."""
        theirs, ours = self.labels("theirs"), self.labels("ours")
        doubled = 0
        for key, rows in self.committed().items():
            self.assertEqual(theirs[key], rows[:len(theirs[key])], f"Debezium's {key}")
            self.assertEqual(ours[key], rows[len(rows) - len(ours[key]):], f"our {key}")
            self.assertGreaterEqual(len(theirs[key]) + len(ours[key]), len(rows), f"lost of {key}")
            doubled += len(theirs[key]) + len(ours[key]) - len(rows)
        self.assertTrue(overlap(doubled), f"{doubled} came twice")

    def test_stopped_with_its_offset_nothing_is_lost_and_nothing_comes_twice(self):
        self.start_load()
        self.connect.ask("PUT", f"/connectors/{self.name}/stop")
        self.wait_free()
        offset = self.connect.ask("GET", f"/connectors/{self.name}/offsets")
        for load in self.loads:
            load.wait(20)  # nobody reads these
        done = self.adopt(offset)
        self.assertIn("Left out by the offset", done.out)
        self.wait_ours(self.start_relay_beside_load())
        self.assert_joined(lambda doubled: doubled == 0)

    def test_stopped_without_its_offset_its_last_transaction_may_come_twice(self):
        self.start_load()
        self.connect.stop()
        self.wait_free()
        self.assertIn("No offset was given", self.adopt().out)
        self.wait_ours(self.start_relay_beside_load())
        self.assert_joined(lambda doubled: True)

    def test_killed_what_it_published_without_noting_it_comes_twice_and_nothing_is_lost(self):
        self.start_load()
        harness.wait_until(lambda: self.connect.stored_offset(self.name), "an offset to be stored")
        self.connect.kill()
        self.wait_free()
        for load in self.loads:
            load.wait(20)
        self.adopt(self.connect.stored_offset(self.name))
        self.wait_ours(self.start_relay_beside_load())
        self.assert_joined(lambda doubled: True)

    def blocks(self):
        """The commands of the guide, as they stand there, but for the names in the first."""
        with open(os.path.join(harness.SOURCE, "docs/guides/moving-from-debezium.md"), encoding="utf-8") as f:
            found = re.findall(r"^```bash\n(.*?)^```$", f.read(), re.M | re.S)
        self.assertEqual(len(found), 9)
        return found[1:]

    def shell(self, block):
        env = dict(os.environ, CONNECT=f"http://127.0.0.1:{self.connect.port}", DB=self.url, KAFKA=cluster.url,
                   PATH=os.path.dirname(harness.OUTRIDER) + ":" + os.environ["PATH"])
        done = subprocess.run(["bash", "-c", "set -euo pipefail\n" + block], cwd=self.dir, env=env, timeout=harness.DEADLINE * 3,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 0, f"{block}\n{done.stdout}\n{done.stderr}\n{self.connect.log()}")
        return done.stdout

    def wait_all(self, what, is_exact=True):
        """The topic holds everything, in order; unless it is exact, some of it again."""
        def is_there():
            seen = self.labels("orders")
            return all(rows[-1] in seen[key] for key, rows in self.committed().items())
        harness.wait_until(is_there, what, harness.DEADLINE * 3)
        for key, rows in self.labels("orders").items():
            first = list(dict.fromkeys(rows))
            self.assertEqual(first, self.committed()[key], key)
            if is_exact:
                self.assertEqual(len(rows), len(first), f"{key}: some came twice")

    def test_the_guide_there_and_back(self):
        steps = self.blocks()
        cluster.create_topic(f"orders.{self.name}", 3, retention_ms=-1)
        topic, self.name, self.slot = self.name, "orders", "debezium"
        connector = self.connector("orders", **{"transforms.outbox.route.topic.replacement": f"orders.{topic}"})
        self.path("connector.json", json.dumps(connector))
        self.connector = lambda who: connector
        self.labels = lambda who: type(self).labels(self, "orders", topic)
        self.start_load()
        for block in steps[:5]:
            out = self.shell(block)
        self.assertIn("Left out by the offset", out)
        self.assertEqual(steps[5], "outrider relay -c outrider.yaml\n")
        relay = self.start("relay", "-c", "outrider.yaml", "--log-level", "info")
        relay.wait_for_log("connected and active")
        for load in self.loads:
            load.wait(20)
        self.assertRegex(self.shell(steps[6]), r"outrider_orders +\| t")
        for load in self.loads:
            load.stop()
        self.wait_all("the relay to publish the rest")
        self.assertEqual(relay.stop(), 0, relay.err()[-4000:])
        self.loads = [Load(self, key, self.committed()[key]) for key in KEYS]
        for load in self.loads:
            load.wait(20)
        self.shell(steps[7])
        for load in self.loads:
            load.wait(20)
            load.stop()
        self.wait_all("Debezium to publish the rest", is_exact=False)


if __name__ == "__main__":
    harness.main()
