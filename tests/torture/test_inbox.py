# SPDX-License-Identifier: MIT
"""The example bank is killed again and again while it consumes; every deposit
comes at least twice and counts once."""
import json
import os
import random
import subprocess
import sys

import harness
import kafkaserver
from pgcase import PostgresTest

KILLS = 50 if harness.SOAK else 5
SEED = int(os.environ.get("OUTRIDER_SEED") or random.SystemRandom().randrange(1, 10**6))
ACCOUNTS = 7
BANK = os.path.join(os.environ["OUTRIDER_BUILD"], "examples", "bank", "bank")


class Bank(PostgresTest):
    @classmethod
    def setUpClass(cls):
        kafkaserver.need()
        super().setUpClass()
        cls.cluster = kafkaserver.Cluster().start()
        cls.addClassCleanup(cls.cluster.close)

    def start_bank(self, *arguments):
        process = subprocess.Popen([BANK, self.cluster.servers, "deposits", self.owner_url, *arguments],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=harness.environment())
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        process.kill()
        return process.communicate()

    def publish(self, rng, n):
        """n deposits on their way to Kafka, twice: two pipelines of one outbox.
        What each account must have in the end."""
        expected = {}
        rows = []
        for _ in range(n):
            account, amount = f"a{rng.randrange(ACCOUNTS)}", rng.randrange(1, 1000)
            expected[account] = expected.get(account, 0) + amount
            payload = json.dumps({"account": account, "amount": amount})
            rows.append(f"('account', '{account}', 'Deposited', '{payload}', 'deposits')")
        self.owner("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, topic) VALUES "
                   + ", ".join(rows))
        for name in ("first", "second"):
            self.run_outrider("relay", "--once", "--from", self.url, "--to", self.cluster.url, "--name", name)
        return expected

    def applied(self):
        """How many deposits are committed; the table is the bank's to make."""
        if self.owner("SELECT to_regclass('outrider_inbox')")[0][0] in (None, ""):
            return 0
        return int(self.owner("SELECT count(*) FROM outrider_inbox")[0][0])

    def test_each_deposit_counts_once_however_often_the_bank_is_killed(self):
        rng = random.Random(SEED)
        print(f"OUTRIDER_SEED={SEED}", file=sys.stderr)
        portion = 200
        self.cluster.create_topic("deposits", 3, 1)
        total = (KILLS + 1) * portion
        expected = self.publish(rng, total)
        for _ in range(KILLS):
            goal = self.applied() + rng.randrange(1, portion)
            bank = self.start_bank()

            def is_due(bank=bank, goal=goal):
                if bank.poll() is not None:
                    raise AssertionError(f"the bank ended by itself: {self.end(bank)[1]}")
                return self.applied() >= goal
            harness.wait_until(is_due, f"deposit {goal}")
            self.end(bank)
        bank = self.start_bank("--once")
        out, err = bank.communicate(timeout=harness.DEADLINE * 4)
        self.assertEqual(bank.returncode, 0, err)
        self.assertNotIn(" 0 seen before", out)
        balances = {row[0]: int(row[1]) for row in self.owner("SELECT id, balance FROM account")}
        self.assertEqual(balances, expected)
        self.assertEqual(self.applied(), total)
        print(f"{KILLS} kills, {total} deposits, {sum(balances.values())} in the bank; the last run: {out}",
              file=sys.stderr)


if __name__ == "__main__":
    harness.main()
