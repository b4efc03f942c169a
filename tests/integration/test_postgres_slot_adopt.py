# SPDX-License-Identifier: MIT
"""`outrider slot adopt`: a pipeline begins exactly where another program's slot stands.
The other program is played here, message by message: what it has published and what
it has noted of that is known. test_debezium_move.py does the same with Debezium."""
import json
import re
import struct
import unittest
import uuid

from harness import wait_until
from pgcdc import CdcTest
from pgserver import SqlError

ROWS = "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) VALUES "
MAP = ("map.id=id", "map.aggregate_type=aggregatetype", "map.aggregate_id=aggregateid", "map.event_type=type",
       "map.payload=payload")


def lsn_of(text):
    high, low = text.split("/")
    return int(high, 16) << 32 | int(low, 16)


class AdoptTest(CdcTest):
    def setUp(self):
        super().setUp()
        self.theirs = "theirs_" + self.database

    def publish(self):
        self.owner("CREATE PUBLICATION dbz_publication FOR ALL TABLES")

    def drop_slot(self):
        """Of every pipeline in this test's database, and the other program's."""
        def are_gone():
            mine = f"database = '{self.database}'"
            self.owner(f"SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE {mine} AND active")
            self.owner(f"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE {mine} AND NOT active")
            return not self.slots()
        wait_until(are_gone, "the slots to be dropped")

    def slots(self):
        return [name for (name,) in self.owner("SELECT slot_name FROM pg_replication_slots WHERE database = "
                                               "current_database() ORDER BY 1")]

    def make_theirs(self, plugin="pgoutput", name=None):
        self.owner(f"SELECT pg_create_logical_replication_slot('{name or self.theirs}', '{plugin}')")

    def adopt(self, *args, name=None, code=0, theirs=None, url=None, env=None):
        return self.run_outrider("slot", "adopt", "--from", theirs or self.theirs, "--db", url or self.owner_url, "--name",
                                 name or self.name, *args, code=code, env=env)

    def write_and_delete(self, *labels, key="k"):
        """As many applications do: the row is never to be seen in the table."""
        rows = ", ".join("('order', '%s', 'changed', '{\"n\": \"%s\"}')" % (key, label) for label in labels)
        self.server.script(f"BEGIN; {ROWS} {rows}; DELETE FROM outbox; COMMIT", self.database)

    def labels_of(self, sink, *args, name=None, mode="cdc"):
        self.run_outrider("relay", "--from", self.url, "--to", sink, "--mode", mode, "--name", name or self.name, "--once",
                          *args)
        out = self.run_outrider("tail", sink[len("file:"):], "order.changed", code=None).out  # there may be none
        return [json.loads(line)["payload"]["n"] for line in out.splitlines()]


