# SPDX-License-Identifier: MIT
"""Mode cdc under torture: many writers with rollbacks, savepoints and prepared
transactions, and a relay that dies at a failpoint between receiving, publishing,
settling and confirming, fifty times; and the same while the mode changes.

OUTRIDER_SEED repeats a run's choices (not its timing)."""
import random
import time
import unittest

import test_postgres_log as storm
from harness import wait_until
from pgcdc import CdcTest

DEATHS = 50
POINTS = ("cdc.receive", "cdc.before_settle", "cdc.after_settle", "cdc.before_confirm", "cdc.after_confirm",
          "relay.after_fetch", "relay.before_settle", "relay.after_settle", "file.after_write", "file.after_sync")
MOVES = POINTS + ("cdc.slot_made", "cdc.planned", "cdc.plan_saved", "cdc.sweep", "cdc.left", "settle.before_commit",
                  "settle.after_commit")


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

    def weather(self, seconds):
        until = time.monotonic() + seconds
        writers = [storm.Writer(self, i, until) for i in range(storm.WRITERS)]
        for w in writers:
            w.start()
        return writers

    def die(self, chance, points, mode):
        """One life: it ends at its failpoint, or when it was spared for too long."""
        point = f"{chance.choice(points)}=kill@{chance.randrange(1, 12)}"
        relay = self.relay("--set", "source.batch=" + chance.choice(("1", "3", "50")), mode=mode,
                           env={"OUTRIDER_FAILPOINTS": point}, wait=False)
        end = time.monotonic() + chance.uniform(0.3, 1.5)
        try:
            wait_until(lambda: not relay.is_running() or time.monotonic() > end, "a death")
        finally:
            relay.kill()
        self.check_log(relay)

    def run_lives(self, points, modes, deaths):
        print(f"OUTRIDER_SEED={storm.SEED}")
        chance = random.Random(storm.SEED)
        self.once()
        writers = self.weather(deaths * 1.0)
        for _ in range(deaths):
            self.die(chance, points, chance.choice(modes))
        for w in writers:
            w.join(120)
            if w.failure:
                raise w.failure
        relay = self.relay()
        self.judge(relay)
        self.stop_relay(relay)
        print(f"{len(self.sink_rows.rows)} deliveries")

    def test_killed_fifty_times_it_loses_invents_and_reorders_nothing(self):
        self.run_lives(POINTS, ("cdc",), DEATHS)

    def test_killed_while_the_mode_changes_it_loses_and_invents_nothing(self):
        self.run_lives(MOVES, ("cdc", "poll"), DEATHS // 2)


if __name__ == "__main__":
    unittest.main()
