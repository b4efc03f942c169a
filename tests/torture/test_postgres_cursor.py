# SPDX-License-Identifier: MIT
"""The cursor through random histories: writers that commit, roll back and take
their time, slots that are lost, resyncs, moves between poll and cdc, kills, seqs
that begin anew. Nothing that is committed may be lost, nothing else delivered.
A failing history names its seed: OUTRIDER_SEED=<n> runs that history alone."""
import os
import random
import unittest

from harness import SOAK, wait_until
from pgcdc import CdcTest

STEPS = 14


class History(CdcTest):
    def begin(self, seed):
        self.random = random.Random(seed)
        self.committed, self.rolled_back = set(), set()
        self.open = []
        self.n = 0

    def label(self):
        self.n += 1
        return f"e{self.n}"

    def write(self):
        for _ in range(self.random.randint(1, 4)):
            label = self.label()
            self.commit_event(label)
            self.committed.add(label)

    def roll_back(self):
        session, label = self.session(), self.label()
        session.begin()
        session.execute(self.insert(label, "r"))
        session.rollback()
        self.rolled_back.add(label)

    def open_slow(self):
        session, label = self.session(), self.label()
        session.begin()
        session.execute(self.insert(label, "s"))
        self.open.append((session, label))

    def end_slow(self):
        if not self.open:
            return
        session, label = self.open.pop(self.random.randrange(len(self.open)))
        if self.random.random() < 0.7:
            session.commit()
            self.committed.add(label)
        else:
            session.rollback()
            self.rolled_back.add(label)

    def deliver(self):
        """As an operator would: where the relay asks for a resync, there is one."""
        mode = self.random.choice(("poll", "cdc"))
        args = ("--set", "connect_timeout=2s")
        done = self.once(*args, mode=mode, code=None)
        if done.code != 0:
            self.assertRegex(done.err, "resync", str(done))
            self.resync()
            self.once(*args, mode=mode)

    def resync(self):
        self.run_outrider("resync", "--db", self.url, "--name", self.name, code=None)

    def kill(self):
        relay = self.relay(mode=self.random.choice(("poll", "cdc")), wait=False)
        before, committed = len(self.delivered_labels()), len(self.committed)
        self.write()
        goal = before + self.random.randint(0, len(self.committed) - committed)
        try:
            wait_until(lambda: len(self.delivered_labels()) >= goal or not relay.is_running(), "the relay to be at work")
        except AssertionError:
            raise AssertionError(f"the relay is not at work; its log:\n{relay.err()[-3000:]}") from None
        relay.kill()

    def lose_slot(self):
        self.drop_slot()

    def begin_anew(self):
        """Only what is delivered may be truncated: the rest would be the user's loss."""
        while self.open:
            self.end_slow()
        self.deliver()
        self.owner("TRUNCATE outbox RESTART IDENTITY")
        self.write()

    def run_history(self, seed):
        self.begin(seed)
        steps = [self.write] * 4 + [self.roll_back, self.open_slow, self.open_slow, self.end_slow, self.end_slow,
                                    self.lose_slot, self.resync, self.kill, self.begin_anew] + [self.deliver] * 4
        told = []
        for _ in range(STEPS):
            step = self.random.choice(steps)
            told.append(step.__name__)
            step()
        while self.open:
            self.end_slow()
        self.deliver()
        delivered = set(self.delivered_labels())
        self.assertEqual(self.committed - delivered, set(), f"lost; seed {seed}: {told}; {self.owner('TABLE outrider_cursor')}")
        self.assertEqual(delivered & self.rolled_back, set(), f"invented; seed {seed}: {told}")

    def test_random_histories_lose_and_invent_nothing(self):
        seed = int(os.environ.get("OUTRIDER_SEED", "0"))
        seeds = [seed] if seed else range(1, 101 if SOAK else 9)
        for seed in seeds:
            with self.subTest(seed=seed):
                self.doCleanups()
                self.setUp()
                self.run_history(seed)


if __name__ == "__main__":
    unittest.main()
