# SPDX-License-Identifier: MIT
"""What surrounds a relay: two inits at once, TLS, a standby to fail over to, a
pooler in between, and an idle relay that tidies up its cursor."""
import os
import shutil
import subprocess
import sys

import harness
from harness import wait_until
from pgcase import PostgresTest
from pgserver import Session, SqlError, clean_environment, free_port, wait_for


class InitAtOnce(PostgresTest):
    """On a cluster that has no role of ours yet: roles belong to all its databases."""

    def _make_database(self):
        return self.server.create_database()

    def test_several_inits_at_once_all_succeed(self):
        other = self.server.create_database()
        urls = [self.owner_url] * 4 + [self.server.url(other)] * 2
        running = [self.start("init", "--db", url, "--partition", "day") for url in urls]
        for init in running:
            self.assertEqual(init.join(), 0, init.err())
        self.server.query("CREATE ROLE relay LOGIN IN ROLE outrider_relay")
        for database in (self.database, other):
            self.assertEqual(self.server.query("SELECT version FROM outrider_schema", database), [("3",)])
            self.server.query(self.insert(database), database)
            self.run_outrider("relay", "--from", self.server.url(database, "relay"), "--to", self.sink, "--name", database,
                              "--once")
        self.assertEqual(set(self.delivered_labels()), {self.database, other})