class Adopted(AdoptTest):
    def test_what_is_committed_while_nobody_reads_is_delivered_and_nothing_else(self):
        self.commit_event("published, and still in the table")
        self.make_theirs()
        self.write_and_delete("a", "b")
        self.commit_event("c")
        done = self.adopt()
        self.assertRegex(done.out, f"begins where slot {self.theirs} stands .*slot {self.slot}.*publication dbz_publication")
        self.assertIn("No offset was given", done.out)
        self.write_and_delete("d")
        relay = self.relay()
        self.wait_label("d", relay=relay)
        self.commit_event("e")
        self.wait_label("e", relay=relay)
        self.stop_relay(relay)
        self.assertEqual(self.delivered_labels(), ["a", "b", "c", "d", "e"])
        self.assertEqual(self.slots(), sorted([self.slot, self.theirs]))
        self.assertEqual(self.once().code, 0)
        self.assertEqual(len(self.delivered_labels()), 5)

    def test_the_relays_own_role_may_adopt(self):
        self.make_theirs()
        self.write_and_delete("a")
        self.adopt(url=self.url)
        self.once()
        self.assertEqual(self.delivered_labels(), ["a"])

    def test_a_publication_that_is_made_anew_after_the_adoption_is_told(self):
        self.make_theirs()
        self.adopt()
        self.owner("DROP PUBLICATION dbz_publication")
        self.commit_event("meanwhile")
        self.publish()
        self.assertRegex(self.once(code=1).err, "publication dbz_publication was made anew or altered")
        self.run_outrider("slot", "drop", "--db", self.owner_url, "--name", self.name)
        self.run_outrider("resync", "--db", self.owner_url, "--name", self.name)
        self.once("--set", "source.publication=dbz_publication")
        self.assertEqual(self.delivered_labels(), ["meanwhile"])

    def test_another_publication_than_the_one_of_the_adoption_is_refused(self):
        self.make_theirs()
        self.adopt()
        self.owner("CREATE PUBLICATION later FOR TABLE outbox")
        self.commit_event("a")
        self.assertRegex(self.once("--set", "source.publication=later", code=1).err, "publication later was made anew or altered")
        self.once()
        self.assertEqual(self.delivered_labels(), ["a"])

    def test_status_shows_the_slot_and_nothing_pending_from_before_it(self):
        self.commit_event("published")
        self.make_theirs()
        self.adopt()
        status = self.run_outrider("status", "--db", self.owner_url, "--name", self.name, "--json").json()
        row = (status if isinstance(status, list) else status["pipelines"])[0]
        self.assertEqual((row["pending"], row["slot"]["name"]), (0, self.slot), row)

    def test_after_a_lost_slot_resync_delivers_only_what_came_after_the_place(self):
        self.commit_event("published")
        self.make_theirs()
        self.adopt()
        self.commit_event("new")
        self.run_outrider("slot", "drop", "--db", self.owner_url, "--name", self.name)
        self.once(code=1)
        self.run_outrider("resync", "--db", self.owner_url, "--name", self.name)
        self.owner(f"CREATE PUBLICATION {self.slot} FOR TABLE outbox WITH (publish = 'insert')")
        self.once()
        self.assertEqual(self.delivered_labels(), ["new"])
        self.assertEqual(self.cursor("publication"), "")

    def test_the_pipeline_can_go_on_by_polling(self):
        self.commit_event("published")
        self.make_theirs()
        self.write_and_delete("a")
        self.adopt()
        self.commit_event("b")
        self.once(mode="poll")
        self.assertEqual(self.delivered_labels(), ["a", "b"])
        self.commit_event("c")
        self.once(mode="poll")
        self.assertEqual(self.delivered_labels(), ["a", "b", "c"])

        def is_left():
            self.once(mode="poll")
            return self.slots() == [self.theirs]
        wait_until(is_left, "the copy to be dropped")
        self.assertEqual(self.delivered_labels(), ["a", "b", "c"])
        self.assertEqual((self.cursor("mode"), self.cursor("publication")), ("poll", ""))

    def test_clean_up_keeps_what_the_pipeline_has_not_delivered(self):
        self.commit_event("published")
        self.make_theirs()
        self.commit_event("a")
        self.adopt()
        self.run_outrider("cleanup", "--db", self.owner_url, "--retention", "1ms")
        self.assertEqual(self.outbox_labels(), ["a"])
        self.once()
        self.assertEqual(self.delivered_labels(), ["a"])

    def test_several_tables_begin_together(self):
        for table in ("one", "two"):
            self.server.script(f"CREATE TABLE {table} (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype text, "
                               "aggregateid text, type text, payload jsonb); GRANT ALL ON {0} TO relay".format(table),
                               self.database)
        self.make_theirs()
        for label, table in (("a", "one"), ("b", "two")):
            self.server.script(f"BEGIN; INSERT INTO {table} (aggregatetype, aggregateid, type, payload) VALUES ('order', 'k', "
                               f"'changed', '{{\"n\": \"{label}\"}}'); DELETE FROM {table}; COMMIT", self.database)
        arguments = ["--table", "one", "--table", "two"] + [word for option in MAP for word in ("--set", option)]
        self.adopt(*arguments)
        self.once(*arguments)
        self.assertEqual(self.delivered_labels(), ["a", "b"])
        self.once(*arguments)
        self.assertEqual(self.delivered_labels(), ["a", "b"])

    def test_a_slot_of_another_plugin_is_read_through_a_publication_that_was_made_in_time(self):
        self.make_theirs("test_decoding")
        self.write_and_delete("a")
        self.adopt()
        self.once()
        self.assertEqual(self.delivered_labels(), ["a"])


