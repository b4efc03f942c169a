# SPDX-License-Identifier: MIT
"""Clean-up: what is settled and old goes, an unsettled event never does, and no
writer waits for it."""
import threading

import harness
from harness import wait_until
from pgcase import PostgresTest


PARTITIONS = "SELECT relname FROM pg_class WHERE relname LIKE 'outbox_p2%' AND relkind = 'r' ORDER BY 1"


class CleanUp(PostgresTest):
    def old(self, label, key="k", days=10):
        """An INSERT of an event that looks as if it was made long ago."""
        return ("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, created_at) VALUES "
                f"('order', '{key}', 'changed', '{{\"n\": \"{label}\"}}', now() - interval '{days} days')")

    def clean(self, retention="1d"):
        self.run_outrider("cleanup", "--db", self.url, "--retention", retention)

    def once(self, name, *more):
        self.run_outrider("relay", "--from", self.url, "--to", "file:" + self.path(name), "--name", name, "--once", *more)

    def seqs(self):
        return [int(n) for (n,) in self.owner("SELECT seq FROM outbox ORDER BY seq")]

    def test_it_waits_for_a_stalled_pipeline(self):
        for i in range(3):
            self.owner(self.old(i))
        self.once("stalled")
        for i in range(3, 8):
            self.owner(self.old(i))
        self.once("quick")
        self.clean()
        # 3 is where the stalled one stands, and how it knows that history is as it was.
        self.assertEqual(self.seqs(), [3, 4, 5, 6, 7, 8])
        self.once("stalled")
        self.assertEqual([r["payload"]["n"] for r in self.delivered(directory=self.path("stalled"))],
                         [str(i) for i in range(8)])
        self.clean()
        self.assertEqual(self.seqs(), [8])

    def test_it_keeps_what_is_too_young(self):
        self.owner(self.old("old"))
        self.commit_event("young")
        self.commit_event("last")
        self.once("default")
        self.clean()
        self.assertEqual(self.seqs(), [2, 3])

    def test_a_late_row_in_a_gap_is_left_until_it_is_delivered(self):
        slow = self.owner_session()
        slow.begin()
        slow.execute(self.old("slow"))
        for i in range(3):
            self.owner(self.old(f"fast-{i}"))
        relay = self.start_relay()
        self.wait_label("fast-2", relay=relay)
        wait_until(lambda: self.position() == 4, "the position to be saved")
        self.stop_relay(relay)
        self.clean()
        slow.commit()
        # Now it is there, old, below the position, and was never delivered.
        self.clean()
        self.assertEqual(self.seqs(), [1, 4])
        self.relay_once()
        self.assertIn("slow", self.delivered_labels())
        self.clean()
        self.assertEqual(self.seqs(), [4])

    def test_a_relay_cleans_up_by_itself(self):
        for i in range(5):
            self.owner(self.old(i))
        relay = self.start_relay("--set", "cleanup.every=50ms", "--set", "cleanup.retention=1d", "--set", "cleanup.batch=2")
        wait_until(lambda: self.seqs() == [5], "all but the anchor to be removed")
        self.commit_event("after")
        self.wait_label("4", "after", relay=relay)
        self.stop_relay(relay)

    def test_a_writer_does_not_wait_for_it(self):
        for i in range(5):
            self.owner(self.old(i))
        self.relay_once()
        writer = self.session()
        writer.begin()
        writer.execute(self.insert("open"))
        self.clean()
        self.assertEqual(self.seqs(), [5])
        writer.commit()
        self.relay_once()
        self.assertIn("open", self.delivered_labels())


