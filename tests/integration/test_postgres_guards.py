# SPDX-License-Identifier: MIT
"""What hides rows from the relay, or puts them where it does not look: row level
security, inheritance, partitions, and a seq that the writer chose."""
import harness
from harness import wait_until
from pgcase import PostgresTest
from pgcdc import CdcTest
from pgserver import SqlError

MAXIMUM = 9223372036854775807
TABLES = ("outbox", "outrider_cursor", "outrider_parked", "outrider_intent")


def secure(table, on=True):
    return f"ALTER TABLE {table} {'ENABLE' if on else 'DISABLE'} ROW LEVEL SECURITY"


class Guarded(PostgresTest):
    def write(self, label):
        """As the owner, whom no policy binds."""
        self.owner(self.insert(label))

    def choose(self, seq, label):
        """A row with a seq that its writer chose."""
        self.owner("INSERT INTO outbox (seq, aggregate_type, aggregate_id, event_type, payload) OVERRIDING SYSTEM VALUE "
                   f"VALUES ({seq}, 'order', 'k', 'changed', '{{\"n\": \"{label}\"}}')")

    def refused(self, *args, reason, run=None):
        result = (run or self.relay_once)(*args, code=None)
        self.assertEqual(result.code, 1, str(result))
        self.assertRegex(result.err, reason)
        return result.err

    def stopped(self, relay, reason):
        self.wait_log(relay, reason)
        self.assertEqual(relay.join(), 1, relay.err())
        self.check_log(relay)

    def doctor(self, *args, url=None):
        result = self.run_outrider("doctor", "--from", url or self.url, *args, code=None)
        return result.out + result.err


class RowSecurity(Guarded):
    def test_a_relay_from_which_rows_are_hidden_is_refused_at_start(self):
        self.write("hidden")
        for table in TABLES:
            with self.subTest(table):
                self.owner(secure(table))
                text = self.refused(reason=rf"row level security.*public\.{table}.*'relay'.*"
                                           rf"ALTER TABLE public\.{table} DISABLE ROW LEVEL SECURITY.*BYPASSRLS")
                self.assertEqual(self.delivered_labels(), [])
                self.assertRegex(self.doctor(), rf"row level security.*public\.{table}")
                self.assertEqual(text.count("row level security"), 1, text)
                self.owner(secure(table, False))
        self.relay_once()
        self.assertEqual(self.delivered_labels(), ["hidden"])

    def test_a_policy_that_shows_some_rows_is_refused_too(self):
        self.owner(secure("outbox"))
        self.owner("CREATE POLICY part ON outbox USING (aggregate_id = 'shown')")
        for key in ("hidden", "shown"):
            self.owner(self.insert(key, key))
        self.refused(reason="row level security")
        self.owner(secure("outbox", False))
        self.relay_once()
        self.assertEqual(self.delivered_labels(), ["hidden", "shown"])

    def test_a_running_relay_stops_when_it_is_switched_on_and_nothing_is_lost(self):
        for table in TABLES:
            with self.subTest(table):
                relay = self.start_relay()
                self.write(f"before-{table}")
                self.wait_label(f"before-{table}", relay=relay)
                self.owner(f"BEGIN; {secure(table)}; {self.insert('hidden-' + table)}; {self.insert('next-' + table)}; COMMIT")
                self.stopped(relay, f"row.level security.*{table}")
                self.owner(secure(table, False))
                self.relay_once()
                self.assert_all_delivered()

    def test_a_relay_with_nothing_to_do_stops_too(self):
        for table in TABLES:
            with self.subTest(table):
                relay = self.start_relay()
                self.owner(secure(table))
                self.stopped(relay, f"row.level security.*{table}")
                self.owner(secure(table, False))

    def test_roles_from_which_nothing_is_hidden_go_on(self):
        self.owner(secure("outbox"))
        self.write("one")
        self.run_outrider("relay", "--from", self.owner_url, "--to", self.sink, "--once")
        self.owner("ALTER ROLE relay BYPASSRLS")
        self.addCleanup(self.server.query, "ALTER ROLE relay NOBYPASSRLS")
        self.write("two")
        self.relay_once()
        self.assertEqual(self.delivered_labels(), ["one", "two"])

    def test_an_owner_is_bound_where_it_is_forced(self):
        self.owner("ALTER TABLE outbox OWNER TO relay")
        self.owner(secure("outbox"))
        self.write("one")
        self.relay_once()
        self.owner("ALTER TABLE outbox FORCE ROW LEVEL SECURITY")
        self.write("two")
        self.refused(reason="row level security.*NO FORCE ROW LEVEL SECURITY")
        self.owner("ALTER TABLE outbox NO FORCE ROW LEVEL SECURITY")
        self.relay_once()
        self.assertEqual(self.delivered_labels(), ["one", "two"])

    def test_commands_do_not_work_with_what_is_left_of_the_rows(self):
        self.write("one")
        self.relay_once()
        commands = (("status",), ("dead", "list"), ("cleanup", "--retention", "1s"), ("resync",))
        for table in ("outbox", "outrider_cursor", "outrider_parked"):
            self.owner(secure(table))
            for command in commands:
                with self.subTest(table + " " + command[0]):
                    self.refused(*command, "--db", self.url, reason=rf"row level security.*public\.{table}",
                                 run=self.run_outrider)
            self.owner(secure(table, False))
        for command in commands:
            self.run_outrider(*command, "--db", self.url)

    def test_a_replay_is_refused(self):
        self.write("one")
        self.relay_once()
        self.owner(secure("outbox"))
        self.refused("replay", "--db", self.url, "--from-seq", "1", "--to", self.sink, reason="row level security",
                     run=self.run_outrider)

    def test_the_applications_own_sessions_are_not_changed(self):
        self.owner(secure("outbox"))
        self.owner("CREATE POLICY mine ON outbox FOR INSERT TO app WITH CHECK (aggregate_id = 'k')")
        self.server.query(self.insert("right"), self.database, "app")
        with self.assertRaises(SqlError):
            self.server.query(self.insert("wrong", "other"), self.database, "app")


