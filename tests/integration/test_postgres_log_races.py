# SPDX-License-Identifier: MIT
"""Layout log: every race that a cursor over a sequence can lose, made with real
concurrent transactions against a running relay."""
import harness
from harness import wait_until
from pgcase import PostgresTest


class Races(PostgresTest):
    def setUp(self):
        super().setUp()
        self.relay = self.start_relay()

    def tearDown(self):
        if self.relay.is_running():
            self.stop_relay(self.relay)

    def holding(self, label, key="k"):
        """A session in a transaction that has inserted an event and not ended."""
        s = self.session()
        s.begin()
        s.execute(self.insert(label, key))
        return s

    def test_a_low_seq_that_commits_late_is_delivered(self):
        slow = self.holding("slow", "a")
        self.commit_event("fast", "b")
        self.wait_label("fast", relay=self.relay)
        slow.commit()
        self.wait_label("slow", relay=self.relay)
        self.wait_no_gaps()
        self.assertEqual(self.delivered_labels(), ["fast", "slow"])

    def test_later_events_do_not_wait_for_many_open_transactions(self):
        slow = [self.holding(f"slow-{i}", f"a{i}") for i in range(5)]
        for i in range(20):
            self.commit_event(f"fast-{i}", "b")
        self.wait_label("fast-19", relay=self.relay)
        self.assertEqual(self.delivered_labels(), [f"fast-{i}" for i in range(20)])
        for s in reversed(slow):
            s.commit()
        self.wait_label(*(f"slow-{i}" for i in range(5)), relay=self.relay)
        self.assertEqual(len(self.delivered_labels()), 25)

    def test_an_aborted_event_is_never_published_and_its_gap_is_forgotten(self):
        aborted = self.holding("aborted")
        self.commit_event("committed")
        self.wait_label("committed", relay=self.relay)
        self.assertNotEqual(self.gaps(), "{}")
        aborted.rollback()
        self.wait_no_gaps()
        self.commit_event("after")
        self.wait_label("after", relay=self.relay)
        self.assertEqual(self.delivered_labels(), ["committed", "after"])

    def test_a_client_that_dies_leaves_a_gap_that_is_forgotten(self):
        dying = self.holding("never")
        self.commit_event("committed")
        self.wait_label("committed", relay=self.relay)
        dying.kill()
        self.wait_no_gaps()
        self.assertEqual(self.delivered_labels(), ["committed"])

    def test_a_savepoint_rolled_back_takes_its_event_only(self):
        s = self.holding("kept")
        s.execute("SAVEPOINT a")
        s.execute(self.insert("undone"))
        s.execute("ROLLBACK TO a")
        s.execute(self.insert("kept too"))
        self.commit_event("other", "b")
        self.wait_label("other", relay=self.relay)
        s.commit()
        self.wait_label("kept", "kept too", relay=self.relay)
        self.wait_no_gaps()
        self.assertEqual(self.delivered_labels(), ["other", "kept", "kept too"])

    def test_a_prepared_transaction_is_waited_for_without_a_process(self):
        s = self.holding("prepared", "a")
        s.execute("PREPARE TRANSACTION 'outrider-1'")
        s.close()
        self.commit_event("fast", "b")
        self.wait_label("fast", relay=self.relay)
        before = self.gaps()
        self.assertNotEqual(before, "{}")
        # Many reads later the gap is still there: nobody is alive, and yet it may be filled.
        for i in range(20):
            self.commit_event(f"more-{i}", "b")
        self.wait_label("more-19", relay=self.relay)
        self.assertEqual(self.gaps(), before)
        self.owner("COMMIT PREPARED 'outrider-1'")
        self.wait_label("prepared", relay=self.relay)
        self.wait_no_gaps()

    def test_a_prepared_transaction_rolled_back_is_forgotten(self):
        s = self.holding("prepared", "a")
        s.execute("PREPARE TRANSACTION 'outrider-2'")
        self.commit_event("fast", "b")
        self.wait_label("fast", relay=self.relay)
        self.owner("ROLLBACK PREPARED 'outrider-2'")
        self.wait_no_gaps()
        self.assertEqual(self.delivered_labels(), ["fast"])

    def test_a_prepared_transaction_survives_a_restart_of_both(self):
        s = self.holding("prepared", "a")
        s.execute("PREPARE TRANSACTION 'outrider-3'")
        self.commit_event("fast", "b")
        self.wait_label("fast", relay=self.relay)
        wait_until(lambda: self.gaps() not in (None, "{}"), "the gap to be saved")
        self.relay.kill()
        self.server.restart("immediate")
        self.relay = self.start_relay()
        self.commit_event("later", "b")
        self.wait_label("later", relay=self.relay)
        self.owner("COMMIT PREPARED 'outrider-3'")
        self.wait_label("prepared", relay=self.relay)

    def test_a_long_unrelated_transaction_stalls_nothing(self):
        self.owner("CREATE TABLE other (i int)")
        long = self.owner_session()
        long.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        long.execute("INSERT INTO other VALUES (1)")
        aborted = self.holding("aborted")
        self.commit_event("committed")
        self.wait_label("committed", relay=self.relay)
        aborted.rollback()
        self.wait_no_gaps()
        long.execute("SELECT count(*) FROM other")
        self.commit_event("after")
        self.wait_label("after", relay=self.relay)
        long.commit()

    def test_a_reader_of_the_outbox_stalls_nothing(self):
        long = self.owner_session()
        long.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        long.execute("SELECT count(*) FROM outbox")
        self.holding("aborted").rollback()
        self.commit_event("committed")
        self.wait_label("committed", relay=self.relay)
        self.wait_no_gaps()

    def test_a_row_in_a_gap_comes_while_nothing_else_happens(self):
        slow = self.holding("slow")
        self.commit_event("fast")
        self.wait_label("fast", relay=self.relay)
        # The relay is at rest: it has settled what it saw, and probes.
        wait_until(lambda: self.gaps() != "{}" and self.position() == 2, "the relay to settle")
        slow.commit()
        self.wait_label("slow", relay=self.relay)

    def test_a_key_keeps_its_order_when_its_first_event_sits_in_a_gap(self):
        self.owner("CREATE TABLE account (key text PRIMARY KEY, version int NOT NULL)")
        self.owner("INSERT INTO account VALUES ('a', 0)")
        self.owner("GRANT ALL ON account TO app")
        first, second = self.session(), self.session()
        lock = "UPDATE account SET version = version + 1 WHERE key = 'a'"
        for i in range(40):
            first.begin()
            first.execute(lock)
            first.execute(self.insert(f"first-{i}", "a"))
            self.commit_event(f"other-{i}", "b")
            self.wait_label(f"other-{i}", relay=self.relay)
            second.start(f"BEGIN; {lock}; {self.insert(f'second-{i}', 'a')}; COMMIT")
            first.commit()
            second.wait()
        self.wait_label("second-39", relay=self.relay)
        mine = [n for n in self.delivered_labels() if not n.startswith("other")]
        self.assertEqual(mine, [f"{n}-{i}" for i in range(40) for n in ("first", "second")])

    def test_every_way_to_insert_is_seen(self):
        s = self.session()
        columns = "(aggregate_type, aggregate_id, event_type, payload)"
        s.execute("SELECT outbox_enqueue('order', 'k', 'changed', '{\"n\": \"function\"}')")
        s.execute(f"WITH x AS (INSERT INTO outbox {columns} VALUES ('order', 'k', 'changed', '{{\"n\": \"cte\"}}')) "
                  "SELECT 1")
        s.execute(f"PREPARE p AS INSERT INTO outbox {columns} VALUES ('order', 'k', 'changed', $1)")
        s.execute("EXECUTE p ('{\"n\": \"prepared\"}')")
        s.execute(self.insert("conflict") + " ON CONFLICT DO NOTHING")
        self.owner("CREATE TABLE business (i int); CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                   f"{self.insert('trigger')}; RETURN NULL; END $$; "
                   "CREATE TRIGGER t AFTER INSERT ON business FOR EACH ROW EXECUTE FUNCTION tell(); "
                   "GRANT ALL ON business TO app")
        s.execute("INSERT INTO business VALUES (1)")
        self.server.script(f"\\copy outbox {columns} FROM stdin\norder\tk\tchanged\t{{\"n\": \"copy\"}}\n\\.\n",
                           self.database, "app")
        self.wait_label("function", "cte", "prepared", "conflict", "trigger", "copy", relay=self.relay)
        self.assertEqual(len(self.delivered_labels()), 6)

    def test_a_late_row_survives_a_death_of_the_relay(self):
        slow = self.holding("slow")
        self.commit_event("fast")
        self.wait_label("fast", relay=self.relay)
        wait_until(lambda: self.gaps() not in (None, "{}"), "the gap to be saved")
        self.relay.kill()
        slow.commit()
        self.relay = self.start_relay()
        self.wait_label("slow", relay=self.relay)

    def test_a_transaction_that_ends_while_no_relay_runs_frees_its_gap(self):
        slow = self.holding("slow")
        self.commit_event("fast")
        self.wait_label("fast", relay=self.relay)
        wait_until(lambda: self.gaps() not in (None, "{}"), "the gap to be saved")
        self.stop_relay(self.relay)
        slow.rollback()
        self.relay = self.start_relay()
        self.commit_event("after")
        self.wait_label("after", relay=self.relay)
        self.wait_no_gaps()
        self.assertEqual(self.delivered_labels(), ["fast", "after"])

    def test_two_pipelines_read_one_outbox_each_at_its_own_pace(self):
        slow = self.holding("slow", "a")
        self.commit_event("fast", "b")
        self.wait_label("fast", relay=self.relay)
        again = self.path("again")
        self.run_outrider("relay", "--from", self.url, "--to", "file:" + again, "--name", "audit", "--once")
        self.assertEqual([r["payload"]["n"] for r in self.delivered(directory=again)], ["fast"])
        slow.commit()
        self.wait_label("slow", relay=self.relay)
        self.run_outrider("relay", "--from", self.url, "--to", "file:" + again, "--name", "audit", "--once")
        self.assertEqual([r["payload"]["n"] for r in self.delivered(directory=again)], ["fast", "slow"])


