# SPDX-License-Identifier: MIT
"""Debezium and the relay read the same tables by the same connector files, each into
topics of its own: what they publish must be the same, byte for byte, and where they
make JSON themselves, the same JSON."""
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
            "publication.autocreate.mode": "filtered", "key.converter": STRING, "value.converter": STRING,
            "transforms": "outbox", "transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter",
            "transforms.outbox.route.topic.replacement": topic, **properties,
            **{"transforms.outbox." + name: value for name, value in router.items()}}}

    def make(self, case):
        columns, _, _, rows = CASES[case]
        self.script("CREATE TABLE %s (%s)" % (case, columns))
        for row in rows:
            row = dict({"aggregatetype": "order", "type": "Made"}, **row)
            self.script("INSERT INTO %s (%s) VALUES (%s)" % (case, ", ".join(row),
                                                             ", ".join(map(literal, row.values()))))
        for who in ("theirs", "ours"):
            cluster.create_topic("%s.%s" % (who, case), 3, retention_ms=-1)

    def read(self, who, case):
        """Of each key: payload, headers, partition, and the time where a column gives it."""
        seen = {}
        has_time = "table.field.event.timestamp" in CASES[case][2]
        is_json = CASES[case][1] is JSON
        for m in cluster.read("%s.%s" % (who, case)):
            headers = {n: v for n, v in m["headers"].items() if not n.startswith("__debezium.")}
            payload = json.loads(m["payload"]) if is_json and m["payload"] else m["payload"]
            seen.setdefault(m["key"], []).append(
                (payload, headers, m["partition"], m["timestamp"] if has_time else None))
        return seen

    def test_the_same_is_published(self):
        for case in CASES:
            self.make(case)
        connect = connectserver.Connect(cluster, os.path.join(self.dir, "connect"))
        self.addCleanup(connect.stop)
        connect.run([self.connector(case, "theirs." + case) for case in CASES], "-Xmx1G", *kafkaserver.JAVA_FLAGS)
        for case in CASES:
            path = self.path(case + ".json", json.dumps(self.connector(case, "ours." + case)))
            self.run_outrider("relay", "--debezium", path, "--to", cluster.url, "--once")
        for case, (_, _, _, rows) in CASES.items():
            with self.subTest(case=case):
                harness.wait_until(lambda: connect.check(case) or
                                   len(cluster.read("theirs." + case)) == len(rows), "Debezium's " + case,
                                   harness.DEADLINE * 2)
                self.assertEqual(self.read("ours", case), self.read("theirs", case))


if __name__ == "__main__":
    harness.main()
