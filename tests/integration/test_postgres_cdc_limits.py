# SPDX-License-Identifier: MIT
"""Mode cdc: memory, and rows that are no longer needed."""
import unittest

from harness import wait_until
from pgcdc import CdcTest

# The sanitizer keeps freed memory for a while, which is not what is measured.
LEAN = {"ASAN_OPTIONS": "quarantine_size_mb=4:malloc_context_size=1"}


class Limits(CdcTest):
    def peak_kib(self, relay):
        with open(f"/proc/{relay.pid}/status", encoding="ascii") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmHWM"))

    def deliver(self, relay, events):
        goal = int(self.cursor("delivered_total")) + events
        self.owner("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) SELECT 'order', "
                   "(i % 100)::text, 'changed', jsonb_build_object('n', i, 'x', repeat('x', 1000)) "
                   f"FROM generate_series(1, {events}) i")
        wait_until(lambda: int(self.cursor("delivered_total")) >= goal, "the transaction", deadline=180)
        return self.peak_kib(relay)

    def test_a_large_transaction_needs_no_more_memory_than_a_small_one(self):
        self.sink = "null:"
        relay = self.relay(env=LEAN)
        self.wait_streaming(relay)
        small = self.deliver(relay, 10000)
        large = self.deliver(relay, 200000)  # 200 MB
        self.assertLess(large - small, 20 << 10)
        self.stop_relay(relay)

    def test_clean_up_removes_what_the_slot_is_confirmed_past(self):
        relay = self.relay("--set", "cleanup.retention=1ms", "--set", "cleanup.every=50ms")
        self.wait_streaming(relay)
        slow = self.session()
        slow.begin()
        slow.execute(self.insert("slow", "s"))
        for n in range(20):
            self.commit_event(f"e{n}")
        self.wait_label("e19", relay=relay)
        wait_until(lambda: self.owner("SELECT count(*) FROM outbox")[0][0] == "0", "the rows to be removed")
        slow.commit()
        self.wait_label("slow", relay=relay)
        self.assertEqual(len(self.delivered_labels()), 21)
        self.stop_relay(relay)


if __name__ == "__main__":
    unittest.main()