class Volume(PostgresTest):
    def test_a_copy_of_100000_rows_comes_whole_and_in_order(self):
        relay = self.start_relay()
        slow = self.session()
        slow.begin()
        slow.execute(self.insert("slow", "a"))
        rows = "".join(f'order\tcopy\tchanged\t{{"n": {i}}}\n' for i in range(100000))
        self.server.script("\\copy outbox (aggregate_type, aggregate_id, event_type, payload) FROM stdin\n"
                           + rows + "\\.\n", self.database, "app")
        wait_until(lambda: len(self.sink_rows.read()) >= 100000, "the rows of the copy", 120)
        self.assertEqual(self.delivered_labels(), list(range(100000)))
        slow.commit()
        self.wait_label("slow", relay=relay)
        self.stop_relay(relay)

    def test_100000_aborted_savepoints_under_an_idle_transaction_only_slow_it_down(self):
        relay = self.start_relay()
        idle = self.session()
        idle.begin()
        idle.execute(self.insert("idle", "idle"))
        self.owner("CREATE PROCEDURE storm() LANGUAGE plpgsql AS $$ BEGIN FOR i IN 1..10000 LOOP "
                   "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) VALUES "
                   "('order', 'storm', 'changed', jsonb_build_object('n', i)); "
                   "FOR j IN 1..10 LOOP BEGIN "
                   f"{self.insert('aborted')}; RAISE EXCEPTION 'no'; EXCEPTION WHEN raise_exception THEN NULL; "
                   "END; END LOOP; COMMIT; END LOOP; END $$")
        self.owner("CALL storm()")
        line = self.wait_log(relay, r"(?i)gaps")
        self.assertRegex(line, r"level=warn")
        self.assertRegex(line, rf"\b{idle.pid}\b", "the oldest transaction is not named")
        idle.commit()
        self.wait_label("idle", 10000, relay=relay)
        self.assertEqual([n for n in self.delivered_labels() if n != "idle"], list(range(1, 10001)))
        self.wait_no_gaps()
        self.commit_event("after")
        self.wait_label("after", relay=relay)
        self.stop_relay(relay)