class Upgrade(PostgresTest):
    """A database that version 1 of the schema was made in."""

    def make_outbox(self, server, database):
        with open(os.path.join(os.path.dirname(harness.__file__), "schemas", "postgres_1.sql"), encoding="utf-8") as f:
            server.script(f.read(), database)
        server.query("CREATE ROLE app LOGIN IN ROLE outrider_writer")
        server.query("CREATE ROLE relay LOGIN IN ROLE outrider_relay")
        server.script("INSERT INTO outrider_cursor (pipeline, outbox, sink, position, anchor_id) SELECT 'default', "
                      "'public.outbox', '', 1, '00000000-0000-4000-8000-000000000001'; INSERT INTO outbox (id, "
                      "aggregate_type, aggregate_id, event_type, payload) VALUES ('00000000-0000-4000-8000-000000000001', "
                      "'order', 'k', 'changed', '{\"n\": \"before\"}'); INSERT INTO outrider_parked (pipeline, outbox, lane, "
                      "state, seq, id, aggregate_type, aggregate_id, event_type, payload, next_attempt_at) VALUES ('default', "
                      "'public.outbox', 'p', 'parked', 7, 'p7', 'order', 'p', 'changed', '{\"n\": \"parked\"}', now())", database)

    def test_a_relay_says_to_run_init_and_goes_on_when_that_is_done(self):
        self.commit_event("after")
        relay = self.start("relay", "--from", self.url, "--to", self.sink)
        self.wait_log(relay, "older version.*lacks mode.*outrider init")
        for command in (("status", "--db"), ("doctor", "--from")):
            result = self.run_outrider(*command, self.url, code=1)
            self.assertRegex(result.out + result.err, "older version.*outrider init")
        self.run_outrider("init", "--db", self.owner_url)
        self.wait_label("after", "parked", relay=relay)
        self.stop_relay(relay)
        # What was settled before stays so.
        self.assertNotIn("before", self.delivered_labels())
        self.assertEqual(self.owner("SELECT version FROM outrider_schema"), [("3",)])

    def test_an_upgraded_schema_is_the_same_as_a_new_one(self):
        fresh = self.server.create_database()
        self.run_outrider("init", "--db", self.server.url(fresh))
        self.assertNotIn("ALTER TABLE", self.run_outrider("init", "--dry-run", "--db", self.server.url(fresh)).out)
        self.assertIn("ALTER TABLE", self.run_outrider("init", "--dry-run", "--db", self.owner_url).out)
        self.run_outrider("init", "--db", self.owner_url)
        columns = ("SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns "
                   "WHERE table_schema = 'public' ORDER BY 1, 2")
        indexes = "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1"
        checks = ("SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE "
                  "connamespace = 'public'::regnamespace ORDER BY 1, 2")
        for what in (columns, indexes, checks):
            self.assertEqual(self.owner(what), self.server.query(what, fresh))

    def test_what_version_2_had_saved_is_kept_and_mended(self):
        with open(os.path.join(os.path.dirname(harness.__file__), "schemas", "postgres_2.sql"), encoding="utf-8") as f:
            self.server.script(f.read(), self.database)
        self.server.script(
            "INSERT INTO outrider_cursor (pipeline, outbox, mode) VALUES ('A-b', 'public.outbox', 'cdc'), ('exact', "
            "'public.outbox', 'poll'), ('exact', 'public.other', 'poll'); INSERT INTO outrider_cursor (pipeline, outbox, "
            "position, gaps) VALUES ('wrong', 'public.outbox', 3, '{[1,4)}'), ('right', 'public.outbox', 4, '{[1,4)}'); "
            "INSERT INTO outrider_intent (pipeline, identity, no, body) VALUES ('exact', "
            "'postgresql:1/db/public.other/exact', 7, 'x'), ('left', '', 3, NULL), ('right', 'of a database that was moved', 5, "
            "'x'), ('gone', 'postgresql:1/db/public.gone/gone', 4, 'x')", self.database)
        self.run_outrider("init", "--db", self.owner_url)
        self.assertEqual(self.owner("SELECT slot FROM outrider_cursor WHERE pipeline IN ('A-b', 'exact') ORDER BY slot"),
                         [("",), ("",), ("outrider_a_b",)])
        # A gap at the position itself: what is delivered is not known, so all is delivered (again).
        self.assertEqual(self.owner("SELECT pipeline, position, gaps FROM outrider_cursor WHERE pipeline IN ('wrong', 'right') "
                                    "ORDER BY 1"), [("right", "4", "{[1,4)}"), ("wrong", "0", "{}")])
        # An intent is found by its outbox, or by the pipeline's only cursor; what nobody can place is not dropped.
        self.assertEqual(self.owner("SELECT pipeline, outbox, no, tables FROM outrider_intent ORDER BY 1"), [
            ("exact", "public.other", "7", "{public.other,public.outbox}"), ("gone", "", "4", "{}"),
            ("right", "public.outbox", "5", "{public.outbox}")])
        for sink, *args in ((self.sink,), ("kafka://127.0.0.1:9/", "--set", "exactly_once=true")):
            self.owner("UPDATE outrider_cursor SET sink = ''")
            result = self.run_outrider("relay", "--from", self.url, "--to", sink, "--once", "--name", "gone", *args, code=1)
            self.assertRegex(result.err, "was killed.*outrider resync --forget-intent --name gone --table 'public.outbox'")
        self.run_outrider("resync", "--db", self.owner_url, "--forget-intent", "--name", "gone")
        self.assertEqual(self.owner("SELECT no FROM outrider_intent WHERE pipeline = 'gone'"), [])

    def test_a_cursor_that_would_pass_an_unsettled_row_is_refused(self):
        self.run_outrider("init", "--db", self.owner_url)
        with self.assertRaises(SqlError) as caught:
            self.owner("UPDATE outrider_cursor SET position = 3, gaps = '{[1,4)}'")
        self.assertEqual(caught.exception.state, "23514")

    def test_a_schema_that_is_newer_is_left_alone(self):
        self.run_outrider("init", "--db", self.owner_url)
        self.owner("UPDATE outrider_schema SET version = 99")
        result = self.run_outrider("init", "--db", self.owner_url, code=1)
        self.assertRegex(result.err, "version 99.*newer")


class InitAgain(PostgresTest):
    def test_what_is_there_is_not_changed_into_something_else(self):
        for wish in (("--layout", "status"), ("--partition", "day")):
            result = self.run_outrider("init", "--db", self.owner_url, *wish, code=None)
            self.assertNotEqual(result.code, 0)
            self.assertRegex(result.err, "is there already")
        self.run_outrider("init", "--db", self.owner_url, "--layout", "log")


