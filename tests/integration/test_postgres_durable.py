# SPDX-License-Identifier: MIT
"""What is on disk before an event is published, in every layout and mode: on the disk
of this server, always; and on a standby's, with source.durable: standby."""
import os
import signal
import subprocess

import harness
import pgcdc
from harness import wait_until
from pgcase import PostgresTest

LOGICAL = {"wal_level": "logical"}


class Durable:
    """The tests; a class below says which rows a relay reads, and how."""
    arguments = ()
    table = "outbox"

    def setUp(self):
        super().setUp()
        self.owner("GRANT pg_monitor TO relay")
        self.standby = self.server.standby()
        self.addCleanup(self.standby.remove)

    def durable_relay(self, *more):
        relay = self.start("relay", "--from", self.url, "--to", self.sink, "--set", "source.durable=standby",
                           *self.arguments, *more)
        relay.wait_for_log("connected and active")
        return relay

    def labels(self, server):
        return {n for (n,) in server.query(f"SELECT payload->>'n' FROM {self.table}", self.database)}

    def wait_waiting(self, relay, *labels):
        """Until the relay says that it waits; or has published what it should not have."""
        wait_until(lambda: "no standby has confirmed" in relay.err() or set(labels) & set(self.delivered_labels()),
                   "the relay to wait")

    def freeze_standby(self):
        pid = int(self.standby.query("SELECT pid FROM pg_stat_wal_receiver")[0][0])
        os.kill(pid, signal.SIGSTOP)
        self.addCleanup(os.kill, pid, signal.SIGCONT)
        return pid

    def logical_reader(self):
        """Somebody else's stream, which confirms at once what it has read."""
        self.owner("CREATE PUBLICATION others FOR ALL TABLES")
        reader = ("-d", self.database, "-h", self.server.root, "-p", str(self.server.port), "-U", self.server.user,
                  "--slot", "reader_" + self.database)
        program = os.path.join(self.server.bin, "pg_recvlogical")
        subprocess.run([program, *reader, "--create-slot", "-P", "pgoutput"], check=True, **self.server._as)
        p = subprocess.Popen([program, *reader, "--start", "-f", "/dev/null", "-F", "1", "-s", "1", "-o",
                              "proto_version=1", "-o", "publication_names=others"], **self.server._as)

        def end():
            p.kill()
            p.wait()
            self.server.query(f"SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active AND "
                              f"slot_name = 'reader_{self.database}'")
            wait_until(lambda: self.server.query("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
                                                 f"WHERE NOT active AND slot_name = 'reader_{self.database}'"), "the slot")
        self.addCleanup(end)

    def wait_reader(self):
        lsn = self.owner("SELECT pg_current_wal_flush_lsn()")[0][0]
        wait_until(lambda: self.owner("SELECT 1 FROM pg_stat_replication WHERE application_name = 'pg_recvlogical' "
                                      f"AND state = 'streaming' AND flush_lsn >= '{lsn}'"), "the reader to confirm")

    def test_an_event_waits_for_a_standby_whatever_a_logical_reader_has(self):
        relay = self.durable_relay()
        self.commit_event("one")
        self.wait_label("one", relay=relay)
        self.logical_reader()
        self.wait_reader()
        pid = self.freeze_standby()
        self.commit_event("two")
        self.wait_reader()
        self.wait_waiting(relay, "two")
        self.assertEqual(self.delivered_labels(), ["one"], relay.err())
        os.kill(pid, signal.SIGCONT)
        self.wait_label("two", relay=relay)
        self.stop_relay(relay)

    def test_after_a_failover_the_survivor_knows_all_that_was_published(self):
        relay = self.durable_relay()
        with self.load("a", "b") as loads:
            loads[0].wait(50)
            wait_until(self.delivered_labels, "something to be published")
            self.standby.configure(primary_conninfo="''")
            wait_until(lambda: not self.owner("SELECT 1 FROM pg_stat_replication r JOIN pg_stat_activity a USING (pid) "
                                              "WHERE a.datid IS NULL"), "the standby to be cut off")
            for load in loads:
                load.wait(50)
            self.wait_waiting(relay, loads[0].committed[-1])
            self.addCleanup(self.server.start)
            self.server.stop("immediate")
            for load in loads:
                load._stop.set()
        relay.kill()
        self.standby.promote()
        known = self.labels(self.standby)
        self.assertTrue(set(loads[0].committed) - known, "the failover lost nothing: it proves nothing")
        self.assertEqual(sorted(set(self.delivered_labels()) - known)[:5], [], "published, and unknown to the survivor")


class Adoption:
    """A table of the application's own."""
    table = "events"
    arguments = ("--table", "events")

    def setUp(self):
        super().setUp()
        self.owner("CREATE TABLE events (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregate_type text NOT NULL, "
                   "aggregate_id text NOT NULL, event_type text NOT NULL, payload jsonb, published_at timestamptz, "
                   "created_at timestamptz NOT NULL DEFAULT clock_timestamp())")
        self.owner("GRANT SELECT, UPDATE ON events TO outrider_relay; GRANT INSERT ON events TO app")

    @staticmethod
    def insert(label, key="k"):
        return PostgresTest.insert(label, key).replace("INTO outbox", "INTO events")


