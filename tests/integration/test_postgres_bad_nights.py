# SPDX-License-Identifier: MIT
"""Bad nights: the server restarts, connections drop, rights and tables go and
come back. Each time a clear line in the log, backoff, recovery without a
restart of the relay, and nothing lost."""
import os
import random
import subprocess
import sys
import time

import harness
from harness import wait_until
from pgcase import PostgresTest
from pgserver import Proxy, Server, Session


class BadNights(PostgresTest):
    def lost(self, relay, pattern, since):
        """The line that tells of the trouble, at warn, with a reason that fits."""
        line = self.wait_log(relay, f"source lost.*(?i:{pattern})", since)
        self.assertRegex(line, "level=warn")
        return line

    def recovered(self, relay, since, label="after"):
        self.wait_log(relay, "connected and active", since)
        self.commit_event(label)
        self.wait_label(label, relay=relay)

    def night(self, spoil, mend, pattern, relay=None):
        """Spoils something under a running relay, sees it told, mends it."""
        relay = relay or self.start_relay()
        self.commit_event("before")
        self.wait_label("before", relay=relay)
        since = len(relay.err_lines)
        spoil()
        self.lost(relay, pattern, since)
        mend()
        self.recovered(relay, since)
        self.assert_all_delivered()
        self.stop_relay(relay)

    def test_a_fast_and_an_immediate_restart_under_load(self):
        relay = self.start_relay()
        with self.load("a", "b") as loads:
            for mode in ("fast", "immediate", "fast", "immediate"):
                loads[0].wait(20)
                since = len(relay.err_lines)
                self.server.restart(mode)
                self.lost(relay, r"error_code=\w+", since)
                self.wait_log(relay, "connected and active", since)
                loads[0].wait(20)
        self.assert_all_delivered(loads)
        self.stop_relay(relay)

    def test_a_killed_backend_that_takes_the_whole_server_into_recovery(self):
        relay = self.start_relay()
        with self.load("a") as loads:
            loads[0].wait(20)
            since = len(relay.err_lines)
            os.kill(loads_backend(self), 9)
            self.wait_log(relay, "connected and active", since)
            loads[0].wait(20)
        self.assert_all_delivered(loads)
        self.stop_relay(relay)

    def test_a_server_that_is_away_when_the_relay_starts(self):
        self.server.stop()
        try:
            relay = self.start("relay", "--from", self.url, "--to", self.sink)
            self.wait_log(relay, "source lost")
        finally:
            self.server.start()
        self.wait_log(relay, "connected and active")
        self.commit_event("after")
        self.wait_label("after", relay=relay)
        self.stop_relay(relay)

    def test_once_gives_up_after_connect_timeout_when_there_is_no_server(self):
        self.server.stop()
        try:
            result = self.relay_once("--set", "connect_timeout=1s", code=1)
            self.assertRegex(result.err, "(?i)connect")
        finally:
            self.server.start()

    def test_backends_terminated_at_random(self):
        relay = self.start_relay()
        chance = random.Random(3)
        with self.load("a", "b", "c") as loads:
            for _ in range(12):
                loads[0].wait(chance.randrange(1, 12))
                self.owner("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'relay'")
        self.assert_all_delivered(loads)
        self.stop_relay(relay)

    def test_a_connection_that_drops_at_any_statement(self):
        """The proxy cuts each connection after n packets of the client's, for every n."""
        with Proxy(self.server.port) as proxy:
            url = self.server.url(self.database, "relay", port=proxy.port)
            proxy.cut_after = 1
            relay = self.start("relay", "--from", url, "--to", self.sink)
            with self.load("a", pause=0.002) as loads:
                for n in range(1, 26):
                    proxy.cut_after = n
                    before = proxy.connections
                    proxy.cut()
                    wait_until(lambda b=before: proxy.connections > b, f"a new connection after {n} packets")
                proxy.cut_after = 0
                proxy.cut()
                loads[0].wait(5)
            self.assert_all_delivered(loads)
            self.stop_relay(relay)

    def test_a_statement_timeout_on_the_role(self):
        """Overridden by our session, or told, with what to do about it."""
        self.server.script("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) "
                           "SELECT 'order', 'k', 'changed', jsonb_build_object('n', i) FROM generate_series(1, 20000) i",
                           self.database, "app")
        self.owner("ALTER ROLE relay SET statement_timeout = '1ms'")
        try:
            relay = self.start("relay", "--from", self.url, "--to", self.sink, "--set", "source.batch=10000")
            line = self.wait_log(relay, "source lost|connected and active")
            if "source lost" in line:
                self.assertIn("statement_timeout", line)
        finally:
            self.owner("ALTER ROLE relay RESET statement_timeout")
        wait_until(lambda: len(set(self.delivered_labels())) == 20000, "all events in spite of statement_timeout")
        self.stop_relay(relay)

    def test_other_settings_of_the_role_do_no_harm(self):
        for number, setting in enumerate(("default_transaction_isolation = 'serializable'", "default_transaction_isolation = "
                        "'repeatable read'", "lock_timeout = '1ms'", "idle_in_transaction_session_timeout = '1s'",
                        "extra_float_digits = 0", "DateStyle = 'SQL, DMY'", "TimeZone = 'Asia/Seoul'",
                        "bytea_output = 'escape'", "IntervalStyle = 'iso_8601'", "client_encoding = 'latin1'",
                        "synchronous_commit = 'off'", "search_path = 'public'", "row_security = off",
                        "standard_conforming_strings = off")):
            with self.subTest(setting):
                name = setting.split(" ", 1)[0]
                self.owner(f"ALTER ROLE relay SET {setting}")
                try:
                    label = f"{number}-ü"
                    self.commit_event(label, "ключ")
                    self.relay_once()
                    row = self.sink_rows.read()[-1]
                    self.assertEqual((row["payload"]["n"], row["key"]), (label, "ключ"))
                finally:
                    self.owner(f"ALTER ROLE relay RESET {name}")

    def test_serializable_writers(self):
        relay = self.start_relay()
        with self.load("a", "b", options="-c default_transaction_isolation=serializable") as loads:
            self.owner("ALTER ROLE relay SET default_transaction_isolation = 'serializable'")
            self.addCleanup(self.server.query, "ALTER ROLE relay RESET default_transaction_isolation")
            self.owner("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'relay'")
            loads[0].wait(100)
        self.assert_all_delivered(loads)
        self.stop_relay(relay)

    def test_a_lock_on_the_cursor_is_waited_out(self):
        relay = self.start_relay()
        self.commit_event("before")
        self.wait_label("before", relay=relay)
        wait_until(lambda: self.position() == 1, "the position to be saved")
        other = self.owner_session()
        other.begin()
        other.execute("SELECT 1 FROM outrider_cursor FOR UPDATE")
        self.commit_event("meanwhile")
        wait_until(lambda: self.owner("SELECT 1 FROM pg_locks WHERE NOT granted") or
                   any("source lost" in line for line in relay.err_lines), "the relay to want the row")
        other.commit()
        self.commit_event("after")
        self.wait_label("meanwhile", "after", relay=relay)
        self.stop_relay(relay)

    def test_a_deadlock_is_survived(self):
        """The relay settles a dead letter (no file has so long a name): it holds the cursor and wants to
        park, while another session keeps it from parking and wants the cursor.
        The server ends the relay's transaction, which waited for less long."""
        relay = self.start_relay()
        other = self.owner_session()
        other.execute("SET deadlock_timeout = '10min'")
        other.begin()
        other.execute("LOCK TABLE outrider_parked IN SHARE MODE")
        self.owner(self.insert("dead").replace("payload)", "payload, topic)").replace("}')", "}', repeat('x', 300))"))
        wait_until(lambda: self.owner("SELECT 1 FROM pg_locks WHERE NOT granted AND relation = "
                                      "'outrider_parked'::regclass"), "the relay to wait")
        other.execute("UPDATE outrider_cursor SET epoch = epoch")
        other.commit()
        self.assertRegex(self.wait_log(relay, "source lost"), "(?i)deadlock|40P01")
        self.commit_event("after")
        self.wait_label("after", relay=relay)
        wait_until(lambda: self.owner("SELECT state FROM outrider_parked") == [("dead",)], "the dead letter")
        self.stop_relay(relay)

    def test_rights_revoked_and_given_back(self):
        table = self.owner("SELECT string_agg(privilege_type, ', ') FROM information_schema.role_table_grants "
                           "WHERE table_name = 'outbox' AND grantee = 'outrider_relay'")[0][0]
        self.night(lambda: self.owner("REVOKE ALL ON outbox FROM outrider_relay") and None or
                   self.commit_event("meanwhile"),
                   lambda: self.owner(f"GRANT {table} ON outbox TO outrider_relay"), "denied|right|privilege|lacks")

    def test_rights_to_the_cursor_revoked_and_given_back(self):
        rights = self.owner("SELECT string_agg(privilege_type, ', ') FROM information_schema.role_table_grants "
                            "WHERE table_name = 'outrider_cursor' AND grantee = 'outrider_relay'")[0][0]
        self.night(lambda: self.owner("REVOKE ALL ON outrider_cursor FROM outrider_relay") and None or
                   self.commit_event("meanwhile"),
                   lambda: self.owner(f"GRANT {rights} ON outrider_cursor TO outrider_relay"),
                   "denied|right|privilege|lacks")

    def test_a_table_renamed_away_and_back(self):
        self.night(lambda: self.owner("ALTER TABLE outbox RENAME TO outbox_away"),
                   lambda: self.owner("ALTER TABLE outbox_away RENAME TO outbox"), "NO_OUTBOX|no table|outrider init")

    def test_the_cursor_renamed_away_and_back(self):
        self.night(lambda: self.owner("ALTER TABLE outrider_cursor RENAME TO away") and None or
                   self.commit_event("meanwhile"),
                   lambda: self.owner("ALTER TABLE away RENAME TO outrider_cursor"), "outrider_cursor|outrider init")

    def test_a_column_added_and_an_index_rebuilt_under_way(self):
        relay = self.start_relay()
        with self.load("a") as loads:
            loads[0].wait(10)
            self.owner("ALTER TABLE outbox ADD COLUMN note text DEFAULT 'x'")
            loads[0].wait(10)
            self.owner("REINDEX TABLE outbox")
            self.owner("VACUUM FULL outbox")
            loads[0].wait(10)
            self.owner("ALTER TABLE outbox ALTER COLUMN aggregate_id TYPE varchar(200)")
            loads[0].wait(10)
            self.owner("VACUUM FULL outrider_cursor")
            loads[0].wait(10)
        self.assert_all_delivered(loads)
        self.stop_relay(relay)

    def test_max_connections_reached(self):
        self.owner("ALTER ROLE relay CONNECTION LIMIT 0")
        relay = self.start("relay", "--from", self.url, "--to", self.sink)
        try:
            line = self.wait_log(relay, "source lost")
            self.assertRegex(line, "(?i)too many connections")
        finally:
            self.owner("ALTER ROLE relay CONNECTION LIMIT -1")
        self.recovered(relay, 0)
        self.stop_relay(relay)

    def test_the_servers_max_connections_reached(self):
        crowd = []
        try:
            while len(crowd) < 100:
                crowd.append(Session(self.server.url(self.database, "app")))
        except Exception:  # full
            pass
        try:
            self.assertLess(len(crowd), 100)
            relay = self.start("relay", "--from", self.url, "--to", self.sink)
            line = self.wait_log(relay, "source lost")
            self.assertRegex(line, "(?i)too many (clients|connections)|remaining connection slots")
        finally:
            for session in crowd:
                session.kill()
        self.recovered(relay, 0)
        self.stop_relay(relay)

    def test_a_wrong_password_or_role_is_told(self):
        result = self.run_outrider("relay", "--from", self.server.url(self.database, "nobody_of_that_name"), "--to",
                                   self.sink, "--once", "--set", "connect_timeout=1s", code=None)
        self.assertNotEqual(result.code, 0)
        self.assertRegex(result.err, "nobody_of_that_name")

    def test_parameters_of_the_url_reach_libpq(self):
        self.commit_event("one")
        url = self.server.url(self.database, "relay", application_name="my relay", connect_timeout="5")
        relay = self.start("relay", "--from", url, "--to", self.sink)
        self.wait_label("one", relay=relay)
        self.assertTrue(self.owner("SELECT 1 FROM pg_stat_activity WHERE application_name = 'my relay'"))
        self.stop_relay(relay)