class PartitionSecurity(Guarded):
    init_arguments = ("--partition", "day")

    def test_policies_of_a_partition_do_not_hide_what_is_read_from_the_whole(self):
        self.write("one")
        for (name,) in self.owner("SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'outbox'::regclass"):
            self.owner(secure(name))
            self.owner(f"ALTER TABLE {name} FORCE ROW LEVEL SECURITY")
        self.relay_once()
        self.assertEqual(self.delivered_labels(), ["one"])

    def test_policies_of_the_whole_are_refused(self):
        self.write("one")
        self.owner(secure("outbox"))
        self.refused(reason=r"row level security.*public\.outbox")
        self.owner(secure("outbox", False))
        self.relay_once()
        self.assertEqual(self.delivered_labels(), ["one"])

    def test_a_partition_whose_rows_are_hidden_from_its_owner_is_not_dropped_as_empty(self):
        self.owner("CREATE ROLE parts_owner")
        self.addCleanup(self.server.query, "DROP ROLE IF EXISTS parts_owner")
        self.addCleanup(self.owner, "DROP OWNED BY parts_owner CASCADE")
        self.owner("GRANT ALL ON SCHEMA public TO parts_owner")
        self.owner("CREATE TABLE outbox_old PARTITION OF outbox FOR VALUES FROM ('2001-01-01') TO ('2001-01-02')")
        self.owner("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, created_at) VALUES "
                   "('order', 'k', 'changed', '{\"n\": \"old\"}', '2001-01-01 12:00')")
        self.owner("INSERT INTO outrider_cursor (pipeline, outbox) VALUES ('default', 'public.outbox')")
        for (name,) in self.owner("SELECT relid FROM pg_partition_tree('outbox')"):
            self.owner(f"ALTER TABLE {name} OWNER TO parts_owner")
        self.owner("ALTER FUNCTION outbox_partitions OWNER TO parts_owner")
        self.owner("GRANT ALL ON outrider_cursor TO parts_owner")
        self.owner(secure("outbox_old"))
        self.owner("ALTER TABLE outbox_old FORCE ROW LEVEL SECURITY")
        with self.assertRaises(SqlError) as caught:
            self.owner("SELECT outbox_partitions(now())")
        self.assertEqual(caught.exception.state, "42501")
        self.owner("ALTER TABLE outbox_old NO FORCE ROW LEVEL SECURITY")
        self.relay_once()
        self.assertEqual(self.delivered_labels(), ["old"])


