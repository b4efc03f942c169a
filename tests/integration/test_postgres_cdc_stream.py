# SPDX-License-Identifier: MIT
"""Mode cdc: what is committed comes, once, in the order of the commits."""
import unittest

from harness import wait_until
from pgcdc import CdcTest


class Stream(CdcTest):
    def test_existing_rows_come_first_and_then_the_stream(self):
        self.commit_event("a")
        self.commit_event("b")
        relay = self.relay()
        self.wait_streaming(relay)
        self.commit_event("c")
        self.wait_label("a", "b", "c", relay=relay)
        self.assertEqual(self.delivered_labels(), ["a", "b", "c"])
        self.stop_relay(relay)

    def test_once_delivers_what_was_committed_and_ends(self):
        self.commit_event("a")
        self.once()
        self.assertEqual(self.delivered_labels(), ["a"])
        self.assertEqual(self.cursor("mode"), "cdc")
        self.commit_event("b")
        self.once()
        self.once()
        self.assertEqual(self.delivered_labels(), ["a", "b"])

    def test_a_transaction_comes_at_its_commit_and_not_if_it_is_rolled_back(self):
        relay = self.relay()
        self.wait_streaming(relay)
        slow, gone = self.session(), self.session()
        slow.begin()
        slow.execute(self.insert("slow", "s"))
        gone.begin()
        gone.execute(self.insert("gone", "g"))
        self.commit_event("fast", "f")
        self.wait_label("fast", relay=relay)
        gone.rollback()
        slow.commit()
        self.wait_label("slow", relay=relay)
        self.commit_event("last")
        self.wait_label("last", relay=relay)
        self.assertEqual(self.delivered_labels(), ["fast", "slow", "last"])
        self.stop_relay(relay)

    def test_a_restart_delivers_nothing_twice(self):
        for round_no in range(3):
            relay = self.relay()
            self.wait_streaming(relay)
            self.commit_event(f"r{round_no}")
            self.wait_label(f"r{round_no}", relay=relay)
            self.stop_relay(relay)
        self.assertEqual(self.delivered_labels(), ["r0", "r1", "r2"])

    def test_a_restart_inside_a_transaction_goes_on_where_it_was(self):
        self.once()
        self.owner("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) SELECT 'order', 'k', "
                   "'changed', jsonb_build_object('n', 'x' || i) FROM generate_series(1, 5000) i")
        relay = self.relay("--set", "source.batch=100", env={"OUTRIDER_FAILPOINTS": "cdc.after_settle=kill@7"},
                           wait=False)
        relay.join()
        self.once("--set", "source.batch=100")
        labels = self.delivered_labels()
        self.assertEqual(self.sink_rows.first_labels(), [f"x{i}" for i in range(1, 5001)])
        self.assertLessEqual(len(labels), 5000 + 5 * 100)  # as many batches are in memory


if __name__ == "__main__":
    unittest.main()