class Roles(PostgresTest):
    """They may do what they need, which every other test shows, and nothing else."""

    def assert_denied(self, user, *statements):
        session = self.session(user=user)
        for statement in statements:
            with self.subTest(user=user, statement=statement), self.assertRaises(SqlError) as caught:
                session.execute(statement)
            self.assertEqual(caught.exception.state, "42501", statement)

    def test_a_writer_may_only_insert(self):
        self.session().execute("SELECT outbox_enqueue('order', '1', 'Created', '{}')")
        self.commit_event("one")
        self.assert_denied("app", "SELECT payload FROM outbox", "UPDATE outbox SET payload = NULL", "DELETE FROM outbox",
                           "TRUNCATE outbox", "SELECT * FROM outrider_cursor", "SELECT * FROM outrider_parked",
                           "SELECT setval('outbox_seq_seq', 1)", "CREATE TABLE mine (id int)")

    def test_a_relay_may_not_write_events(self):
        self.commit_event("one")
        self.assert_denied("relay", self.insert("two"), "UPDATE outbox SET payload = NULL", "TRUNCATE outbox",
                           "SELECT outbox_enqueue('order', '1', 'Created', '{}')", "DELETE FROM outrider_cursor",
                           "SELECT setval('outbox_seq_seq', 1)", "UPDATE outrider_schema SET version = 0")

    def test_a_relayed_row_is_never_touched(self):
        self.owner("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) SELECT 'order', i::text, "
                   "'changed', jsonb_build_object('n', i) FROM generate_series(1, 3000) i")
        self.relay_once()
        self.assertEqual(len(self.delivered_labels()), 3000)
        # An update or a row lock, which leave dead versions behind, would show here.
        self.assertEqual(self.owner("SELECT count(*) FROM outbox WHERE xmax::text <> '0' OR cmax::text <> '0'"), [("0",)])


class Move(PostgresTest):
    """Another sink for a pipeline, by command."""

    def move(self, sink, code=0):
        return self.run_outrider("pipeline", "move", "--db", self.url, "--to", sink, code=code)

    def test_the_rest_goes_to_the_new_sink(self):
        other = "file:" + self.path("elsewhere")
        self.commit_event("first")
        self.run_outrider("relay", "--from", self.url, "--to", self.sink, "--once")
        self.commit_event("second")
        err = self.run_outrider("relay", "--from", self.url, "--to", other, "--once", code=1).err
        self.assertIn("outrider pipeline move --name default --to " + other, err)
        self.assertRegex(self.move(other).out, f"delivers to {other} from now on; before: {self.sink}")
        self.run_outrider("relay", "--from", self.url, "--to", other, "--once")
        self.assertEqual(self.delivered_labels(), ["first"])
        self.assertEqual(self.owner("SELECT sink FROM outrider_cursor"), [(other,)])

    def test_nothing_moves_under_an_active_relay(self):
        relay = self.start("relay", "--from", self.url, "--to", self.sink)
        self.wait_log(relay, "connected and active")
        self.assertIn("stop that relay first", self.move("null:", code=1).err)
        self.stop_relay(relay)
        self.move("null:")

    def test_progress_is_set_only_where_exactly_once_has_run(self):
        self.run_outrider("relay", "--from", self.url, "--to", self.sink, "--once")
        for flags in (("--progress", "0"), ("--forget-intent",)):
            self.assertIn("has not run with exactly_once", self.run_outrider("resync", "--db", self.url, *flags, code=1).err)
        self.owner("INSERT INTO outrider_intent (pipeline, outbox, identity, tables, no, stamp, body) VALUES "
                   "('default', 'public.outbox', 'x', '{public.outbox}', 7, 8, 'x'), ('default', '', 'x', '{}', 1, 1, 'x')")
        self.run_outrider("resync", "--db", self.url, "--progress", "9:18446744073709551615")
        self.assertEqual(self.owner("SELECT no, stamp, body FROM outrider_intent WHERE outbox <> ''"), [("9", "-1", None)])
        self.run_outrider("resync", "--db", self.owner_url, "--forget-intent")
        self.assertEqual(self.owner("SELECT no, identity FROM outrider_intent"), [("9", "")])


