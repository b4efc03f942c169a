# SPDX-License-Identifier: MIT
"""Mode cdc: every way in which an event can get into the log, and what is no event."""
import json
import unittest

from harness import wait_until
from pgcdc import CdcTest

MESSAGE = {"aggregate_type": "order", "aggregate_id": "7", "event_type": "changed"}


class Events(CdcTest):
    def setUp(self):
        super().setUp()
        self.once()

    def finish(self, *labels, **how):
        self.commit_event("last", "z")
        self.once(**how)
        self.assertEqual(self.delivered_labels(), [*labels, "last"])

    def message(self, label, **more):
        return json.dumps({**MESSAGE, "payload": {"n": label}, **more})

    def test_inserted_and_deleted_in_one_transaction(self):
        self.server.script("BEGIN;" + self.insert("a") + ";DELETE FROM outbox;COMMIT", self.database)
        self.finish("a")

    def test_updates_deletes_and_truncation_are_no_events(self):
        self.commit_event("a")
        self.owner("UPDATE outbox SET topic = 'x'")
        self.owner("DELETE FROM outbox")
        self.commit_event("b")
        self.owner("TRUNCATE outbox")
        self.finish("a", "b")

    def test_copy_insert_select_and_several_rows_at_once(self):
        self.server.script("COPY outbox (aggregate_type, aggregate_id, event_type, payload) FROM STDIN;\n"
                           'order\tk\tchanged\t{"n": "c1"}\norder\tk\tchanged\t{"n": "c2"}\n\\.\n', self.database)
        self.owner("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) SELECT 'order', 'k', "
                   "'changed', jsonb_build_object('n', 's' || i) FROM generate_series(1, 2) i")
        self.finish("c1", "c2", "s1", "s2")

    def test_sub_transactions_that_are_rolled_back_leave_nothing(self):
        self.server.script(";".join(["BEGIN", self.insert("a"), "SAVEPOINT s", self.insert("gone"),
                                     "ROLLBACK TO s", self.insert("b"), "SAVEPOINT t", self.insert("c"),
                                     "RELEASE t", "COMMIT"]), self.database)
        self.finish("a", "b", "c")

    def test_two_phase_commit(self):
        self.server.script("BEGIN;" + self.insert("p1") + ";PREPARE TRANSACTION 'one'", self.database)
        self.server.script("BEGIN;" + self.insert("gone") + ";PREPARE TRANSACTION 'two'", self.database)
        self.commit_event("a", "a")
        self.owner("COMMIT PREPARED 'one'")
        self.owner("ROLLBACK PREPARED 'two'")
        self.finish("a", "p1")

    def test_transactional_messages_are_events_and_others_are_not(self):
        session = self.owner_session()
        session.begin()
        self.emit(self.message("m1"), session=session)
        session.execute(self.insert("row"))
        self.emit(self.message("m2", topic="elsewhere", headers={"a": "b"}, partition_key="k2"), session=session)
        session.commit()
        session.begin()
        self.emit(self.message("rolled back"), session=session)
        self.emit(self.message("survives the rollback"), transactional=False, session=session)
        session.rollback()
        self.emit(self.message("another prefix"), prefix="outriders")
        self.commit_event("last", "z")
        self.once()
        rows = {row["payload"]["n"]: row for row in self.sink_rows.read()}
        self.assertEqual(sorted(rows), ["last", "m1", "m2", "row"])
        self.assertEqual(rows["m2"]["topic"], "elsewhere")
        self.assertEqual(rows["m2"]["key"], "k2")
        self.assertEqual(rows["m2"]["headers"]["a"], "b")
        self.assertRegex(rows["m1"]["headers"]["event-id"], r"^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-8")

    def test_malformed_messages_are_dead_letters_and_the_slot_moves_on(self):
        for content in ("", "no json", "[1]", '{"aggregate_type": "order"}', '{"unknown": 1}'):
            self.emit(content)
        self.owner("SELECT pg_logical_emit_message(true, 'outrider', '\\x00ff80'::bytea)")
        self.finish(code=3)
        self.assertEqual(self.owner(f"SELECT count(*) FROM outrider_parked WHERE pipeline = '{self.name}' "
                                    "AND state = 'dead' AND error_code = 'INVALID'")[0][0], "6")

    def test_columns_change_while_streaming(self):
        relay = self.relay()
        self.wait_streaming(relay)
        self.commit_event("a")
        for number, change in enumerate((
                "ADD COLUMN extra text DEFAULT 'x'", "DROP COLUMN extra", "ADD COLUMN first int",
                "ALTER COLUMN aggregate_id TYPE bigint USING 7", "ALTER COLUMN aggregate_id TYPE text",
                "ALTER COLUMN event_type TYPE varchar(40)", "DROP COLUMN headers", "ADD COLUMN headers jsonb",
                "RENAME COLUMN topic TO old_topic", "RENAME COLUMN old_topic TO topic")):
            self.owner("ALTER TABLE outbox " + change)
            self.commit_event(f"c{number}", "7")
        labels = ["a"] + [f"c{n}" for n in range(10)]
        self.wait_label(*labels, relay=relay)
        self.assertEqual(self.delivered_labels(), labels)
        self.owner("ALTER TABLE outbox RENAME COLUMN aggregate_id TO other")
        self.owner("INSERT INTO outbox (aggregate_type, other, event_type, payload) VALUES ('a', 'b', 'c', '{}')")
        wait_until(lambda: self.owner("SELECT 1 FROM outrider_parked WHERE error_message LIKE 'aggregate_id is missing%'"),
                   "a dead letter")
        self.stop_relay(relay)

    def test_values_are_what_they_are_in_the_table(self):
        self.owner("""INSERT INTO outbox (id, aggregate_type, aggregate_id, event_type, payload, headers, topic,
            partition_key, partition, occurred_at) VALUES ('00112233-4455-6677-8899-aabbccddeeff', 'Bestellung',
            'ünïcode', 'changed', '{"n": "v", "x": [1, 2.50, null]}', '{"h": "1"}', 't.opic', 'key', 3,
            '2026-01-02 03:04:05.678+00')""")
        self.owner("INSERT INTO outbox (aggregate_type, aggregate_id, event_type) VALUES ('order', 'k', 'gone')")
        self.once()
        rows = self.sink_rows.read()
        row = next(r for r in rows if r["topic"] == "t.opic")
        self.assertEqual(row["headers"]["event-id"], "00112233-4455-6677-8899-aabbccddeeff")
        self.assertEqual((row["key"], row["timestamp"], row["headers"]["h"]), ("key", "2026-01-02T03:04:05.678Z", "1"))
        self.assertEqual(row["payload"], {"n": "v", "x": [1, 2.5, None]})
        self.assertTrue(any(r["topic"] == "order.gone" and r.get("payload") is None for r in rows))

    def test_a_payload_above_max_payload_is_a_dead_letter_and_kept_in_the_database(self):
        self.owner("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) "
                   "VALUES ('order', 'big', 'changed', jsonb_build_object('n', repeat('x', 100000)))")
        self.commit_event("small")
        self.once("--set", "max_payload=64kB", code=3)
        self.assertEqual(self.delivered_labels(), ["small"])
        self.assertEqual(self.owner("SELECT error_code, octet_length(payload) FROM outrider_parked"),
                         [("TOO_LARGE", "100009")])

    def test_a_payload_above_max_payload_that_waits_behind_another_event_is_kept_too(self):
        limits = ("--set", "source.max_payload=2000", "--set", "retry.delays=[1h]")
        self.commit_event("a", "k")
        self.once(*limits, code=3, env={"OUTRIDER_FAILPOINTS": "relay.delivered=eio@1"})
        self.owner("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) SELECT 'order', 'k', "
                   "'changed', jsonb_build_object('n', 'large', 'x', repeat('x', 5000))")
        self.once(*limits, code=3)
        self.assertEqual(self.owner("SELECT state, octet_length(payload) > 5000 FROM outrider_parked ORDER BY arrival"),
                         [("parked", "f"), ("queued", "t")])
        self.owner("UPDATE outrider_parked SET next_attempt_at = now() WHERE state = 'parked'")
        self.once()
        self.assertEqual(self.sink_rows.first_labels(), ["a", "large"])

    def test_a_poisoned_event_is_parked_and_its_lane_waits_while_others_go_on(self):
        self.owner("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, topic) "
                   "VALUES ('order', 'bad', 'changed', '{\"n\": \"poison\"}', '" + "x" * 300 + "')")
        self.commit_event("behind", "bad")
        self.commit_event("free", "good")
        self.once("--set", "retry.on_dead=block", code=3)
        self.assertEqual(self.delivered_labels(), ["free"])
        states = self.owner("SELECT state, payload IS NOT NULL FROM outrider_parked ORDER BY arrival")
        self.assertEqual(states, [("dead", "t"), ("queued", "t")])
        self.commit_event("later", "bad")
        self.once("--set", "retry.on_dead=block", code=3)
        self.assertEqual(self.delivered_labels(), ["free"])
        self.run_outrider("dead", "discard", "--db", self.url, "--all")
        self.once("--set", "retry.on_dead=block")
        self.assertEqual(self.delivered_labels(), ["free", "behind", "later"])


class Partitioned(CdcTest):
    init_arguments = ("--partition", "month")

    def test_partitions_are_published_through_their_root(self):
        self.commit_event("before")
        self.once()
        self.commit_event("after")
        self.once()
        self.assertEqual(self.delivered_labels(), ["before", "after"])


class Bytes(CdcTest):
    init_arguments = ("--payload", "bytea")

    def test_bytes_and_an_empty_payload_come_as_they_are(self):
        self.once()
        self.owner("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) VALUES "
                   "('order', 'k', 'changed', '\\x00ff10'), ('order', 'k', 'changed', ''), ('order', 'k', 'changed', 'text')")
        self.once()
        rows = self.sink_rows.read()
        self.assertEqual([r.get("payload_base64") or r.get("payload_text") for r in rows], ["AP8Q", "", "text"])


if __name__ == "__main__":
    unittest.main()
