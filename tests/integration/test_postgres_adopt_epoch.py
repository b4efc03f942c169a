#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times that are numbers since 1970 (map.epoch): read and written in one unit, wherever a
relay and the store's commands meet a time."""
import unittest

import pgtest

RETRY = {"OUTRIDER_FAILPOINTS": "relay.delivered=eio@1"}  # the first delivery fails
LONG = "/" * 100  # in a topic: a name that the file sink refuses for good
PER_SECOND = {"s": 1, "ms": 1000, "us": 1000000, "ns": 1000000000}
FULL = ("CREATE TABLE mail (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregate_id text DEFAULT 'a', event_type text "
        "DEFAULT 'Sent', payload jsonb DEFAULT '{}', status text NOT NULL DEFAULT 'PENDING' CHECK (status IN ('PENDING', "
        "'SENDING', 'PUBLISHED', 'FAILED', 'DEAD', 'EXPIRED')), attempts int NOT NULL DEFAULT 0, created_at bigint NOT NULL, "
        "occurred_at bigint, expires_at bigint, published_at bigint, next_attempt_at bigint NOT NULL DEFAULT 0, "
        "locked_by text, locked_at bigint, locked_until bigint, updated_at bigint, last_error text)")


def setUpModule():
    pgtest.start_server(wal_level="logical")


def tearDownModule():
    pgtest.stop_server()


class EpochTest(pgtest.PostgresTest):
    unit = "ms"

    def args(self, *more):
        return ("--table", "mail", "--set", "map.epoch=" + self.unit, *more)

    def number(self, when="now()"):
        """SQL for a time as such a number."""
        return f"floor(extract(epoch FROM {when}) * {PER_SECOND[self.unit]})::int8"

    def insert(self, n=1, **columns):
        columns.setdefault("created_at", self.number("clock_timestamp()"))
        self.sql("INSERT INTO mail (%s) SELECT %s FROM generate_series(1, %d) i"
                 % (", ".join(columns), ", ".join(columns.values()), n))

    def assert_now(self, column, where="true"):
        near = f"abs({column} / {PER_SECOND[self.unit]} - extract(epoch FROM now())) < 1000"
        self.assertEqual(self.column(f"SELECT DISTINCT {near} FROM mail WHERE {where}"), ["t"], column)