class MoveRows(Move):
    """The same where rows carry their state."""

    init_arguments = ("--layout", "status")


class Tls(PostgresTest):
    """A certificate of our own making for 'localhost'."""

    @classmethod
    def setUpClass(cls):
        if not shutil.which("openssl"):
            raise harness.unittest.SkipTest("TLS is NOT TESTED: no openssl")
        super().setUpClass()
        root = cls.server.root
        cls.certificate, key = os.path.join(root, "server.crt"), os.path.join(root, "server.key")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                        "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", cls.certificate],
                       check=True, capture_output=True)
        if cls.server._as:
            os.chown(key, cls.server._as["user"], cls.server._as["group"])
        os.chmod(key, 0o600)
        cls.server.configure(ssl="on", ssl_cert_file=f"'{cls.certificate}'", ssl_key_file=f"'{key}'")
        wait_until(lambda: cls.server.query("SHOW ssl") == [("on",)], "the server to take its certificate")

    def tls_url(self, host="localhost", certificate=None):
        return (f"postgresql://relay@{host}:{self.server.port}/{self.database}?sslmode=verify-full&sslrootcert="
                + (certificate or self.certificate))

    def test_a_relay_over_tls_verifies_the_server(self):
        self.commit_event("one")
        relay = self.start("relay", "--from", self.tls_url(), "--to", self.sink)
        self.wait_label("one", relay=relay)
        self.assertEqual(self.owner("SELECT DISTINCT s.ssl FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) "
                                    "WHERE a.usename = 'relay'"), [("t",)])
        self.stop_relay(relay)

    def test_a_certificate_that_does_not_fit_is_refused(self):
        self.commit_event("one")
        other = self.path("other.crt")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-keyout",
                        self.path("other.key"), "-out", other], check=True, capture_output=True)
        for url in (self.tls_url(certificate=other), self.tls_url(host="127.0.0.1")):
            result = self.run_outrider("relay", "--from", url, "--to", self.sink, "--once", "--set", "connect_timeout=1s",
                                       code=1)
            self.assertRegex(result.err, "(?i)certificate")
        self.assertEqual(self.delivered_labels(), [])


class DurableStandby(PostgresTest):
    def test_an_event_waits_until_a_standby_has_it(self):
        self.owner("GRANT pg_monitor TO relay")
        standby = self.server.standby()
        self.addCleanup(standby.remove)
        relay = self.start_relay("--set", "source.durable=standby")
        self.commit_event("replicated")
        self.wait_label("replicated", relay=relay)
        standby.stop()
        wait_until(lambda: self.owner("SELECT 1 FROM pg_stat_replication") == [], "the standby to be gone")
        self.commit_event("alone")
        self.wait_log(relay, "no standby has confirmed")
        self.assertEqual(self.delivered_labels(), ["replicated"])
        standby.start()
        self.wait_label("alone", relay=relay)
        self.stop_relay(relay)


