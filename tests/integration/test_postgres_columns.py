#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Columns beside the payload that are far too large: headers, keys, types. A
relay's memory does not follow them; the event is a dead letter that has its data."""
import harness
import pgcdc
from harness import wait_until

# The sanitizer keeps freed memory for a while, which is not what is measured.
LEAN = {"ASAN_OPTIONS": "quarantine_size_mb=4:malloc_context_size=1"}
N = 150
BIG = 1 << 20
GROWTH_KIB = 40 << 10


def sets(*options):
    return [a for o in options for a in ("--set", o)]


def peak_kib(relay):
    with open("/proc/%d/status" % relay.pid, encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmHWM"))


class Columns(pgcdc.CdcTest):
    table = "outbox"
    mode = "poll"
    options = ()
    parked = "outrider_parked"  # where dead letters are found
    dead = "SELECT count(*) FROM outrider_parked WHERE state = 'dead'"

    def fill(self, first, last, **columns):
        """Events first..last; a column of BIG bytes where it is named."""
        values = {"aggregate_type": "'order'", "aggregate_id": "'k' || i %% 50", "event_type": "'changed'",
                  "payload": "jsonb_build_object('n', i)", "headers": "NULL", **columns}
        self.owner("INSERT INTO %s (%s) SELECT %s FROM generate_series(%d, %d) i"
                   % (self.table, ", ".join(values), ", ".join(v.replace("%%", "%") for v in values.values()), first, last))

    def null_relay(self, *args):
        return self.start("relay", "--from", self.url, "--to", "null:", "--mode", self.mode, "--name", self.name,
                          "--table", self.table, *sets(*self.options), *args, env=LEAN)

    def wait_count(self, relay, query, expected):
        def is_there():
            if not relay.is_running():
                raise AssertionError("the relay ended:\n" + relay.err()[-4000:])
            return self.owner(query)[0][0] == str(expected)
        try:
            wait_until(is_there, "%s to be %s" % (query, expected))
        except AssertionError as e:
            raise AssertionError("%s, is %s; log:\n%s" % (e, self.owner(query), relay.err()[-3000:])) from None

    def peak_of(self, query, expected, *args):
        relay = self.null_relay(*args)
        self.wait_count(relay, query, expected)
        peak = peak_kib(relay)
        self.stop_relay(relay)
        return peak

    def usual_peak(self):
        """In mode cdc it also makes the slot."""
        relay = self.null_relay()
        relay.wait_for_log("connected and active")
        if self.mode == "cdc":
            self.wait_streaming(relay)
        peak = peak_kib(relay)
        self.stop_relay(relay)
        return peak

    def retry(self):
        self.run_outrider("dead", "retry", "--db", self.owner_url, "--name", self.name, "--table", self.table, "--all")

    def delivered_total(self):
        return "SELECT coalesce(sum(delivered_total), 0) FROM outrider_cursor WHERE pipeline = '%s'" % self.name

    def assert_growth(self, what, peak, usual):
        print("%s: usual peak %d KiB, %s %d KiB" % (type(self).__name__, usual, what, peak))
        self.assertLess(peak - usual, GROWTH_KIB, what)

    def check_kept(self, column, reason):
        """Every dead letter says why, and has its data."""
        rows = self.owner("SELECT DISTINCT error_code, error_message ~ '%s', octet_length(%s) >= %d FROM outrider_parked "
                          "WHERE state = 'dead'" % (reason, column, BIG))
        self.assertEqual(rows, [("TOO_LARGE", "t", "t")])


HEADERS = "jsonb_build_object('h', repeat('x', %d))" % BIG
TEXT = "repeat('k', %d) || i" % BIG
HEADERS_REASON = "^headers of [0-9]+ bytes are above max_headers \\(65536\\).*source.max_headers"
TEXT_REASON = "^%s of [0-9]+ bytes is above 16384.*shorten"


class Log(Columns):
    def test_headers_are_not_read_and_kept_and_delivered_once_they_may_be_larger(self):
        usual = self.usual_peak()
        self.fill(1, N, headers=HEADERS)
        self.assert_growth("read", self.peak_of(self.dead, N), usual)
        self.check_kept("headers", HEADERS_REASON)
        self.retry()
        peak = self.peak_of(self.delivered_total(), N, *sets("max_headers=2MiB"))
        self.assert_growth("retried", peak, usual)
        self.assertEqual(self.owner("SELECT count(*) FROM outrider_parked"), [("0",)])

    def test_headers_within_a_larger_bound_are_read_few_at_a_time(self):
        usual = self.usual_peak()
        self.fill(1, 9)
        self.fill(10, N, headers=HEADERS)
        self.assert_growth("read", self.peak_of(self.delivered_total(), N, *sets("max_headers=2MiB")), usual)

    def test_texts_are_cut_and_the_row_keeps_them(self):
        usual = self.usual_peak()
        for column in ("aggregate_type", "aggregate_id", "event_type", "topic", "partition_key"):
            self.owner("DELETE FROM outrider_parked")
            self.fill(1, N // 3, **{column: TEXT})
            self.assert_growth(column, self.peak_of(self.dead, N // 3), usual)
            self.check_kept(column, TEXT_REASON % column)

    def test_a_text_that_was_shortened_is_delivered(self):
        self.fill(1, 3, partition_key=TEXT)
        self.fill(4, 5)
        self.once(mode="poll", code=3)
        self.owner("UPDATE outrider_parked SET partition_key = left(partition_key, 10)")
        self.retry()
        self.once(mode="poll")
        self.assertEqual(sorted(self.delivered_labels()), [1, 2, 3, 4, 5])

    def test_replay_does_not_read_them_either(self):
        usual = self.usual_peak()
        self.fill(1, N, headers=HEADERS)
        self.fill(N + 1, N + 5)
        self.peak_of(self.delivered_total(), 5)
        relay = self.start("replay", "--db", self.url, "--to", self.sink + "-again", "--from-seq", "1", "--name", self.name,
                           env=LEAN)
        peak = [0]

        def ended():
            try:
                peak[0] = max(peak[0], peak_kib(relay))
            except (OSError, StopIteration):
                pass
            return not relay.is_running()
        wait_until(ended, "the end of the replay")
        self.assert_growth("replayed", peak[0], usual)


class Sweep(Columns):
    mode = "cdc"

    def test_headers_and_keys_of_rows_from_before_the_slot(self):
        usual = self.usual_peak_of_another()
        self.fill(1, N, headers=HEADERS)
        self.fill(N + 1, N + 20, aggregate_id=TEXT)
        self.assert_growth("swept", self.peak_of(self.dead, N + 20), usual)
        self.assertEqual(self.owner("SELECT count(*) FROM outrider_parked WHERE error_code = 'TOO_LARGE' AND "
                                    "(octet_length(headers) > %d OR octet_length(aggregate_id) > %d)" % (BIG, BIG)),
                         [(str(N + 20),)])

    def usual_peak_of_another(self):
        """Without making the slot of this pipeline."""
        self.mode = "poll"
        peak = self.usual_peak()
        self.mode = "cdc"
        return peak


class Stream(Sweep):
    def test_headers_and_keys_of_rows_from_before_the_slot(self):
        usual = self.usual_peak()
        self.fill(1, N, headers=HEADERS)
        self.fill(N + 1, N + 20, aggregate_id=TEXT)
        self.assert_growth("streamed", self.peak_of(self.dead, N + 20), usual)
        self.assertEqual(self.owner("SELECT count(*) FROM outrider_parked WHERE error_code = 'TOO_LARGE' AND "
                                    "(octet_length(headers) > %d OR octet_length(aggregate_id) > %d)" % (BIG, BIG)),
                         [(str(N + 20),)])
        self.owner("DELETE FROM outrider_parked WHERE octet_length(aggregate_id) > %d" % BIG)
        self.retry()
        self.assert_growth("retried", self.peak_of(self.delivered_total(), N, *sets("max_headers=2MiB")), usual)

    def test_logical_messages(self):
        usual = self.usual_peak()
        self.owner("SELECT count(pg_logical_emit_message(true, 'outrider', jsonb_build_object('aggregate_type', 'order', "
                   "'aggregate_id', 'k', 'event_type', 'changed', 'payload', 'x', 'headers', "
                   "jsonb_build_object('h', repeat('x', %d)))::text)) FROM generate_series(1, %d)" % (BIG, N))
        self.assert_growth("streamed", self.peak_of(self.dead, N), usual)
        self.assertEqual(self.owner("SELECT DISTINCT error_code, error_message ~ '%s' FROM outrider_parked" % HEADERS_REASON),
                         [("TOO_LARGE", "t")])

    def test_a_queued_event_with_large_headers_keeps_them(self):
        """It waits behind another of its key and has no error of its own yet."""
        self.once(mode="cdc")
        self.commit_event("a", "k")
        self.once(*sets("retry.delays=[1h]"), code=3, env={"OUTRIDER_FAILPOINTS": "relay.delivered=eio@1"})
        self.fill(1, 1, aggregate_id="'k'", headers=HEADERS)
        self.once(*sets("retry.delays=[1h]"), code=3)
        self.assertEqual(self.owner("SELECT state, octet_length(headers) > %d FROM outrider_parked ORDER BY arrival" % BIG),
                         [("parked", None), ("queued", "t")])


class Status(Columns):
    init_arguments = ("--layout", "status")
    dead = "SELECT count(*) FROM outbox WHERE status = 'DEAD_LETTER'"

    def test_headers_are_not_read_and_delivered_once_they_may_be_larger(self):
        usual = self.usual_peak()
        self.fill(1, N, headers=HEADERS)
        self.assert_growth("read", self.peak_of(self.dead, N), usual)
        self.assertEqual(self.owner("SELECT DISTINCT last_error_code, last_error ~ '%s' FROM outbox" % HEADERS_REASON),
                         [("TOO_LARGE", "t")])
        self.retry()
        published = "SELECT count(*) FROM outbox WHERE status = 'PUBLISHED'"
        self.assert_growth("retried", self.peak_of(published, N, *sets("max_headers=2MiB")), usual)

    def test_texts_are_not_read(self):
        usual = self.usual_peak()
        for n, column in enumerate(("aggregate_type", "aggregate_id", "event_type", "topic", "partition_key")):
            self.fill(1, N // 3, **{column: TEXT})
            self.assert_growth(column, self.peak_of(self.dead, (n + 1) * (N // 3)), usual)
            self.assertEqual(self.owner("SELECT DISTINCT last_error ~ '%s' FROM outbox WHERE octet_length(%s) >= %d"
                                        % (TEXT_REASON % column, column, BIG)), [("t",)])


ADOPTED = ("CREATE TABLE events (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, aggregate_type text, aggregate_id text, "
           "event_type text, payload jsonb, headers jsonb, note text, published boolean NOT NULL DEFAULT false)")


class Adopted(Columns):
    """A table that has no place for dead letters: they are copies. A column of it becomes a header."""
    table = "events"
    options = ("map.header_columns={note: note}",)

    def setUp(self):
        super().setUp()
        self.owner(ADOPTED)
        self.owner("GRANT SELECT, INSERT, UPDATE, DELETE ON events TO relay")

    def publish(self):
        pass

    def check(self, **column):
        usual = self.usual_peak()
        self.fill(1, N, **column)
        self.assert_growth("read", self.peak_of(self.dead, N), usual)
        self.check_kept("headers", HEADERS_REASON)
        self.retry()
        published = "SELECT count(*) FROM events WHERE published"
        self.assert_growth("retried", self.peak_of(published, N, *sets("max_headers=2MiB")), usual)

    def test_headers(self):
        self.check(headers=HEADERS)

    def test_a_column_that_becomes_a_header(self):
        self.check(note="repeat('x', %d)" % BIG)


class AdoptedCdc(Adopted):
    mode = "cdc"

    def publish(self):
        self.owner(ADOPTED)
        self.owner(f"CREATE PUBLICATION {self.slot} FOR TABLE events WITH (publish = 'insert')")
        self.owner("DROP TABLE outbox")

    def setUp(self):
        Columns.setUp(self)
        self.owner("GRANT SELECT, INSERT, UPDATE, DELETE ON events TO relay")

    def check(self, **column):
        usual = self.usual_peak()
        self.fill(1, N, **column)
        self.assert_growth("streamed", self.peak_of(self.dead, N), usual)
        self.check_kept("headers", HEADERS_REASON)
        self.retry()
        self.assert_growth("retried", self.peak_of(self.delivered_total(), N, *sets("max_headers=2MiB")), usual)

    def test_rows_from_before_the_slot(self):
        self.mode = "poll"
        usual = self.usual_peak()
        self.mode = "cdc"
        self.owner("DELETE FROM outrider_cursor")
        self.fill(1, N // 2, note="repeat('x', %d)" % BIG)
        self.fill(N // 2 + 1, N, headers=HEADERS)
        self.fill(N + 1, N + 10, aggregate_id=TEXT)
        self.assert_growth("swept", self.peak_of(self.dead, N + 10), usual)
        self.assertEqual(self.owner("SELECT count(*) FROM outrider_parked WHERE error_code = 'TOO_LARGE' AND "
                                    "(octet_length(headers) > %d OR octet_length(aggregate_id) > %d)" % (BIG, BIG)),
                         [(str(N + 10),)])


if __name__ == "__main__":
    harness.main()
