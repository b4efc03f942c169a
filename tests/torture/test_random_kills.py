#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Relays are killed at random, stand by for each other, and meet random faults.

OUTRIDER_SEED=N makes the same choices again (not the same timing).
"""
import os
import random
import unittest

import harness
import torture

SEED = int(os.environ.get("OUTRIDER_SEED") or random.SystemRandom().randrange(1, 10**6))
ROUNDS = 40 if harness.SOAK else 4

# Faults that a relay must get over by itself.
FAULTS = ("file.before_write=enospc", "file.torn_write=enospc", "file.after_write=eio", "file.before_sync=eio",
          "file.after_sync=eio", "sqlite.fetch=eio", "sqlite.before_sync=eio", "sqlite.after_sync=eio",
          "settle.before_begin=eio", "settle.before_park=eio", "settle.before_commit=eio",
          "settle.after_commit=eio")


class RandomKills(torture.TortureTest):
    def setUp(self):
        super().setUp()
        self.random = random.Random("%d %s" % (SEED, self.id()))

    def delivered_count(self):
        return len(self.delivered("orders"))

    def await_some_delivered(self):
        """Until a random number of further events is in the log, or none is left to come."""
        goal = min(self.delivered_count() + self.random.randrange(torture.EVENTS // 2), self.loads * torture.EVENTS)
        harness.wait_until(lambda: self.delivered_count() >= goal, "%d events in the log" % goal)

    def test_a_relay_that_is_killed_at_random_keeps_the_promise(self):
        for _ in range(ROUNDS):
            writers = self.start_load()
            for _ in range(self.random.randrange(1, 4)):
                relay = self.relay()
                self.await_some_delivered()
                relay.kill()
            self.finish_load(writers)
        self.drain()
        self.verify()

    def test_a_standby_takes_over_from_a_relay_that_is_killed(self):
        active, standby = self.relay(), None
        active.wait_for_log("connected and active")
        for _ in range(ROUNDS):
            standby = self.relay()
            standby.wait_for_log("another relay is active")
            writers = self.start_load()
            self.await_some_delivered()
            active.kill()
            standby.wait_for_log("connected and active")
            active = standby
            self.finish_load(writers)
        self.await_settled(active)
        self.assertEqual(active.stop(), 0, active.err())
        self.verify()

    def random_faults(self):
        chosen = self.random.sample(FAULTS, self.random.randrange(1, 4))
        return ",".join("%s@%d" % (fault, self.random.randrange(1, 8)) for fault in chosen)

    def test_faults_of_disk_and_database_are_waited_out_and_nothing_is_lost(self):
        for _ in range(ROUNDS):
            faults = self.random_faults()
            with self.subTest(faults=faults):
                writers = self.start_load()
                relay = self.relay(failpoints=faults)
                self.finish_load(writers)
                self.await_settled(relay)
                self.assertEqual(relay.stop(), 0, relay.err())
                self.verify()

    def test_a_relay_killed_between_faults_keeps_the_promise(self):
        for _ in range(ROUNDS):
            writers = self.start_load()
            relay = self.relay(failpoints=self.random_faults())
            self.await_some_delivered()
            relay.kill()
            self.finish_load(writers)
        self.drain()
        self.verify()


if __name__ == "__main__":
    print("OUTRIDER_SEED=%d" % SEED, flush=True)
    unittest.main(verbosity=2)