class StatusSecurity(Guarded):
    init_arguments = ("--layout", "status")

    def test_it_is_refused_at_start_and_while_the_relay_runs(self):
        for table in TABLES:
            with self.subTest(table):
                relay = self.start_relay()
                self.write(f"before-{table}")
                self.wait_label(f"before-{table}", relay=relay)
                self.owner(secure(table))
                self.write(f"hidden-{table}")
                self.stopped(relay, f"row.level security.*{table}")
                self.refused(reason=f"row level security.*{table}")
                self.assertRegex(self.doctor(), f"row level security.*{table}")
                self.owner(secure(table, False))
                self.relay_once()
                self.assert_all_delivered()

    def test_a_second_table_is_looked_at_as_the_first(self):
        self.owner("CREATE TABLE more (LIKE outbox INCLUDING ALL)")
        self.owner("GRANT ALL ON more TO outrider_relay; ALTER TABLE more ENABLE ROW LEVEL SECURITY")
        both = ("--table", "outbox", "--table", "more")
        self.refused(*both, reason=r"row level security.*public\.more")
        self.assertRegex(self.doctor(*both), r"row level security.*public\.more")
        self.owner(secure("more", False))
        relay = self.start_relay(*both)
        self.owner(secure("more"))
        self.owner(self.insert("hidden").replace("outbox", "more"))
        self.stopped(relay, "row.level security.*more")
        self.owner(secure("more", False))
        self.relay_once(*both)
        self.assertEqual(self.delivered_labels(), ["hidden"])

    def test_rows_of_an_inheritance_child_are_delivered_and_marked(self):
        self.owner("CREATE TABLE child (LIKE outbox INCLUDING ALL)")
        self.owner("ALTER TABLE child INHERIT outbox")
        self.owner(self.insert("one").replace("outbox", "child"))
        self.relay_once()
        self.relay_once()
        self.assertEqual(self.delivered_labels(), ["one"])
        self.assertEqual(self.owner("SELECT status FROM child"), [("PUBLISHED",)])

    def test_the_writers_role_cannot_choose_a_seq(self):
        with self.assertRaises(SqlError) as caught:
            self.server.query("INSERT INTO outbox (seq, aggregate_type, aggregate_id, event_type) OVERRIDING SYSTEM VALUE "
                              "VALUES (1000, 'order', 'k', 'changed')", self.database, "app")
        self.assertEqual(caught.exception.state, "42501")
        self.commit_event("one")
        self.relay_once()
        self.assertEqual(self.delivered_labels(), ["one"])


class MarksWithoutEffect(Guarded):
    init_arguments = ("--layout", "status")
    RULE = "CREATE RULE quiet AS ON UPDATE TO outbox DO INSTEAD NOTHING"
    TRIGGER = ("CREATE FUNCTION quiet() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; "
               "CREATE TRIGGER quiet BEFORE UPDATE ON outbox FOR EACH ROW EXECUTE FUNCTION quiet()")

    def test_an_event_is_not_published_for_ever(self):
        for obstacle in ("RULE", "TRIGGER"):
            with self.subTest(obstacle):
                relay = self.start_relay()
                self.owner(getattr(self, obstacle))
                self.write(obstacle)
                self.stopped(relay, r"public\.outbox.*still not marked.*trigger" if obstacle == "TRIGGER" else
                             "a rule that does something else INSTEAD of UPDATE")
                self.assertEqual(self.delivered_labels().count(obstacle), 1)
                self.owner(f"DROP {obstacle} quiet ON outbox")
                self.relay_once()
                self.relay_once()
                self.assertEqual(self.delivered_labels().count(obstacle), 2)

    def test_rows_that_are_deleted_before_they_are_marked_are_nothing_special(self):
        relay = self.start_relay()
        for i in range(3):
            self.owner("CREATE OR REPLACE FUNCTION gone() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN DELETE FROM outbox "
                       "WHERE id = OLD.id; RETURN NULL; END'; DROP TRIGGER IF EXISTS gone ON outbox; CREATE TRIGGER gone "
                       "BEFORE UPDATE ON outbox FOR EACH ROW EXECUTE FUNCTION gone()")
            self.write(f"gone-{i}")
            self.wait_label(f"gone-{i}", relay=relay)
            wait_until(lambda: self.owner("SELECT count(*) FROM outbox") == [("0",)], "the row to be deleted")
        self.stop_relay(relay)
        self.assertEqual(len(self.delivered_labels()), 3)


