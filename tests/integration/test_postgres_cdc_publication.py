# SPDX-License-Identifier: MIT
"""A publication that is made anew, or does without the outbox for a while: the server
reads its log through the publication as it was at each place, so events that were
committed meanwhile are not in the stream. The relay stops and says so, and what the
table holds is delivered after `slot drop` and `resync`."""
import unittest

from pgcdc import CdcTest
from pgserver import Server
from test_postgres_versions import bin_of

WITH = "WITH (publish = 'insert', publish_via_partition_root = true)"
# What takes the outbox out, and what puts the outbox back.
CHANGES = {
    "made anew": ("DROP PUBLICATION {0}", "CREATE PUBLICATION {0} FOR TABLE outbox " + WITH),
    "without the table": ("ALTER PUBLICATION {0} DROP TABLE outbox", "ALTER PUBLICATION {0} ADD TABLE outbox"),
    "with another table": ("ALTER PUBLICATION {0} SET TABLE other", "ALTER PUBLICATION {0} SET TABLE outbox"),
    "without inserts": ("ALTER PUBLICATION {0} SET (publish = 'update')", "ALTER PUBLICATION {0} SET (publish = 'insert')"),
}
REASON = "publication {0} was made anew or altered.*`outrider slot drop` and `outrider resync`, both with --name {1}"


class PublicationTest(CdcTest):
    major = 15

    @classmethod
    def setUpClass(cls):
        cls.server = Server(bin_of(cls.major), **cls.settings)
        cls.addClassCleanup(cls.server.remove)
        cls.server.initialise()
        cls.server.start()
        cls.template = None

    def setUp(self):
        super().setUp()
        self.owner("CREATE TABLE other (id int PRIMARY KEY)")

    def alter(self, statement):
        self.owner(statement.format(self.slot))

    def begin(self):
        """A pipeline that reads the stream, and has delivered something of it."""
        self.commit_event("old")
        self.once()
        self.commit_event("new")
        self.once()
        self.assertEqual((self.cursor("mode"), self.delivered_labels()), ("cdc", ["old", "new"]))

    def reason(self):
        return REASON.format(self.slot, self.name)

    def refused(self, *args):
        done = self.once(*args, code=1)
        self.assertRegex(done.err, self.reason())

    def stopped(self, relay):
        self.wait_log(relay, self.reason())
        self.assertEqual(relay.join(), 1, relay.err())
        self.check_log(relay)

    def mend(self, *args):
        self.run_outrider("slot", "drop", "--db", self.url, "--name", self.name, *args)
        self.run_outrider("resync", "--db", self.url, "--name", self.name, *args)

    def delivers_all(self):
        """Each change starts over: what was delivered before may come again."""
        self.mend()
        self.commit_event("behind")
        self.once()
        self.assertEqual(sorted(set(self.delivered_labels())), sorted(set(self.outbox_labels())))
        self.commit_event("last")
        self.once()
        self.assertEqual(self.delivered_labels()[-1], "last")


class Changed:
    def test_while_no_relay_runs(self):
        self.begin()
        for name, (out, back) in CHANGES.items():
            with self.subTest(name):
                self.alter(out)
                self.commit_event("meanwhile, " + name)
                self.alter(back)
                self.commit_event("after, " + name)
                self.refused()
                self.refused()
                self.delivers_all()

    def test_while_a_relay_runs(self):
        for name, (out, back) in CHANGES.items():
            with self.subTest(name):
                relay = self.relay()
                self.wait_streaming(relay)
                self.commit_event("before, " + name)
                self.wait_label("before, " + name, relay=relay)
                # Over before the relay looks, mostly.
                self.server.script(f"{out.format(self.slot)}; {self.insert('meanwhile, ' + name)}; {back.format(self.slot)}; "
                                   f"{self.insert('after, ' + name)}", self.database)
                self.stopped(relay)
                self.refused()
                self.delivers_all()

    def test_that_does_not_come_back(self):
        self.begin()
        for name, (out, back) in CHANGES.items():
            with self.subTest(name):
                relay = self.relay()
                self.wait_streaming(relay)
                self.alter(out)
                self.commit_event("meanwhile, " + name)
                self.stopped(relay)
                self.refused()
                self.alter(back)
                self.refused()
                self.delivers_all()

    def test_a_relay_that_ends_in_order_just_after_the_change(self):
        for name, (out, back) in CHANGES.items():
            with self.subTest(name):
                relay = self.relay()
                self.wait_streaming(relay)
                self.commit_event("before, " + name)
                self.wait_label("before, " + name, relay=relay)
                self.server.script(f"{out.format(self.slot)}; {self.insert('meanwhile, ' + name)}; {back.format(self.slot)}",
                                   self.database)
                relay.stop()
                self.refused()
                self.delivers_all()

    def test_the_way_back_to_polling_is_refused_too(self):
        self.begin()
        out, back = CHANGES["without the table"]
        self.alter(out)
        self.commit_event("meanwhile")
        self.alter(back)
        done = self.once(mode="poll", code=1)
        self.assertRegex(done.err, self.reason())
        self.mend()
        self.once(mode="poll")
        self.assertEqual(sorted(set(self.delivered_labels())), ["meanwhile", "new", "old"])

    def test_a_table_that_is_read_by_its_map(self):
        self.owner("CREATE TABLE events (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype text, "
                   "aggregateid text, type text, payload jsonb)")
        self.owner("GRANT ALL ON events TO relay")
        self.alter("ALTER PUBLICATION {0} SET TABLE events")
        table = ("--table", "events")
        row = "INSERT INTO events (aggregatetype, aggregateid, type, payload) VALUES ('order', 'k', 'changed', '{\"n\": \"%s\"}')"
        for label in ("old", "new"):
            self.owner(row % label)
            self.once(*table)
        self.alter("ALTER PUBLICATION {0} DROP TABLE events")
        self.owner(row % "meanwhile")
        self.alter("ALTER PUBLICATION {0} ADD TABLE events")
        self.refused(*table)
        self.mend(*table)
        self.once(*table)
        self.assertEqual(sorted(set(self.delivered_labels())), ["meanwhile", "new", "old"])


