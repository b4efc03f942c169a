# SPDX-License-Identifier: MIT
"""Debezium's outbox connectors, run as they are: from a real PostgreSQL into a
real Kafka, and written down as a configuration file that does the same."""
import json
import os
import random
import sys

import harness
import kafkaserver
import pgtest

cluster = None
ROUTER = "io.debezium.transforms.outbox.EventRouter"
POSTGRES = "io.debezium.connector.postgresql.PostgresConnector"


def setUpModule():
    global cluster
    kafkaserver.need()
    pgtest.start_server(wal_level="logical")
    # As it comes, a broker creates topics; Debezium relies on it.
    cluster = kafkaserver.Cluster(auto_create_topics_enable="true").start()


def tearDownModule():
    pgtest.stop_server()
    if cluster is not None:
        cluster.close()


def seed_connector(number):
    path = os.path.join(pgtest.SEEDS, number + "_connector.json")
    with open(path, encoding="utf-8") as f:
        return json.load(f)


class DebeziumTest(pgtest.PostgresTest):
    """Each test has a word of its own for its topics, and a pipeline of that name."""

    mode = "cdc"
    # Columns beside those that the test places anyway.
    place, placed = "", {}
    # What a table must have to be polled; Debezium's own have no such column.
    mark = ""

    def setUp(self):
        super().setUp()
        self.sink = cluster.url
        self.word = "w%08x" % random.getrandbits(32)
        self.addCleanup(self.drop_slots)

    def drop_slots(self):
        self.script("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE "
                    "database = current_database() AND NOT active")

    def database_properties(self):
        server = self.server
        return {"database.hostname": "127.0.0.1", "database.port": str(server.port),
                "database.user": server.user, "database.password": "not needed",
                "database.dbname": self.database}

    def write(self, connector):
        return self.path("connector.json", json.dumps(connector))

    def connector(self, **router):
        config = {"connector.class": POSTGRES, "table.include.list": "public.outbox",
                  "transforms": "outbox", "transforms.outbox.type": ROUTER, "topic.prefix": "x",
                  **self.database_properties()}
        config.update({"transforms.outbox." + name.replace("__", "."): value
                       for name, value in router.items()})
        return {"name": self.word, "config": config}

    def prepare(self, connector, *args):
        """So that what is written now comes by the stream."""
        if self.mode == "cdc":
            self.run_connector(connector, *args)

    def run_connector(self, connector, *args, code=0):
        return self.run_outrider("relay", "--debezium", self.write(connector), "--to", self.sink,
                                 "--mode", self.mode, "--once", *args, code=code)

    def read(self, topic):
        return [dict(m, key=m["key"].decode(), payload=m["payload"] and m["payload"].decode())
                for m in cluster.read(topic)]

    def make_table(self, more=""):
        """As Debezium's documentation has it."""
        self.script("CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), "
                    "aggregatetype varchar(255) NOT NULL, aggregateid varchar(255) NOT NULL, "
                    "type varchar(255) NOT NULL, payload jsonb%s%s)" % (self.mark, more))

    def insert(self, **values):
        row = dict({"aggregatetype": self.word, "aggregateid": "42", "type": "Made",
                    "payload": '{"a": 1}'}, **values)
        self.sql("INSERT INTO outbox (%s) VALUES (%s)" % (
            ", ".join(row), ", ".join("NULL" if v is None else "'%s'" % v for v in row.values())))


