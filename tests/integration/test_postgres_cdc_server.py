# SPDX-License-Identifier: MIT
"""Mode cdc and its server: what is missing, what is lost, who else is there."""
import os
import signal
import subprocess
import unittest

from harness import OUTRIDER, environment, wait_until
from pgcdc import CdcTest
from pgserver import Proxy, Session


class Fill(CdcTest):
    def fill(self, megabytes):
        self.owner("CREATE TABLE IF NOT EXISTS other (filler text)")
        for _ in range(megabytes // 4):
            self.owner("INSERT INTO other SELECT string_agg(md5(i::text), '') FROM generate_series(1, 125000) i, "
                       "generate_series(1, 1) GROUP BY i % 2000")
        self.owner("CHECKPOINT")


class Rights(CdcTest):
    settings = {**CdcTest.settings, "max_replication_slots": 3, "max_wal_senders": 4}

    def refused(self, pattern):
        """It says so and waits: what is missing can be mended meanwhile."""
        relay = self.relay(wait=False)
        line = self.wait_log(relay, pattern)
        return relay, line

    def mended(self, relay):
        self.wait_streaming(relay)
        self.commit_event("a")
        self.wait_label("a", relay=relay)
        self.stop_relay(relay)

    def test_a_role_that_may_not_replicate(self):
        self.owner("ALTER ROLE relay NOREPLICATION")
        relay, _ = self.refused("role relay may not replicate.*ALTER ROLE relay REPLICATION")
        self.owner("ALTER ROLE relay REPLICATION")
        self.mended(relay)

    def test_no_publication_and_no_right_to_make_it(self):
        self.owner(f"DROP PUBLICATION {self.slot}")
        relay, line = self.refused(f"there is no publication {self.slot}.*CREATE PUBLICATION")
        statement = line[line.index("CREATE PUBLICATION"):].rstrip('"')
        self.owner(statement)
        self.mended(relay)

    def test_the_owner_makes_the_publication_itself(self):
        self.owner(f"DROP PUBLICATION {self.slot}")
        self.url = self.owner_url
        self.commit_event("a")
        self.once()
        self.assertEqual(self.owner(f"SELECT pubinsert, pubupdate, pubdelete, pubviaroot FROM pg_publication "
                                    f"WHERE pubname = '{self.slot}'"), [("t", "f", "f", "t")])

    def test_a_publication_that_lacks_the_outbox(self):
        self.owner(f"ALTER PUBLICATION {self.slot} DROP TABLE outbox")
        relay, _ = self.refused(f"publication {self.slot} does not publish all inserts.*ALTER PUBLICATION")
        self.owner(f"ALTER PUBLICATION {self.slot} SET TABLE outbox")
        self.mended(relay)

    def test_no_free_slot(self):
        for n in range(3):
            self.owner(f"SELECT pg_create_physical_replication_slot('taken{n}')")
        self.addCleanup(lambda: [self.owner(f"SELECT pg_drop_replication_slot('taken{n}')") for n in (1, 2)])
        relay, _ = self.refused("all 3 replication slots of the server are taken.*max_replication_slots")
        self.owner("SELECT pg_drop_replication_slot('taken0')")
        self.mended(relay)

    def test_no_free_sender(self):
        """A replication connection has a sender, also while it does nothing."""
        url = self.server.url(self.database)
        busy = [Session(f"{url}{'&' if '?' in url else '?'}replication=database") for _ in range(4)]
        for session in busy:
            self.addCleanup(session.close)
        relay, _ = self.refused("all 4 senders of the server are in use.*ALTER SYSTEM SET max_wal_senders = 14")
        for session in busy:
            session.close()
        self.mended(relay)

class NotLogical(CdcTest):
    settings = {"wal_level": "replica"}

    def test_wal_level_is_not_logical(self):
        done = self.once(code=1)
        self.assertRegex(done.err, "wal_level is replica, and mode cdc needs logical.*ALTER SYSTEM SET wal_level")


class Slot(Fill):
    settings = {**CdcTest.settings, "max_slot_wal_keep_size": "32MB", "min_wal_size": "32MB", "max_wal_size": "32MB"}

    def test_a_slot_that_was_dropped_is_a_precise_error_and_resync_delivers_what_is_there(self):
        self.commit_event("a")
        self.once()
        self.drop_slot()
        self.commit_event("b")
        done = self.once(code=1)
        self.assertRegex(done.err, f"slot {self.slot} is gone.*outrider resync --name {self.name}")
        status = self.run_outrider("status", "--db", self.url, "--name", self.name)
        self.assertRegex(status.out, f"slot {self.slot}: .*LOST.*resync")
        report = self.run_outrider("resync", "--db", self.url, "--name", self.name)
        self.assertRegex(report.out, f"slot {self.slot} is lost.*\n.*Cannot be known")
        self.once()
        self.assertEqual(sorted(set(self.delivered_labels())), ["a", "b"])
        self.assertEqual(self.cursor("mode"), "cdc")

    def test_resync_delivers_only_what_was_not_surely_delivered(self):
        relay = self.relay()
        self.wait_streaming(relay)
        for n in range(50):
            self.commit_event(f"e{n}")
        self.wait_label("e49", relay=relay)
        newest = int(self.owner("SELECT max(xmin::text::bigint) FROM outbox")[0][0])
        wait_until(lambda: int(self.cursor("settled_xid") or 0) > newest, "them to be settled")
        self.stop_relay(relay)
        wait_until(lambda: self.slot_value("active") == "f", "the slot to be free")
        slow = self.session()
        slow.begin()
        slow.execute(self.insert("slow", "s"))
        self.commit_event("lost")
        self.drop_slot()
        report = self.run_outrider("resync", "--db", self.url, "--name", self.name)
        self.assertRegex(report.out, "1 rows that public.outbox still holds were not surely delivered")
        slow.commit()
        self.once()
        self.assertEqual(sorted(self.delivered_labels()[50:]), ["lost", "slow"])

    def test_resync_after_a_lost_slot_delivers_the_newest_row_too(self):
        for mode in ("cdc", "poll"):
            with self.subTest(mode=mode):
                self.commit_event(f"{mode} a")
                relay = self.relay()
                self.wait_label(f"{mode} a", relay=relay)
                wait_until(lambda: self.cursor("settled_xid"), "settled transactions to be known")
                self.stop_relay(relay)
                for n in "bc":
                    self.commit_event(f"{mode} {n}")
                self.drop_slot()
                self.run_outrider("resync", "--db", self.url, "--name", self.name)
                self.once(mode=mode)
                self.assertLessEqual({f"{mode} {n}" for n in "abc"}, set(self.delivered_labels()))

    def test_an_invalidated_slot_is_a_precise_error(self):
        self.once()
        self.commit_event("a")
        self.fill(160)
        wait_until(lambda: self.owner("CHECKPOINT") is not None and self.slot_value("wal_status") == "lost",
                   lambda: self.slot_value("wal_status"))
        done = self.once(code=1)
        self.assertRegex(done.err, f"slot {self.slot} was invalidated.*max_slot_wal_keep_size.*resync")
        self.run_outrider("resync", "--db", self.url, "--name", self.name)
        self.once()
        self.assertEqual(self.delivered_labels(), ["a"])

    def test_status_shows_the_slot_and_slot_drop_drops_it(self):
        relay = self.relay()
        self.wait_streaming(relay)
        self.commit_event("a")
        self.wait_label("a", relay=relay)
        self.wait_confirmed()
        row = self.run_outrider("status", "--db", self.url, "--name", self.name, "--json").json()["pipelines"][0]
        self.assertEqual((row["pending"], row["slot"]["active"], row["slot"]["lost"]), (0, True, False))
        self.assertLess(row["slot"]["lag_bytes"], 1 << 20)
        refused = self.run_outrider("slot", "drop", "--db", self.url, "--name", self.name, code=1)
        self.assertRegex(refused.err, f"slot {self.slot} is in use.*stop the relay first")
        self.stop_relay(relay)
        wait_until(lambda: self.slot_value("active") == "f", "the slot to be free")
        self.run_outrider("slot", "drop", "--db", self.url, "--name", self.name)
        self.assertIsNone(self.slot_value("slot_name"))
        gone = self.run_outrider("slot", "drop", "--db", self.url, "--name", self.name, code=1)
        self.assertIn("there is no replication slot", gone.err)


class Quiet(Fill):
    settings = {**CdcTest.settings, "min_wal_size": "32MB", "max_wal_size": "64MB"}

    def test_an_idle_outbox_beside_a_busy_table_does_not_pin_the_log(self):
        relay = self.relay()
        self.wait_streaming(relay)
        self.fill(500)
        self.wait_confirmed()
        wait_until(lambda: (self.owner("CHECKPOINT") is not None and
                            float(self.slot_value("pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)")) < 16 << 20),
                   "the log to be given back")
        self.commit_event("a")
        self.wait_label("a", relay=relay)
        self.stop_relay(relay)


class Alive(CdcTest):
    settings = {**CdcTest.settings, "wal_sender_timeout": "1s"}

    def test_a_sink_that_stalls_does_not_end_the_stream(self):
        self.once()
        self.owner("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) SELECT 'order', i::text, "
                   "'changed', jsonb_build_object('n', repeat('x', 10000)) FROM generate_series(1, 3000) i")
        self.owner(f"UPDATE outrider_cursor SET sink = 'stdout:' WHERE pipeline = '{self.name}'")
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        with open(self.path("err"), "wb") as err:
            relay = subprocess.Popen([OUTRIDER, "relay", "--from", self.url, "--to", "stdout:", "--mode", "cdc",
                                      "--name", self.name], stdout=writer, stderr=err, env=environment(), cwd=self.dir)
        self.addCleanup(relay.wait)
        self.addCleanup(relay.kill)
        os.close(writer)
        first = wait_until(lambda: self.slot_value("active_pid"), "the stream")
        begin = self.owner("SELECT clock_timestamp()")[0][0]
        wait_until(lambda: self.owner(f"SELECT 1 WHERE clock_timestamp() > '{begin}'::timestamptz + interval '5 s'"),
                   "five times wal_sender_timeout")
        self.assertEqual(self.slot_value("active_pid"), first)
        self.assertIsNone(relay.poll())

    def test_a_connection_that_is_half_open_is_noticed(self):
        with Proxy(self.server.port) as proxy:
            self.url = self.server.url(self.database, "relay", port=proxy.port)
            relay = self.relay()
            self.wait_streaming(relay)
            self.commit_event("a")
            self.wait_label("a", relay=relay)
            proxy.freeze()
            self.wait_log(relay, "did not answer|source lost|connection is lost")
            proxy.thaw()
            self.commit_event("b")
            self.wait_label("b", relay=relay)
            self.stop_relay(relay)

    def test_a_connection_that_is_half_open_before_the_stream_begins_is_noticed(self):
        with Proxy(self.server.port) as proxy:
            self.once()
            self.url = self.server.url(self.database, "relay", port=proxy.port)
            proxy.freeze_behind = b"START_REPLICATION"
            relay = self.relay(wait=False)
            self.wait_log(relay, "did not answer on the replication connection")
            proxy.thaw()
            self.commit_event("a")
            self.wait_label("a", relay=relay)
            self.stop_relay(relay)


class TakeOver(CdcTest):
    def test_a_standby_takes_over_from_one_that_was_killed_and_from_one_that_hangs(self):
        first = self.relay()
        self.wait_streaming(first)
        second = self.relay(wait=False)
        self.wait_log(second, "standby|another relay")
        self.commit_event("a")
        self.wait_label("a", relay=first)
        first.kill()
        self.commit_event("b")
        self.wait_label("b", relay=second)
        third = self.relay(wait=False)
        self.wait_log(third, "standby|another relay")
        reader = self.slot_value("active_pid")
        second.send(signal.SIGSTOP)
        third.wait_for_log("connected and active")
        wait_until(lambda: self.slot_value("active_pid") not in (None, reader), "the slot to have another reader")
        second.kill()  # it still holds the file sink's lock
        self.commit_event("c")
        self.wait_label("c", relay=third)
        self.assert_all_delivered()
        self.stop_relay(third)

    def test_the_server_is_restarted_under_load(self):
        relay = self.relay()
        self.wait_streaming(relay)
        with self.load("a", "b") as loads:
            for how in ("fast", "immediate", "fast"):
                for load in loads:
                    load.wait(20)
                self.server.restart(how)
            for load in loads:
                load.wait(20)
        self.assert_all_delivered(loads)
        self.stop_relay(relay)

    def test_a_server_that_failed_over_has_no_slot_and_says_so(self):
        self.commit_event("a")
        self.once()
        standby = self.server.standby()
        self.addCleanup(standby.remove)
        standby.promote()
        url = standby.url(self.database, "relay")
        done = self.run_outrider("relay", "--from", url, "--to", self.sink, "--mode", "cdc", "--name", self.name,
                                 "--once", code=1)
        self.assertRegex(done.err, f"slot {self.slot} is gone.*failed over.*resync")


if __name__ == "__main__":
    unittest.main()
