#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Outbox tables that already exist, as five documents describe them: relayed
without configuration, their own columns filled in as the documents say."""
import json
import unittest

import harness
import pgtest
from pgtest import seed

LONG = "/" * 100  # in a topic: a name that the file sink refuses for good
RETRY = {"OUTRIDER_FAILPOINTS": "relay.delivered=eio@1"}  # the first delivery fails


def setUpModule():
    pgtest.start_server()


def tearDownModule():
    pgtest.stop_server()


class NeverSettled(pgtest.PostgresTest):
    """Events that can be read and published, and never marked: nothing comes without end."""

    def setUp(self):
        super().setUp()
        self.script(seed("000_outbox"))
        self.sql("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, created_at) SELECT 'Order', "
                 "'order-' || i, 'OrderCreated', '{}', now() FROM generate_series(1, 2) i")

    def assert_stops(self, error, *args, url=None):
        done = self.run_outrider("relay", "--from", url or self.url, "--to", self.sink, "--once", *args, code=1)
        self.assertRegex(done.err, error)
        relay = self.start("relay", "--from", url or self.url, "--to", self.sink, *args)
        self.assertEqual(relay.join(), 1, relay.err())
        self.assertRegex(relay.err(), error)
        self.assertLessEqual(len(self.delivered("Order.OrderCreated")), 8)

    def test_a_role_that_may_read_and_not_mark(self):
        self.run_outrider("init", "--db", self.url)
        role = "reader_" + self.database
        self.sql(f"CREATE ROLE {role} LOGIN")
        self.sql(f"GRANT SELECT ON outbox TO {role}")
        self.sql(f"GRANT ALL ON outrider_cursor, outrider_parked, outrider_intent, outrider_schema TO {role}")
        self.assert_stops(f"GRANT UPDATE \\(processed_at, status\\) ON public.outbox TO {role}",
                          url=self.server.url(self.database, role))
        self.assertEqual(self.delivered(), [])

    def test_a_trigger_that_refuses_the_mark(self):
        self.script("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'rows are immutable'; END$$; "
                    "CREATE TRIGGER refuse BEFORE UPDATE ON outbox FOR EACH ROW EXECUTE FUNCTION refuse()")
        self.assert_stops("rows are immutable")

    def test_a_column_that_must_not_be_null(self):
        self.sql("ALTER TABLE outbox ADD COLUMN next_retry_at timestamptz NOT NULL DEFAULT now()")
        self.relay_once()
        self.assertEqual(len(self.delivered()), 2)
        self.relay_once()
        self.assertEqual(len(self.delivered()), 2)

    def test_a_trigger_that_passes_over_the_mark(self):
        self.script("CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NULL; END$$; "
                    "CREATE TRIGGER skip BEFORE UPDATE ON outbox FOR EACH ROW EXECUTE FUNCTION skip()")
        self.assert_stops("2 rows of table public.outbox .*a trigger on UPDATE")

    def test_a_trigger_that_undoes_the_mark(self):
        self.script("CREATE FUNCTION undo() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN NEW.status := OLD.status; RETURN NEW; "
                    "END$$; CREATE TRIGGER undo BEFORE UPDATE ON outbox FOR EACH ROW EXECUTE FUNCTION undo()")
        self.assert_stops("2 rows of table public.outbox .*a trigger on UPDATE")

    def test_a_trigger_that_keeps_the_rows(self):
        self.script("CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NULL; END$$; "
                    "CREATE TRIGGER keep BEFORE DELETE ON outbox FOR EACH ROW EXECUTE FUNCTION keep()")
        self.assert_stops("2 rows of table public.outbox .*a trigger on DELETE", "--set", "after_publish=delete")

    def test_a_row_that_is_made_pending_again_is_delivered_again(self):
        for n in range(5):
            self.relay_once()
            self.assertEqual(len(self.delivered("Order.OrderCreated")), 2 * n + 2)
            self.sql("UPDATE outbox SET status = 'PENDING'")


class Document000(pgtest.PostgresTest):
    """status PENDING, PUBLISHED, FAILED; processed_at; no columns for retries."""

    def setUp(self):
        super().setUp()
        self.script(seed("000_outbox"))

    def insert(self, n, kind="OrderCreated"):
        self.sql("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, created_at) SELECT "
                 "'Order', 'order-' || i %% 3, '%s', '{\"n\": ' || i || '}', now() FROM "
                 "generate_series(1, %d) i" % (kind, n))

    def test_rows_are_published_in_order_and_marked(self):
        self.insert(30)
        self.relay_once()
        self.assertEqual(self.column("SELECT DISTINCT status FROM outbox"), ["PUBLISHED"])
        self.assertEqual(self.value("SELECT count(*) FROM outbox WHERE processed_at IS NULL"), "0")
        rows = self.delivered("Order.OrderCreated")
        self.assertEqual([r["payload"]["n"] for r in rows], list(range(1, 31)))
        self.assertEqual(rows[0]["key"], "order-1")
        self.assertEqual(rows[0]["headers"]["event-id"], "1")

    def test_a_failure_marks_the_row_and_is_tried_again_later(self):
        self.insert(1)
        self.relay_once("--set", "retry.delays=[1h]", "--set", "retry.on_dead=block", env=RETRY, code=3)
        self.assertEqual(self.sql("SELECT status, processed_at FROM outbox"), [["FAILED", None]])
        self.assertEqual(self.sql("SELECT state, attempts, error_code, outbox, id FROM outrider_parked"),
                         [["parked", "1", "IO", "public.outbox", "1"]])
        status = self.status()
        self.assertEqual((status["pending"], status["parked"]), (0, 1))
        self.relay_once(code=3)
        self.assertEqual(self.value("SELECT status FROM outbox"), "FAILED")
        self.sql("UPDATE outrider_parked SET next_attempt_at = now()")
        self.relay_once()
        self.assertEqual(self.value("SELECT status FROM outbox"), "PUBLISHED")
        self.assertEqual(self.value("SELECT count(*) FROM outrider_parked"), "0")

    def test_what_can_never_work_is_failed_and_a_dead_letter(self):
        self.insert(1, LONG)
        self.insert(1)
        self.relay_once(code=3)
        self.assertEqual(self.column("SELECT status FROM outbox ORDER BY id"), ["FAILED", "PUBLISHED"])
        self.assertEqual(self.column("SELECT state FROM outrider_parked"), ["dead"])
        dead = self.run_outrider("dead", "list", "--db", self.url, "--json").json()
        self.assertEqual([(d["id"], d["attempts"], d["state"]) for d in dead], [("1", 1, "dead")])

    def test_a_dead_letter_is_retried_or_discarded(self):
        self.insert(2, LONG)
        self.relay_once(code=3)
        self.run_outrider("dead", "retry", "--db", self.url, "--id", "1")
        self.sql("UPDATE outbox SET event_type = 'Mended' WHERE id = 1")
        self.run_outrider("dead", "discard", "--db", self.url, "--id", "2")
        self.relay_once()
        self.assertEqual(self.sql("SELECT id, status FROM outbox"), [["1", "PUBLISHED"]])
        self.assertEqual(len(self.delivered("Order.Mended")), 1)


class Document001(pgtest.PostgresTest):
    """pending, sending, succeeded, failed, aborted; a worker's name and time."""

    TABLE = ("--table", "outbox_orders")

    def setUp(self):
        super().setUp()
        self.script(seed("001_outbox_orders"))

    def insert(self, n, **columns):
        more = "".join(", " + c for c in columns)
        values = "".join(", " + v for v in columns.values())
        self.sql("INSERT INTO outbox_orders (idempotency_key, order_request_json, request_digest, status%s) SELECT "
                 "'key-' || i, jsonb_build_object('n', i), 'sha', 'pending'%s FROM generate_series(1, %d) i"
                 % (more, values, n))

    def test_rows_succeed_and_give_their_lock_back(self):
        self.insert(10)
        before = self.value("SELECT max(updated_at) FROM outbox_orders")
        self.relay_once(*self.TABLE, "--set", "ordered=false", "--set", "concurrency=4")
        self.assertEqual(self.sql("SELECT DISTINCT status, attempts, locked_by, locked_at, last_error_code "
                                  "FROM outbox_orders"), [["succeeded", "0", None, None, None]])
        self.assertGreater(self.value("SELECT min(updated_at) FROM outbox_orders"), before)
        rows = self.delivered("orders.order_request")
        self.assertEqual(sorted(r["payload"]["n"] for r in rows), list(range(1, 11)))
        self.assertEqual(rows[0]["key"], "key-%d" % rows[0]["payload"]["n"])

    def test_a_row_on_its_way_is_sending_with_owner_and_time_and_at_most_four_are(self):
        self.insert(20)
        relay = self.start("relay", "--from", self.url, "--to", self.sink, *self.TABLE, "--set", "ordered=false",
                           "--set", "concurrency=4", env={"OUTRIDER_FAILPOINTS": "file.before_write=delay:3s@*"})
        self.wait_for("SELECT count(*) FROM outbox_orders WHERE status = 'sending'", "4")
        owners = self.sql("SELECT DISTINCT locked_by, locked_at IS NOT NULL FROM outbox_orders "
                          "WHERE status = 'sending'")
        self.assertEqual(len(owners), 1)
        self.assertTrue(owners[0][0].startswith("default@"), owners)
        self.assertEqual(owners[0][1], "t")
        relay.kill()

    def test_a_failure_keeps_code_and_text_and_is_due_by_updated_at(self):
        self.insert(1)
        retry = ("--set", "retry.delays=[5s, 10s, 20s, 40s, 80s, 160s]")
        self.relay_once(*self.TABLE, *retry, env=RETRY, code=3)
        row = self.sql("SELECT status, attempts, last_error_code, last_error_msg, locked_by FROM outbox_orders")[0]
        self.assertEqual([row[i] for i in (0, 1, 2, 4)], ["failed", "1", "IO", None])
        self.assertIn("cannot deliver", row[3])
        self.relay_once(*self.TABLE, *retry, code=3)
        self.assertEqual(self.value("SELECT status FROM outbox_orders"), "failed")
        self.sql("UPDATE outbox_orders SET updated_at = now() - interval '6 s'")
        self.relay_once(*self.TABLE, *retry)
        self.assertEqual(self.sql("SELECT status, attempts FROM outbox_orders"), [["succeeded", "1"]])
        self.assertEqual(self.value("SELECT count(*) FROM outrider_parked"), "0")

    def test_the_last_attempt_aborts(self):
        self.insert(1)
        self.relay_once(*self.TABLE, "--set", "retry.max_attempts=1", env=RETRY, code=3)
        self.assertEqual(self.sql("SELECT status, attempts, last_error_code FROM outbox_orders"),
                         [["aborted", "1", "IO"]])
        self.assertEqual(self.status_of("dead"), 1)
        dead = self.run_outrider("dead", "list", "--db", self.url, *self.TABLE, "--json").json()
        self.assertEqual([(d["id"], d["state"]) for d in dead], [("1", "dead")])
        self.run_outrider("dead", "retry", "--db", self.url, *self.TABLE, "--id", "1")
        self.assertEqual(self.sql("SELECT status, attempts FROM outbox_orders"), [["pending", "0"]])
        self.relay_once(*self.TABLE)
        self.assertEqual(self.value("SELECT status FROM outbox_orders"), "succeeded")

    def status_of(self, what):
        return self.run_outrider("status", "--db", self.url, *self.TABLE,
                                 "--json").json()["pipelines"][0][what]

    def test_what_expired_is_aborted_with_the_code_expired(self):
        self.insert(1, expires_at="now() - interval '1 s'")
        self.relay_once(*self.TABLE, code=None)
        self.assertEqual(self.sql("SELECT status, last_error_code FROM outbox_orders"), [["aborted", "EXPIRED"]])
        self.assertEqual(self.delivered(), [])

    def test_the_migration_of_its_appendix_makes_the_same_table(self):
        self.sql("DROP TABLE outbox_orders")
        self.script(seed("001_outbox_orders_migration"))
        self.insert(3)
        self.relay_once(*self.TABLE)
        self.assertEqual(self.column("SELECT DISTINCT status FROM outbox_orders"), ["succeeded"])