class Pooler(PostgresTest):
    """pgbouncer between the relay and the server."""

    def setUp(self):
        program = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
        if not os.path.exists(program):
            message = "a pooler is NOT TESTED: no pgbouncer (scripts/setup test)"
            print(message, file=sys.stderr)
            self.skipTest(message)
        super().setUp()
        self.program = program

    def pooler(self, mode, **settings):
        """The port of a pgbouncer in this mode; it ends with the test."""
        port = free_port()
        root = os.path.join(self.server.root, f"pooler{port}")
        os.mkdir(root)
        ini, users = os.path.join(root, "ini"), os.path.join(root, "users")
        with open(users, "w", encoding="utf-8") as f:
            f.write('"relay" ""\n"postgres" ""\n')
        with open(ini, "w", encoding="utf-8") as f:
            f.write(f"[databases]\n* = host={self.server.root} port={self.server.port}\n[pgbouncer]\n"
                    f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = trust\n"
                    f"auth_file = {users}\npool_mode = {mode}\nignore_startup_parameters = extra_float_digits,options\n"
                    + "".join(f"{k} = {v}\n" for k, v in settings.items()))
        pooler = subprocess.Popen([self.program, "-q", ini], cwd=root, env=clean_environment(), stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **self.server._as)
        self.addCleanup(pooler.wait)
        self.addCleanup(pooler.kill)
        wait_for(lambda: subprocess.run(["psql", "-XqAt", "-c", "SELECT 1",
                                         self.server.url(self.database, "relay", port=port)], capture_output=True,
                                        env=clean_environment()).returncode == 0, "the pooler to answer")
        return port

    def test_doctor_notices_a_pooler_and_says_what_to_do(self):
        url = self.server.url(self.database, "relay", port=self.pooler("transaction"))
        result = self.run_outrider("doctor", "--from", url, code=None)
        text = result.out + result.err
        self.assertRegex(text, "(?i)a pooler")
        self.assertRegex(text, "session mode")
        direct = self.run_outrider("doctor", "--from", self.url, code=None)
        self.assertNotRegex(direct.out + direct.err, "(?i)pooler")

    def refused(self, mode, **settings):
        self.commit_event("one")
        url = self.server.url(self.database, "relay", port=self.pooler(mode, **settings))
        relay = self.start("relay", "--from", url, "--to", self.sink)
        self.assertEqual(relay.join(), 1, relay.err())
        self.assertRegex(relay.err(), "(?i)pooler.*session mode")
        self.assertEqual(self.delivered_labels(), [])
        # Nothing of it is left in sessions that applications will use: neither a setting nor the lock.
        self.assertIsNone(self.active_backend())
        with Session(url) as pooled:
            self.assertEqual(pooled.value("SELECT current_setting('enable_seqscan') || current_setting('jit')"), "onon")
            self.assertEqual(pooled.value("SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'outrider%'"), "0")

    def test_a_relay_refuses_transaction_mode(self):
        self.refused("transaction")

    def test_a_relay_refuses_transaction_mode_with_processes_in_turn(self):
        self.refused("transaction", server_round_robin=1)

    def test_a_relay_refuses_statement_mode(self):
        self.refused("statement")

    def test_a_pool_without_a_second_connection_is_told(self):
        url = self.server.url(self.database, "relay", port=self.pooler("transaction", default_pool_size=1))
        result = self.run_outrider("relay", "--from", url, "--to", self.sink, "--once", "--set", "connect_timeout=5s", code=1)
        self.assertRegex(result.err, "pooler .* no second connection")

    def test_session_mode_works(self):
        self.commit_event("one")
        url = self.server.url(self.database, "relay", port=self.pooler("session"))
        self.run_outrider("relay", "--from", url, "--to", self.sink, "--once")
        self.assertEqual(self.delivered_labels(), ["one"])


class Idle(PostgresTest):
    def test_an_idle_relay_saves_that_a_gap_was_given_up(self):
        relay = self.start_relay()
        aborted = self.session()
        aborted.begin()
        aborted.execute(self.insert("aborted", "a"))
        self.commit_event("committed", "b")
        self.wait_label("committed", relay=relay)
        wait_until(lambda: self.gaps() not in (None, "{}"), "the gap to be saved")
        aborted.rollback()
        # Nothing else is committed from here on.
        wait_until(lambda: self.gaps() == "{}", "the gap to be forgotten")
        self.assertEqual(self.position(), 2)
        self.stop_relay(relay)


if __name__ == "__main__":
    harness.main()
