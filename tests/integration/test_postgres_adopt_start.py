#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Adopted tables are looked at before anything is published: rights, constraints, types,
and an id that is unique. What cannot be settled later stops the relay at its start."""
import re
import unittest

import pgtest
from pgtest import seed

RETRY = {"OUTRIDER_FAILPOINTS": "relay.delivered=eio@1"}  # the first delivery fails
LONG = "/" * 100  # in a topic: a name that the file sink refuses for good
TABLE = ("CREATE TABLE mail (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregate_id text DEFAULT 'a', event_type text "
         "DEFAULT 'Sent', payload jsonb DEFAULT '{}', created_at timestamptz NOT NULL DEFAULT clock_timestamp(), "
         "status text NOT NULL DEFAULT 'PENDING' CHECK (status IN ('PENDING', 'PUBLISHED', 'FAILED', 'DEAD')), %s)")


def setUpModule():
    pgtest.start_server(wal_level="logical")


def tearDownModule():
    pgtest.stop_server()


class StartTest(pgtest.PostgresTest):
    """A role that may log in, and nothing else yet."""

    def setUp(self):
        super().setUp()
        self.user = "relay_" + self.database
        self.sql(f"CREATE ROLE {self.user} LOGIN")
        self.as_user = self.server.url(self.database, self.user)

    def grant_companions(self):
        self.init()
        self.sql(f"GRANT ALL ON outrider_cursor, outrider_parked, outrider_intent, outrider_schema TO {self.user}")

    def assert_refused(self, error, *args, url=None):
        """By --once, by a relay that would stay, and by doctor; and nothing is published."""
        url = url or self.url
        done = self.run_outrider("relay", "--from", url, "--to", self.sink, "--once", *args, code=1)
        self.assertRegex(done.err, error)
        relay = self.start("relay", "--from", url, "--to", self.sink, *args)
        self.assertEqual(relay.join(), 1, relay.err())
        self.assertRegex(relay.err(), error)
        doctor = self.run_outrider("doctor", "--from", url, *args, code=1)
        self.assertRegex(doctor.out, error)
        self.assertEqual(self.delivered(), [])
        return done.err

    def assert_works(self, n, *args, url=None, code=0):
        self.run_outrider("relay", "--from", url or self.url, "--to", self.sink, "--once", *args, code=code)
        self.assertEqual(len(self.delivered()), n)


class Rights(StartTest):
    def setUp(self):
        super().setUp()
        self.script(seed("003_event_outbox"))
        self.sql("ALTER TABLE event_outbox ADD COLUMN secret text")
        self.insert(2)
        self.table = ("--table", "event_outbox")

    def insert(self, n, topic="t"):
        self.sql("INSERT INTO event_outbox (id, aggregate_id, aggregate_type, event_type, topic, partition_key, payload, "
                 f"status, created_at) SELECT gen_random_uuid(), 'a' || i, 'a', 'b', '{topic}', '{topic[0]}' || i, '{{}}', 'PENDING', "
                 f"now() FROM generate_series(1, {n}) i")

    def test_the_error_has_the_statement_that_grants_what_is_missing(self):
        self.grant_companions()
        self.sql(f"GRANT SELECT ON event_outbox TO {self.user}")
        self.sql(f"GRANT UPDATE (status, processed_at) ON event_outbox TO {self.user}")
        err = self.assert_refused(f"role {self.user} lacks rights on table public.event_outbox.* GRANT UPDATE \\(retry_count, "
                                  f"last_error, next_retry_at\\) ON public.event_outbox TO {self.user}", *self.table,
                                  url=self.as_user)
        self.sql(re.search("runs: (GRANT .*)", err).group(1))
        self.assert_works(2, *self.table, url=self.as_user)

    def test_a_column_that_may_not_be_read(self):
        self.grant_companions()
        self.sql(f"GRANT SELECT (id, aggregate_id, aggregate_type, event_type, topic, partition_key, payload, status, "
                 f"retry_count, last_error, created_at, processed_at, next_retry_at), UPDATE ON event_outbox TO {self.user}")
        self.assert_refused("GRANT SELECT \\(headers, xmin, cmin, tableoid, ctid\\) ON public.event_outbox", *self.table, url=self.as_user)

    def test_a_role_without_any_right_is_told_all_of_them(self):
        self.grant_companions()
        self.assert_refused("lacks rights on table public.event_outbox", *self.table, url=self.as_user)

    def test_removing_needs_the_right_to_remove(self):
        self.grant_companions()
        self.sql(f"GRANT SELECT, UPDATE ON event_outbox TO {self.user}")
        for option in ("after_publish=delete", "cleanup.adopted=true"):
            with self.subTest(option):
                self.assert_refused(f"GRANT DELETE ON public.event_outbox TO {self.user}", *self.table, "--set", option,
                                    url=self.as_user)

    def test_init_grants_the_columns_that_a_relay_needs_and_no_others(self):
        shown = self.run_outrider("init", "--db", self.url, *self.table, "--dry-run").out
        grants = [line for line in shown.splitlines() if "ON public.event_outbox TO outrider_relay" in line]
        self.assertEqual(len(grants), 1, shown)
        self.assertIn("UPDATE (status, retry_count, last_error, processed_at, next_retry_at)", grants[0])
        self.assertNotIn("secret", grants[0])
        self.assertNotIn("DELETE", grants[0])
        self.assertIn("outrider_cursor TO outrider_relay", shown)
        self.assertEqual(self.value("SELECT to_regclass('outrider_cursor')"), None)

    def test_a_relay_with_that_role_lives_its_whole_life(self):
        clean = ("--set", "cleanup.adopted=true")
        self.run_outrider("init", "--db", self.url, *self.table, *clean)
        self.sql(f"GRANT outrider_relay TO {self.user}")
        once = ("relay", "--from", self.as_user, "--to", self.sink, "--once", *self.table, *clean)
        self.insert(1, LONG)
        self.run_outrider(*once, env=RETRY, code=3)
        self.assertEqual(self.column("SELECT status FROM event_outbox ORDER BY status"), ["DEAD_LETTER", "FAILED", "PUBLISHED"])
        self.sql("UPDATE event_outbox SET next_retry_at = now() WHERE status = 'FAILED'")
        self.run_outrider(*once, code=3)
        status = self.run_outrider("status", "--db", self.as_user, *self.table, "--json").json()["pipelines"][0]
        self.assertEqual((status["pending"], status["dead"], status["delivered_total"]), (0, 1, 2))
        self.run_outrider("dead", "list", "--db", self.as_user, *self.table)
        self.run_outrider("replay", "--db", self.as_user, *self.table, "--to", "file:" + self.path("again"), "--since", "1d")
        self.sql("UPDATE event_outbox SET processed_at = now() - interval '9 d'")
        self.run_outrider("cleanup", "--db", self.as_user, *self.table, "--retention", "7d")
        self.assertEqual(self.column("SELECT status FROM event_outbox"), ["DEAD_LETTER"])
        with self.assertRaises(Exception):
            self.session(user=self.user).execute("SELECT secret FROM event_outbox")

    def test_rights_are_granted_on_every_table_of_a_pipeline_and_in_its_schema(self):
        self.script(seed("001_outbox_orders") + "; CREATE SCHEMA shop; ALTER TABLE outbox_orders SET SCHEMA shop")
        self.sql("INSERT INTO shop.outbox_orders (idempotency_key, order_request_json, request_digest, status) VALUES "
                 "('k', '{}', 'd', 'pending')")
        tables = self.tables("event_outbox", "shop.outbox_orders")
        self.run_outrider("init", "--db", self.url, *tables)
        self.sql(f"GRANT outrider_relay TO {self.user}")
        self.assert_works(3, *tables, url=self.as_user)
        self.assertEqual(self.value("SELECT status FROM shop.outbox_orders"), "succeeded")

    def test_relays_that_compete_need_no_more(self):
        self.script(seed("001_outbox_orders"))
        self.sql("ALTER TABLE outbox_orders ADD COLUMN secret text")
        self.sql("INSERT INTO outbox_orders (idempotency_key, order_request_json, request_digest, status) VALUES "
                 "('k', '{}', 'd', 'pending')")
        self.run_outrider("init", "--db", self.url, "--table", "outbox_orders")
        self.sql(f"GRANT outrider_relay TO {self.user}")
        self.assert_works(1, "--table", "outbox_orders", "--set", "ordered=false", url=self.as_user)

    def test_one_who_does_not_own_the_table_is_told_what_its_owner_runs(self):
        self.sql(f"ALTER ROLE {self.user} CREATEROLE")
        self.sql(f"GRANT CREATE ON SCHEMA public TO {self.user}")
        shown = self.run_outrider("init", "--db", self.as_user, *self.table, "--dry-run").out
        self.assertRegex(shown, "-- This user does not own public.event_outbox; its owner runs:\n(--.*\n)*--   GRANT SELECT")
        self.run_outrider("init", "--db", self.url, *self.table)

    def test_a_table_that_init_does_not_understand_gets_no_rights_and_the_rest_is_made(self):
        self.sql("CREATE TABLE odd (a int)")
        shown = self.run_outrider("init", "--db", self.url, "--table", "odd", "--dry-run").out
        self.assertRegex(shown, "-- table public.odd: .*map.id")
        self.run_outrider("init", "--db", self.url, "--table", "odd")
        self.assertEqual(self.value("SELECT to_regclass('outrider_cursor')"), "outrider_cursor")

    def test_init_makes_no_table_but_its_own(self):
        done = self.run_outrider("init", "--db", self.url, "--table", "nowhere", code=1)
        self.assertRegex(done.err, "there is no table nowhere, and init makes `outbox` only")
        self.assertEqual(self.value("SELECT to_regclass('outbox')"), None)

    def test_rights_that_are_taken_away_stop_a_relay_when_it_starts_again(self):
        self.grant_companions()
        self.sql(f"GRANT SELECT, UPDATE ON event_outbox TO {self.user}")
        self.assert_works(2, *self.table, url=self.as_user)
        self.sql(f"REVOKE UPDATE ON event_outbox FROM {self.user}")
        self.insert(1)
        self.run_outrider("relay", "--from", self.as_user, "--to", self.sink, "--once", *self.table, code=1)
        self.assertEqual(len(self.delivered()), 2)

    def test_a_replay_needs_no_right_to_write(self):
        self.grant_companions()
        self.relay_once(*self.table)
        self.sql(f"GRANT SELECT ON event_outbox TO {self.user}")
        again = self.path("again")
        self.run_outrider("replay", "--db", self.as_user, *self.table, "--to", "file:" + again, "--since", "1d")
        self.assertEqual(len(self.delivered(directory=again)), 2)


class Cdc(StartTest):
    """The same in mode cdc: only what after_publish asks for is needed."""

    def setUp(self):
        super().setUp()
        self.sql(TABLE % "processed_at timestamptz")
        self.sql("INSERT INTO mail SELECT")
        self.grant_companions()
        self.sql(f"ALTER ROLE {self.user} REPLICATION")
        self.sql(f"GRANT SELECT ON mail TO {self.user}")
        self.sql("CREATE PUBLICATION outrider_default FOR TABLE mail WITH (publish = 'insert', publish_via_partition_root = true)")
        self.cdc = ("--table", "mail", "--set", "mode=cdc")
        self.addCleanup(self.drop_slot)

    def drop_slot(self):
        self.sql("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = current_database()")

    def test_a_mark_that_may_not_be_written(self):
        self.assert_refused("GRANT UPDATE \\(status, processed_at\\) ON public.mail", *self.cdc, "--set", "after_publish=mark",
                            url=self.as_user)

    def test_rows_that_may_not_be_removed(self):
        self.sql(f"GRANT UPDATE ON mail TO {self.user}")
        self.assert_refused("GRANT DELETE ON public.mail", *self.cdc, "--set", "after_publish=delete", url=self.as_user)

    def test_one_who_may_only_read_delivers_and_leaves_the_rows_alone(self):
        self.assert_works(1, *self.cdc, url=self.as_user)
        self.sql("INSERT INTO mail SELECT")
        self.assert_works(2, *self.cdc, url=self.as_user)
        self.assertEqual(self.column("SELECT DISTINCT status FROM mail"), ["PENDING"])

    def test_a_generated_column_is_not_in_the_stream(self):
        self.sql("ALTER TABLE mail ADD COLUMN topic text GENERATED ALWAYS AS ('t-' || event_type) STORED")
        if self.server.version >= 18:
            self.skipTest("a publication of this version can have generated columns")
        done = self.run_outrider("relay", "--from", self.url, "--to", self.sink, "--once", *self.cdc, code=1)
        self.assertRegex(done.err, "column 'topic' is generated")
        self.assertEqual(self.delivered(), [])

    def test_a_type_that_cannot_be_written(self):
        done = self.run_outrider("relay", "--from", self.url, "--to", self.sink, "--once", *self.cdc, "--set",
                                 "after_publish=mark", "--set", "map.published=processed_at", code=1)
        self.assertRegex(done.err, "column 'processed_at' .*map.published needs a boolean")
        self.assertEqual(self.delivered(), [])


class NotNull(StartTest):
    """Columns that settling would empty, and that must hold something."""

    def insert(self, n=1, **columns):
        names = ", ".join(columns) or "aggregate_id"
        values = ", ".join(columns.values()) or "'a' || i"
        self.sql(f"INSERT INTO mail ({names}) SELECT {values} FROM generate_series(1, {n}) i")

    def test_namastacks_next_retry_at_gets_the_time_of_the_settle(self):
        self.sql(TABLE % "failure_count int NOT NULL DEFAULT 0, next_retry_at timestamptz NOT NULL, last_error text NOT NULL "
                 "DEFAULT 'none', completed_at timestamptz")
        self.insert(2, aggregate_id="'a' || i", next_retry_at="now()")
        self.insert(1, event_type="'%s'" % LONG, next_retry_at="now()")
        self.relay_once("--table", "mail", env=RETRY, code=3)
        self.assertEqual(self.sql("SELECT status, next_retry_at IS NOT NULL FROM mail ORDER BY status"),
                         [["DEAD", "t"], ["FAILED", "t"], ["PUBLISHED", "t"]])
        self.assertEqual(self.value("SELECT last_error FROM mail WHERE status = 'PUBLISHED'"), "none")
        self.sql("UPDATE mail SET next_retry_at = now() WHERE status = 'FAILED'")
        self.run_outrider("dead", "retry", "--db", self.url, "--table", "mail", "--all")
        self.sql("UPDATE mail SET event_type = 'Mended' WHERE status = 'PENDING'")
        self.relay_once("--table", "mail")
        self.assertEqual(self.sql("SELECT status, count(*) FROM mail GROUP BY 1"), [["PUBLISHED", "3"]])

    def test_a_lock_that_is_never_null_is_given_back_all_the_same(self):
        self.sql("CREATE DOMAIN owner AS varchar(40) NOT NULL DEFAULT ''")
        self.sql(TABLE % "attempts int NOT NULL DEFAULT 0, updated_at timestamp NOT NULL DEFAULT now(), "
                 "locked_by owner, locked_at timestamptz NOT NULL DEFAULT 'epoch', last_error_code text NOT NULL DEFAULT ''")
        self.insert(3, aggregate_id="'a'")
        self.relay_once("--table", "mail", "--set", "ordered=false", "--set", "retry.delays=[1ms]", env=RETRY, code=None)
        self.wait_until_published("--set", "ordered=false", "--set", "retry.delays=[1ms]")
        self.assertEqual(self.sql("SELECT DISTINCT status, locked_by, locked_at = 'epoch' FROM mail"),
                         [["PUBLISHED", "", "t"]])

    def wait_until_published(self, *args):
        self.start_relay("--table", "mail", *args)
        self.wait_for("SELECT count(*) FROM mail WHERE status <> 'PUBLISHED'", "0")

    def test_an_owner_of_type_uuid_has_no_value_that_says_nobody(self):
        self.sql(TABLE % "locked_by uuid NOT NULL, locked_until timestamptz NOT NULL DEFAULT now()")
        self.insert(1, locked_by="gen_random_uuid()")
        self.assert_refused("column 'locked_by' .*is NOT NULL.*ALTER COLUMN locked_by DROP NOT NULL.*map.locked_by: '-'",
                            "--table", "mail")
        self.assert_works(1, "--table", "mail", "--set", "map.locked_by=-")

    def test_a_mark_that_is_never_null_marks_nothing(self):
        self.sql("CREATE TABLE mail (id bigserial PRIMARY KEY, aggregate_id text, payload jsonb, "
                 "published_at timestamptz NOT NULL DEFAULT now())")
        self.sql("INSERT INTO mail (aggregate_id, payload) VALUES ('a', '{}')")
        self.assert_refused("column 'published_at' .*is NOT NULL.*DROP NOT NULL", "--table", "mail")

    def test_not_null_as_a_check_counts_too(self):
        self.sql(TABLE % "attempts int NOT NULL DEFAULT 0, next_retry_at timestamptz CHECK (next_retry_at IS NOT NULL)")
        self.insert(1, next_retry_at="now()")
        self.assert_works(1, "--table", "mail")


class Unique(StartTest):
    def make(self, *more):
        self.sql("CREATE TABLE mail (nr int, aggregate_id text, payload jsonb, published boolean NOT NULL DEFAULT false)")
        for statement in more:
            self.sql(statement)
        self.sql("INSERT INTO mail (nr, aggregate_id, payload) VALUES (1, 'a', '{}'), (2, 'b', '{}')")
        return ("--table", "mail", "--set", "map.id=nr")

    def test_an_id_without_a_unique_index_is_refused_with_the_statement_that_mends_it(self):
        args = self.make("ALTER TABLE mail ALTER nr SET NOT NULL")
        err = self.assert_refused("column 'nr' \\(map.id\\) has no unique index", *args)
        self.sql(re.search("; (CREATE UNIQUE INDEX [^;]*);", err).group(1).replace(" CONCURRENTLY", ""))
        self.assert_works(2, *args)

    def test_an_id_that_may_be_null(self):
        args = self.make("CREATE UNIQUE INDEX ON mail (nr)")
        err = self.assert_refused("column 'nr' \\(map.id\\) may be NULL", *args)
        self.sql(re.search("; (ALTER TABLE [^;]*);", err).group(1))
        self.assert_works(2, *args)

    def test_what_looks_unique_and_is_not(self):
        args = self.make("ALTER TABLE mail ALTER nr SET NOT NULL")
        for statement in ("CREATE UNIQUE INDEX x ON mail (nr) WHERE published", "CREATE UNIQUE INDEX x ON mail (nr, aggregate_id)",
                          "CREATE UNIQUE INDEX x ON mail (abs(nr))", "CREATE INDEX x ON mail (nr)"):
            with self.subTest(statement):
                self.sql(statement)
                self.assert_refused("no unique index", *args)
                self.sql("DROP INDEX x")
        self.sql("ALTER TABLE mail ADD CONSTRAINT x UNIQUE (nr) DEFERRABLE")
        self.assert_refused("no unique index", *args)

    def test_one_column_of_a_primary_key_of_two(self):
        self.sql("CREATE TABLE mail (tenant int, id int, aggregate_id text, payload jsonb, published boolean NOT NULL "
                 "DEFAULT false, PRIMARY KEY (tenant, id))")
        self.sql("INSERT INTO mail VALUES (1, 1, 'a', '{}'), (2, 1, 'b', '{}')")
        self.assert_refused("column 'id' \\(map.id\\) has no unique index", "--table", "mail")

    def test_a_partitioned_table_needs_an_id_that_is_unique_by_itself(self):
        self.script("CREATE TABLE mail (id text, day date, aggregate_id text, payload jsonb, published boolean NOT NULL DEFAULT "
                    "false, PRIMARY KEY (id, day)) PARTITION BY RANGE (day); CREATE TABLE mail_all PARTITION OF mail DEFAULT")
        self.sql("INSERT INTO mail VALUES ('1', '2026-01-01', 'a', '{}'), ('1', '2026-01-02', 'b', '{}')")
        self.assert_refused("partitioned table needs an id of type uuid", "--table", "mail")


class Types(StartTest):
    def test_a_column_whose_type_does_not_fit_is_refused(self):
        self.sql(TABLE % "text_time text, ms bigint, num numeric, flag boolean, code int, doc json, at timestamptz")
        self.sql("INSERT INTO mail SELECT")
        for option, column, error in (("created_at", "text_time", "type text.*needs a timestamp"),
                                      ("occurred_at", "ms", "bigint.*map.epoch: s, ms, us or ns"),
                                      ("expires_at", "flag", "type boolean.*needs a timestamp"),
                                      ("seq", "at", "needs an integer"), ("partition", "text_time", "needs an integer"),
                                      ("headers", "flag", "needs JSON"), ("published", "at", "needs a boolean"),
                                      ("attempts", "text_time", "needs an integer"), ("last_error", "code", "needs text"),
                                      ("locked_by", "code", "needs text or uuid"), ("claim", "at", "needs an integer"),
                                      ("status", "doc", "needs text, an enum")):
            with self.subTest(option):
                self.assert_refused(f"column '{column}'.*{error}", "--table", "mail", "--set", f"map.{option}={column}")

    def test_one_column_for_two_things_that_are_written(self):
        self.sql(TABLE % "at timestamptz")
        self.assert_refused("column 'at' is both map.published_at and map.next_attempt_at", "--table", "mail", "--set",
                            "map.published_at=at", "--set", "map.next_attempt_at=at")

    def test_what_the_server_cannot_cast_is_known_at_the_start(self):
        self.sql("CREATE TYPE pair AS (a int, b int)")
        self.sql(TABLE % "last_error pair")
        self.sql("INSERT INTO mail SELECT")
        self.assert_refused("cannot mark events as failed: .*types text and pair", "--table", "mail", "--set", "map.last_error=last_error")

    def test_domains_over_domains_are_read_and_written(self):
        self.script("CREATE DOMAIN d1 AS varchar(12); CREATE DOMAIN d2 AS d1; CREATE DOMAIN at AS timestamptz; "
                    "CREATE DOMAIN n AS bigint; " + TABLE % "last_error d2, attempts n DEFAULT 0, next_retry_at at")
        self.sql("INSERT INTO mail SELECT")
        self.relay_once("--table", "mail", env=RETRY, code=3)
        self.assertEqual(self.sql("SELECT status, attempts, length(last_error) FROM mail"), [["FAILED", "1", "12"]])

    def test_generated_columns_are_read_and_not_taken_for_what_is_written(self):
        self.sql("CREATE TABLE mail (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, aggregate_id text, body jsonb, "
                 "payload text GENERATED ALWAYS AS (body->>'x') STORED, published_at timestamptz, status text GENERATED ALWAYS "
                 "AS (CASE WHEN published_at IS NULL THEN 'PENDING' ELSE 'PUBLISHED' END) STORED)")
        self.sql("INSERT INTO mail (aggregate_id, body) VALUES ('a', '{\"x\": 7}')")
        args = ("--table", "mail", "--set", "map.payload=payload")
        self.assert_refused("column 'status' \\(map.status\\) is GENERATED ALWAYS", *args, "--set", "map.status=status")
        self.assert_works(1, *args)
        self.assertEqual(self.value("SELECT status FROM mail"), "PUBLISHED")

    def test_a_view_and_a_table_with_a_rule_instead(self):
        self.sql(TABLE % "at timestamptz")
        self.sql("INSERT INTO mail SELECT")
        self.sql("CREATE VIEW letters AS SELECT * FROM mail")
        self.assert_refused("letters is a view", "--table", "letters")
        self.sql("CREATE RULE nothing AS ON UPDATE TO mail DO INSTEAD NOTHING")
        self.assert_refused("rule that does something else INSTEAD of UPDATE", "--table", "mail")

    def test_a_payload_of_any_type_is_delivered_as_text(self):
        self.sql(TABLE % "amount numeric DEFAULT 1.50, num int DEFAULT 7")
        self.sql("INSERT INTO mail SELECT")
        for column, text in (("amount", 1.5), ("num", 7)):
            self.relay_once("--table", "mail", "--set", f"map.payload={column}", "--name", column)
            self.assertEqual([r["payload"] for r in self.delivered()][-1], text)
            self.sql("UPDATE mail SET status = 'PENDING'")


if __name__ == "__main__":
    unittest.main(verbosity=2)
