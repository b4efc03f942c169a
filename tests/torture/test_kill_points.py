#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A relay is killed at each named failpoint, several times, under load.

The names come from the source, so a new one is tried as soon as it is there.
One that the relay never comes by is a failure: its test would prove nothing.
"""
import unittest

import harness
import torture

# Without these there is no proof that every step from fetch to settle was tried.
STEPS = {"relay.before_fetch", "sqlite.fetch", "sqlite.before_sync", "sqlite.after_sync", "relay.after_fetch",
         "file.before_write", "file.torn_write", "file.after_write", "file.before_sync", "file.after_sync",
         "relay.before_settle", "settle.before_begin", "settle.before_commit", "settle.after_commit",
         "relay.after_settle"}
PASSES = tuple(range(1, 21)) if harness.SOAK else (1, 4)

# What must happen for some to be passed: further failpoints, options, how often at most.
AFTER = {"file.before_cut": "file.after_write=eio@2"}
OPTIONS = {"sqlite.cleanup": ("cleanup.retention=1ms", "cleanup.every=1s")}
ONCE_A_RUN = {"sqlite.open", "file.before_cut", "sqlite.fetch_parked", "sqlite.cleanup"}


def names_in_source():
    """Those that a relay from SQLite into files can pass."""
    names = harness.failpoints("core", "db/sqlite", "sink/file")
    # Those of exactly once need a sink with transactions: test_kafka_exactly_once.py.
    return {n for n in names if not n.startswith(("exact.", "intent."))}


class KillPoints(torture.TortureTest):
    def test_every_step_from_fetch_to_settle_has_its_failpoint(self):
        self.assertEqual(STEPS - names_in_source(), set())

    def prepare(self, name):
        """Sees to it that there is something to do at a point that is off the usual way."""
        if name == "sqlite.fetch_parked":
            key = "parked-%d" % self.loads
            self.put('{"note":"%s"}' % ("x" * 2000), key, "Note", "--topic", "notes")
            self.relay_once(*torture.sets(torture.OPTIONS + ("source.max_payload=1KiB",)), code=3)
            self.run_outrider("dead", "retry", "--db", self.url, "--all")

    def kill_at(self, name, number):
        self.prepare(name)
        points = ",".join(filter(None, (AFTER.get(name), "%s=kill@%d" % (name, number))))
        relay = self.relay(*OPTIONS.get(name, ()), failpoints=points)
        self.load_until_killed(relay, "%s, pass %d," % (name, number), 10 + 2 * number)

    def try_point(self, name):
        for number in PASSES:
            self.kill_at(name, 1 if name in ONCE_A_RUN else number)
        self.drain()
        self.verify()
        if name == "sqlite.fetch_parked":
            notes = {row["key"] for row in self.delivered("notes")}
            self.assertEqual(len(notes), len(PASSES))


def add_test(name):
    def test(self):
        self.try_point(name)
    setattr(KillPoints, "test_killed_at_%s_nothing_is_lost_invented_or_reordered" % name.replace(".", "_"), test)


for point in sorted(names_in_source()):
    add_test(point)

if __name__ == "__main__":
    unittest.main(verbosity=2)
