#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""SQLite: columns beside the payload that are far too large. A relay's memory does
not follow them; the event is a dead letter that has its data."""
import harness
from harness import wait_until

# The sanitizer keeps freed memory for a while, which is not what is measured.
LEAN = {"ASAN_OPTIONS": "quarantine_size_mb=4:malloc_context_size=1"}
N = 400
BIG = 1 << 20
GROWTH_KIB = 40 << 10
TEXTS = ("id", "aggregate_type", "aggregate_id", "event_type", "topic", "partition_key")


class Columns(harness.OutriderTest):
    def setUp(self):
        super().setUp()
        self.init()

    def fill(self, first, last, **columns):
        values = {"aggregate_type": "'order'", "aggregate_id": "i % 50", "event_type": "'changed'",
                  "payload": "json_object('n', i)", **columns}
        self.sql("WITH RECURSIVE s(i) AS (SELECT ? UNION ALL SELECT i + 1 FROM s WHERE i < ?) INSERT INTO outbox (%s) SELECT %s "
                 "FROM s" % (", ".join(values), ", ".join(values.values())), first, last)

    def peak_kib(self, relay):
        with open("/proc/%d/status" % relay.pid, encoding="ascii") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmHWM"))

    def peak_of(self, query, expected, *args):
        relay = self.start("relay", "--from", self.url, "--to", "null:", *args, env=LEAN)
        relay.wait_for_log("connected and active")
        wait_until(lambda: self.sql(query)[0][0] == expected, "%s to be %s; log:\n%s" % (query, expected, relay.err()[-2000:]))
        peak = self.peak_kib(relay)
        self.assertEqual(relay.stop(), 0, relay.err())
        return peak

    def usual_peak(self):
        return self.peak_of("SELECT 1", 1)

    def assert_growth(self, what, peak, usual):
        print("usual peak %d KiB, %s %d KiB" % (usual, what, peak))
        self.assertLess(peak - usual, GROWTH_KIB, what)

    DEAD = "SELECT count(*) FROM outrider_parked WHERE state = 'dead'"

    def test_headers_are_not_kept_in_memory_and_delivered_once_they_may_be_larger(self):
        usual = self.usual_peak()
        self.fill(1, N, headers="json_object('h', replace(hex(zeroblob(%d)), '0', 'x'))" % (BIG // 2))
        self.assertRegex(self.run_outrider("doctor", "--from", self.url, code=None).out, "headers of [0-9]+ bytes are above max_headers")
        self.assert_growth("read", self.peak_of(self.DEAD, N), usual)
        rows = self.sql("SELECT DISTINCT error_code, error_message LIKE 'headers of % bytes are above max_headers (65536)%raise "
                        "source.max_headers and retry%', length(headers) > ? FROM outrider_parked", BIG)
        self.assertEqual(rows, [("TOO_LARGE", 1, 1)])
        shown = self.run_outrider("dead", "show", "--db", self.url, "--id", self.sql("SELECT id FROM outrider_parked LIMIT 1")[0][0])
        self.assertIn("x" * 1000, shown.out)
        self.run_outrider("dead", "retry", "--db", self.url, "--all")
        peak = self.peak_of("SELECT delivered_total FROM outrider_cursor", N, "--set", "max_headers=2MiB")
        self.assert_growth("retried", peak, usual)
        self.assertEqual(self.sql("SELECT count(*) FROM outrider_parked"), [(0,)])

    def test_texts_are_cut_and_the_row_keeps_them(self):
        usual = self.usual_peak()
        for column in TEXTS:
            self.sql("DELETE FROM outrider_parked")
            self.fill(1, N // 4, **{column: "replace(hex(zeroblob(%d)), '0', 'k') || i || '%s'" % (BIG // 2, column)})
            self.assert_growth(column, self.peak_of(self.DEAD, N // 4), usual)
            rows = self.sql("SELECT DISTINCT error_code, error_message LIKE '%s of %% bytes is above 16384%%shorten%%', "
                            "length(%s) > ? FROM outrider_parked" % (column, column), BIG)
            self.assertEqual(rows, [("TOO_LARGE", 1, 1)], column)

    def test_the_relay_goes_on_behind_a_row_with_a_long_id(self):
        """The row at the cursor is known by its id, also after a restart, for resync and for doctor."""
        self.fill(1, 1, id="replace(hex(zeroblob(20000)), '0', 'ü')")
        self.relay_once(code=3)
        self.relay_once(code=3)
        self.assertIn("intact", self.run_outrider("resync", "--db", self.url).out)
        self.assertNotIn("rewritten", self.run_outrider("doctor", "--from", self.url, code=None).out)
        self.fill(2, 2)
        self.relay_once(code=3)
        self.assertEqual([row["payload"]["n"] for row in self.delivered()], [2])
        self.sql("UPDATE outbox SET id = 'another' || id WHERE seq = 1")
        self.sql("UPDATE outrider_cursor SET position = 1, anchor_id = substr(?, 1, 1024)", "ü" * 2000)
        self.assertIn("rewritten", self.relay_once(code=1).err)

    def test_a_text_that_was_shortened_is_delivered(self):
        self.fill(1, 3, partition_key="replace(hex(zeroblob(20000)), '0', 'k')")
        self.relay_once(code=3)
        self.sql("UPDATE outrider_parked SET partition_key = 'k'")
        self.run_outrider("dead", "retry", "--db", self.url, "--all")
        self.relay_once()
        self.assertEqual([row["payload"]["n"] for row in self.delivered()], [1, 2, 3])

    def test_put_refuses_what_a_relay_would_not_deliver(self):
        r = self.put("{}", 1, "T", "--header", "h=" + "x" * 70000, code=1)
        self.assertIn("max_headers", r.err)
        self.put("{}", 1, "T", "--header", "h=" + "x" * 70000, "--set", "max_headers=1MiB")
        r = self.put("{}", "k" * 20000, code=1)
        self.assertIn("aggregate_id of 20000 bytes is above 16384", r.err)


if __name__ == "__main__":
    harness.main()