class Partitioned(PostgresTest):
    init_arguments = ("--partition", "day")

    def test_a_late_row_in_a_partition_is_delivered(self):
        relay = self.start_relay()
        slow, aborted = self.session(), self.session()
        slow.begin()
        slow.execute(self.insert("slow", "a"))
        aborted.begin()
        aborted.execute(self.insert("aborted", "a"))
        self.commit_event("fast", "b")
        self.wait_label("fast", relay=relay)
        aborted.rollback()
        slow.commit()
        self.wait_label("slow", relay=relay)
        self.wait_no_gaps()
        self.assertEqual(self.delivered_labels(), ["fast", "slow"])
        self.stop_relay(relay)

    def test_rows_of_different_partitions_come_in_the_order_of_seq(self):
        s = self.owner_session()
        s.begin()
        for i in range(30):
            days = i % 3
            s.execute("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, created_at) VALUES "
                      f"('order', 'k', 'changed', '{{\"n\": {i}}}', now() - interval '{days} days')"
                      if self._has_partition(days) else self.insert(i).replace(f'"{i}"', str(i)))
        s.commit()
        self.relay_once()
        self.assertEqual(self.delivered_labels(), list(range(30)))

    def _has_partition(self, days):
        return bool(self.owner("SELECT 1 FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE "
                               "i.inhparent = 'outbox'::regclass AND c.relname LIKE "
                               f"'%' || to_char(now() - interval '{days} days', 'YYYYMMDD') || '%'"))


if __name__ == "__main__":
    harness.main()