class CdcSecurity(CdcTest, Guarded):
    def test_it_is_refused_at_start_and_while_the_relay_runs(self):
        for i, table in enumerate(TABLES):
            with self.subTest(table):
                relay = self.relay()
                self.write(f"before-{table}")
                self.wait_label(f"before-{table}", relay=relay)
                self.wait_streaming(relay)
                self.owner(secure(table))
                self.write(f"hidden-{table}")
                self.stopped(relay, f"row.level security.*{table}")
                self.refused(reason=f"row level security.*{table}", run=self.once)
                self.owner(secure(table, False))
                self.once()
                self.assert_all_delivered()

    def test_what_was_there_before_the_slot_is_not_passed_over(self):
        self.owner(secure("outbox"))
        self.write("hidden")
        self.refused(reason="row level security", run=self.once)
        self.owner(secure("outbox", False))
        self.once()
        self.assertEqual(self.delivered_labels(), ["hidden"])

    def test_a_mapped_table_is_looked_at_too(self):
        self.owner("CREATE TABLE plain (id uuid PRIMARY KEY, aggregatetype text, aggregateid text, type text, payload jsonb)")
        self.owner("GRANT SELECT ON plain TO relay")
        self.owner(f"ALTER PUBLICATION {self.slot} SET TABLE plain")
        row = ("INSERT INTO plain VALUES (gen_random_uuid(), 'order', 'k', 'changed', '{\"n\": \"%s\"}')")
        self.owner(row % "one")
        self.owner(secure("plain"))
        self.refused("--table", "plain", reason=r"row level security.*public\.plain", run=self.once)
        self.owner(secure("plain", False))
        relay = self.relay("--table", "plain")
        self.wait_label("one", relay=relay)
        self.owner(secure("plain"))
        self.stopped(relay, "row.level security.*plain")
        self.owner(secure("plain", False))
        self.owner("CREATE TABLE child () INHERITS (plain)")
        self.refused("--table", "plain", reason=r"public\.child.*NO INHERIT", run=self.once)
        self.owner("ALTER TABLE child NO INHERIT plain")
        relay = self.relay("--table", "plain")
        self.owner("ALTER TABLE child INHERIT plain")
        self.stopped(relay, r"public\.child.*NO INHERIT")


class Children(Guarded):
    def test_a_child_is_refused_at_start_and_by_a_running_relay(self):
        self.owner("CREATE TABLE child () INHERITS (outbox)")
        self.owner("ALTER TABLE child ALTER seq SET DEFAULT nextval('outbox_seq_seq')")
        self.write("one")
        reason = r"public\.child.*ALTER TABLE public\.child NO INHERIT public\.outbox"
        self.refused(reason=reason)
        self.assertRegex(self.doctor(), reason)
        self.owner("ALTER TABLE child NO INHERIT outbox")
        relay = self.start_relay()
        self.wait_label("one", relay=relay)
        self.owner("ALTER TABLE child INHERIT outbox")
        self.stopped(relay, reason)

    def test_a_slow_writer_into_a_child_loses_nothing(self):
        """Nobody sees its lock on the outbox: the relay must not judge its gap."""
        self.owner("CREATE TABLE child () INHERITS (outbox)")
        self.owner("ALTER TABLE child ALTER seq SET DEFAULT nextval('outbox_seq_seq')")
        self.owner("ALTER TABLE child NO INHERIT outbox")
        relay = self.start_relay()
        self.owner("ALTER TABLE child INHERIT outbox")
        slow = self.owner_session()
        slow.begin()
        slow.execute(self.insert("slow").replace("outbox", "child"))
        self.write("quick")
        self.stopped(relay, r"public\.child")
        slow.commit()
        self.owner("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) SELECT aggregate_type, "
                   "aggregate_id, event_type, payload FROM child")
        self.owner("ALTER TABLE child NO INHERIT outbox")
        self.relay_once()
        self.assertEqual(sorted(set(self.delivered_labels())), ["quick", "slow"])

    def test_a_seq_of_0_does_not_stop_a_pipeline(self):
        self.choose(0, "zero")
        self.choose(-7, "minus")
        self.write("one")
        self.relay_once()
        self.assertRegex(self.doctor(), r"2 rows of public\.outbox have a seq below 1")
        self.write("two")
        self.relay_once()
        self.assertEqual(self.delivered_labels(), ["one", "two"])

    def test_a_sequence_that_hands_out_0_is_refused(self):
        self.owner("ALTER TABLE outbox ALTER seq SET MINVALUE 0 RESTART WITH 0")
        self.refused(reason="sequence.*below 1.*ALTER SEQUENCE public.outbox_seq_seq MINVALUE 1")