class Document002(pgtest.PostgresTest):
    """published_at is NULL until then; a sequence; topic and key in the row."""

    def insert(self, n, topic="'order-events'"):
        self.sql("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, partition_key, topic) SELECT "
                 "'Order', 'o' || i %% 7, 'OrderCreated', jsonb_build_object('n', i), 'k' || i %% 7, %s FROM "
                 "generate_series(1, %d) i" % (topic, n))

    def test_rows_go_to_their_topic_by_their_key_in_sequence(self):
        self.script(seed("002_outbox"))
        self.insert(50)
        self.relay_once()
        rows = self.delivered("order-events")
        self.assertEqual([r["payload"]["n"] for r in rows], list(range(1, 51)))
        self.assertEqual(rows[0]["key"], "k1")
        self.assertEqual(self.value("SELECT count(*) FROM outbox WHERE published_at IS NULL"), "0")

    def test_an_aggregate_that_fails_waits_alone(self):
        self.script(seed("002_outbox"))
        self.insert(21)
        self.relay_once("--set", "retry.delays=[1h]", "--set", "retry.on_dead=block", env=RETRY, code=3)
        waiting = self.sql("SELECT DISTINCT partition_key FROM outbox WHERE published_at IS NULL")
        self.assertEqual(len(waiting), 1)
        key = waiting[0][0]
        self.assertEqual(self.value("SELECT count(*) FROM outbox WHERE published_at IS NULL"), "3")
        self.assertEqual(self.column("SELECT lane FROM outrider_parked"), [key])
        self.sql("UPDATE outrider_parked SET next_attempt_at = now()")
        self.relay_once()
        self.assertEqual(self.value("SELECT count(*) FROM outbox WHERE published_at IS NULL"), "0")
        of_key = [r["payload"]["n"] for r in self.delivered() if r["key"] == key]
        firsts = list(dict.fromkeys(of_key))
        self.assertEqual(firsts, sorted(firsts))

    def test_tables_per_aggregate_share_a_pipeline(self):
        self.script(seed("002_per_aggregate"))
        for name in ("order", "payment"):
            self.sql("INSERT INTO %s_outbox (%s_id, event_type, payload) SELECT 'x' || i, 'Created', "
                     "jsonb_build_object('n', i) FROM generate_series(1, 20) i" % (name, name))
        self.relay_once(*self.tables("order_outbox", "payment_outbox"))
        self.assertEqual(len(self.delivered("order.Created")), 20)
        self.assertEqual(len(self.delivered("payment.Created")), 20)
        self.assertEqual(self.delivered("payment.Created")[0]["key"][0], "x")
        for name in ("order", "payment"):
            self.assertEqual(self.value("SELECT count(*) FROM %s_outbox WHERE published_at IS NULL" % name), "0")

    def test_a_partitioned_table_is_read_through_its_root(self):
        script = seed("002_partitioned")
        made, dropped = script.split("-- Drop old partitions")
        self.script(made + "CREATE TABLE outbox_2023_12 PARTITION OF outbox FOR VALUES FROM ('2023-12-01') "
                    "TO ('2024-01-01'); CREATE TABLE outbox_2024_02 PARTITION OF outbox FOR VALUES FROM "
                    "('2024-02-01') TO ('2024-03-01');\n-- Drop old partitions" + dropped)
        self.sql("INSERT INTO outbox (id, aggregate_type, aggregate_id, event_type, payload, created_at) SELECT "
                 "gen_random_uuid(), 'Order', 'o' || i % 3, 'Created', jsonb_build_object('n', i), "
                 "DATE '2024-01-15' + i FROM generate_series(1, 40) i")
        self.relay_once()
        self.assertEqual([r["payload"]["n"] for r in self.delivered()], list(range(1, 41)))
        self.assertEqual(self.value("SELECT count(*) FROM outbox WHERE published_at IS NULL"), "0")

    def test_what_can_never_work_does_not_come_back(self):
        self.script(seed("002_outbox"))
        self.insert(1, "'%s'" % LONG)
        self.insert(2)
        self.relay_once(code=3)
        self.assertEqual(len(self.delivered()), 2)
        self.assertEqual(self.value("SELECT count(*) FROM outbox WHERE published_at IS NULL"), "1")
        self.assertEqual(self.column("SELECT state FROM outrider_parked"), ["dead"])
        self.relay_once(code=3)
        self.assertEqual(self.value("SELECT attempts FROM outrider_parked"), "1")


