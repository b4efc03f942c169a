#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a relay of status rows takes of memory when large payloads wait."""
import harness
import pgtest
from pgtest import seed

# The sanitizer keeps freed memory for a while, which is not what is measured.
LEAN = {"ASAN_OPTIONS": "quarantine_size_mb=4:malloc_context_size=1"}


def setUpModule():
    pgtest.start_server()


def tearDownModule():
    pgtest.stop_server()


class Memory(pgtest.PostgresTest):
    """The relay's peak, as the kernel counts it, does not follow the size of what waits."""

    def setUp(self):
        super().setUp()
        self.init("--layout", "status")

    def peak_kib(self, relay):
        with open("/proc/%d/status" % relay.pid, encoding="ascii") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmHWM"))

    def large(self, table, first, last, every=1):
        """Rows of 0.9 MB, or only every so many, the others small."""
        self.sql("INSERT INTO %s (aggregate_type, aggregate_id, event_type, payload) SELECT 'order', (i %% 7)::text, 'Created', "
                 "jsonb_build_object('n', i, 'x', CASE WHEN i %% %d = 0 THEN repeat(md5(i::text), 28000) ELSE '' END) "
                 "FROM generate_series(%d, %d) i" % (table, every, first, last))

    def grows_by(self, table, *more):
        """KiB between the peaks after one large row and after 130 more, 117 MB of them waiting at once."""
        published = "SELECT count(*) FROM %s WHERE status = 'PUBLISHED'" % table
        self.large(table, 1, 1)
        relay = self.start("relay", "--from", self.url, "--to", "null:", "--table", table, *more, env=LEAN)
        self.wait_for(published, "1")
        before = self.peak_kib(relay)
        self.assertEqual(relay.stop(), 0)
        self.large(table, 2, 131)
        self.large(table, 132, 400, every=9)
        relay = self.start("relay", "--from", self.url, "--to", "null:", "--table", table, *more, env=LEAN)
        self.wait_for(published, "400")
        after = self.peak_kib(relay)
        self.assertEqual(relay.stop(), 0)
        print("peak %d KiB, with 117 MB waiting %d KiB" % (before, after))
        return after - before

    def test_large_payloads_are_read_few_at_a_time(self):
        self.assertLess(self.grows_by("outbox"), 40 << 10)

    def test_large_payloads_of_an_adopted_table_are_claimed_few_at_a_time(self):
        self.script(seed("003_event_outbox"))
        self.sql("ALTER TABLE event_outbox ALTER id SET DEFAULT gen_random_uuid(), ALTER topic SET DEFAULT 't', "
                 "ALTER partition_key SET DEFAULT 'k', ALTER status SET DEFAULT 'PENDING', ALTER created_at SET DEFAULT now()")
        self.assertLess(self.grows_by("event_outbox"), 40 << 10)

    def test_relays_that_compete_read_few_at_a_time(self):
        self.assertLess(self.grows_by("outbox", "--set", "ordered=false"), 40 << 10)


if __name__ == "__main__":
    harness.main()
