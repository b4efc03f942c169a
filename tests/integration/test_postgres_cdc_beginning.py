# SPDX-License-Identifier: MIT
"""existing_rows: skip, which is Debezium's snapshot.mode no_data: a new pipeline begins
with what is committed from then on."""
import unittest

from harness import wait_until
from pgcdc import CdcTest

SKIP = ("--set", "source.existing_rows=skip")
TABLE = ("CREATE TABLE events (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype text NOT NULL, aggregateid text "
         "NOT NULL, type text NOT NULL, payload jsonb{}); GRANT ALL ON events TO app, relay")
MAP = [word for option in ("map.id=id", "map.aggregate_type=aggregatetype", "map.aggregate_id=aggregateid",
                           "map.event_type=type", "map.payload=payload") for word in ("--set", option)]


class OwnLog(CdcTest):
    arguments = ()

    def write(self, label):
        self.commit_event(label)

    def begin(self, *args, **how):
        return self.once(*self.arguments, *SKIP, *args, **how)

    def test_rows_from_before_are_never_delivered(self):
        self.write("before")
        self.begin()
        self.write("after")
        self.begin()
        self.assertEqual(self.delivered_labels(), ["after"])
        self.once(*self.arguments)
        self.assertEqual(self.delivered_labels(), ["after"])

    def test_what_is_committed_while_it_begins_is_delivered(self):
        self.write("before")
        relay = self.relay(*self.arguments, *SKIP)
        self.wait_streaming(relay)
        self.write("after")
        self.wait_label("after", relay=relay)
        self.stop_relay(relay)
        self.assertEqual(self.delivered_labels(), ["after"])

    def test_cut_short_it_begins_anew_without_the_rows(self):
        self.write("before")
        for point in ("cdc.make_slot", "cdc.slot_made", "cdc.plan_saved"):
            self.begin(code=-9, env={"OUTRIDER_FAILPOINTS": f"{point}=kill"})
            wait_until(lambda: self.active_backend() is None, "the killed relay's session to end")
        self.write("after")
        self.begin()
        self.assertEqual(self.delivered_labels(), ["after"])

    def test_after_a_lost_slot_resync_delivers_what_the_table_holds(self):
        self.begin()
        self.write("after")
        self.run_outrider("slot", "drop", "--db", self.owner_url, "--name", self.name, *self.arguments[:2])
        self.run_outrider("resync", "--db", self.owner_url, "--name", self.name, *self.arguments[:2])
        self.begin()
        self.assertEqual(self.delivered_labels(), ["after"])

    def test_polling_cannot_skip(self):
        self.assertIn("existing_rows", self.begin(mode="poll", code=2).err)

    def test_nothing_is_pending_at_the_beginning(self):
        self.write("before")
        self.begin()
        status = self.run_outrider("status", "--db", self.owner_url, "--name", self.name, "--json").json()
        self.assertEqual([row["pending"] for row in (status if isinstance(status, list) else status["pipelines"])], [0])

    def test_a_pipeline_that_polled_before_keeps_its_place(self):
        self.write("polled")
        self.once(*self.arguments, mode="poll")
        self.write("not yet")
        self.begin()
        self.assertEqual(self.delivered_labels(), ["polled", "not yet"])


class OtherTable(OwnLog):
    arguments = ("--table", "events", *MAP)
    mark = ""

    def make_outbox(self, server, database):
        super().make_outbox(server, database)
        server.script(TABLE.format(self.mark), database)

    def publish(self):
        self.owner(f"CREATE PUBLICATION {self.slot} FOR TABLE events WITH (publish = 'insert')")

    def write(self, label):
        self.owner("INSERT INTO events (aggregatetype, aggregateid, type, payload) VALUES ('order', 'k', 'changed', "
                   f"'{{\"n\": \"{label}\"}}')")

    test_nothing_is_pending_at_the_beginning = None
    test_a_pipeline_that_polled_before_keeps_its_place = None


class MarkedTable(OtherTable):
    mark = ", published_at timestamptz"
    test_a_pipeline_that_polled_before_keeps_its_place = OwnLog.test_a_pipeline_that_polled_before_keeps_its_place


if __name__ == "__main__":
    unittest.main()