class Document003(pgtest.PostgresTest):
    """PENDING to DEAD_LETTER, with retry_count, next_retry_at and headers."""

    TABLE = ("--table", "event_outbox")

    def setUp(self):
        super().setUp()
        self.script(seed("003_event_outbox"))

    def insert(self, n, topic="order-events", status="PENDING", created="now()"):
        self.sql("INSERT INTO event_outbox (id, aggregate_id, aggregate_type, event_type, topic, partition_key, payload, "
                 "headers, status, created_at) SELECT gen_random_uuid(), 'o' || i, 'Order', 'OrderCreated', '%s', "
                 "'o' || i, '{\"n\": ' || i || '}', '{\"X-Correlation-ID\": \"c-1\"}', '%s', %s FROM "
                 "generate_series(1, %d) i" % (topic, status, created, n))

    def test_rows_are_published_with_their_headers(self):
        self.insert(5)
        self.relay_once(*self.TABLE)
        self.assertEqual(self.sql("SELECT DISTINCT status, retry_count, last_error, processed_at IS NULL, next_retry_at "
                                  "FROM event_outbox"), [["PUBLISHED", "0", None, "f", None]])
        self.assertEqual(self.delivered("order-events")[0]["headers"]["X-Correlation-ID"], "c-1")

    def test_a_failure_counts_says_why_and_when_next(self):
        self.insert(1)
        self.relay_once(*self.TABLE, env=RETRY, code=3)
        row = self.sql("SELECT status, retry_count, last_error, processed_at, "
                       "next_retry_at > now() - interval '1 minute' FROM event_outbox")[0]
        self.assertEqual([row[i] for i in (0, 1, 3, 4)], ["FAILED", "1", None, "t"])
        self.assertTrue(row[2].startswith("IO: "), row)
        self.sql("UPDATE event_outbox SET next_retry_at = now() + interval '1 h'")
        self.relay_once(*self.TABLE, code=3)
        self.assertEqual(self.value("SELECT status FROM event_outbox"), "FAILED")
        self.sql("UPDATE event_outbox SET next_retry_at = now()")
        self.relay_once(*self.TABLE)
        self.assertEqual(self.sql("SELECT status, retry_count, last_error FROM event_outbox"),
                         [["PUBLISHED", "1", None]])

    def test_the_last_attempt_and_what_can_never_work_are_dead_letters(self):
        self.insert(1, topic=LONG)
        self.insert(1)
        self.sql("UPDATE event_outbox SET retry_count = 5, status = 'FAILED' WHERE topic = 'order-events'")
        self.relay_once(*self.TABLE, env=RETRY, code=3)
        self.assertEqual(self.sql("SELECT status, retry_count FROM event_outbox ORDER BY retry_count"),
                         [["DEAD_LETTER", "1"], ["DEAD_LETTER", "6"]])
        dead = self.run_outrider("dead", "list", "--db", self.url, *self.TABLE, "--json").json()
        self.assertEqual(len(dead), 2)
        self.run_outrider("dead", "discard", "--db", self.url, "--all", *self.TABLE)
        self.assertEqual(self.value("SELECT count(*) FROM event_outbox"), "0")

    def test_a_failed_row_is_tried_again_by_itself(self):
        self.insert(3)
        self.start_relay(*self.TABLE, "--set", "retry.delays=[200ms]", env=RETRY)
        self.wait_for("SELECT count(*) FROM event_outbox WHERE status = 'PUBLISHED'", "3")
        self.assertEqual(self.value("SELECT sum(retry_count) FROM event_outbox"), "1")

    def test_rows_that_a_dead_relay_left_processing_are_taken_back(self):
        self.insert(3, status="PROCESSING")
        self.relay_once(*self.TABLE)
        self.assertEqual(self.column("SELECT DISTINCT status FROM event_outbox"), ["PUBLISHED"])

    def test_young_rows_are_left_to_the_application(self):
        self.insert(2, created="now() - interval '11 s'")
        self.insert(3, topic="young")
        self.relay_once(*self.TABLE, "--set", "min_age=10s")
        self.assertEqual(self.column("SELECT status FROM event_outbox ORDER BY created_at"),
                         ["PUBLISHED"] * 2 + ["PENDING"] * 3)

    def test_clean_up_is_off_unless_asked_for_and_takes_published_rows_only(self):
        self.insert(2)
        self.relay_once(*self.TABLE)
        self.insert(1)
        self.sql("UPDATE event_outbox SET processed_at = now() - interval '8 d' WHERE status = 'PUBLISHED'")
        relay = self.start_relay(*self.TABLE, "--set", "min_age=12h", "--set", "cleanup.every=50ms")
        self.assertEqual(relay.stop(), 0)
        self.assertEqual(self.value("SELECT count(*) FROM event_outbox"), "3")
        self.start_relay(*self.TABLE, "--set", "min_age=12h", "--set", "cleanup.every=50ms", "--set",
                         "cleanup.adopted=true")
        self.wait_for("SELECT count(*) FROM event_outbox", "1")
        self.assertEqual(self.value("SELECT status FROM event_outbox"), "PENDING")


