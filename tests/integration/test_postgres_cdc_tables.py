# SPDX-License-Identifier: MIT
"""Mode cdc over tables that are not our log: with a mark or without, one or
several; and what becomes of a row once it is published."""
import unittest

from harness import wait_until
from pgcdc import CdcTest

DEBEZIUM = ("CREATE TABLE {0} (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype varchar(255) NOT NULL, "
            "aggregateid varchar(255) NOT NULL, type varchar(255) NOT NULL, payload jsonb)")
MAP = ("map.id=id", "map.aggregate_type=aggregatetype", "map.aggregate_id=aggregateid", "map.event_type=type",
       "map.payload=payload")


def sets(*options):
    return [word for option in options for word in ("--set", option)]


class TablesTest(CdcTest):
    tables = ("events",)

    def make_outbox(self, server, database):
        super().make_outbox(server, database)
        for table in self.tables:
            server.script(DEBEZIUM.format(table) + f"; GRANT ALL ON {table} TO app, relay", database)

    def publish(self):
        self.owner(f"CREATE PUBLICATION {self.slot} FOR TABLE {', '.join(self.tables)} "
                   "WITH (publish = 'insert', publish_via_partition_root = true)")

    def arguments(self):
        return [word for table in self.tables for word in ("--table", table)]

    def relay(self, *args, **how):
        return super().relay(*self.arguments(), *args, **how)

    def once(self, *args, **how):
        return super().once(*self.arguments(), *args, **how)

    def write(self, label, key="k", table=None):
        self.owner(f"INSERT INTO {table or self.tables[0]} (aggregatetype, aggregateid, type, payload) "
                   f"VALUES ('order', '{key}', 'changed', '{{\"n\": \"{label}\"}}')")


class SameInEveryMode(TablesTest):
    """What comes from columns is the same from the rows that were there and from the
    stream, in the configured order; and no message is of 1970."""
    columns = {"b_text": ("text", "'x'"), "a_int": ("int", "7"), "n": ("numeric(10,2)", "12.50"),
               "big": ("bigint", "8000000000"), "yes": ("boolean", "true"), "f": ("float8", "1.5"),
               "u": ("uuid", "'c0ffee00-0000-4000-8000-000000000000'"), "doc": ("json", "'{\"b\":1,  \"a\": [1.50]}'"),
               "docb": ("jsonb", "'{\"b\":1,  \"a\": [1.50]}'"), "day": ("date", "'2026-02-03'"),
               "at": ("timestamp", "'2026-01-02 03:04:05.678'"),
               "atz": ("timestamptz", "'2026-01-02 03:04:05.678+02'"), "none": ("text", "NULL"),
               "whole": ("timestamp", "'2026-01-02 03:04:05'"), "exact": ("timestamptz", "'2026-01-02 03:04:05.123456Z'"), "ever": ("timestamptz", "'infinity'"),
               "never": ("timestamp", "'-infinity'"), "doom": ("date", "'infinity'")}
    order = ["ever", "never", "doom", "yes", "n", "atz", "b_text", "none", "docb", "a_int", "big", "u", "doc", "day", "at", "f", "whole", "exact"]

    def insert(self, key):
        self.owner("INSERT INTO events (aggregatetype, aggregateid, type, payload, %s) VALUES ('order', '%s', "
                   "'changed', '{}', %s)" % (", ".join(self.columns), key,
                                             ", ".join(v for _, v in self.columns.values())))

    def check(self, names, *more):
        self.owner(f"ALTER DATABASE {self.database} SET timezone = 'Asia/Kolkata'")
        self.owner("ALTER TABLE events " + ", ".join("ADD COLUMN %s %s" % (n, t) for n, (t, _) in self.columns.items()))
        options = sets(*MAP, "map.header_columns={%s}" % ", ".join("h-%s: %s" % (n, n) for n in names), *more)
        self.insert("first")
        self.once(*options)
        self.insert("second")
        self.once(*options)
        self.sink_rows.read()
        first, second = self.sink_rows.rows
        self.assertEqual((first["key"], second["key"]), ("first", "second"))
        for row in (first, second):
            self.assertGreater(row["timestamp"], "2026-01-02")
            row["headers"].pop("event-id")
        self.assertEqual(list(first["headers"].items()), list(second["headers"].items()))
        return first, second

    def test_in_binary_form(self):
        names = [n for n in self.order if n not in ("n", "yes", "f")]
        first, _ = self.check(names)
        self.assertEqual(list(first["headers"])[2:], ["h-" + n for n in names if n != "none"])

    def test_as_text(self):
        first, _ = self.check(self.order)
        self.assertEqual(list(first["headers"])[2:], ["h-" + n for n in self.order if n != "none"])

    def test_as_members_of_an_object(self):
        first, second = self.check(self.order + ["gone"], "map.missing_columns=ignore", "form=object",
                                   "object.members=[%s]" % ", ".join("h-%s=%s" % (n, n) for n in self.order + ["gone"]))
        self.assertEqual(list(first["payload"]), ["payload"] + self.order)
        self.assertEqual(first["payload"], second["payload"])


