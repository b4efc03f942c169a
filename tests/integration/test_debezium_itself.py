# SPDX-License-Identifier: MIT
"""Debezium and the relay read the same tables by the same connector files, each into
topics of its own: what they publish must be the same, byte for byte, and where they
make JSON themselves, the same JSON. One half of the rows is there at the start, the
other comes by the stream."""
import json
import os
import unittest

import connectserver
import harness
import kafkaserver
import pgtest

cluster = None
STRING = "org.apache.kafka.connect.storage.StringConverter"
JSON = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false"}
ROUTER = "transforms.outbox."
TABLE = ("id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype varchar(255) NOT NULL, "
         "aggregateid varchar(255) NOT NULL, type varchar(255) NOT NULL, payload ")
PAYLOADS = ['{"a": {"b": [1, 2, {"c": null}]}}', "[]", '"text"', "null", "12.50", '{"b":1, "a":2}', None]
TEXTS = PAYLOADS + ["", "  ", "\n", "no json", "{broken", ' {"a": 1}', "é € \U0001f600"]


def payloads(values):
    return [{"aggregateid": "k%d" % i, "payload": p} for i, p in enumerate(values)]


# Name: columns, properties of the connector, options of the router, rows.
CASES = {
    "defaults": (TABLE + "jsonb", {}, {}, payloads(PAYLOADS)),
    "texts": (TABLE + "text", {}, {}, payloads(TEXTS)),
    "tombstones": (TABLE + "text", {}, {"route.tombstone.on.empty.payload": "true"}, payloads(TEXTS)),
    "bytes": (TABLE + "bytea", {"value.converter": "io.debezium.converters.BinaryDataConverter"}, {},
              payloads(["\\x00ff10", "\\x", "\\x6869", None])),
    "envelope": (TABLE + "text, n int, large bigint, is_new boolean, f float8, u uuid, none text", JSON,
                 {"table.fields.additional.placement": "type:envelope:eventType,type:header,n:envelope,"
                                                       "large:envelope,is_new:envelope,f:envelope,u:envelope,"
                                                       "none:envelope"},
                 [dict(row, n=7, large=8000000000, is_new="t", f="1.5", u="c0ffee00-0000-4000-8000-000000000000")
                  for row in payloads(TEXTS)]),
    "expanded": (TABLE + "text", JSON, {"table.expand.json.payload": "true",
                                        "table.fields.additional.placement": "type:envelope",
                                        "route.tombstone.on.empty.payload": "true"},
                 payloads(['{"a": {"b": [1, 2], "c": "x"}, "d": true, "e": 1.5}', "no json", "{broken", "", None])),
    # "id:header" adds nothing, and case and white space do not matter.
    "columns": ("id bigserial PRIMARY KEY, aggregatetype text NOT NULL, key int, type text, payload text, "
                "part int, at timestamp(3), n numeric(10,2), j jsonb, empty text", {},
                {"table.field.event.key": "key", "table.field.event.timestamp": "at",
                 "table.fields.additional.placement": "id:header,part:partition,n:HEADER, j : header : doc,"
                                                      "empty:header",
                 "table.op.invalid.behavior": "ERROR"},
                [{"key": 1, "payload": "a", "part": 2, "at": "2026-01-02 03:04:05.678", "n": "12.50",
                  "j": '{"a": 1}', "empty": ""},
                 {"key": 2, "payload": "b", "part": None, "at": "2026-01-02 03:04:05.678", "n": "-1", "j": "[]",
                  "empty": ""}]),
    # Neither the table's order nor the alphabet's.
    "ordered": (TABLE + "text, b text, a text, zz text, m text", {},
                {"table.fields.additional.placement": "zz:header,a:header:longer,type:header,m:header,b:header",
                 "table.field.event.type": "no_such_column", "tracing.span.context.field": "no_such_column",
                 "tracing.operation.name": "x", "tracing.with.context.field.only": "true"},
                [dict(row, b="1", a="2", zz="3", m="4") for row in payloads(["x", "y"])]),
    "placed": (TABLE + "text, b text, a text, zz text", JSON,
               {"table.fields.additional.placement": "zz:envelope:a,b:header:x,a:header,type:envelope,b:envelope:x,"
                                                     "type:header,zz:header:payload,none:header:no",
                "table.fields.additional.error.on.missing": "false"},
               [dict(row, b="1", a="2", zz="3") for row in payloads(["x", "y"])]),
    # A missing column in the envelope stops Debezium 3.4 (a NullPointerException); later versions leave it out.
    "missing": (TABLE + "text, n int, is_null text", JSON,
                {"table.fields.additional.placement": "gone:header,n:envelope,part:partition,"
                                                      "is_null:envelope,type:header",
                 "table.fields.additional.error.on.missing": "false"},
                [dict(row, n=1) for row in payloads(["x", "y", "", None])]),
}


def setUpModule():
    global cluster
    kafkaserver.need()
    if not connectserver.jars():
        raise unittest.SkipTest("no Debezium")
    pgtest.start_server(wal_level="logical", max_replication_slots=40, max_wal_senders=40)
    cluster = kafkaserver.Cluster(auto_create_topics_enable="false").start()


def tearDownModule():
    if cluster is not None:
        pgtest.stop_server()
        cluster.close()


def literal(value):
    return "NULL" if value is None else "'" + str(value).replace("'", "''") + "'"


