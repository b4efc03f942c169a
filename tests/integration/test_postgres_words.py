#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The words of a status column: what tells them, that they are remembered, and
that rows which no word covers are told and not passed over in silence."""
import unittest

import pgtest

PLAIN = ("CREATE TABLE outbox (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, aggregate_id text NOT NULL, "
         "payload jsonb NOT NULL, status %s)")
MODULITH = ("CREATE TABLE event_publication (id uuid PRIMARY KEY, listener_id text NOT NULL, event_type text NOT NULL, "
            "serialized_event text NOT NULL, publication_date timestamptz NOT NULL, completion_date timestamptz, "
            "status text, completion_attempts int, last_resubmission_date timestamptz)")


def setUpModule():
    pgtest.start_server(wal_level="logical")


def tearDownModule():
    pgtest.stop_server()


class StatusWords(pgtest.PostgresTest):
    def plain(self, status="text NOT NULL"):
        self.sql(PLAIN % status)

    def insert(self, *words):
        for word in words:
            self.sql("INSERT INTO outbox (aggregate_id, payload, status) VALUES ('a', '{\"n\": 1}', '%s')" % word)

    def statuses(self):
        return self.column("SELECT status FROM outbox ORDER BY id")

    def remembered(self):
        return self.value("SELECT words FROM outrider_cursor")

    def start_relay(self, *args):
        return super().start_relay("--set", "poll_interval=50ms", *args)

    def doctor(self, *args):
        return self.run_outrider("doctor", "--from", self.url, *args, code=None).out


class EmptyTables(StatusWords):
    def test_the_first_rows_of_an_empty_table_tell_its_words(self):
        self.plain()
        relay = self.start_relay()
        relay.wait_for_log("map.status_values")
        self.insert("PENDING")
        self.wait_for("SELECT count(*) FROM outbox WHERE status = 'PUBLISHED'", "1")
        relay.stop()

    def test_a_word_without_a_counterpart_ends_the_relay_and_names_the_option(self):
        self.plain()
        relay = self.start_relay()
        relay.wait_for_log("map.status_values")
        self.insert("NEW")
        self.assertEqual(relay.join(), 1, relay.err())
        self.assertIn("'NEW'", relay.err())
        self.assertIn("map.status_values: {pending: NEW, published: ", relay.err())
        self.relay_once("--set", "map.status_values={pending: NEW, published: DONE}")
        self.assertEqual(self.statuses(), ["DONE"])

    def test_once_on_an_empty_table_ends_in_peace(self):
        self.plain()
        r = self.relay_once()
        self.assertIn("map.status_values", r.err)

    def test_a_default_is_evidence_whatever_the_word(self):
        self.plain("text NOT NULL DEFAULT 'TO_SEND'")
        r = self.relay_once(code=1)
        self.assertIn("map.status_values: {pending: TO_SEND, published: ", r.err)

    def test_rows_that_were_all_published_by_somebody_else_are_no_obstacle(self):
        self.plain()
        self.insert("COMPLETED", "COMPLETED")
        relay = self.start_relay()
        relay.wait_for_log("map.status_values")
        self.insert("NEW")
        self.wait_for("SELECT count(*) FROM outbox WHERE status = 'COMPLETED'", "3")
        relay.stop()
        self.assertEqual(len(self.delivered()), 1)


class Memory(StatusWords):
    def test_words_are_remembered_when_only_settled_rows_remain(self):
        self.plain()
        self.insert("NEW", "COMPLETED")
        self.relay_once()
        self.assertEqual(self.statuses(), ["COMPLETED", "COMPLETED"])
        self.assertEqual(self.remembered(), '{"pending":"NEW","published":"COMPLETED"}')
        self.relay_once()
        self.insert("NEW")
        self.relay_once()
        self.assertEqual(self.statuses(), ["COMPLETED"] * 3)

    def test_words_are_remembered_when_no_rows_remain(self):
        self.plain()
        self.insert("NEW", "COMPLETED")
        self.relay_once()
        self.sql("DELETE FROM outbox")
        relay = self.start_relay()
        self.insert("NEW")
        self.wait_for("SELECT count(*) FROM outbox WHERE status = 'COMPLETED'", "1")
        relay.stop()

    def test_given_words_replace_remembered_ones_and_are_remembered_themselves(self):
        self.plain()
        self.insert("NEW", "COMPLETED")
        self.relay_once()
        self.insert("READY")
        self.relay_once("--set", "map.status_values={pending: READY, published: DONE}")
        self.assertEqual(self.statuses(), ["COMPLETED", "COMPLETED", "DONE"])
        self.insert("READY")
        self.relay_once()
        self.assertEqual(self.statuses(), ["COMPLETED", "COMPLETED", "DONE", "DONE"])

    def test_a_default_that_is_none_of_the_remembered_words_makes_them_void(self):
        self.plain()
        self.insert("NEW", "COMPLETED")
        self.relay_once()
        self.sql("DELETE FROM outbox")
        self.sql("ALTER TABLE outbox ALTER status SET DEFAULT 'PENDING'")
        self.sql("INSERT INTO outbox (aggregate_id, payload) VALUES ('a', '{}')")
        self.relay_once()
        self.assertEqual(self.statuses(), ["PUBLISHED"])

    def test_words_that_a_check_allows_no_more_are_void(self):
        self.plain()
        self.insert("NEW", "COMPLETED")
        self.relay_once()
        self.sql("DELETE FROM outbox")
        self.sql("ALTER TABLE outbox ADD CHECK (status IN ('pending', 'sent'))")
        self.insert("pending")
        self.relay_once()
        self.assertEqual(self.statuses(), ["sent"])


class Modulith(StatusWords):
    TABLE = ("--table", "event_publication")

    def publish(self, status, completed="NULL"):
        self.sql("INSERT INTO event_publication VALUES (gen_random_uuid(), 'mail', 'OrderPlaced', '{\"n\": 1}', now(), %s, %s)"
                 % (completed, status))

    def test_published_means_pending_there(self):
        self.sql(MODULITH)
        self.publish("'PUBLISHED'")
        self.relay_once(*self.TABLE)
        self.assertEqual(self.sql("SELECT status, completion_date IS NULL FROM event_publication"), [["COMPLETED", "f"]])
        self.assertEqual(len(self.delivered()), 1)

    def test_rows_from_before_the_status_column_count_by_their_completion(self):
        self.sql(MODULITH)
        self.publish("NULL", "now()")
        self.publish("NULL")
        self.publish("'PUBLISHED'")
        self.relay_once(*self.TABLE)
        row = self.run_outrider("status", "--db", self.url, *self.TABLE, "--json").json()["pipelines"][0]
        self.assertEqual((row["pending"], row["uncovered"]), (0, 1))

    def test_version_1_goes_by_the_completion_date(self):
        self.sql(MODULITH)
        self.sql("ALTER TABLE event_publication DROP status, DROP completion_attempts, DROP last_resubmission_date")
        self.sql("INSERT INTO event_publication VALUES (gen_random_uuid(), 'mail', 'OrderPlaced', '{\"n\": 1}', now(), NULL)")
        self.relay_once(*self.TABLE)
        self.assertEqual(self.value("SELECT completion_date IS NULL FROM event_publication"), "f")


class Uncovered(StatusWords):
    def setUp(self):
        super().setUp()
        self.plain("text NOT NULL DEFAULT 'PENDING'")

    def test_rows_that_no_word_covers_are_told_by_status_and_doctor(self):
        self.relay_once()
        self.insert("PENDING", "NEW", "NEW", "PUBLISHED")
        r = self.run_outrider("status", "--db", self.url, "--json").json()["pipelines"][0]
        self.assertEqual((r["pending"], r["uncovered"]), (1, 2))
        text = self.run_outrider("status", "--db", self.url).out
        self.assertIn("2 rows of public.outbox are in a state that no word covers: 'NEW'", text)
        self.assertRegex(self.doctor(), r"2 rows of public\.outbox .*'NEW'")

    def test_the_relay_tells_them_once_and_again_only_when_they_change(self):
        self.insert("NEW", "PENDING")
        relay = self.start_relay("--set", "map.status_values={pending: PENDING, published: PUBLISHED}")
        relay.wait_for_log("no word covers")
        self.wait_for("SELECT count(*) FROM outbox WHERE status = 'PUBLISHED'", "1")
        for _ in range(20):
            self.insert("PENDING")
        self.wait_for("SELECT count(*) FROM outbox WHERE status = 'PUBLISHED'", "21")
        relay.stop()
        self.assertEqual(relay.err().count("no word covers"), 1)

    def test_rows_that_come_later_are_told_by_the_running_relay(self):
        relay = self.start_relay()
        self.insert("PENDING")
        self.wait_for("SELECT count(*) FROM outbox WHERE status = 'PUBLISHED'", "1")
        self.insert("NEW")
        relay.wait_for_log("no word covers")
        self.assertEqual(relay.err().count("no word covers"), 1)
        self.sql("UPDATE outbox SET status = 'PENDING' WHERE status = 'NEW'")
        self.wait_for("SELECT count(*) FROM outbox WHERE status = 'PUBLISHED'", "2")
        relay.stop()


class Columns(StatusWords):
    def test_words_of_a_char_column_are_whole(self):
        self.plain("char(12) NOT NULL DEFAULT 'PENDING'")
        self.insert("PENDING")
        self.relay_once(env={"OUTRIDER_FAILPOINTS": "relay.delivered=eio@1"}, code=3)
        self.assertEqual(self.column("SELECT status::text FROM outbox"), ["FAILED"])
        self.sql("UPDATE outrider_parked SET next_attempt_at = now()")
        self.relay_once()
        self.assertEqual(self.column("SELECT status::text FROM outbox"), ["PUBLISHED"])

    def test_ids_of_a_char_column_are_whole(self):
        self.sql("CREATE TABLE outbox (id char(36) PRIMARY KEY, aggregate_id text, payload jsonb, sent_at timestamptz)")
        self.sql("INSERT INTO outbox SELECT gen_random_uuid(), 'a', '{}' FROM generate_series(1, 3)")
        self.relay_once()
        self.assertEqual(self.value("SELECT count(*) FROM outbox WHERE sent_at IS NOT NULL"), "3")

    def test_a_word_is_assumed_only_where_the_column_has_room_for_it(self):
        self.sql("CREATE TABLE outbox (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, aggregate_id text, payload jsonb, "
                 "status varchar(10) NOT NULL DEFAULT 'PENDING', attempts int, updated_at timestamptz, topic text)")
        self.sql("INSERT INTO outbox (aggregate_id, payload, topic) VALUES ('a', '{}', '%s')" % ("/" * 100))
        self.relay_once(code=3)
        self.assertEqual(self.column("SELECT state FROM outrider_parked"), ["dead"])
        self.assertEqual(self.statuses(), ["FAILED"])

    def test_a_number_named_published_is_a_mark(self):
        self.sql("CREATE TABLE message (id varchar(255) PRIMARY KEY, destination text NOT NULL, headers text NOT NULL, "
                 "payload text NOT NULL, published smallint DEFAULT 0, message_partition smallint)")
        self.sql("INSERT INTO message VALUES ('1-2', 'orders', '{}', '{\"n\": 1}')")
        self.relay_once("--table", "message", "--set", "map.aggregate_id=id")
        self.assertEqual(self.value("SELECT published FROM message"), "1")
        self.assertEqual(len(self.delivered("orders")), 1)

    def test_a_domain_tells_its_words(self):
        self.sql("CREATE DOMAIN outbox_state AS text CHECK (VALUE IN ('NEW', 'SENT'))")
        self.plain("outbox_state NOT NULL")
        self.insert("NEW")
        self.relay_once()
        self.assertEqual(self.statuses(), ["SENT"])

    def test_a_given_word_that_the_column_does_not_allow_is_refused_at_the_start(self):
        self.plain("text NOT NULL CHECK (status IN ('NEW', 'SENT'))")
        self.insert("NEW")
        r = self.relay_once("--set", "map.status_values={pending: NEW, published: DONE}", code=1)
        self.assertIn("'DONE'", r.err)
        self.assertEqual(self.delivered(), [])


class Cdc(StatusWords):
    def test_rows_of_an_empty_table_without_evidence_are_streamed(self):
        self.plain()
        relay = self.start_relay("--mode", "cdc")
        self.wait_for("SELECT count(*) FROM outrider_cursor WHERE mode = 'cdc'", "1")
        self.insert("NEW")
        self.wait_delivered(1)
        relay.stop()

    def test_rows_that_no_word_covers_are_told_before_the_first_sweep(self):
        self.plain("text NOT NULL DEFAULT 'PENDING'")
        self.insert("HELD", "PENDING")
        relay = self.start_relay("--mode", "cdc")
        relay.wait_for_log("no word covers")
        self.wait_delivered(1)
        relay.stop()

    def test_a_mark_needs_a_word(self):
        self.plain()
        r = self.relay_once("--mode", "cdc", "--set", "after_publish=mark", code=1)
        self.assertIn("map.status_values", r.err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