class Partitions(Guarded):
    init_arguments = ("--partition", "day")
    # Of the future: an old partition that is empty or settled is the clean-up's to drop, at any moment.
    BOUNDS = "FOR VALUES FROM ('2101-01-01') TO ('2101-01-02')"

    def make_old(self, persistence=""):
        self.owner(f"CREATE {persistence} TABLE outbox_old (LIKE outbox INCLUDING DEFAULTS INCLUDING CONSTRAINTS)")

    def test_a_partition_that_is_attached_with_rows_below_the_position_is_told(self):
        self.make_old()
        self.owner("INSERT INTO outbox_old (seq, aggregate_type, aggregate_id, event_type, payload, created_at) "
                   "VALUES (1, 'order', 'k', 'changed', '{\"n\": \"old\"}', '2101-01-01 12:00')")
        relay = self.start_relay()
        self.write("one")
        self.write("two")
        self.wait_label("one", "two", relay=relay)
        self.owner(f"ALTER TABLE outbox ATTACH PARTITION outbox_old {self.BOUNDS}")
        self.wait_log(relay, r"level=warn.*public\.outbox_old.*attached.*rows")
        self.write("three")
        self.wait_label("three", relay=relay)
        self.stop_relay(relay)

    def test_partitions_that_come_and_go_empty_are_not_spoken_of(self):
        relay = self.start_relay()
        self.write("one")
        self.wait_label("one", relay=relay)
        self.owner(f"CREATE TABLE outbox_old PARTITION OF outbox {self.BOUNDS}")
        self.make_another_look(relay)
        self.owner("DROP TABLE outbox_old")
        self.make_another_look(relay)
        self.stop_relay(relay)
        self.assertNotIn("outbox_old", relay.err())
        self.assertEqual(relay.err().count("connected and active"), 1)

    def make_another_look(self, relay):
        """A mark that the relay tells: whatever it would have told before it is there."""
        since = len(relay.err_lines)
        self.owner("CREATE TABLE marked (LIKE outbox INCLUDING DEFAULTS INCLUDING CONSTRAINTS)")
        self.owner("INSERT INTO marked (seq, aggregate_type, aggregate_id, event_type, created_at) "
                   "VALUES (1, 'nudge', '', '', '2103-01-01 12:00')")
        self.owner("ALTER TABLE outbox ATTACH PARTITION marked FOR VALUES FROM ('2103-01-01') TO ('2103-01-02')")
        self.wait_log(relay, r"public\.marked.*attached", since)
        self.owner("DROP TABLE marked")

    def test_an_unlogged_partition_that_is_attached_is_refused(self):
        self.make_old("UNLOGGED")
        relay = self.start_relay()
        self.owner(f"ALTER TABLE outbox ATTACH PARTITION outbox_old {self.BOUNDS}")
        self.stopped(relay, r"public\.outbox_old.*unlogged")
        self.refused(reason="unlogged")
        self.owner("ALTER TABLE outbox DETACH PARTITION outbox_old")
        self.relay_once()

    def test_a_foreign_partition_is_refused(self):
        self.owner("CREATE FOREIGN DATA WRAPPER nowhere")
        self.owner("CREATE SERVER nowhere FOREIGN DATA WRAPPER nowhere")
        self.owner("ALTER TABLE outbox DROP CONSTRAINT outbox_pkey; CREATE INDEX ON ONLY outbox (seq)")
        for (name,) in self.owner("SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'outbox'::regclass"):
            self.owner(f"CREATE INDEX {name}_seq ON {name} (seq)")
            self.owner(f"ALTER INDEX outbox_seq_idx ATTACH PARTITION {name}_seq")
        relay = self.start_relay()
        self.owner(f"CREATE FOREIGN TABLE outbox_far PARTITION OF outbox {self.BOUNDS} SERVER nowhere")
        self.stopped(relay, r"public\.outbox_far.*foreign")
        self.refused(reason=r"public\.outbox_far.*foreign")
        self.owner("ALTER TABLE outbox DETACH PARTITION outbox_far")
        self.relay_once()