def loads_backend(test):
    """The process of a writer's session."""
    return int(test.owner("SELECT pid FROM pg_stat_activity WHERE usename = 'app' "
                          f"AND datname = '{test.database}' LIMIT 1")[0][0])


class ReadOnly(PostgresTest):
    def test_a_standby_is_refused_until_it_is_promoted(self):
        self.commit_event("before")
        standby = self.server.standby()
        self.addCleanup(standby.remove)
        wait_until(lambda: standby.query("SELECT 1 FROM outbox", self.database), "the standby to catch up")
        relay = self.start("relay", "--from", standby.url(self.database, "relay"), "--to", self.sink)
        line = self.wait_log(relay, "source lost")
        self.assertRegex(line, "(?i)standby|recovery|read-only")
        self.server.stop()
        try:
            standby.promote()
            self.wait_label("before", relay=relay)
            self.stop_relay(relay)
        finally:
            self.server.start()

    def test_a_database_that_is_read_only_for_a_while(self):
        self.owner(f"ALTER DATABASE {self.database} SET default_transaction_read_only = on")
        relay = self.start("relay", "--from", self.url, "--to", self.sink)
        # Overridden by our session, or told; in both cases it goes on later.
        wait_until(lambda: any("source lost" in line or "connected and active" in line for line in relay.err_lines),
                   "an answer")
        self.server.query(f"ALTER DATABASE {self.database} RESET default_transaction_read_only")
        self.server.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'relay'")
        self.commit_event("after")
        self.wait_label("after", relay=relay)
        self.stop_relay(relay)