class EachUnit(EpochTest):
    def each(self, name, test):
        for unit in PER_SECOND:
            with self.subTest(unit):
                self.unit = unit
                self.sql("DROP TABLE IF EXISTS mail")
                self.sql("DROP TABLE IF EXISTS outrider_cursor, outrider_parked")
                self.sql(FULL)
                self.sink = f"file:{self.path('events-' + name + unit)}"
                test()

    def rows(self):
        return self.delivered(directory=self.sink[5:])

    def test_an_event_has_its_times_and_its_row_gets_them(self):
        def test():
            self.insert(2, occurred_at=self.number("timestamptz '2024-02-29 12:00:01+00'"))
            self.relay_once(*self.args())
            self.insert(1, created_at=self.number("timestamptz '2023-02-28 12:00:01+00'"))
            self.relay_once(*self.args())
            self.assertEqual([r["timestamp"][:19] for r in self.rows()], ["2024-02-29T12:00:01"] * 2 + ["2023-02-28T12:00:01"])
            for column in ("published_at", "updated_at", "next_attempt_at"):
                self.assert_now(column)
            self.assertEqual(self.sql("SELECT DISTINCT status, locked_by, locked_at FROM mail"), [["PUBLISHED", None, None]])
        self.each("plain", test)

    def test_a_failure_is_due_later_and_a_dead_letter_can_be_tried_again(self):
        def test():
            self.insert(1)
            self.relay_once(*self.args("--set", "retry.delays=[1h]"), env=RETRY, code=3)
            hour = f"(next_attempt_at - {self.number()}) / {PER_SECOND[self.unit]}"
            self.assertEqual(self.sql(f"SELECT status, attempts, {hour} BETWEEN 3000 AND 3700 FROM mail"), [["FAILED", "1", "t"]])
            self.relay_once(*self.args(), code=3)
            self.assertEqual(self.value("SELECT status FROM mail"), "FAILED")
            self.sql(f"UPDATE mail SET next_attempt_at = {self.number()} - 1")
            self.relay_once(*self.args("--set", "retry.max_attempts=1"), env=RETRY, code=3)
            self.assertEqual(self.value("SELECT status FROM mail"), "DEAD")
            dead = self.run_outrider("dead", "list", "--db", self.url, *self.args("--json", "--since", "1h")).json()
            self.assertEqual(len(dead), 1)
            self.run_outrider("dead", "retry", "--db", self.url, "--all", *self.args())
            self.assert_now("next_attempt_at")
            self.relay_once(*self.args())
            self.assertEqual(self.value("SELECT status FROM mail"), "PUBLISHED")
        self.each("retry", test)

    def test_what_expired_is_not_sent_and_zero_and_never_do_not_expire(self):
        def test():
            self.insert(1, expires_at=self.number("now() - interval '1 minute'"))
            for never in ("0", "9223372036854775807", "NULL", self.number("now() + interval '1 hour'")):
                self.insert(1, expires_at=never)
            self.relay_once(*self.args(), code=None)
            self.assertEqual(self.sql("SELECT status, count(*) FROM mail GROUP BY 1 ORDER BY 1"),
                             [["EXPIRED", "1"], ["PUBLISHED", "4"]])
        self.each("expiry", test)

    def test_a_lease_of_another_holds_until_its_end(self):
        def test():
            self.insert(1, locked_by="'other'", status="'SENDING'", locked_until=self.number("now() + interval '1 hour'"))
            self.insert(1, locked_by="'gone'", status="'SENDING'", locked_until=self.number("now() - interval '1 s'"),
                        aggregate_id="'b'")
            self.relay_once(*self.args("--set", "ordered=false"), code=None)
            self.assertEqual(self.sql("SELECT aggregate_id, status FROM mail ORDER BY 1"), [["a", "SENDING"], ["b", "PUBLISHED"]])
        self.each("lease", test)

    def test_clean_up_status_and_replay_go_by_it(self):
        def test():
            self.insert(3)
            self.relay_once(*self.args())
            self.sql(f"UPDATE mail SET published_at = {self.number('now() - interval $$8 d$$')}, "
                     f"created_at = {self.number('now() - interval $$8 d$$')} "
                     "WHERE id = (SELECT id FROM mail ORDER BY id LIMIT 1)")
            row = self.run_outrider("status", "--db", self.url, *self.args("--json")).json()["pipelines"][0]
            self.assertEqual((row["pending"], row["oldest_pending_at"]), (0, None))
            again = self.path("again-" + self.unit)
            self.run_outrider("replay", "--db", self.url, *self.args("--since", "1d", "--to", "file:" + again))
            self.assertEqual(len(self.delivered(directory=again)), 2)
            self.run_outrider("cleanup", "--db", self.url, *self.args("--retention", "7d"))
            self.assertEqual(self.value("SELECT count(*) FROM mail"), "2")
            self.insert(1, created_at=self.number("now() - interval '100 s'"))
            row = self.run_outrider("status", "--db", self.url, *self.args("--json")).json()["pipelines"][0]
            self.assertEqual(row["pending"], 1)
            self.assertGreater(row["oldest_pending_seconds"], 90)
            self.assertLess(row["oldest_pending_seconds"], 1000)
        self.each("clean", test)

    def test_replay_passes_over_no_row_of_one_moment(self):
        def test():
            stamp = self.number("timestamptz '2026-01-01 00:00:00.5+00'")
            self.insert(40, created_at=f"{stamp} + (40 - i) / 10", status="'PUBLISHED'")
            again = self.path("moment-" + self.unit)
            self.init()
            self.run_outrider("replay", "--db", self.url, *self.args("--since", "2000d", "--to", "file:" + again, "--set",
                                                                     "source.batch=7"))
            self.assertEqual(len({r["headers"]["event-id"] for r in self.delivered(directory=again)}), 40)
        self.each("moment", test)