class BesideItsOwn(TablesTest):
    def test_a_header_of_the_events_own_wins_and_what_is_no_object_is_passed_over(self):
        self.owner("ALTER TABLE events ADD COLUMN headers json, ADD COLUMN tenant text")
        options = sets(*MAP, "map.header_columns={h-tenant: tenant}")
        for _ in range(2):
            for own in ("'{\"z\": \"1\", \"own\": \"2\"}'", "'{\"h-tenant\": \"own\"}'", "NULL", "'[1]'", "'null'"):
                self.owner("INSERT INTO events (aggregatetype, aggregateid, type, payload, tenant, headers) VALUES "
                           f"('order', 'k', 'changed', '{{}}', 't', {own})")
            self.once(*options)
        self.sink_rows.read()
        seen = [[h for h in row["headers"].items() if h[0] in ("h-tenant", "z", "own")] for row in self.sink_rows.rows]
        plain = [("h-tenant", "t")]
        wanted = [plain + [("z", "1"), ("own", "2")], [("h-tenant", "own")], plain, plain, plain]
        # Without a number and a time the rows that were there have no order.
        self.assertEqual(sorted(seen[:5]), sorted(wanted))
        self.assertEqual(seen[5:], wanted)


class WithoutMark(TablesTest):
    def test_existing_rows_come_first_and_then_the_stream_and_nothing_comes_twice(self):
        for n in range(5):
            self.write(f"old{n}")
        relay = self.relay(*sets(*MAP))
        self.wait_streaming(relay)
        self.write("new")
        self.wait_label("new", relay=relay)
        labels = self.delivered_labels()
        self.assertEqual(sorted(labels[:5]), [f"old{n}" for n in range(5)])
        self.assertEqual(labels[5:], ["new"])
        row = self.sink_rows.rows[-1]
        self.assertEqual((row["topic"], row["key"]), ("order.changed", "k"))
        self.stop_relay(relay)
        self.write("while away")
        self.once(*sets(*MAP))
        self.assertEqual(self.delivered_labels()[6:], ["while away"])

    def test_a_row_that_is_deleted_in_its_own_transaction_is_delivered(self):
        self.once()
        self.server.script("BEGIN; INSERT INTO events (aggregatetype, aggregateid, type, payload) VALUES "
                           "('order', 'k', 'changed', '{\"n\": \"gone\"}'); DELETE FROM events; COMMIT", self.database)
        self.once()
        self.assertEqual(self.delivered_labels(), ["gone"])

    def test_a_payload_of_any_size_is_swept(self):
        for size in (10, 9000, 100000, 300000):
            self.owner("INSERT INTO events (aggregatetype, aggregateid, type, payload) VALUES ('order', 'k', "
                       f"'changed', jsonb_build_object('n', '{size}', 'x', repeat('x', {size})))")
        self.once(*sets("max_payload=200kB"), code=3)
        self.assertEqual(sorted(self.delivered_labels()), ["10", "100000", "9000"])
        self.assertEqual(self.owner("SELECT error_code, octet_length(payload) > 300000 FROM outrider_parked"),
                         [("TOO_LARGE", "t")])
        self.owner("INSERT INTO events (aggregatetype, aggregateid, type, payload) VALUES ('order', 'k', "
                   "'changed', jsonb_build_object('n', 'big', 'x', repeat('x', 400000)))")
        self.once(*sets("max_payload=200kB"), code=3)
        self.assertEqual(self.owner("SELECT count(*) FROM outrider_parked WHERE octet_length(payload) > 400000"),
                         [("1",)])

    def test_killed_in_the_sweep_it_begins_anew_and_loses_nothing(self):
        for n in range(30):
            self.write(f"e{n}", key=str(n % 3))
        for point in ("cdc.slot_made=kill", "cdc.sweep=kill@2", "cdc.after_settle=kill@2", "cdc.plan_saved=kill"):
            relay = self.relay(*sets("source.batch=5"), env={"OUTRIDER_FAILPOINTS": point}, wait=False)
            relay.join()
        self.write("last")
        self.once()
        self.assertEqual(set(self.delivered_labels()), {f"e{n}" for n in range(30)} | {"last"})

    def test_an_open_transaction_holds_up_the_slot_and_is_named_and_nothing_is_lost(self):
        slow = self.owner_session()
        slow.begin()
        slow.execute("INSERT INTO events (aggregatetype, aggregateid, type, payload) "
                     "VALUES ('order', 's', 'changed', '{\"n\": \"slow\"}')")
        relay = self.relay(wait=False)
        pid = slow.value("SELECT pg_backend_pid()")
        self.wait_log(relay, rf"nothing is delivered while the server waits.*server process {pid}")
        self.write("meanwhile")
        slow.commit()
        self.wait_label("slow", "meanwhile", relay=relay)
        self.wait_streaming(relay)
        self.write("after")
        self.wait_label("after", relay=relay)
        self.assertEqual(len(self.delivered_labels()), 3)
        self.stop_relay(relay)

    def test_delete_removes_what_is_published_and_nothing_else(self):
        self.write("old")
        relay = self.relay(*sets("after_publish=delete"))
        self.wait_streaming(relay)
        self.write("new")
        self.owner("INSERT INTO events (aggregatetype, aggregateid, type, payload) VALUES (repeat('x', 250), 'bad', "
                   "'changed', '{\"n\": \"poison\"}')")
        self.wait_label("old", "new", relay=relay)
        wait_until(lambda: self.owner("SELECT state FROM outrider_parked") == [("dead",)], "a dead letter")
        wait_until(lambda: self.owner("SELECT payload->>'n' FROM events") == [("poison",)], "the rows to be removed")
        self.stop_relay(relay)

    def test_every_command_answers_for_a_table_without_a_mark(self):
        self.owner("CREATE VIEW seen AS SELECT 1 AS id")
        for mode in ("cdc", "poll"):
            for table in ("outbox", "events", "seen", "missing"):
                for command in (("doctor", "--from"), ("status", "--db"), ("dead", "list", "--db"), ("resync", "--db"),
                                ("cleanup", "--retention", "1h", "--db")):
                    done = self.run_outrider(*command, self.owner_url, "--table", table, "--set", "source.mode=" + mode, code=None)
                    self.assertIn(done.code, (0, 1), str(done))

    def test_mark_is_refused_where_nothing_can_be_marked(self):
        done = self.once(*sets("after_publish=mark"), code=1)
        self.assertRegex(done.err, "after_publish: mark: public.events has no column.*use delete or none")


