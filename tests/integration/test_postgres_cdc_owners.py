# SPDX-License-Identifier: MIT
"""A replication slot has one owner, and whoever is not the owner leaves it alone."""
import unittest

from harness import wait_until
from pgcdc import CdcTest


class Owners(CdcTest):
    def drop_slot(self):
        """Of every pipeline in this test's database."""
        def are_gone():
            mine = f"database = '{self.database}'"
            self.owner(f"SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE {mine} AND active")
            self.owner(f"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE {mine} AND NOT active")
            return not self.slots()
        wait_until(are_gone, "the slots to be dropped")

    def slots(self):
        return [name for (name,) in self.owner("SELECT slot_name FROM pg_replication_slots WHERE database = "
                                               "current_database() ORDER BY 1")]

    def once_as(self, name, *args, url=None, sink=None, code=0):
        return self.run_outrider("relay", "--from", url or self.owner_url, "--to", sink or self.sink, "--mode", "cdc", "--name",
                                 name, "--once", *args, code=code)

    def test_names_that_look_alike_to_a_slot_have_slots_of_their_own(self):
        names = ("a-b", "a.b", "A_B", "a_b", "x" * 60 + "1", "x" * 60 + "2")
        self.commit_event("one")
        for i, name in enumerate(names):
            self.once_as(name, sink=f"file:{self.path('to')}{i}")
        self.commit_event("two")
        self.assertEqual(len(self.slots()), len(names), self.slots())
        self.assertIn("outrider_a_b", self.slots())
        for i, name in enumerate(names):
            done = self.once_as(name, "--log-level", "info", sink=f"file:{self.path('to')}{i}")
            lines = self.run_outrider("tail", f"{self.path('to')}{i}", "order.changed").out.splitlines()
            self.assertEqual(len(lines), 2, f"{name}: {lines}\n{done.err}")

    def test_a_slot_without_a_cursor_is_refused_and_kept(self):
        self.owner(f"SELECT pg_create_logical_replication_slot('{self.slot}', 'pgoutput')")
        self.commit_event("held by the slot")
        for _ in range(2):
            done = self.once(code=1)
            self.assertRegex(done.err, f"slot {self.slot} is there, and no pipeline.*owns.*outrider slot drop --name {self.name}")
            self.assertEqual(self.slots(), [self.slot])
        self.run_outrider("slot", "drop", "--db", self.owner_url, "--name", self.name)
        self.once()
        self.assertEqual(self.delivered_labels(), ["held by the slot"])

    def test_a_slot_without_a_cursor_keeps_its_reader(self):
        self.once()
        relay = self.relay()
        self.wait_streaming(relay)
        reader = self.slot_value("active_pid")
        self.owner("UPDATE outrider_cursor SET slot = '', mode = 'poll'")
        other = self.server.create_database(type(self).template)
        self.addCleanup(self.server.forget, other)
        self.server.query(f"CREATE PUBLICATION {self.slot} FOR TABLE outbox WITH (publish = 'insert', "
                          "publish_via_partition_root = true)", other)
        self.run_outrider("relay", "--from", self.server.url(other), "--to", "null:", "--mode", "cdc", "--name", self.name, "--once")
        self.assertEqual(self.slot_value("active_pid"), reader)
        self.stop_relay(relay)

        def is_dropped():
            return self.server.query("SELECT count(pg_drop_replication_slot(slot_name)) FROM pg_replication_slots WHERE "
                                     f"database = '{other}' AND NOT active", other) and not self.server.query(
                                         f"SELECT 1 FROM pg_replication_slots WHERE database = '{other}'", other)
        wait_until(is_dropped, "the other database's slot to be dropped")

    def test_one_name_on_two_schemas_has_two_slots(self):
        self.owner("CREATE SCHEMA sales")
        url = self.owner_url + ("&" if "?" in self.owner_url else "?") + "options=-csearch_path%3Dsales"
        self.run_outrider("init", "--db", url)
        self.commit_event("public")
        self.owner("INSERT INTO sales.outbox (aggregate_type, aggregate_id, event_type, payload) VALUES ('order', 'k', 'changed', "
                   "'{\"n\": \"sales\"}')")
        for _ in range(2):
            self.once_as(self.name)
            self.once_as(self.name, url=url, sink=f"file:{self.path('sales')}")
            self.commit_event("public")
        slots = self.slots()
        self.assertEqual(len(slots), 2)
        self.assertIn(self.slot, slots)
        self.assertEqual(self.delivered_labels(), ["public", "public"])
        self.assertEqual(len(self.run_outrider("tail", self.path("sales"), "order.changed").out.splitlines()), 1)

    def test_status_and_slot_drop_know_a_name_with_a_hash(self):
        self.commit_event("one")
        self.once_as("a-b")
        (slot,) = self.slots()
        self.assertRegex(slot, "^outrider_a_b_[0-9a-f]{16}$")
        self.assertIn(slot, self.run_outrider("status", "--db", self.owner_url, "--name", "a-b").out)
        self.assertIn(slot, self.run_outrider("slot", "drop", "--db", self.owner_url, "--name", "a-b").out)
        self.assertEqual(self.slots(), [])
        self.run_outrider("resync", "--db", self.owner_url, "--name", "a-b")
        self.commit_event("two")
        self.once_as("a-b")
        self.assertLessEqual({"one", "two"}, set(self.delivered_labels()))


if __name__ == "__main__":
    unittest.main()