class Offsets(AdoptTest):
    """Wherever the other program stops, the rest is delivered and nothing twice."""
    publication = "dbz_publication"

    def history(self):
        """Transactions that overlap, with many rows, updates, deletes and other tables."""
        self.owner("CREATE TABLE other (id int PRIMARY KEY)")
        slow, quick = self.session(), self.session()
        slow.execute("BEGIN")
        slow.execute(self.insert("slow1", "s"))
        quick.execute(self.insert("quick1", "q"))
        slow.execute(self.insert("slow2", "s"))
        quick.execute(self.insert("quick2", "q"))
        slow.execute("COMMIT")
        self.write_and_delete("a", "b", "c")
        self.server.script(f"BEGIN; INSERT INTO other VALUES (1); {self.insert('d')}; SAVEPOINT s; {self.insert('e')}; "
                           "ROLLBACK TO s; INSERT INTO other VALUES (2); SAVEPOINT t; " + self.insert("f") +
                           "; RELEASE t; DELETE FROM other; COMMIT", self.database)
        self.commit_event("g")
        return ["quick1", "quick2", "slow1", "slow2", "a", "b", "c", "d", "f", "g"]

    def messages(self):
        """(position, transaction, kind, bytes) of what the slot holds."""
        rows = self.owner("SELECT lsn, xid, encode(data, 'hex') FROM pg_logical_slot_peek_binary_changes("
                          f"'{self.theirs}', NULL, NULL, 'proto_version', '1', 'publication_names', '{self.publication}', "
                          "'messages', 'true')")
        return [(lsn_of(lsn), int(xid), chr(bytes.fromhex(data)[0]), bytes.fromhex(data)) for lsn, xid, data in rows]

    def offsets(self):
        """What Debezium 3.4 would note behind each message that can be its last, and how
        many events were published by then."""
        oid = int(self.owner("SELECT 'outbox'::regclass::oid")[0][0])
        commit, published = None, 0
        for position, xid, kind, data in self.messages():
            name = {"B": "BEGIN", "C": "COMMIT", "I": "INSERT", "U": "UPDATE", "D": "DELETE"}.get(kind)
            if name is None:
                continue
            if kind == "I" and struct.unpack(">I", data[1:5])[0] == oid:
                published += 1
            if kind == "C":
                commit = position
            offset = {"lsn_proc": position, "lsn": position, "txId": xid, "ts_usec": 1, "messageType": name,
                      "lsn_commit": commit}
            yield {k: v for k, v in offset.items() if v is not None}, published

    def check(self, offset, published, labels, i, may_repeat=0):
        name = f"{self.name}_{i}"
        path = self.path(f"offset{i}.json", json.dumps(offset))
        done = self.adopt("--offset", path, name=name)
        mine = self.labels_of(f"file:{self.path('to')}{i}", name=name)
        self.run_outrider("slot", "drop", "--db", self.owner_url, "--name", name)
        rest = labels[published:]
        self.assertEqual(mine[-len(rest):] if rest else [], rest, (offset, mine))
        self.assertLessEqual(len(mine) - len(rest), may_repeat, (offset, mine))
        return done.out

    def test_any_place_of_the_stream(self):
        self.make_theirs()
        labels = self.history()
        offsets = list(self.offsets())
        self.assertGreater(len(offsets), 25)
        self.assertEqual(offsets[-1][1], len(labels))
        for i, (offset, published) in enumerate(offsets):
            with self.subTest(offset=offset):
                answer = {"offsets": [{"partition": {"server": "shop"}, "offset": offset}]}
                self.check(answer if i % 2 else offset, published, labels, i)

    def test_without_the_kind_of_the_last_message_nothing_is_lost(self):
        """As older versions of Debezium note it."""
        self.make_theirs()
        labels = self.history()
        for i, (offset, published) in enumerate(self.offsets()):
            del offset["messageType"]
            with self.subTest(offset=offset):
                self.check(offset, published, labels, i, may_repeat=1)

    def test_through_a_publication_of_ones_own_that_was_made_in_time(self):
        """Which does not publish deletes: the offset may stand at one."""
        self.owner("CREATE PUBLICATION own FOR TABLE outbox WITH (publish = 'insert')")
        self.make_theirs()
        labels = self.history()
        offsets = list(self.offsets())
        self.owner("DROP PUBLICATION dbz_publication")
        for i, (offset, published) in enumerate(offsets):
            with self.subTest(offset=offset):
                self.check(offset, published, labels, i)

    def test_rows_of_one_copy_share_a_position_and_come_again(self):
        self.make_theirs()
        self.server.script("COPY outbox (id, aggregate_type, aggregate_id, event_type, payload) FROM stdin;\n" +
                           "".join('%s\torder\tk\tchanged\t{"n": "%d"}\n' % (uuid.uuid4(), i) for i in range(5)) + "\\.\n", self.database)
        labels = [str(i) for i in range(5)]
        doubts = 0
        for i, (offset, published) in enumerate(self.offsets()):
            with self.subTest(offset=offset):
                doubts += "one COPY" in self.check(offset, published, labels, i, may_repeat=5)
        self.assertGreater(doubts, 0)

    def test_a_snapshots_offset_leaves_nothing_out(self):
        self.make_theirs()
        self.write_and_delete("a")
        at = lsn_of(self.owner(f"SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '{self.theirs}'")[0][0])
        offset = {"lsn": at, "txId": 700, "ts_usec": 1, "snapshot": "INITIAL", "snapshot_completed": True}
        self.check(offset, 0, ["a"], 0)
        offset["snapshot_completed"] = False
        done = self.adopt("--offset", self.path("o.json", json.dumps(offset)), code=2)
        self.assertIn("middle of its first snapshot", done.err)

    def test_what_is_no_offset_is_refused(self):
        self.make_theirs()
        for text, why in (("", "no JSON object"), ("[]", "no JSON object"), ("{}", "no position"),
                          ('{"offsets": []}', "not just one"), ('{"offsets": [{"offset": {"file": "binlog.1", "pos": 4}}]}',
                                                                  "no position"),
                          ('{"offsets": [{"offset": {"lsn": 1}}, {"offset": {"lsn": 2}}]}', "not just one"),
                          ('{"lsn_proc": "x", "lsn": 1}', "no number"), ('{"lsn_proc": -1, "lsn": 1}', "no number"),
                          ('{"lsn_proc": 9223372036854775807, "lsn_commit": 1}', "beyond the end")):
            with self.subTest(text=text):
                done = self.adopt("--offset", self.path("offset.json", text), code=None)
                self.assertIn(done.code, (1, 2), done)
                self.assertIn(why, done.err)
                self.assertEqual(self.slots(), [self.theirs])