class Connectors:
    """What holds in either mode."""

    def test_the_connector_of_document_002_runs_as_it_is(self):
        self.script(pgtest.seed("002_outbox"))
        connector = seed_connector("002")
        connector["config"].update(self.database_properties())
        self.prepare(connector, "--name", self.word)
        self.sql("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, topic, "
                 "partition_key) SELECT '%s', 'o-' || i %% 2, 'OrderCreated', jsonb_build_object('n', "
                 "i), 'elsewhere', 'other' FROM generate_series(1, 6) i" % self.word)
        r = self.run_connector(connector, "--name", self.word)
        self.assertIn("'aggregate_type' for 'aggregatetype'", r.err)
        self.assertIn("JsonConverter", r.err)
        ids = dict(self.sql("SELECT payload->>'n', id FROM outbox"))
        messages = self.read(self.word)
        self.assertEqual([m["payload"] for m in messages if m["key"] == "o-1"],
                         ['{"n": %d}' % i for i in (1, 3, 5)])
        self.assertEqual(len(messages), 6)
        for m in messages:
            n = json.loads(m["payload"])["n"]
            self.assertEqual(m["key"], "o-%d" % (n % 2))
            self.assertEqual(m["headers"], {"id": ids[str(n)], "aggregateType": self.word})

    def test_the_connector_of_document_000_runs_once_it_is_told_where(self):
        self.script(pgtest.seed("000_outbox"))
        self.sql("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, created_at) "
                 "VALUES ('%s', 'order-1', 'OrderCreated', '{\"n\": 1}', now())" % self.word)
        connector = seed_connector("000")
        r = self.run_connector(connector, code=2)
        self.assertIn("--from", r.err)
        r = self.run_connector(connector, "--from", "mysql://nobody@127.0.0.1:1/orders", code=2)
        self.assertIn("mysql", r.err)
        self.run_connector(connector, "--name", self.word, "--from", self.url)
        (m,) = self.read("outbox.event." + self.word)
        self.assertEqual((m["key"], m["payload"], m["headers"]), ("order-1", '{"n": 1}', {"id": "1"}))

    def test_the_defaults_are_those_of_debezium(self):
        self.make_table()
        self.prepare(self.connector())
        self.insert()
        self.insert(aggregateid="43", payload=None)
        self.run_connector(self.connector())
        first, second = sorted(self.read("outbox.event." + self.word), key=lambda m: m["key"])
        (uid,) = self.column("SELECT id FROM outbox WHERE aggregateid = '42'")
        self.assertEqual((first["key"], first["payload"], first["headers"]),
                         ("42", '{"a": 1}', {"id": uid}))
        self.assertIsNone(second["payload"])

    def test_columns_are_placed_in_headers_envelope_and_partition(self):
        self.make_table(", tenant text, version int, part int, at timestamptz, is_new boolean, "
                        "amount numeric, tags jsonb, day date")
        topic = "t-" + self.word
        cluster.create_topic(topic, 4)
        connector = self.connector(
            table__fields__additional__placement="type:header:eventType,tenant:header,"
                                                 "version:envelope:v,type:envelope:kind,part:partition,"
                                                 "id:envelope:uid,tags:envelope,day:envelope" + self.place,
            table__field__event__timestamp="at", table__expand__json__payload="true",
            route__topic__regex="(.)(?<rest>.*)", route__topic__replacement="t-$1${rest}")
        self.prepare(connector)
        self.insert(tenant="x y", version=7, part=3, at="2026-01-02T03:04:05.678Z", is_new="t",
                    amount="12.50", tags='{"a": [1, null]}', day="2026-02-03")
        self.insert(tenant=None, version=8, part=1, at="2026-01-02T03:04:05.678Z")
        self.run_connector(connector)
        uid = self.value("SELECT id FROM outbox WHERE version = 7")
        second, first = self.read(topic)
        self.assertEqual((first["partition"], second["partition"]), (3, 1))
        self.assertEqual(first["timestamp"], 1767323045678)
        self.assertEqual(json.loads(first["payload"]),
                         {"payload": {"a": 1}, "v": 7, "kind": "Made", "uid": uid,
                          "tags": {"a": [1, None]}, "day": "2026-02-03", **self.placed})
        self.assertIsNone(json.loads(second["payload"])["tags"])
        self.assertEqual(first["headers"]["eventType"], "Made")
        self.assertNotIn("tenant", second["headers"])
        self.assertNotIn("v", first["headers"])

    def test_an_empty_payload_is_a_tombstone_where_asked_and_a_missing_column_can_be_ignored(self):
        self.script("CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), "
                    "aggregatetype text, aggregateid text, type text, payload text%s)" % self.mark)
        self.insert(payload="")
        placement = {"table__fields__additional__placement": "nowhere:header"}
        r = self.run_connector(self.connector(**placement), code=1)
        self.assertIn("'nowhere'", r.err)
        placement["table__fields__additional__error__on__missing"] = "false"
        self.run_connector(self.connector(route__tombstone__on__empty__payload="true", **placement))
        (m,) = self.read("outbox.event." + self.word)
        self.assertIsNone(m["payload"])

    def test_what_is_printed_does_the_same(self):
        self.make_table(", tenant text")
        connector = self.write(self.connector(
            table__fields__additional__placement="tenant:header,type:envelope",
            route__topic__regex="(?<word>.*)", route__topic__replacement="${word}\\$"))
        r = self.run_outrider("check", "--debezium", connector, "--to", self.sink, "--set",
                              "source.mode=" + self.mode)
        self.assertNotIn("not needed", r.out)
        self.assertIn("topic.prefix", r.err)
        path = self.path("outrider.yaml", r.out.replace("$$", "-"))
        self.run_outrider("check", "-c", path)
        self.insert(tenant="z")
        self.run_outrider("relay", "-c", path, "--once", env={"PGPASSWORD": "not needed"})
        (m,) = self.read(self.word + "-")
        self.assertEqual(m["payload"], '{"payload":"{\\"a\\": 1}","type":"Made"}')
        self.assertEqual(m["headers"]["tenant"], "z")


