# SPDX-License-Identifier: MIT
"""Mode cdc on every supported version of PostgreSQL, shortly: what differs
between versions (publications, slots, the protocol) is used once on each."""
import unittest

from pgcdc import CdcTest
from pgserver import Server
from test_postgres_versions import bin_of


class Version:
    major = None

    @classmethod
    def setUpClass(cls):
        cls.server = Server(bin_of(cls.major), **cls.settings)
        cls.addClassCleanup(cls.server.remove)
        cls.server.initialise()
        cls.server.start()
        cls.template = None

    def test_there_and_back(self):
        self.assertEqual(self.server.version, self.major)
        self.commit_event("old")
        relay = self.relay()
        self.wait_streaming(relay)
        slow = self.session()
        slow.begin()
        slow.execute(self.insert("slow", "s"))
        self.commit_event("new")
        self.emit('{"aggregate_type":"order","aggregate_id":"m","event_type":"changed","payload":{"n":"message"}}')
        slow.commit()
        self.wait_label("old", "new", "message", "slow", relay=relay)
        self.stop_relay(relay)
        status = self.run_outrider("status", "--db", self.url, "--name", self.name, "--json").json()["pipelines"][0]
        self.assertEqual((status["pending"], status["slot"]["lost"]), (0, False))
        relay = self.relay(mode="poll")
        self.wait_mode("poll", relay)
        self.commit_event("polled")
        self.wait_label("polled", relay=relay)
        self.stop_relay(relay)
        self.assertEqual(self.delivered_labels(), ["old", "new", "message", "slow", "polled"])
        self.assertIsNone(self.slot_value("slot_name"))

    def test_a_slot_is_kept_on_standbys_where_the_server_can(self):
        wanted = ("--set", "source.slot_failover=true")
        has_failover = f"SELECT failover FROM pg_replication_slots WHERE slot_name = '{self.slot}'"
        self.commit_event("old")
        if self.major < 17:
            self.assertIn("needs PostgreSQL 17", self.once(*wanted, "--log-level", "info").err)
        else:
            self.once(*wanted)
            self.assertEqual(self.owner(has_failover), [("t",)])
            self.run_outrider("slot", "drop", "--db", self.url, "--name", self.name)
            self.run_outrider("resync", "--db", self.url, "--name", self.name)
            self.once()
            self.assertEqual(self.owner(has_failover), [("f",)])
            # One that is there is altered.
            self.once(*wanted)
            self.assertEqual(self.owner(has_failover), [("t",)])
        self.commit_event("new")
        self.once(*wanted)
        self.assertEqual(self.delivered_labels()[-1], "new")

    def test_a_table_by_its_map(self):
        self.owner("CREATE TABLE events (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype text, "
                   "aggregateid text, type text, payload jsonb)")
        self.owner("GRANT ALL ON events TO relay")
        self.owner(f"ALTER PUBLICATION {self.slot} SET TABLE events")
        for label in ("old", "new"):
            self.owner("INSERT INTO events (aggregatetype, aggregateid, type, payload) VALUES ('order', 'k', "
                       f"'changed', '{{\"n\": \"{label}\"}}')")
            self.once("--table", "events", "--set", "after_publish=delete")
        self.assertEqual(self.delivered_labels(), ["old", "new"])
        self.assertEqual(self.owner("SELECT count(*) FROM events"), [("0",)])


class Postgres14(Version, CdcTest):
    major = 14


class Postgres16(Version, CdcTest):
    major = 16


class Postgres17(Version, CdcTest):
    major = 17


class Postgres18(Version, CdcTest):
    major = 18


if __name__ == "__main__":
    unittest.main()