class Refused(AdoptTest):
    settings = dict(AdoptTest.settings, max_slot_wal_keep_size="64MB", min_wal_size="32MB", max_wal_size="32MB")

    def refused(self, pattern, *args, **how):
        before = self.slots()
        done = self.adopt(*args, code=None, **how)
        self.assertIn(done.code, (1, 2), done)
        self.assertRegex(done.err, pattern)
        self.assertEqual(self.slots(), before)
        self.assertNotEqual(self.cursor("mode"), "adopting")

    def test_a_slot_that_is_not_there(self):
        self.refused("there is no replication slot nobody", theirs="nobody")

    def test_a_slot_that_is_read(self):
        self.commit_event("a")
        relay = self.relay("--set", "source.publication=dbz_publication")
        self.wait_streaming(relay)
        self.refused("is read by server process.*stop Debezium first", theirs=self.slot, name="other")
        self.stop_relay(relay)

    def test_a_slot_of_another_database_or_kind(self):
        other = self.server.create_database(type(self).template)
        self.addCleanup(self.server.forget, other)
        self.server.query("SELECT pg_create_logical_replication_slot('elsewhere', 'pgoutput')", other)
        self.server.query("SELECT pg_create_physical_replication_slot('physical', true)")
        self.addCleanup(self.server.query, "SELECT pg_drop_replication_slot('physical')")
        self.addCleanup(self.server.query, "SELECT pg_drop_replication_slot('elsewhere')", other)
        self.refused(f"belongs to database {other}", theirs="elsewhere")
        self.refused("physical", theirs="physical")

    def test_a_slot_with_prepared_transactions(self):
        self.owner(f"SELECT pg_create_logical_replication_slot('{self.theirs}', 'pgoutput', false, true)")
        self.refused("two_phase")

    def test_a_temporary_slot(self):
        session = self.owner_session()
        session.execute(f"SELECT pg_create_logical_replication_slot('{self.theirs}', 'pgoutput', true)")
        self.refused("temporary|is read by")
        session.close()
        wait_until(lambda: not self.slots(), "the end of the temporary slot")

    def test_a_slot_that_the_server_gave_up(self):
        self.make_theirs()
        self.owner("CREATE TABLE filler (t text)")

        def is_lost():
            self.owner("INSERT INTO filler SELECT repeat(md5(i::text), 50) FROM generate_series(1, 20000) i")
            self.owner("SELECT pg_switch_wal()")
            self.owner("CHECKPOINT")
            return self.owner(f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{self.theirs}' AND wal_status = 'lost'")
        wait_until(is_lost, "the slot to be lost")
        self.refused("invalidated by the server")

    def test_a_pipeline_that_has_begun(self):
        self.commit_event("a")
        self.once("--set", "source.publication=dbz_publication")
        self.make_theirs()
        self.refused(f"pipeline '{self.name}' has delivered events.*another --name")
        self.once("--set", "source.publication=dbz_publication", mode="poll")
        self.refused("has delivered events")

    def test_a_pipeline_whose_relay_runs(self):
        self.make_theirs()
        relay = self.relay("--set", "source.publication=dbz_publication")
        self.wait_streaming(relay)
        self.refused("a relay of pipeline .* runs")
        self.stop_relay(relay)

    def test_a_slot_of_that_name_that_nobody_owns(self):
        self.make_theirs()
        self.make_theirs(name=self.slot)
        self.refused(f"slot {self.slot} is there, and no pipeline.*outrider slot drop")

    def test_a_publication_that_was_made_later(self):
        """The server reads its log through the publication as it was then."""
        self.owner("DROP PUBLICATION dbz_publication")
        self.make_theirs()
        self.write_and_delete("before the publication")
        self.refused("no publication publishes all inserts into public.outbox")
        self.owner("CREATE PUBLICATION dbz_publication FOR TABLE outbox")
        self.refused("publication dbz_publication was made or altered after the place where slot")
        self.refused("there is no publication nobody", "--set", "source.publication=nobody")

    def test_why_it_must_not_be_read_through_a_later_publication(self):
        """If this begins to work, or to fail in another way, the refusal is to be thought over."""
        self.make_theirs()
        self.write_and_delete("before the publication")
        self.owner("CREATE PUBLICATION later FOR TABLE outbox")
        through = ("SELECT count(*) FROM pg_logical_slot_peek_binary_changes('%s', NULL, NULL, 'proto_version', '1', "
                   "'publication_names', '%%s')" % self.theirs)
        self.assertGreater(int(self.owner(through % "dbz_publication")[0][0]), 0)
        if self.server.version < 18:
            with self.assertRaisesRegex(SqlError, "later.*does not exist"):
                self.owner(through % "later")
        else:
            self.assertEqual(int(self.owner(through % "later")[0][0]), 0)

    def test_once_the_slot_has_passed_the_publication_it_is_read_through_that(self):
        self.owner("DROP PUBLICATION dbz_publication")
        self.make_theirs("test_decoding")
        self.owner("CREATE PUBLICATION made_in_time FOR TABLE outbox")
        number = int(re.search(r"above (\d+)", self.adopt(code=None).err).group(1))

        def has_passed():
            self.commit_event("published")
            self.owner("CHECKPOINT")
            self.owner(f"SELECT count(*) FROM pg_logical_slot_get_changes('{self.theirs}', NULL, NULL)")
            return int(self.owner(f"SELECT catalog_xmin::text FROM pg_replication_slots WHERE slot_name = '{self.theirs}'")[0][0]) > number
        wait_until(has_passed, "the slot to pass the publication")
        self.write_and_delete("a")
        self.adopt()
        self.once()
        self.assertEqual(self.delivered_labels(), ["a"])

    def test_a_table_that_was_added_later(self):
        self.owner("DROP PUBLICATION dbz_publication")
        self.owner("CREATE TABLE other (id int)")
        self.owner("CREATE PUBLICATION dbz_publication FOR TABLE other")
        self.make_theirs()
        self.owner("ALTER PUBLICATION dbz_publication ADD TABLE outbox")
        self.refused("was made or altered after")

    def test_a_publication_that_leaves_events_out(self):
        self.owner("DROP PUBLICATION dbz_publication")
        self.owner("CREATE PUBLICATION dbz_publication FOR TABLE outbox WITH (publish = 'delete')")
        self.make_theirs()
        self.refused("does not publish all inserts", "--set", "source.publication=dbz_publication")

    def test_two_publications_neither_of_which_is_known(self):
        self.owner("DROP PUBLICATION dbz_publication")
        for name in ("one", "two"):
            self.owner(f"CREATE PUBLICATION {name} FOR TABLE outbox")
        self.make_theirs()
        self.refused("several publications.*source.publication")
        self.adopt("--set", "source.publication=two")
        self.assertEqual(self.cursor("publication"), "two")

    def test_words_that_do_not_fit(self):
        self.assertIn("--from SLOT", self.run_outrider("slot", "adopt", "--db", self.owner_url, code=2).err)
        self.assertIn("--from SLOT", self.run_outrider("slot", "adopt", "--from", self.owner_url, code=2).err)
        self.assertIn("say what to do", self.run_outrider("slot", "--db", self.owner_url, code=2).err)
        self.assertIn("--from", self.run_outrider("slot", "drop", "--from", "debezium", "--db", self.owner_url, code=2).err)
        self.assertIn("there is no replication slot", self.run_outrider("slot", "drop", "--from", self.owner_url, code=1).err)
        done = self.run_outrider("slot", "adopt", "--from", "debezium", "--db", "sqlite:" + self.path("x.db"), code=2)
        self.assertIn("no replication slots", done.err)


class CutShort(AdoptTest):
    POINTS = ("slot.adopt_copy", "slot.adopt_finish")

    def test_killed_in_the_middle_it_is_run_again(self):
        self.make_theirs()
        self.write_and_delete("a")
        for point in self.POINTS:
            self.adopt(code=-9, env={"OUTRIDER_FAILPOINTS": f"{point}=kill"})
            self.assertEqual(self.cursor("mode"), "adopting")
            for mode in ("cdc", "poll"):
                self.assertRegex(self.once(mode=mode, code=1).err, "slot adopt.*was begun and did not end.*run the command again")
        wait_until(lambda: self.active_backend() is None, "the killed command's session to end")
        self.adopt()
        self.once()
        self.assertEqual(self.delivered_labels(), ["a"])

    def test_killed_in_the_middle_it_can_be_given_up(self):
        self.make_theirs()
        for point in self.POINTS:
            self.adopt(code=-9, env={"OUTRIDER_FAILPOINTS": f"{point}=kill"})
            done = self.run_outrider("slot", "drop", "--db", self.owner_url, "--name", self.name)
            self.assertIn("given up", done.out)
            self.assertEqual((self.cursor("mode"), self.slots()), ("poll", [self.theirs]))
            wait_until(lambda: self.active_backend() is None, "the killed command's session to end")

    def test_a_failure_takes_everything_back(self):
        self.make_theirs()
        for point in self.POINTS:
            self.adopt(code=1, env={"OUTRIDER_FAILPOINTS": f"{point}=eio"})
            self.assertEqual((self.cursor("mode"), self.cursor("slot"), self.slots()), ("poll", "", [self.theirs]))

    def test_before_anything_is_delivered_it_can_be_done_anew(self):
        """Debezium was started once more in between."""
        self.make_theirs()
        self.write_and_delete("published after all")
        self.adopt()
        self.owner(f"SELECT count(*) FROM pg_logical_slot_get_binary_changes('{self.theirs}', NULL, NULL, 'proto_version', "
                   "'1', 'publication_names', 'dbz_publication')")
        self.write_and_delete("a")
        self.adopt()
        self.once()
        self.assertEqual(self.delivered_labels(), ["a"])


if __name__ == "__main__":
    unittest.main()