class Ends:
    """Of a relay that waits."""

    def test_once_waits_too_and_ends_when_a_standby_has_everything(self):
        pid = self.freeze_standby()
        self.commit_event("one")
        once = self.start("relay", "--from", self.url, "--to", self.sink, "--set", "source.durable=standby", "--once",
                          *self.arguments)
        self.wait_waiting(once, "one")
        self.assertEqual(self.delivered_labels(), [], once.err())
        os.kill(pid, signal.SIGCONT)
        self.assertEqual(once.join(), 0, once.err())
        self.assertEqual(self.delivered_labels(), ["one"])

    def test_a_relay_that_waits_for_a_standby_can_be_stopped(self):
        relay = self.durable_relay("--set", "shutdown_timeout=1s")
        self.freeze_standby()
        self.commit_event("one")
        self.wait_waiting(relay, "one")
        self.stop_relay(relay)
        self.assertEqual(self.delivered_labels(), [])


class Replay:
    """What is read again waits as it did the first time."""

    def test_a_replay_waits_too(self):
        self.commit_event("one")
        pid = self.freeze_standby()
        self.commit_event("two")
        self.run_outrider("relay", "--from", self.url, "--to", "null:", "--name", "other", "--once")
        replay = self.start("replay", "--db", self.url, "--to", self.sink, "--set", "source.durable=standby", "--from-seq",
                            "1")
        self.wait_waiting(replay, "one", "two")
        self.assertEqual(self.delivered_labels(), [], replay.err())
        os.kill(pid, signal.SIGCONT)
        self.assertEqual(replay.join(), 0, replay.err())
        self.assertEqual(self.delivered_labels(), ["one", "two"])


class Log(Ends, Replay, Durable, PostgresTest):
    settings = LOGICAL

    def diagnose(self, code):
        return self.run_outrider("doctor", "--from", self.url, "--set", "source.durable=standby", code=code).out

    def test_the_doctor_says_whether_there_is_a_standby_and_whether_the_relay_may_see_it(self):
        wait_until(lambda: self.owner("SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'"), "the standby")
        self.assertIn("1 standby receives what this server writes", self.diagnose(0))
        self.owner("REVOKE pg_monitor FROM relay")
        self.assertIn("may not see", self.diagnose(1))
        self.owner("GRANT pg_monitor TO relay")
        self.standby.stop()
        wait_until(lambda: not self.owner("SELECT 1 FROM pg_stat_replication"), "the standby to be gone")
        self.assertIn("no standby receives what this server writes", self.diagnose(1))


class Status(Replay, Durable, PostgresTest):
    settings = LOGICAL
    init_arguments = ("--layout", "status")


class Competing(Status):
    """Rows are claimed, and the claim is a commit of its own."""
    arguments = ("--set", "ordered=false")


class Adopted(Adoption, Durable, PostgresTest):
    settings = LOGICAL


class Stream(Ends, Durable, pgcdc.CdcTest):
    def setUp(self):
        super().setUp()
        self.arguments = ("--mode", "cdc", "--name", self.name)


class Crash:
    """Commits that are not flushed yet, and a server that crashes. The WAL writer is
    slow, so that a relay that published what it merely sees would publish what the
    crash undoes. (Layout log: test_postgres_log_history.py.)"""
    settings = {**LOGICAL, "synchronous_commit": "off", "wal_writer_delay": "10s"}
    arguments = ()
    table = "outbox"

    def test_no_event_is_published_that_a_crash_undoes(self):
        relay = self.start("relay", "--from", self.url, "--to", self.sink, *self.arguments)
        relay.wait_for_log("connected and active")
        for round_no in range(3):
            with self.load(f"a{round_no}", f"b{round_no}", f"c{round_no}") as loads:
                for load in loads:
                    load.wait(60)
                self.server.stop("immediate")
                for load in loads:
                    load._stop.set()
            self.server.start()
            self.commit_event(f"end-{round_no}")
            self.wait_label(f"end-{round_no}", relay=relay)
            kept = {n for (n,) in self.owner(f"SELECT payload->>'n' FROM {self.table}")}
            self.assertEqual(sorted(set(self.delivered_labels()) - kept)[:5], [], "published, and undone by the crash")
        self.stop_relay(relay)


class StatusCrash(Crash, PostgresTest):
    init_arguments = ("--layout", "status")


class CompetingCrash(StatusCrash):
    arguments = ("--set", "ordered=false")


class AdoptedCrash(Adoption, Crash, PostgresTest):
    pass


class StreamCrash(Crash, pgcdc.CdcTest):
    settings = {**pgcdc.CdcTest.settings, **Crash.settings}

    def setUp(self):
        super().setUp()
        self.arguments = ("--mode", "cdc", "--name", self.name)


if __name__ == "__main__":
    harness.main()
