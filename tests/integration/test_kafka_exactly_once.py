# SPDX-License-Identifier: MIT
"""exactly_once into a real broker: what a reader of committed messages sees."""
import json
import os
import re
import shutil
import signal

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
        self.assertEqual(self.sql("SELECT no, body FROM outrider_intent"), [(1, None)])
        self.put_many([self.row("k0", i) for i in range(10, 13)])
        self.relay_once(*EXACT)
        self.assertEqual(self.numbers()["k0"], list(range(13)))
        self.assertEqual(self.status()["pending"], 0)

    def test_a_quiet_pipeline_settles_its_last_transaction(self):
        relay = self.start_relay(*EXACT)
        self.put_many([self.row("k", 0)])
        harness.wait_until(lambda: self.sql("SELECT no, body FROM outrider_intent") == [(1, None)],
                           "the intent to be settled")
        self.assertEqual(self.status()["pending"], 0)
        self.assertEqual(relay.stop(), 0)

    def test_an_event_of_a_missing_topic_is_parked_and_the_others_are_delivered(self):
        rows = [self.row("k%d" % i, 0) for i in range(4)]
        rows[1]["topic"] = self.topic + ".missing"
        self.put_many(rows + [self.row("k1", 1)])
        self.relay_once(*EXACT, "--set", "retry.delays=[1h]", code=3)
        self.assertEqual(self.numbers(), {"k0": [0], "k2": [0], "k3": [0]})
        s = self.status()
        self.assertEqual((s["pending"], s["parked"], s["queued"], s["dead"]), (0, 1, 1, 0))

    def test_several_events_that_are_too_large_die_and_the_others_are_delivered(self):
        small = self.topic + ".small"
        cluster.create_topic(small, 1, retention_ms=-1, max_message_bytes=2000)
        self.put_many([self.row("k%d" % (i % 3), i // 3, small,
                                payload={"n": i // 3, "x": "x" * (3000 if i in (4, 7) else 10)})
                       for i in range(12)])
        self.relay_once(*EXACT, code=3)
        self.assertEqual(self.numbers(small), {"k0": [0, 1, 2, 3], "k1": [0, 3], "k2": [0, 1, 2, 3]})
        self.assertEqual(self.status()["dead"], 2)

    def test_a_broker_that_goes_away_and_comes_back_doubles_nothing(self):
        node = cluster.nodes[0]
        relay = self.start_relay(*EXACT)
        self.put_many([self.row("k", i) for i in range(20)])
        harness.wait_until(lambda: self.status()["pending"] == 0, "the first events")
        node.kill()
        self.put_many([self.row("k", i) for i in range(20, 40)])
        relay.wait_for_log("sink")
        node.start()
        cluster.wait_ready([node])
        harness.wait_until(lambda: self.status()["pending"] == 0, "the rest")
        self.assertEqual(relay.stop(), 0, relay.err())
        self.assert_exact({"k": 40})


class OtherRelays(ExactlyOnce):
    def test_a_zombie_is_shut_out_and_says_so(self):
        zombie = self.start("relay", "--from", self.url, "--to", self.sink, *EXACT,
                            env={"OUTRIDER_FAILPOINTS": "exact.after_intent=stop"})
        self.put_many([self.row("k", i) for i in range(10)])
        harness.wait_until(zombie.is_frozen, "the zombie to be frozen")
        os.unlink(self.db + "-outrider-default.lock") # its lock is not worth anything any more
        relay = self.start_relay(*EXACT)
        harness.wait_until(lambda: self.status()["pending"] == 0, "the successor")
        zombie.send(signal.SIGCONT)
        zombie.wait_for_log("shut this relay out")
        zombie.wait_for_log("standing by")
        self.put_many([self.row("k", i) for i in range(10, 20)])
        harness.wait_until(lambda: self.status()["pending"] == 0, "the rest")
        self.assert_exact({"k": 20})
        self.assertEqual(zombie.err().count("shut this relay out"), 1, zombie.err())
        for r in (relay, zombie):
            self.assertEqual(r.stop(), 0, r.err())

    def test_two_databases_on_one_cluster_do_not_meet(self):
        self.put_many([self.row("a", i) for i in range(5)])
        self.relay_once(*EXACT)
        self.db = self.path("other.db")
        self.url = "sqlite:" + self.db
        self.init()
        self.put_many([self.row("b", i) for i in range(7)])
        self.relay_once(*EXACT)
        self.assert_exact({"a": 5, "b": 7})


class Refusing(ExactlyOnce):
    def setUp(self):
        super().setUp()
        self.put_many([self.row("k", i) for i in range(5)])
        self.relay_once(*EXACT)

    def more(self, first, n=5):
        self.put_many([self.row("k", i) for i in range(first, first + n)])

    def refused(self, text):
        r = self.relay_once(*EXACT, code=1)
        self.assertIn(text, r.err)
        self.assertEqual(self.relay_once(*EXACT, code=1).err.count(text), 1)
        return r

    def obey(self, result):
        """Runs the command that the relay's message ends with."""
        way_out = re.search(r"run: outrider (resync --name \w+ --progress [0-9:]+)", result.err).group(1)
        self.assertIn("from now on", self.run_outrider(*way_out.split(), "--db", self.url).out)

    def test_a_restored_database_is_refused_and_the_way_out_works(self):
        backup = self.path("backup.db")
        shutil.copy(self.db, backup)
        self.more(5)
        self.relay_once(*EXACT)
        shutil.copy(backup, self.db)
        for suffix in ("-wal", "-shm"):
            if os.path.exists(self.db + suffix):
                os.unlink(self.db + suffix)
        self.more(10)
        refused = self.refused("the database was restored")
        self.assertEqual(self.numbers()["k"], list(range(10)))
        self.obey(refused)
        self.relay_once(*EXACT)
        self.assertEqual(self.numbers()["k"], list(range(15)))

    def test_an_intent_is_forgotten_by_command_where_exactly_once_is_left(self):
        self.more(5)
        dying = self.start("relay", "--from", self.url, "--to", self.sink, *EXACT,
                           env={"OUTRIDER_FAILPOINTS": "exact.after_commit=kill"})
        self.assertEqual(dying.join(), -signal.SIGKILL, dying.err())
        r = self.relay_once(code=1)
        way_out = re.search(r"outrider (resync --forget-intent --name \w+)", r.err).group(1)
        self.assertIn("may be published twice", self.run_outrider(*way_out.split(), "--db", self.url).out)
        self.relay_once()
        self.assertEqual(sorted(set(self.numbers()["k"])), list(range(10)))

    def test_a_copy_that_counts_alike_is_told_apart(self):
        copy = self.path("copy.db")
        shutil.copy(self.db, copy)
        self.more(5)
        dying = self.start("relay", "--from", self.url, "--to", self.sink, *EXACT,
                           env={"OUTRIDER_FAILPOINTS": "exact.after_intent=kill"})
        self.assertEqual(dying.join(), -signal.SIGKILL, dying.err())
        # The copy publishes its own second transaction; the original's never was.
        original, self.db, self.url = self.db, copy, "sqlite:" + copy
        self.put_many([self.row("copy", 0)])
        self.relay_once(*EXACT)
        self.db, self.url = original, "sqlite:" + original
        self.obey(self.refused("a copy of it has published"))
        self.relay_once(*EXACT)
        self.assert_exact({"k": 10, "copy": 1})

    def test_missing_progress_is_refused_and_the_way_out_works(self):
        self.more(5)
        self.relay_once(*EXACT)
        EXACT_ELSEWHERE = (*EXACT, "--set", "sink.progress_topic=elsewhere." + self.topic)
        self.more(10)
        r = self.relay_once(*EXACT_ELSEWHERE, code=1)
        self.assertIn("knows of none", r.err)
        self.obey(r)
        self.relay_once(*EXACT_ELSEWHERE)
        self.assert_exact({"k": 15})

    def test_a_topic_for_progress_that_forgets_is_refused(self):
        name = "forgetful." + self.topic
        cluster.create_topic(name, 1)
        r = self.relay_once(*EXACT, "--set", "sink.progress_topic=" + name, code=1)
        self.assertIn("cleanup.policy=delete", r.err)

    def test_a_pending_intent_is_not_dropped_by_a_relay_without_exactly_once(self):
        self.more(5)
        dying = self.start("relay", "--from", self.url, "--to", self.sink, *EXACT,
                           env={"OUTRIDER_FAILPOINTS": "exact.after_commit=kill"})
        self.assertEqual(dying.join(), -signal.SIGKILL, dying.err())
        self.assertIn("run it once more with exactly_once", self.relay_once(code=1).err)
        self.relay_once(*EXACT)
        self.relay_once()
        self.assert_exact({"k": 10})

    def test_resync_after_a_rewritten_history_forgets_the_intent_of_the_old_one(self):
        self.more(5)
        dying = self.start("relay", "--from", self.url, "--to", self.sink, *EXACT,
                           env={"OUTRIDER_FAILPOINTS": "exact.after_commit=kill"})
        self.assertEqual(dying.join(), -signal.SIGKILL, dying.err())
        self.sql("DELETE FROM outbox")
        self.sql("UPDATE sqlite_sequence SET seq = 0 WHERE name = 'outbox'")
        self.put_many([self.row("new", i) for i in range(3)])
        self.assertIn("outrider resync", self.relay_once(*EXACT, code=1).err)
        self.run_outrider("resync", "--db", self.url)
        self.relay_once(*EXACT)
        self.assert_exact({"k": 10, "new": 3})

    def test_what_cannot_be_exactly_once_is_refused_with_exit_code_2(self):
        for args, text in ((("--to", self.sink, "--set", "ordered=false"), "exclude each other"),
                           (("--to", "file:events"), "file: has none"),
                           (("--to", "stdout:"), "stdout: has none")):
            r = self.run_outrider("relay", "--from", self.url, *args, *EXACT, "--once", code=2)
            self.assertIn(text, r.err)
        path = self.path("c.yaml", "pipelines:\n  - name: p\n    exactly_once: true\n"
                                   "    source: {url: 'sqlite:x.db'}\n    sink: {url: 'file:e'}\n")
        self.assertIn("file: has none", self.run_outrider("check", "-c", path, code=2).err)


if __name__ == "__main__":
    harness.main()