class DiskFull(PostgresTest):
    """The server's whole disk is a small tmpfs."""

    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            message = "a full disk is NOT TESTED: only root can mount a small one"
            print(message, file=sys.stderr)
            raise harness.unittest.SkipTest(message)
        cls.server = Server(max_wal_size="48MB", min_wal_size="32MB", autovacuum="off")
        cls.addClassCleanup(cls.server.remove)
        os.mkdir(cls.server.data)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160m,mode=0700", "tmpfs", cls.server.data],
                              capture_output=True, text=True)
        if done.returncode != 0:
            message = "a full disk is NOT TESTED: cannot mount a tmpfs here: " + done.stderr.strip()
            print(message, file=sys.stderr)
            raise harness.unittest.SkipTest(message)
        cls.addClassCleanup(lambda: (cls.server.stop("immediate"), subprocess.run(["umount", "-l", cls.server.data])))
        os.chown(cls.server.data, cls.server._as["user"], cls.server._as["group"])
        cls.server.initialise()
        cls.server.start()
        cls.template = None

    def test_a_full_disk_is_survived(self):
        relay = self.start_relay()
        self.commit_event("before")
        self.wait_label("before", relay=relay)
        ballast = os.path.join(self.server.data, "ballast")
        with open(ballast, "wb") as f:
            try:
                while True:
                    f.write(b"\0" * 65536)
                    f.flush()
            except OSError:
                pass
        # Writers fail, or the server dies for want of WAL; the relay waits for better times.
        load = self.load("a")
        with load as loads:
            deadline = time.monotonic() + 10
            wait_until(lambda: time.monotonic() > deadline or not self.server.is_running() or
                       "No space left" in self.server.log_tail(200), "the disk to be felt")
            os.unlink(ballast)
            if not self.server.is_running():
                self.server.start()
            wait_until(lambda: self.can_write(), "the server to write again")
            loads[0].wait(5)
        self.commit_event("after")
        self.wait_label("after", relay=relay)
        self.assert_all_delivered(loads)
        self.stop_relay(relay)

    def can_write(self):
        if not self.server.is_running():
            self.server.start()
        try:
            self.commit_event("probe")
            return True
        except Exception:
            return False


if __name__ == "__main__":
    harness.main()