class Document004(pgtest.PostgresTest):
    """A boolean; nothing else."""

    TABLE = ("--table", "outbox_event")

    def setUp(self):
        super().setUp()
        self.script(seed("004_outbox_event"))

    def insert(self, first, n, kind="ARTICLE_REGISTERED"):
        self.sql("INSERT INTO outbox_event SELECT i, '%s', i %% 3, '{\"n\": ' || i || '}', false, now() FROM "
                 "generate_series(%d, %d) i" % (kind, first, first + n - 1))

    def test_rows_are_published_by_the_aggregates_key(self):
        self.insert(1, 10)
        self.relay_once(*self.TABLE)
        self.assertEqual(self.value("SELECT count(*) FROM outbox_event WHERE published"), "10")
        rows = self.delivered("event.ARTICLE_REGISTERED")
        self.assertEqual([r["payload"]["n"] for r in rows], list(range(1, 11)))
        self.assertEqual(rows[0]["key"], "1")

    def test_a_failure_is_parked_and_its_aggregate_waits(self):
        self.insert(1, 6)
        self.relay_once(*self.TABLE, "--set", "retry.delays=[1h]", "--set", "retry.on_dead=block", env=RETRY, code=3)
        self.assertEqual(self.column("SELECT id FROM outbox_event WHERE NOT published ORDER BY id"), ["1", "4"])
        self.sql("UPDATE outrider_parked SET next_attempt_at = now()")
        self.relay_once(*self.TABLE)
        self.assertEqual(self.value("SELECT count(*) FROM outbox_event WHERE published"), "6")

    def test_published_rows_can_be_removed_at_once(self):
        self.insert(1, 5)
        self.relay_once(*self.TABLE, "--set", "after_publish=delete")
        self.assertEqual(self.value("SELECT count(*) FROM outbox_event"), "0")
        self.assertEqual(len(self.delivered()), 5)

    def test_a_discarded_dead_letter_is_gone(self):
        self.insert(1, 1, LONG)
        self.relay_once(*self.TABLE, code=3)
        self.run_outrider("dead", "discard", "--db", self.url, "--all", *self.TABLE)
        self.assertEqual(self.value("SELECT count(*) FROM outbox_event"), "0")
        self.assertEqual(self.value("SELECT count(*) FROM outrider_parked"), "0")