class NotYetVisible(TablesTest):
    """A commit that waits for a standby is in the stream before anybody sees its rows."""
    settings = {**CdcTest.settings, "synchronous_standby_names": "nobody", "synchronous_commit": "local"}

    def test_a_row_is_removed_although_it_is_delivered_before_it_is_visible(self):
        relay = self.relay(*sets("after_publish=delete"))
        self.wait_streaming(relay)
        writer = self.session()
        writer.execute("SET synchronous_commit = on")
        writer.start("INSERT INTO events (aggregatetype, aggregateid, type, payload) "
                     "VALUES ('order', 'k', 'changed', '{\"n\": \"early\"}')")
        self.wait_label("early", relay=relay)
        self.assertEqual(self.owner("SELECT count(*) FROM events"), [("0",)], "nobody sees it yet")
        self.owner("ALTER SYSTEM SET synchronous_standby_names = ''")
        self.owner("SELECT pg_reload_conf()")
        writer.wait()
        wait_until(lambda: int(self.cursor("delivered_total")) == 1, "the event to be settled")
        self.assertEqual(self.owner("SELECT count(*) FROM events"), [("0",)])
        self.stop_relay(relay)
        self.assertEqual(self.delivered_labels(), ["early"])


class Several(TablesTest):
    tables = ("events", "orders_outbox", '"Third Table"')

    def test_several_tables_feed_one_pipeline(self):
        for n, table in enumerate(self.tables):
            self.write(f"old{n}", str(n), table)
        relay = self.relay(*sets("after_publish=delete"))
        self.wait_streaming(relay)
        for n, table in enumerate(self.tables):
            self.write(f"new{n}", str(n), table)
        self.wait_label(*[f"new{n}" for n in range(3)], relay=relay)
        self.assertEqual(sorted(self.delivered_labels()), [f"{age}{n}" for age in ("new", "old") for n in range(3)])
        for table in self.tables:
            wait_until(lambda t=table: self.owner(f"SELECT count(*) FROM {t}") == [("0",)], f"{table} to be empty")
        self.stop_relay(relay)

    def test_a_parked_event_is_tried_again_and_its_row_goes_with_it(self):
        self.once(*sets("after_publish=delete"))
        self.owner("INSERT INTO orders_outbox (aggregatetype, aggregateid, type, payload) VALUES "
                   "(repeat('x', 250), 'bad', 'changed', '{\"n\": \"poison\"}')")
        self.once(*sets("after_publish=delete"), code=3)
        self.owner("UPDATE outrider_parked SET aggregate_type = 'order'")
        self.run_outrider("dead", "retry", "--db", self.url, "--all", *self.arguments(), "--set", "source.mode=cdc")
        self.once(*sets("after_publish=delete"))
        self.assertEqual(self.delivered_labels(), ["poison"])
        self.assertEqual(self.owner("SELECT count(*) FROM orders_outbox"), [("0",)])

    def test_a_table_that_is_new_in_the_pipeline_is_refused(self):
        all_of_them = self.tables
        self.tables = all_of_them[:2]
        self.once()
        self.tables = all_of_them
        self.assertRegex(self.once(code=1).err, '"Third Table" is new in pipeline')
        self.tables = all_of_them[1::-1]
        self.assertRegex(self.once(code=1).err, "is not its first table")


