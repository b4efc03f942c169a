# SPDX-License-Identifier: MIT
"""Mode cdc: memory, and rows that are no longer needed."""
import unittest

from harness import wait_until
from pgcdc import CdcTest

# The sanitizer keeps freed memory for a while, which is not what is measured.
LEAN = {"ASAN_OPTIONS": "quarantine_size_mb=4:malloc_context_size=1"}

# KiB that a relay may grow by. Batches, libpq's buffer and the sanitizer's own bookkeeping
# take 8 to 28 MiB, by how busy the machine is; a transaction in memory would take 200.
ROOM = 48 << 10

CLEAN = ("--set", "cleanup.retention=1ms", "--set", "cleanup.every=50ms")


class Limits(CdcTest):
    def peak_kib(self, relay):
        with open(f"/proc/{relay.pid}/status", encoding="ascii") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmHWM"))

    def deliver(self, relay, events, size):
        goal = int(self.cursor("delivered_total")) + events
        with self.owner_session() as session:
            session.execute("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) SELECT 'order', "
                            f"(i % 100)::text, 'changed', jsonb_build_object('n', i, 'x', repeat('x', {size})) "
                            f"FROM generate_series(1, {events}) i", timeout=180)
        wait_until(lambda: int(self.cursor("delivered_total")) >= goal, "the transaction", deadline=180)
        return self.peak_kib(relay)

    def test_a_large_transaction_needs_no_more_memory_than_a_small_one(self):
        self.sink = "null:"
        relay = self.relay(env=LEAN)
        self.wait_streaming(relay)
        small = self.deliver(relay, 10000, 1000)
        large = self.deliver(relay, 1000000, 60)
        self.assertLess(large - small, ROOM)
        wide = self.deliver(relay, 50000, 4000)  # 200 MB
        self.assertLess(wide - small, ROOM)
        self.stop_relay(relay)

    def test_over_tcp_what_the_kernel_holds_is_not_taken_in(self):
        self.url = self.server.url(self.database, "relay", tcp=True)
        relay = self.relay(env=LEAN)
        self.wait_streaming(relay)
        small = self.deliver(relay, 1000, 1000)
        wide = self.deliver(relay, 50000, 4000)
        self.assertLess(wide - small, ROOM)
        self.stop_relay(relay)

    def count(self):
        return int(self.owner("SELECT count(*) FROM outbox")[0][0])

    def wait_empty(self):
        wait_until(lambda: self.count() == 0, "the rows to be removed")

    def test_clean_up_removes_what_the_slot_is_confirmed_past(self):
        relay = self.relay(*CLEAN)
        self.wait_streaming(relay)
        slow = self.session()
        slow.begin()
        slow.execute(self.insert("slow", "s"))
        for n in range(20):
            self.commit_event(f"e{n}")
        self.wait_label("e19", relay=relay)
        slow.commit()
        self.wait_label("slow", relay=relay)
        self.wait_empty()
        self.assertEqual(len(self.delivered_labels()), 21)
        self.stop_relay(relay)

    def test_clean_up_leaves_what_another_pipeline_in_mode_cdc_has_not_confirmed(self):
        other = ("relay", "--from", self.url, "--to", "null:", "--mode", "cdc", "--name", self.name + "_b")
        self.owner(f"CREATE PUBLICATION {self.slot}_b FOR TABLE outbox WITH (publish = 'insert')")
        self.run_outrider(*other, "--once")
        relay = self.relay(*CLEAN)
        self.wait_streaming(relay)
        for n in range(5):
            self.commit_event(f"e{n}")
        self.wait_label("e4", relay=relay)
        wait_until(lambda: self.settled_xid() > self.newest_xid(), "the first pipeline to have settled them")
        self.run_outrider("cleanup", "--db", self.url, "--retention", "1ms")
        self.assertEqual(self.count(), 5)
        second = self.start(*other)
        self.wait_empty()
        second.stop()
        self.stop_relay(relay)

    def settled_xid(self):
        return int(self.cursor("settled_xid") or 0)

    def newest_xid(self):
        return int(self.owner("SELECT max(xmin::text::bigint) FROM outbox")[0][0])

    def test_clean_up_leaves_what_a_pipeline_that_polls_has_not_settled(self):
        self.commit_event("first")
        self.run_outrider("relay", "--from", self.url, "--to", "null:", "--name", self.name + "_b", "--once")
        relay = self.relay(*CLEAN)
        self.wait_streaming(relay)
        for n in range(5):
            self.commit_event(f"e{n}")
        self.wait_label("e4", relay=relay)
        wait_until(lambda: self.settled_xid() > self.newest_xid(), "the first pipeline to have settled them")
        self.run_outrider("cleanup", "--db", self.url, "--retention", "1ms")
        self.assertEqual(self.count(), 6, "the anchor of the other, and what it has not seen")
        self.run_outrider("relay", "--from", self.url, "--to", "null:", "--name", self.name + "_b", "--once")
        wait_until(lambda: self.count() == 1, "all but the anchor to be removed")
        self.stop_relay(relay)

    def test_the_command_cleans_up_what_a_relay_has_settled(self):
        relay = self.relay()
        self.wait_streaming(relay)
        self.commit_event("a")
        self.wait_label("a", relay=relay)
        wait_until(lambda: self.settled_xid() > self.newest_xid(), "it to be settled")
        self.run_outrider("cleanup", "--db", self.url, "--retention", "1ms")
        self.assertEqual(self.count(), 0)
        self.stop_relay(relay)

    def test_delete_removes_what_is_published_unless_another_pipeline_needs_it(self):
        self.commit_event("old")
        self.once("--set", "after_publish=delete")
        self.assertEqual(self.count(), 0)
        self.commit_event("a")
        self.run_outrider("relay", "--from", self.url, "--to", "null:", "--name", self.name + "_b", "--once")
        self.commit_event("b")
        self.once("--set", "after_publish=delete")
        self.assertEqual(self.outbox_labels(), ["a", "b"], "the other's anchor, and what it has not seen")
        self.run_outrider("relay", "--from", self.url, "--to", "null:", "--name", self.name + "_b", "--once")
        self.commit_event("c")
        self.once("--set", "after_publish=delete")
        self.assertEqual(self.delivered_labels(), ["old", "a", "b", "c"])