class Chosen(Guarded):
    def test_the_writers_role_cannot_choose_a_seq_and_can_write_as_ever(self):
        with self.assertRaises(SqlError) as caught:
            self.server.query("INSERT INTO outbox (seq, aggregate_type, aggregate_id, event_type) OVERRIDING SYSTEM VALUE "
                              f"VALUES ({MAXIMUM}, 'order', 'k', 'changed')", self.database, "app")
        self.assertEqual(caught.exception.state, "42501")
        self.commit_event("insert")
        self.server.query("SELECT outbox_enqueue('order', 'k', 'changed', '{\"n\": \"function\"}', topic => 't')",
                          self.database, "app")
        self.server.query("INSERT INTO outbox (id, aggregate_type, aggregate_id, event_type, payload, headers, topic, "
                          "partition_key, partition, occurred_at, created_at, expires_at) VALUES (gen_random_uuid(), 'order', "
                          "'k', 'changed', '{\"n\": \"all\"}', '{}', 't', 'p', 0, now(), now(), now() + interval '1 day') "
                          "RETURNING id", self.database, "app")
        self.run_outrider("put", "--db", self.server.url(self.database, "app"), "--aggregate-type", "order",
                          "--aggregate-id", "k", "--type", "changed", "--payload", '{"n": "library"}')
        self.relay_once()
        self.assertEqual(sorted(self.delivered_labels()), ["all", "function", "insert", "library"])

    def test_init_takes_the_right_from_an_outbox_that_is_there(self):
        self.owner("ALTER TABLE outbox ADD COLUMN tenant text")
        self.owner("GRANT INSERT ON outbox TO outrider_writer")
        self.run_outrider("init", "--db", self.owner_url)
        insert = ("INSERT INTO outbox ({}aggregate_type, aggregate_id, event_type, payload, tenant) OVERRIDING SYSTEM VALUE "
                  "VALUES ({}'order', 'k', 'changed', '{{\"n\": \"one\"}}', 'x')")
        with self.assertRaises(SqlError) as caught:
            self.server.query(insert.format("seq, ", "1000, "), self.database, "app")
        self.assertEqual(caught.exception.state, "42501")
        self.server.query(insert.format("", ""), self.database, "app")
        self.relay_once()
        self.assertEqual(self.delivered_labels(), ["one"])

    def test_a_row_above_the_sequence_waits_for_it_and_holds_up_nothing(self):
        relay = self.start_relay()
        self.write("one")
        self.wait_label("one", relay=relay)
        self.choose(1000, "ahead")
        self.choose(MAXIMUM, "never")
        self.write("two")
        self.wait_label("two", relay=relay)
        self.wait_log(relay, r"level=warn.*public\.outbox.*2 rows.*above.*sequence")
        self.stop_relay(relay)
        relay = self.start_relay()
        self.write("three")
        self.wait_label("three", relay=relay)
        self.assertNotIn("ahead", self.delivered_labels())
        row = self.run_outrider("status", "--db", self.url, "--json").json()["pipelines"][0]
        self.assertEqual((row["ahead"], row["pending"], row["head"]), (2, 0, row["position"]))
        self.assertRegex(self.run_outrider("status", "--db", self.url).out, "2 rows of public.outbox.*above.*sequence")
        self.assertRegex(self.doctor(), "2 rows of public.outbox.*above.*sequence")
        self.owner("SELECT setval('outbox_seq_seq', 1000)")
        self.wait_label("ahead", relay=relay)
        self.write("four")
        self.wait_label("four", relay=relay)
        self.stop_relay(relay)
        self.assertEqual(self.delivered_labels(), ["one", "two", "three", "ahead", "four"])
        self.assertEqual(self.position(), 1001)

    def test_a_row_at_the_maximum_is_no_event_to_once(self):
        self.choose(MAXIMUM, "never")
        self.relay_once()
        self.write("one")
        self.relay_once()
        self.assertEqual(self.delivered_labels(), ["one"])

    def test_too_many_gaps_do_not_lead_to_the_row_at_the_maximum(self):
        self.choose(MAXIMUM, "never")
        slow = [self.session() for _ in range(3)]
        relay = self.start_relay("--set", "max_gaps=1")
        for i, s in enumerate(slow):
            s.begin()
            s.execute(self.insert(f"slow-{i}"))
            self.write(f"quick-{i}")
        self.wait_log(relay, "max_gaps")
        for s in slow:
            s.commit()
        self.wait_label(*[f"{kind}-{i}" for kind in ("slow", "quick") for i in range(3)], relay=relay)
        self.stop_relay(relay)
        self.assertNotIn("never", self.delivered_labels())
        self.assertLess(self.position(), 100)

    def test_a_replay_leaves_it_out_too(self):
        self.write("one")
        self.relay_once()
        self.choose(MAXIMUM, "never")
        self.run_outrider("replay", "--db", self.url, "--from-seq", "1", "--to", self.sink)
        self.assertEqual(self.delivered_labels(), ["one", "one"])

    def test_resync_does_not_take_it_for_the_position(self):
        for label in ("one", "two"):
            self.write(label)
        self.relay_once()
        self.choose(MAXIMUM, "never")
        self.owner("DELETE FROM outbox WHERE seq = 2")
        self.refused(reason="outrider resync")
        self.run_outrider("resync", "--db", self.owner_url)
        self.write("three")
        self.relay_once()
        self.assertEqual(self.delivered_labels(), ["one", "two", "three"])

    def test_the_last_seq_of_all_is_delivered(self):
        """The sequence itself comes there: nothing is left to count to."""
        self.write("one")
        self.owner(f"SELECT setval('outbox_seq_seq', {MAXIMUM - 3})")
        relay = self.start_relay()
        slow = self.session()
        slow.begin()
        slow.execute(self.insert("slow"))
        self.write("quick")
        self.wait_label("one", "quick", relay=relay)
        slow.commit()
        self.wait_label("slow", relay=relay)
        self.write("last")
        self.wait_label("last", relay=relay)
        self.stop_relay(relay)
        self.assertEqual(self.position(), MAXIMUM)
        self.relay_once()
        self.assertEqual(self.delivered_labels(), ["one", "quick", "slow", "last"])