class Compared(pgtest.PostgresTest):
    maxDiff = None

    def connector(self, case, topic):
        _, properties, router, _ = CASES[case]
        return {"name": case, "config": {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector", "tasks.max": "1",
            "database.hostname": "127.0.0.1", "database.port": str(self.server.port),
            "database.user": self.server.user, "database.password": "none", "database.dbname": self.database,
            "topic.prefix": case, "table.include.list": "public." + case, "plugin.name": "pgoutput",
            "slot.name": "debezium_" + case, "publication.name": "debezium_" + case,
            # The relay's own logical messages would be published too, and stop a BinaryDataConverter.
            "message.prefix.exclude.list": "outrider.*",
            "publication.autocreate.mode": "filtered", "key.converter": STRING, "value.converter": STRING,
            "transforms": "outbox", "transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter",
            "transforms.outbox.route.topic.replacement": topic, **properties,
            **{"transforms.outbox." + name: value for name, value in router.items()}}}

    def make(self, case):
        self.script("CREATE TABLE %s (%s)" % (case, CASES[case][0]))
        for who in ("theirs", "ours"):
            cluster.create_topic("%s.%s" % (who, case), 3, retention_ms=-1)

    def insert(self, case, rows):
        for row in rows:
            row = dict({"aggregatetype": "order", "type": "Made"}, **row)
            self.script("INSERT INTO %s (%s) VALUES (%s)" % (case, ", ".join(row),
                                                             ", ".join(map(literal, row.values()))))

    def read(self, who, case):
        """Of each key: payload, headers, partition, and the time where a column gives it."""
        seen = {}
        has_time = "table.field.event.timestamp" in CASES[case][2]
        is_json = CASES[case][1] is JSON
        for m in cluster.read("%s.%s" % (who, case)):
            headers = [h for h in m["headers"].items() if not h[0].startswith("__debezium.")]
            payload = json.loads(m["payload"]) if is_json and m["payload"] else m["payload"]
            seen.setdefault(m["key"], []).append(
                (payload, headers, m["partition"], m["timestamp"] if has_time else None))
        return seen

    def test_the_same_is_published(self):
        halves = {case: len(rows) // 2 for case, (_, _, _, rows) in CASES.items()}
        for case, (_, _, _, rows) in CASES.items():
            self.make(case)
            self.insert(case, rows[:halves[case]])
        connect = connectserver.Connect(cluster, os.path.join(self.dir, "connect"))
        self.addCleanup(connect.stop)
        connect.run([self.connector(case, "theirs." + case) for case in CASES], "-Xmx1G", *kafkaserver.JAVA_FLAGS)
        for case in CASES:
            self.relay(case)
            self.wait_for_theirs(connect, case, halves[case])
        for case, (_, _, _, rows) in CASES.items():
            self.insert(case, rows[halves[case]:])
            self.relay(case)
        for case, (_, _, _, rows) in CASES.items():
            with self.subTest(case=case):
                self.wait_for_theirs(connect, case, len(rows))
                self.assertEqual(self.read("ours", case), self.read("theirs", case))

    def relay(self, case):
        path = self.path(case + ".json", json.dumps(self.connector(case, "ours." + case)))
        self.run_outrider("relay", "--debezium", path, "--to", cluster.url, "--once")

    def wait_for_theirs(self, connect, case, n):
        harness.wait_until(lambda: connect.check(case) or len(cluster.read("theirs." + case)) == n,
                           "Debezium's " + case, harness.DEADLINE * 2)


class Properties(pgtest.PostgresTest):
    def test_every_property_of_debezium_and_of_kafka_connect_is_known(self):
        connect = connectserver.Connect(cluster, os.path.join(self.dir, "connect"))
        self.addCleanup(connect.stop)
        connect.run([], "-Xmx512M", *kafkaserver.JAVA_FLAGS)
        connector = {
            "name": "x", "connector.class": "io.debezium.connector.postgresql.PostgresConnector", "topic.prefix": "x",
            "database.hostname": "127.0.0.1", "database.port": str(self.server.port), "database.dbname": self.database,
            "database.user": self.server.user, "database.password": "none", "table.include.list": "public.outbox",
            "transforms": "outbox", ROUTER + "type": "io.debezium.transforms.outbox.EventRouter"}
        all_of_them = connect.properties(connector)
        router = {name for name in all_of_them if name.startswith(ROUTER)}
        self.assertGreater(len(router), 15)
        self.assertGreater(len(all_of_them), 140)
        path = self.path("c.json", json.dumps({**{n: v or "" for n, v in all_of_them.items()}, **connector}))
        r = self.run_outrider("check", "--debezium", path, "--to", "null:")
        self.assertIn("heartbeat.interval.ms", r.err)
        self.assertNotIn("not known", r.err)
        self.assertNotIn(ROUTER, r.err.replace(ROUTER + "negate", "").replace(ROUTER + "predicate", "").replace(
            ROUTER + "plugin.version", ""))
        with open(os.path.join(harness.SOURCE, "docs", "guides", "debezium.md"), encoding="utf-8") as f:
            guide = f.read()
        own = {"type", "negate", "predicate", "plugin.version"}
        self.assertEqual([n for n in sorted(router) if n[len(ROUTER):] not in own and
                          "`%s`" % n[len(ROUTER):] not in guide], [])


if __name__ == "__main__":
    harness.main()