class Unchanged:
    def check(self, *statements):
        """With a relay and without one."""
        relay = self.relay()
        self.wait_streaming(relay)
        for statement in statements:
            self.alter(statement)
            self.commit_event("running")
            self.wait_confirmed()
        self.stop_relay(relay)
        self.assertNotIn("altered", relay.err())
        self.once()

    def test_other_tables_come_and_go(self):
        self.begin()
        self.check("ALTER PUBLICATION {0} ADD TABLE other", "ALTER PUBLICATION {0} DROP TABLE other",
                   "ALTER PUBLICATION {0} SET TABLE outbox, other")
        self.alter("ALTER PUBLICATION {0} SET TABLE outbox")
        self.commit_event("last")
        self.once()
        self.assertEqual(self.delivered_labels(), self.outbox_labels())

    def test_vacuum_of_the_catalogue(self):
        self.begin()
        for how in ("FREEZE", "FULL"):
            for table in ("pg_publication", "pg_publication_rel"):
                self.owner(f"VACUUM ({how}) {table}")
            self.once()

    def test_all_tables(self):
        self.alter("DROP PUBLICATION {0}")
        self.alter("CREATE PUBLICATION {0} FOR ALL TABLES")
        self.begin()
        self.owner("CREATE TABLE third (id int)")
        self.once()
        self.alter("DROP PUBLICATION {0}")
        self.commit_event("meanwhile")
        self.alter("CREATE PUBLICATION {0} FOR ALL TABLES")
        self.refused()
        self.delivers_all()

    def test_all_tables_of_a_schema(self):
        self.alter("DROP PUBLICATION {0}")
        self.alter("CREATE PUBLICATION {0} FOR TABLES IN SCHEMA public")
        self.begin()
        self.owner("CREATE SCHEMA elsewhere")
        self.check("ALTER PUBLICATION {0} ADD TABLES IN SCHEMA elsewhere")
        self.alter("ALTER PUBLICATION {0} DROP TABLES IN SCHEMA public")
        self.commit_event("meanwhile")
        self.alter("ALTER PUBLICATION {0} ADD TABLES IN SCHEMA public")
        self.refused()
        self.delivers_all()

    def test_a_publication_that_is_younger_than_a_transaction_that_still_runs(self):
        """The slot's catalog_xmin is older than the publication then."""
        slow = self.owner_session()
        slow.begin()
        slow.execute("INSERT INTO other VALUES (1)")
        self.alter("DROP PUBLICATION {0}")
        self.alter("CREATE PUBLICATION {0} FOR TABLE outbox " + WITH)
        relay = self.relay()
        self.wait_log(relay, "to make the slot")
        slow.commit()
        self.wait_streaming(relay)
        self.stop_relay(relay)
        self.commit_event("a")
        self.once()
        self.assertEqual(self.delivered_labels(), ["a"])

    def test_a_pipeline_of_before_is_recorded(self):
        self.begin()
        self.owner("UPDATE outrider_cursor SET published = '{}'")
        self.once()
        self.assertNotEqual(self.cursor("published"), "{}")
        self.alter("DROP PUBLICATION {0}")
        self.alter("CREATE PUBLICATION {0} FOR TABLE outbox " + WITH)
        self.refused()


class Changed15(Changed, PublicationTest):
    pass


class Changed18(Changed, PublicationTest):
    major = 18


class Unchanged15(Unchanged, PublicationTest):
    pass


class Unchanged18(Unchanged, PublicationTest):
    major = 18


class Changed14(PublicationTest):
    """Without publications of schemas."""
    major = 14

    def test_while_no_relay_runs(self):
        Changed.test_while_no_relay_runs(self)


if __name__ == "__main__":
    unittest.main()
