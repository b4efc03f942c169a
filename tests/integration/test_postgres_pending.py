# SPDX-License-Identifier: MIT
"""When everything is delivered, `status` says that nothing is pending: for every kind
of table, read by polling or from the log, by a relay that ends by itself or is stopped."""
import json
import os
import unittest

import harness
import pgtest

DEBEZIUM = ("CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype varchar(255) NOT NULL, "
            "aggregateid varchar(255) NOT NULL, type varchar(255) NOT NULL, payload jsonb)")

# Name: what makes the table (a seed, or SQL; None: init), its arguments, an INSERT for key and number.
KINDS = {
    "log": (None, [], "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) "
                      "VALUES ('order', '{key}', 'Made', '{n}')"),
    "status": (None, ["--layout", "status"], "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) "
                                             "VALUES ('order', '{key}', 'Made', '{n}')"),
    "words": ("000_outbox", [], "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, created_at) "
                                "VALUES ('order', '{key}', 'Made', '{n}', now())"),
    "claims": ("001_outbox_orders", ["--table", "outbox_orders"],
               "INSERT INTO outbox_orders (idempotency_key, order_request_json, request_digest, status) "
               "VALUES ('{key}-{n}', '{n}', '-', 'pending')"),
    "time": ("002_outbox", [], "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) "
                               "VALUES ('order', '{key}', 'Made', '{n}')"),
    "boolean": ("004_outbox_event", ["--table", "outbox_event"],
                "INSERT INTO outbox_event (id, type, aggregate_id, payload, published, created_at) "
                "VALUES ({n}, 'Made', 1, '{n}', false, now())"),
    "unmarked": (DEBEZIUM, ["--set", "source.mode=cdc"],
                 "INSERT INTO outbox (aggregatetype, aggregateid, type, payload) "
                 "VALUES ('order', '{key}', 'Made', '{n}')"),
    "two": ("002_per_aggregate", ["--table", "order_outbox", "--table", "payment_outbox"],
            "INSERT INTO order_outbox (order_id, event_type, payload) VALUES ('{key}', 'Made', '{n}'); "
            "INSERT INTO payment_outbox (payment_id, event_type, payload) VALUES ('{key}', 'Made', '{n}')"),
}


def setUpModule():
    pgtest.start_server(wal_level="logical", max_replication_slots=40, max_wal_senders=40)


def tearDownModule():
    pgtest.stop_server()


class Pending(pgtest.PostgresTest):
    def setUp(self):
        super().setUp()
        self.addCleanup(self.script, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE "
                                     "database = current_database() AND NOT active")

    def make(self, kind):
        what, self.args, self.insert = KINDS[kind]
        layout = [a for a in self.args if a in ("--layout", "status")]
        self.args = [a for a in self.args if a not in layout]
        if what is not None:
            self.script(pgtest.seed(what) if os.path.exists(os.path.join(pgtest.SEEDS, what + ".sql")) else what)
        if what is None:
            self.run_outrider("init", "--db", self.url, *layout)
        self.n = 0

    def write(self, n):
        for _ in range(n):
            self.n += 1
            self.script(self.insert.format(key="k%d" % (self.n % 3), n=self.n))

    def pending(self):
        (row,) = self.run_outrider("status", "--db", self.url, "--name", self.database, "--json",
                                   *self.args).json()["pipelines"]
        return row["pending"]

    def relay(self, mode, *args):
        return ["relay", "--from", self.url, "--to", self.sink, "--name", self.database, "--mode", mode, *self.args,
                *args]

    def wait_delivered(self, n):
        harness.wait_until(lambda: len(self.delivered()) >= n, "%d events" % n)

    def check(self, kind, mode):
        self.make(kind)
        tables = 2 if kind == "two" else 1
        self.write(2)
        self.run_outrider(*self.relay(mode, "--once"))
        self.assertEqual(self.pending(), 0, "after the rows that were there")
        self.write(3)
        self.assertEqual(self.pending(), 3 * tables, "before the stream")
        self.run_outrider(*self.relay(mode, "--once"))
        self.assertEqual(self.pending(), 0, "after the stream")
        b = self.start(*self.relay(mode, "--log-level", "info"))
        b.wait_for_log("connected and active")
        self.write(1)
        self.wait_delivered(6 * tables)
        harness.wait_until(lambda: self.pending() == 0, "nothing to be pending")
        self.write(1)
        self.wait_delivered(7 * tables)
        self.assertEqual(b.stop(), 0)
        self.assertEqual(self.pending(), 0, "after a stop")
        self.assertEqual(len(self.delivered()), 7 * tables)
        self.assertEqual([row for row in self.delivered() if row["timestamp"] < "2000"], [])


def add(kind, mode):
    def test(self):
        self.check(kind, mode)
    setattr(Pending, "test_%s_by_%s" % (kind, mode), test)


for one in KINDS:
    for how in ("poll", "cdc"):
        if (one, how) != ("unmarked", "poll"):  # which is refused: nothing says what is new
            add(one, how)


class Connector(pgtest.PostgresTest):
    def test_nothing_is_pending_after_the_connector_of_document_002(self):
        self.script(pgtest.seed("002_outbox"))
        with open(os.path.join(pgtest.SEEDS, "002_connector.json"), encoding="utf-8") as f:
            connector = json.load(f)
        connector["config"].update({
            "database.hostname": "127.0.0.1", "database.port": str(self.server.port),
            "database.user": self.server.user, "database.password": "none", "database.dbname": self.database})
        path = self.path("c.json", json.dumps(connector))
        for n in (1, 2):
            self.script("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) VALUES "
                        "('order', 'o-1', 'OrderCreated', '{}')")
            self.run_outrider("relay", "--debezium", path, "--to", self.sink, "--name", self.database, "--once")
            self.assertEqual(len(self.delivered()), n)
            for where in (["--debezium", path], ["--db", self.url]):
                (row,) = self.run_outrider("status", *where, "--name", self.database, "--json").json()["pipelines"]
                self.assertEqual(row["pending"], 0, where)
        self.script("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active")


if __name__ == "__main__":
    unittest.main()