class Partitions(CdcTest):
    init_arguments = ("--partition", "day")

    def test_partitions_are_kept_up_and_dropped_once_they_are_settled(self):
        self.once()
        self.owner("CREATE TABLE outbox_old PARTITION OF outbox FOR VALUES FROM ('2001-01-01') TO ('2001-01-02')")
        self.owner("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, created_at) VALUES "
                   "('order', 'k', 'changed', '{\"n\": \"old\"}', '2001-01-01 12:00+00')")
        self.owner("DO $$ DECLARE t regclass; BEGIN SELECT max(inhrelid::regclass::text)::regclass INTO t FROM "
                   "pg_inherits WHERE inhparent = 'outbox'::regclass AND inhrelid <> 'outbox_old'::regclass; "
                   "EXECUTE format('DROP TABLE %s', t); END $$")
        before = int(self.owner("SELECT count(*) FROM pg_inherits WHERE inhparent = 'outbox'::regclass")[0][0])
        relay = self.relay(*CLEAN)
        self.wait_label("old", relay=relay)
        wait_until(lambda: self.owner("SELECT to_regclass('outbox_old') IS NULL") == [("t",)] or not self.nudge(),
                   "the old partition to be dropped", deadline=90)
        self.assertEqual(int(self.owner("SELECT count(*) FROM pg_inherits WHERE inhparent = 'outbox'::regclass")[0][0]),
                         before, "one was dropped, one was made")
        self.stop_relay(relay)

    def test_several_that_keep_partitions_up_at_once_do_not_fail(self):
        sessions = [self.owner_session() for _ in range(4)]
        for session in sessions:
            self.addCleanup(session.close)
        for _ in range(40):
            self.owner("DO $$ DECLARE t regclass; BEGIN FOR t IN SELECT inhrelid FROM pg_inherits WHERE inhparent = "
                       "'outbox'::regclass LOOP EXECUTE format('DROP TABLE %s', t); END LOOP; END $$")
            for session in sessions:
                session.start("SELECT outbox_partitions(now() - interval '1 day')")
            for session in sessions:
                session.wait()

    def nudge(self):
        """Upkeep is called every half a minute; the function is the same."""
        self.owner("SELECT outbox_partitions(now() - interval '1 day')")
        return True


if __name__ == "__main__":
    unittest.main()