class Others(EpochTest):
    def test_a_number_is_the_mark(self):
        self.sql("CREATE TABLE mail (id bigserial PRIMARY KEY, aggregate_id text DEFAULT 'a', payload jsonb DEFAULT '{}', "
                 "created_at bigint, processed_at bigint)")
        self.insert(3)
        r = self.relay_once("--table", "mail", code=1)
        self.assertIn("map.epoch: s, ms, us or ns", r.err)
        self.relay_once(*self.args())
        self.assert_now("processed_at")
        self.relay_once(*self.args())
        self.assertEqual(len(self.delivered()), 3)

    def test_a_failed_row_is_due_by_its_last_change(self):
        self.sql("CREATE TABLE mail (id bigserial PRIMARY KEY, aggregate_id text DEFAULT 'a', payload jsonb DEFAULT '{}', "
                 "created_at bigint, updated_at bigint, attempts int DEFAULT 0, status text DEFAULT 'PENDING' CHECK (status IN "
                 "('PENDING', 'PUBLISHED', 'FAILED', 'DEAD')))")
        self.insert(1)
        delays = ("--set", "retry.delays=[1h]")
        self.relay_once(*self.args(*delays), env=RETRY, code=3)
        self.assert_now("updated_at")
        self.relay_once(*self.args(*delays), code=3)
        self.assertEqual(self.value("SELECT status FROM mail"), "FAILED")
        self.sql("UPDATE mail SET updated_at = updated_at - 3700000")
        self.relay_once(*self.args(*delays))
        self.assertEqual(self.value("SELECT status FROM mail"), "PUBLISHED")

    def test_young_rows_are_left_to_the_application(self):
        self.sql(FULL)
        self.insert(1, aggregate_id="'old'", created_at=self.number("now() - interval '11 s'"))
        self.insert(1, aggregate_id="'young'", created_at=self.number("now() + interval '1 h'"))
        self.relay_once(*self.args("--set", "min_age=10s"))
        self.assertEqual(self.column("SELECT aggregate_id FROM mail WHERE status = 'PUBLISHED'"), ["old"])

    def test_seconds_have_room_in_an_integer_and_milliseconds_have_not(self):
        self.sql(FULL.replace("published_at bigint", "published_at int"))
        self.unit = "s"
        self.insert(1)
        r = self.run_outrider("relay", "--from", self.url, "--to", self.sink, "--once", "--table", "mail", "--set",
                              "map.epoch=ms", code=1)
        self.assertRegex(r.err, "column 'published_at' .*has type integer.*TYPE bigint")
        self.assertEqual(self.delivered(), [])
        self.relay_once(*self.args())
        self.assert_now("published_at")

    def test_a_claim_has_its_time_while_a_row_is_on_its_way(self):
        self.sql(FULL)
        self.insert(1)
        relay = self.start("relay", "--from", self.url, "--to", self.sink, *self.args("--set", "ordered=false"),
                           env={"OUTRIDER_FAILPOINTS": "file.before_write=delay:30s@*"})
        self.wait_for("SELECT count(*) FROM mail WHERE status = 'SENDING'", "1")
        self.assert_now("locked_at")
        self.assertEqual(self.value(f"SELECT (locked_until - {self.number('clock_timestamp()')}) BETWEEN 1 AND 30000 FROM mail"),
                         "t")
        relay.kill()


class Cdc(EpochTest):
    """Rows of the first sweep and rows of the stream have the same times."""

    def setUp(self):
        super().setUp()
        self.addCleanup(self.server.query, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE "
                        "database = current_database()", self.database)

    def test_the_sweep_and_the_stream_read_the_same(self):
        self.sql(FULL)
        at = self.number("timestamptz '2024-02-29 12:00:01.25+00'")
        args = self.args("--set", "mode=cdc", "--set", "after_publish=mark")
        for _ in range(2):
            self.insert(1, occurred_at=at, expires_at="9223372036854775807")
            self.insert(1, occurred_at=at, expires_at="0")
            self.insert(1, occurred_at=at, expires_at=self.number("now() - interval '1 minute'"))
            self.relay_once(*args, code=None)
        rows = self.delivered()
        self.assertEqual(len(rows), 4)
        self.assertEqual({r["timestamp"] for r in rows}, {"2024-02-29T12:00:01.250Z"})
        self.assertEqual(self.value("SELECT count(*) FROM mail WHERE status = 'PUBLISHED'"), "4")
        self.assert_now("published_at", "status = 'PUBLISHED'")

    def test_a_number_without_a_unit_is_refused(self):
        self.sql(FULL)
        self.insert(1)
        r = self.relay_once("--table", "mail", "--set", "mode=cdc", code=1)
        self.assertIn("map.epoch: s, ms, us or ns", r.err)
        self.assertEqual(self.delivered(), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
