# SPDX-License-Identifier: MIT
"""The short suite on every supported version of PostgreSQL: what differs
between versions (catalogue, multiranges, locks) is used once on each.

Debian's version comes from its package, the others from scripts/fetch-postgres.
Where one cannot be had it is skipped, loudly; with CI set that is a failure."""
import os
import subprocess
import sys
import unittest

import harness
from harness import SOURCE
from pgcase import PostgresTest
from pgserver import Server


def bin_of(major):
    """Where the programs of a version are; skips or fails where they are not."""
    if os.path.exists(f"/usr/lib/postgresql/{major}/bin/postgres"):
        return f"/usr/lib/postgresql/{major}/bin"
    done = subprocess.run([os.path.join(SOURCE, "scripts", "fetch-postgres"), str(major)], capture_output=True,
                          text=True, timeout=600)
    if done.returncode == 0:
        return done.stdout.strip()
    message = f"PostgreSQL {major} is NOT TESTED: {done.stderr.strip()}"
    if os.environ.get("CI") == "true":
        raise AssertionError(message)
    print(message, file=sys.stderr)
    raise unittest.SkipTest(message)


class Version:
    major = None

    @classmethod
    def setUpClass(cls):
        cls.server = Server(bin_of(cls.major))
        cls.addClassCleanup(cls.server.remove)
        cls.server.initialise()
        cls.server.start()
        cls.template = None

    def test_the_way_through(self):
        self.assertEqual(self.server.version, self.major)
        # Twice is as good as once.
        self.run_outrider("init", "--db", self.owner_url)
        self.server.query("SELECT outbox_enqueue('order', '1', 'changed', '{\"n\": \"function\"}')",
                          self.database, "app")
        self.commit_event("insert")
        self.relay_once()
        self.assertEqual(self.delivered_labels(), ["function", "insert"])
        self.relay_once()
        self.assertEqual(len(self.delivered_labels()), 2)
        status = self.status()
        self.assertEqual((status["pending"], status["position"]), (0, 2))

    def test_a_late_row_in_a_gap(self):
        relay = self.start_relay()
        slow, aborted, prepared = self.session(), self.session(), self.session()
        for session, label in ((slow, "slow"), (aborted, "aborted"), (prepared, "prepared")):
            session.begin()
            session.execute(self.insert(label, label))
        prepared.execute("PREPARE TRANSACTION 'p'")
        self.commit_event("fast")
        self.wait_label("fast", relay=relay)
        aborted.rollback()
        slow.commit()
        self.wait_label("slow", relay=relay)
        self.owner("COMMIT PREPARED 'p'")
        self.wait_label("prepared", relay=relay)
        self.wait_no_gaps()
        self.assertEqual(self.delivered_labels(), ["fast", "slow", "prepared"])
        self.server.restart("immediate")
        self.commit_event("after")
        self.wait_label("after", relay=relay)
        self.stop_relay(relay)

    def test_a_partitioned_outbox(self):
        database = self.server.create_database()
        url = self.server.url(database)
        self.run_outrider("init", "--db", url, "--partition", "month", "--payload", "text")
        self.server.query(self.insert("month"), database)
        self.run_outrider("relay", "--from", url, "--to", self.sink, "--once")
        self.assertEqual(self.delivered_labels(), ["month"])


class Postgres14(Version, PostgresTest):
    major = 14


class Postgres15(Version, PostgresTest):
    major = 15


class Postgres16(Version, PostgresTest):
    major = 16


class Postgres17(Version, PostgresTest):
    major = 17


class Postgres18(Version, PostgresTest):
    major = 18


if __name__ == "__main__":
    harness.main()