class Partitions(CleanUp):
    """The same of a partitioned outbox, where what is old lies in a partition of its own."""

    init_arguments = ("--partition", "day")

    def setUp(self):
        super().setUp()
        self.make_old_partition()

    def make_old_partition(self):
        self.owner("SET timezone = 'UTC'; DO $$ BEGIN EXECUTE format('CREATE TABLE outbox_old PARTITION OF outbox FOR "
                   "VALUES FROM (%L) TO (%L)', current_date - 12, current_date - 8); END $$")

    def exists(self, name="outbox_old"):
        return self.owner(f"SELECT to_regclass('{name}') IS NOT NULL")[0][0] == "t"

    def test_partitions_are_made_ahead(self):
        before = self.owner(PARTITIONS)
        self.assertEqual(len(before), 8)
        for (name,) in before[2:]:
            self.owner(f"DROP TABLE {name}")
        self.clean()
        self.assertEqual(self.owner(PARTITIONS), before)
        # What came into the default partition meanwhile keeps one from being made, and is no reason to fail.
        self.owner(f"DROP TABLE {before[-1][0]}")
        self.owner(self.old("ahead", days=-7))
        self.clean()
        self.relay_once()
        self.assertEqual(self.delivered_labels(), ["ahead"])

    def test_a_relay_makes_partitions_ahead_though_it_removes_nothing(self):
        before = self.owner(PARTITIONS)
        for (name,) in before[2:]:
            self.owner(f"DROP TABLE {name}")
        relay = self.start_relay("--set", "cleanup.retention=0")
        wait_until(lambda: self.owner(PARTITIONS) == before, "the partitions to be made")
        self.commit_event("one")
        self.wait_label("one", relay=relay)
        self.assertTrue(self.exists(), "dropped without a retention")
        self.stop_relay(relay)

    def test_a_partition_is_dropped_when_all_of_it_is_settled(self):
        self.owner(self.old("old"))
        self.clean()
        self.assertTrue(self.exists(), "dropped before anybody read it")
        self.relay_once()
        self.clean()
        self.assertTrue(self.exists(), "the anchor was dropped")
        self.commit_event("young")
        self.relay_once()
        self.clean()
        self.assertFalse(self.exists())
        self.assertEqual(self.delivered_labels(), ["old", "young"])

    def test_a_partition_into_which_a_transaction_writes_is_not_dropped(self):
        writer = self.owner_session()
        writer.begin()
        writer.execute(self.old("slow"))
        self.commit_event("fast")
        self.relay_once()
        self.clean()
        self.assertTrue(self.exists())
        writer.commit()
        self.clean()
        self.assertTrue(self.exists(), "an event that nobody delivered was dropped")
        self.relay_once()
        self.assertEqual(self.delivered_labels(), ["fast", "slow"])
        self.clean()
        self.assertFalse(self.exists())

    def test_commits_that_race_the_drop_of_their_partition_are_delivered(self):
        relay = self.start_relay()
        cleaner, writer, maker = self.owner_session(), self.owner_session(), self.owner_session()
        stop = threading.Event()
        dropped = 0

        def drop():
            while not stop.is_set():
                cleaner.execute("SELECT outbox_partitions(now() - interval '1 day')")
        thread = threading.Thread(target=drop)
        thread.start()
        try:
            for i in range(60):
                writer.execute(self.old(f"old-{i}"))
                # The anchor moves on to a row that stays, so that the partition may go.
                writer.execute(self.insert(f"young-{i}"))
                if i % 3 == 0:
                    # All of it is settled now, or nearly: the drop comes while the next one is written.
                    self.wait_label(f"young-{i}", relay=relay)
                if maker.value("SELECT to_regclass('outbox_old') IS NULL") == "t":
                    dropped += 1
                    self.wait_label(f"old-{i}", f"young-{i}", relay=relay)
                    maker.execute("DELETE FROM outbox_default")
                    self.make_old_partition()
        finally:
            stop.set()
            thread.join()
        wanted = [f"{n}-{i}" for i in range(60) for n in ("old", "young")]
        self.wait_label(*wanted, relay=relay)
        self.assertEqual(self.delivered_labels(), wanted)
        print(f"partitions dropped under way: {dropped}")
        self.stop_relay(relay)


class StatusPartitions(PostgresTest):
    """Rows that carry their state, in partitions."""

    init_arguments = ("--layout", "status", "--partition", "day")
    old = CleanUp.old
    clean = CleanUp.clean
    make_old_partition = Partitions.make_old_partition
    exists = Partitions.exists
    test_a_relay_makes_partitions_ahead = Partitions.test_a_relay_makes_partitions_ahead_though_it_removes_nothing

    def setUp(self):
        super().setUp()
        self.make_old_partition()

    def age(self):
        """As if all that happened to the rows so far were long ago."""
        self.owner("UPDATE outbox SET published_at = published_at - interval '10 days', "
                   "updated_at = updated_at - interval '10 days'")

    def test_a_partition_is_dropped_when_all_of_it_is_settled(self):
        self.owner(self.old("old"))
        self.clean()
        self.assertTrue(self.exists(), "dropped before anybody read it")
        self.relay_once()
        self.clean()
        self.assertTrue(self.exists(), "dropped though it was published just now")
        self.age()
        self.clean()
        self.assertFalse(self.exists())
        self.assertEqual(self.delivered_labels(), ["old"])

    def test_a_dead_letter_keeps_its_partition(self):
        self.owner(self.old("old"))
        self.relay_once()
        self.owner("UPDATE outbox SET status = 'DEAD_LETTER'")
        self.age()
        self.clean()
        self.assertTrue(self.exists())
        self.owner("UPDATE outbox SET status = 'EXPIRED', published_at = NULL, updated_at = now() - interval '10 days'")
        self.clean()
        self.assertFalse(self.exists())

    def test_a_relay_drops_partitions_by_itself(self):
        self.owner(self.old("old"))
        self.relay_once()
        self.age()
        relay = self.start_relay("--set", "cleanup.every=50ms", "--set", "cleanup.retention=1d")
        wait_until(lambda: not self.exists(), "the partition to be dropped")
        self.commit_event("after")
        self.wait_label("after", relay=relay)
        self.stop_relay(relay)

    def test_a_partition_into_which_a_transaction_writes_is_not_dropped(self):
        writer = self.owner_session()
        writer.begin()
        writer.execute(self.old("slow"))
        self.clean()
        self.assertTrue(self.exists())
        writer.commit()
        self.clean()
        self.assertTrue(self.exists(), "an event that nobody delivered was dropped")
        self.relay_once()
        self.assertEqual(self.delivered_labels(), ["slow"])

    def test_init_can_be_run_again_and_knows_what_is_there(self):
        self.run_outrider("init", "--db", self.owner_url)
        self.assertEqual(self.owner("SELECT prosrc LIKE '%EXPIRED%' FROM pg_proc WHERE proname = 'outbox_partitions'"), [("t",)])


if __name__ == "__main__":
    harness.main()