class Maps(pgtest.PostgresTest):
    """What is inferred is shown; what is not clear is asked for."""

    def doctor(self, *args):
        return self.run_outrider("doctor", "--from", self.url, *args, code=None).out

    def test_doctor_prints_the_map_and_warns(self):
        self.script(seed("004_outbox_event"))
        text = self.doctor("--table", "outbox_event")
        for expected in ("published: published", "event_type: type", "aggregate_type: 'event'", "order is by created_at",
                         "no retention", "outrider_parked"):
            self.assertIn(expected, text)

    def test_doctor_misses_an_index(self):
        self.script(seed("002_per_aggregate"))
        self.assertIn("CREATE INDEX CONCURRENTLY ON public.order_outbox", self.doctor("--table", "order_outbox"))
        self.script(seed("003_event_outbox"))
        self.assertNotIn("CREATE INDEX", self.doctor("--table", "event_outbox"))

    def test_what_is_ambiguous_names_the_option_and_a_map_can_be_given_in_full(self):
        self.sql("CREATE TABLE mail (nr bigint PRIMARY KEY, what text, who text, body text, content text, "
                 "state_no int NOT NULL DEFAULT 0, tries int, again timestamptz, why text)")
        self.sql("INSERT INTO mail (nr, what, who, body) VALUES (1, 'Sent', 'ada', '{\"a\": 1}'), (2, 'Sent', 'bob', '{}')")
        r = self.relay_once("--table", "mail", code=1)
        self.assertIn("map.payload", r.err)
        given = {"id": "nr", "seq": "nr", "event_type": "what", "aggregate_id": "who", "payload": "body",
                 "status": "state_no", "attempts": "tries", "next_attempt_at": "again", "last_error": "why",
                 "status_values": "{pending: 0, processing: 1, published: 2, failed: 3, dead: 4}"}
        args = [a for k, v in given.items() for a in ("--set", "map.%s=%s" % (k, v))]
        self.relay_once("--table", "mail", *args, env=RETRY, code=3)
        self.assertEqual(self.sql("SELECT nr, state_no, tries FROM mail ORDER BY nr"),
                         [["1", "3", "1"], ["2", "2", None]])
        self.assertEqual({r["topic"] for r in self.delivered()}, {"mail.Sent"})

    def test_columns_of_an_enum_type_and_of_strange_names_work(self):
        self.script("CREATE TYPE event_state AS ENUM ('NEW', 'IN_PROGRESS', 'SENT', 'ERROR', 'DEAD');"
                    "CREATE TABLE \"Event Store\" (\"eventId\" uuid PRIMARY KEY DEFAULT gen_random_uuid(), "
                    "\"aggregateType\" text, \"aggregateId\" uuid DEFAULT gen_random_uuid(), \"eventType\" text, data json, "
                    "status event_state NOT NULL DEFAULT 'NEW', \"lockedBy\" varchar(12), \"lockedAt\" timestamp, "
                    "retries smallint NOT NULL DEFAULT 0, \"updatedAt\" timestamp NOT NULL DEFAULT now());")
        self.sql("INSERT INTO \"Event Store\" (\"aggregateType\", \"eventType\", data) SELECT 'a', 'b', '{}' FROM "
                 "generate_series(1, 10)")
        self.relay_once("--table", "\"Event Store\"", env=RETRY, code=3)
        self.assertEqual(self.sql("SELECT status, count(*), max(retries) FROM \"Event Store\" GROUP BY 1 ORDER BY 1"),
                         [["SENT", "9", "0"], ["ERROR", "1", "1"]])
        self.assertEqual(len(self.delivered("a.b")), 10)

    def test_an_outbox_that_exists_is_left_alone_by_init(self):
        self.script(seed("002_outbox"))
        self.init()
        self.sql("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) VALUES ('a', '1', 'b', '{}')")
        self.relay_once()
        self.assertEqual(self.value("SELECT count(*) FROM outbox WHERE published_at IS NOT NULL"), "1")

    def test_a_role_that_may_not_create_tables_is_told_to_run_init(self):
        self.script(seed("002_outbox"))
        self.sql("CREATE ROLE relay_of_%s LOGIN" % self.database)
        self.sql("GRANT SELECT, UPDATE ON outbox TO relay_of_%s" % self.database)
        url = self.server.url(self.database, "relay_of_" + self.database)
        r = self.run_outrider("relay", "--from", url, "--to", self.sink, "--once", "--set", "connect_timeout=1s", code=1)
        self.assertIn("outrider init", r.err)

    def test_status_counts_the_rows(self):
        self.script(seed("003_event_outbox"))
        self.sql("INSERT INTO event_outbox (id, aggregate_id, aggregate_type, event_type, topic, partition_key, payload, "
                 "status, created_at) SELECT gen_random_uuid(), 'a', 'a', 'a', 't', 'k', '{}', s, now() FROM "
                 "unnest(ARRAY['PENDING', 'PENDING', 'PUBLISHED', 'FAILED', 'DEAD_LETTER']) s")
        self.init()
        row = self.run_outrider("status", "--db", self.url, "--table", "event_outbox", "--json").json()["pipelines"][0]
        self.assertEqual((row["pending"], row["parked"], row["dead"]), (2, 1, 1))
        self.assertEqual(json.loads(json.dumps(row))["pipeline"], "default")


if __name__ == "__main__":
    unittest.main(verbosity=2)