class WithMark(CdcTest):
    init_arguments = ("--layout", "status")

    def unpublished(self):
        return [n for (n,) in self.owner("SELECT payload->>'n' FROM outbox WHERE status <> 'PUBLISHED' ORDER BY seq")]

    def test_polling_delivers_while_the_slot_is_made_and_nothing_comes_twice(self):
        self.commit_event("polled")
        self.once(mode="poll")
        slow = self.session()
        slow.begin()
        slow.execute(self.insert("slow", "s"))
        relay = self.relay()
        self.commit_event("meanwhile")
        self.wait_label("meanwhile", relay=relay)
        slow.commit()
        self.wait_label("slow", relay=relay)
        self.wait_streaming(relay)
        self.commit_event("streamed")
        self.wait_label("streamed", relay=relay)
        self.assert_all_delivered(duplicates=False)
        self.assertEqual(self.unpublished(), ["streamed"])
        self.stop_relay(relay)

    def test_under_load_the_move_neither_loses_nor_doubles(self):
        with self.load("a", "b") as loads:
            relay = self.relay(mode="poll")
            for load in loads:
                load.wait(30)
            self.stop_relay(relay)
            relay = self.relay(*sets("after_publish=mark"))
            self.wait_streaming(relay)
            for load in loads:
                load.wait(30)
        self.assert_all_delivered(loads, duplicates=False)
        wait_until(lambda: self.unpublished() == [], "every row to be marked")
        self.stop_relay(relay)

    def test_clean_up_removes_what_is_marked(self):
        relay = self.relay(*sets("after_publish=mark", "cleanup.retention=1ms", "cleanup.every=50ms"))
        self.wait_streaming(relay)
        self.commit_event("a")
        self.wait_label("a", relay=relay)
        wait_until(lambda: self.owner("SELECT count(*) FROM outbox") == [("0",)], "the row to be removed")
        self.stop_relay(relay)

    def test_polling_is_refused_until_the_slot_is_dropped_and_then_takes_what_is_not_marked(self):
        self.commit_event("a")
        self.once(*sets("after_publish=mark"))
        self.commit_event("b")
        refused = self.once(mode="poll", code=1)
        self.assertRegex(refused.err, "is in mode cdc; start it with --mode cdc.*slot drop.*resync")
        self.run_outrider("slot", "drop", "--db", self.url, "--name", self.name)
        report = self.run_outrider("resync", "--db", self.url, "--name", self.name)
        self.assertRegex(report.out, "every row that is not marked as published is delivered")
        self.once(mode="poll")
        self.assertEqual(self.delivered_labels(), ["a", "b"])

    def test_status_shows_the_slot(self):
        self.commit_event("a")
        self.once(*sets("after_publish=mark"))
        row = self.run_outrider("status", "--db", self.url, "--name", self.name, "--json").json()["pipelines"][0]
        self.assertEqual((row["pending"], row["slot"]["name"], row["slot"]["lost"]), (0, self.slot, False))

    def test_status_counts_no_delivered_row_as_pending_though_none_is_marked(self):
        relay = self.relay()
        self.wait_streaming(relay)
        self.commit_event("a")
        self.wait_label("a", relay=relay)
        wait_until(lambda: self.run_outrider("status", "--db", self.url, "--name", self.name,
                                             "--json").json()["pipelines"][0]["pending"] == 0, "nothing to be pending")
        self.assertEqual(self.unpublished(), ["a"])
        self.stop_relay(relay)

    def test_failed_and_dead_rows_of_polling_are_taken_along(self):
        self.owner("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, status) VALUES "
                   "('order', 'f', 'changed', '{\"n\": \"failed\"}', 'FAILED'), "
                   "('order', 'd', 'changed', '{\"n\": \"dead\"}', 'DEAD_LETTER')")
        self.commit_event("behind", "f")
        self.once(*sets("after_publish=mark"), code=3)
        self.assertEqual(self.delivered_labels(), ["failed", "behind"])
        self.assertEqual(self.unpublished(), ["dead"])

    def test_exactly_once_is_refused_for_tables_without_a_log(self):
        result = self.run_outrider("relay", "--from", self.url, "--to", "kafka://127.0.0.1:1", "--mode", "cdc", "--once",
                                   "--set", "exactly_once=true", code=1)
        self.assertIn("layout log", result.err)


if __name__ == "__main__":
    unittest.main()