class Polled(Connectors, DebeziumTest):
    mode = "poll"
    mark = ", published_at timestamptz"


class Streamed(Connectors, DebeziumTest):
    def test_a_publication_of_debeziums_is_used_as_it_is(self):
        self.make_table()
        self.script("CREATE TABLE other (n int PRIMARY KEY); CREATE PUBLICATION dbz FOR ALL TABLES")
        connector = self.connector()
        connector["config"].update({"publication.name": "dbz", "slot.name": "debezium"})
        self.prepare(connector)
        self.sql("INSERT INTO other SELECT generate_series(1, 100)")
        self.insert()
        self.sql("UPDATE outbox SET type = 'Changed'; UPDATE other SET n = -n; DELETE FROM other")
        self.insert(aggregateid="43")
        self.sql("DELETE FROM outbox; TRUNCATE outbox")
        r = self.run_connector(connector)
        self.assertIn("slot.name", r.err)
        self.assertEqual(sorted(m["key"] for m in self.read("outbox.event." + self.word)), ["42", "43"])
        self.assertEqual(self.column("SELECT pubname FROM pg_publication"), ["dbz"])


class StreamedAsText(DebeziumTest):
    """One column whose type cannot be read in binary form makes all of them text."""

    place = ",is_new:envelope,amount:envelope,at:envelope"
    placed = {"is_new": True, "amount": 12.5, "at": "2026-01-02T03:04:05.678+00:00"}
    test_columns = Connectors.test_columns_are_placed_in_headers_envelope_and_partition


class Errors(harness.OutriderTest):
    def test_usage(self):
        path = self.path("c.json", json.dumps(seed_connector("002")))
        r = self.run_outrider("check", "--debezium", path, "-c", path, code=2)
        self.assertIn("--debezium", r.err)
        r = self.run_outrider("check", "--debezium", self.path("no.json"), code=2)
        self.assertIn("no.json", r.err)
        r = self.run_outrider("check", "--debezium", self.path("bad.json", "[1]"), code=2)
        self.assertIn("bad.json: this is not a connector's configuration", r.err)


if __name__ == "__main__":
    sys.exit(harness.main())