class CdcChosen(CdcTest, Guarded):
    def test_a_row_above_the_sequence_is_delivered_by_the_stream_and_the_way_back_works(self):
        self.choose(MAXIMUM, "swept")
        self.write("one")
        relay = self.relay()
        self.wait_label("swept", "one", relay=relay)
        self.wait_streaming(relay)
        self.owner("DELETE FROM outbox WHERE seq > 1000")
        self.choose(MAXIMUM, "streamed")
        self.write("two")
        self.wait_label("streamed", "two", relay=relay)
        self.stop_relay(relay)
        self.once()
        relay = self.relay(mode="poll")
        self.write("three")
        self.wait_mode("poll", relay)
        self.wait_label("three", relay=relay)
        self.write("four")
        self.wait_label("four", relay=relay)
        self.stop_relay(relay)
        self.assertEqual(sorted(set(self.delivered_labels())), sorted(["swept", "one", "streamed", "two", "three", "four"]))
        self.assertLess(int(self.cursor("position")), 1000)

    def test_resync_of_a_lost_slot_does_not_take_it_for_the_position(self):
        relay = self.relay()
        self.wait_streaming(relay)
        self.write("one")
        self.choose(MAXIMUM, "streamed")
        self.wait_label("one", "streamed", relay=relay)
        wait_until(lambda: self.cursor("settled_xid") is not None, "what is settled to be saved")
        self.stop_relay(relay)
        self.drop_slot()
        self.run_outrider("resync", "--db", self.owner_url, "--name", self.name)
        self.write("two")
        self.once(mode="poll")
        self.assertIn("two", self.delivered_labels())
        self.assertLess(int(self.cursor("position")), 1000)

    def test_a_child_is_refused_at_start_and_by_a_running_relay(self):
        self.owner("CREATE TABLE child () INHERITS (outbox)")
        self.refused(reason=r"public\.child.*NO INHERIT", run=self.once)
        self.owner("ALTER TABLE child NO INHERIT outbox")
        relay = self.relay()
        self.wait_streaming(relay)
        self.owner("ALTER TABLE child INHERIT outbox")
        self.stopped(relay, r"public\.child.*NO INHERIT")


if __name__ == "__main__":
    harness.main()
