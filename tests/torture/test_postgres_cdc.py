# SPDX-License-Identifier: MIT
"""Mode cdc under torture: many writers with rollbacks, savepoints and prepared
transactions, and a relay that dies at each failpoint between receiving,
publishing, settling and confirming, in turn; deaths while the mode changes; and
a server that is restarted.

OUTRIDER_SOAK=1 counts fifty deaths, otherwise it is each failpoint once, and
fifty restarts, otherwise three.
OUTRIDER_SEED repeats a run's choices (not its timing)."""
import collections
import random
import time
import unittest

import test_postgres_log as storm
from harness import SOAK, wait_until
from pgcdc import CdcTest
from pgserver import ConnectionLost, SqlError

# On the way of an event: received, handed on, published, settled, confirmed.
POINTS = ("cdc.receive", "relay.after_fetch", "file.after_write", "file.after_sync", "relay.before_settle",
          "cdc.before_settle", "cdc.after_settle", "relay.after_settle", "cdc.before_confirm", "cdc.after_confirm")
DEATHS = 50 if SOAK else len(POINTS)
RESTARTS = 50 if SOAK else 3
MOVES = POINTS + ("cdc.slot_made", "cdc.planned", "cdc.plan_saved", "cdc.sweep", "cdc.left", "settle.before_commit",
                  "settle.after_commit")


class HardyWriter(storm.Writer):
    """Goes on through lost connections."""

    def __init__(self, test, number, until):
        super().__init__(test, number, until)
        self.test = test

    def attempt(self):
        try:
            super().attempt()
        except ConnectionLost:
            wait_until(self.is_back, "the server to be back")

    def is_back(self):
        self.session.kill()
        try:
            self.session = self.test.session("app", options=self.options)
            self.end_prepared()
            return True
        except (ConnectionLost, SqlError):
            return False

    def end_prepared(self):
        """It has outlived the connection, with its locks."""
        for (name,) in self.session.execute(f"SELECT gid FROM pg_prepared_xacts WHERE gid LIKE 'w{self.number}-%'"):
            verb = self.chance.choice(("COMMIT", "ROLLBACK"))
            self.session.execute(f"{verb} PREPARED '{name}'")


class Storm(CdcTest):
    judge = storm.RandomWriters.judge

    def make_outbox(self, server, database):
        super().make_outbox(server, database)
        server.script("CREATE TABLE account (key int PRIMARY KEY, version int NOT NULL);"
                      f"INSERT INTO account SELECT k, 0 FROM generate_series(0, {storm.KEYS - 1}) k;"
                      "CREATE TABLE fact (key int, version int, nonce text PRIMARY KEY);"
                      "GRANT ALL ON account, fact TO app", database)

    def wait_no_gaps(self):
        """In mode cdc the gaps are those of polling before."""

    def weather(self, kind=storm.Writer):
        """Writers that go on until they are told to stop."""
        writers = [kind(self, i, float("inf")) for i in range(storm.WRITERS)]
        for w in writers:
            w.start()
        return writers

    def start_life(self, chance, point, mode):
        return self.relay("--set", "source.batch=" + chance.choice(("1", "3", "50")), mode=mode,
                          env={"OUTRIDER_FAILPOINTS": f"{point}=kill@{chance.randrange(1, 12)}"}, wait=False)

    def die(self, chance, point):
        """One life in mode cdc: all of its points are reached under load."""
        relay = self.start_life(chance, point, "cdc")
        wait_until(lambda: not relay.is_running(), f"death at {point}")
        relay.join()
        self.check_log(relay)

    def live(self, chance, point, mode):
        """One life whose point may lie on another way: then it is spared, and killed anyhow."""
        relay = self.start_life(chance, point, mode)
        end = time.monotonic() + chance.uniform(0.3, 1.5)
        wait_until(lambda: not relay.is_running() or time.monotonic() > end, "a death")
        relay.kill()
        self.check_log(relay)

    def begin(self):
        print(f"OUTRIDER_SEED={storm.SEED}")
        self.once()
        return random.Random(storm.SEED)

    def end(self, writers, relay=None):
        for w in writers:
            w.until = 0
            w.join(120)
            if w.failure:
                raise w.failure
        relay = relay or self.relay()
        self.judge(relay)
        self.stop_relay(relay)
        print(f"{len(self.sink_rows.rows)} deliveries")

    def test_killed_at_every_failpoint_it_loses_invents_and_reorders_nothing(self):
        chance = self.begin()
        writers = self.weather()
        deaths = collections.Counter()
        for n in range(DEATHS):
            point = POINTS[n % len(POINTS)]
            self.die(chance, point)
            deaths[point] += 1
        print(dict(deaths))
        self.assertEqual(set(deaths.values()), {DEATHS // len(POINTS)})
        self.end(writers)

    def test_killed_while_the_mode_changes_it_loses_and_invents_nothing(self):
        chance = self.begin()
        writers = self.weather()
        for _ in range(DEATHS // 2):
            self.live(chance, chance.choice(MOVES), chance.choice(("cdc", "poll")))
        self.end(writers)

    def test_a_server_restarted_under_load_loses_invents_and_reorders_nothing(self):
        chance = self.begin()
        relay = self.relay()
        writers = self.weather(HardyWriter)
        hows = [chance.choice(("fast", "immediate")) for _ in range(RESTARTS)]
        for how in hows:
            goal = len(self.sink_rows.read()) + chance.randrange(50, 150)
            wait_until(lambda goal=goal: len(self.sink_rows.read()) >= goal, "deliveries; its log:\n" + relay.err()[-4000:])
            self.server.restart(how)
        print(dict(collections.Counter(hows)))
        self.end(writers, relay)


if __name__ == "__main__":
    unittest.main()
