# SPDX-License-Identifier: MIT
"""What the tests of PostgreSQL share: a server per class, a database per test,
the two roles that init offers, and reading what the relay delivered."""
import contextlib
import glob
import json
import os
import re
import signal
import threading

from harness import OutriderTest, wait_until
from pgserver import ConnectionLost, Server, SqlError

# The roles that init grants to; the tests log in as members of them.
WRITER_ROLE = "outrider_writer"
RELAY_ROLE = "outrider_relay"


class Delivered:
    """The file sink's lines as they come; reads each of them once."""

    def __init__(self, directory):
        self.directory = directory
        self.rows = []
        self._read = {}

    def read(self):
        """All rows so far. Within a topic they are in order."""
        for path in sorted(glob.glob(os.path.join(glob.escape(self.directory), "*", "*.jsonl"))):
            with open(path, "rb") as f:
                f.seek(self._read.get(path, 0))
                complete, newline, _torn = f.read().rpartition(b"\n")
            if newline:
                self._read[path] = self._read.get(path, 0) + len(complete) + 1
                rows = map(json.loads, complete.split(b"\n"))
                self.rows += [row for row in rows if not row["topic"].startswith("nudge")]
        return self.rows

    def labels(self):
        """What the tests write as {"n": label}, in the order of delivery."""
        return [row["payload"]["n"] for row in self.read()]

    def first_labels(self):
        """The same without the duplicates, which are told by the event's id."""
        seen, labels = set(), []
        for row in self.read():
            if row["headers"]["event-id"] not in seen:
                seen.add(row["headers"]["event-id"])
                labels.append(row["payload"]["n"])
        return labels


class Load:
    """A writer in a thread of its own that commits one event after the other and
    goes on through lost connections; it knows what surely committed."""

    def __init__(self, test, key, user="app", options="", pause=0.0):
        self._test, self._key, self._user, self._options, self._pause = test, key, user, options, pause
        self.committed, self.unsure = [], []
        self.failure = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        n = 0
        session = None
        try:
            while not self._stop.is_set():
                label = f"{self._key}-{n}"
                try:
                    session = session or self._test.server.session(self._test.database, self._user, self._options)
                    session.execute(self._test.insert(label, self._key))
                    self.committed.append(label)
                    n += 1
                except ConnectionLost:
                    # Whether it committed, only the table knows.
                    self.unsure.append(label)
                    n += 1
                    session = self._drop(session)
                except SqlError:
                    self._stop.wait(0.01)
                if self._pause:
                    self._stop.wait(self._pause)
        except BaseException as e:  # the test's thread tells it
            self.failure = e
        finally:
            self._drop(session)

    @staticmethod
    def _drop(session):
        if session:
            session.kill()

    def wait(self, n):
        """Until so many more have committed."""
        goal = len(self.committed) + n
        wait_until(lambda: len(self.committed) >= goal or self.failure, f"{n} more commits of {self._key}")
        if self.failure:
            raise self.failure

    def stop(self):
        self._stop.set()
        self._thread.join(120)
        if self.failure:
            raise self.failure


class PostgresTest(OutriderTest):
    settings = {}
    init_arguments = ()
    server_class = Server
    server = None
    template = None

    @classmethod
    def setUpClass(cls):
        # A test that ctest ends at its deadline takes its server along.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        cls.server = cls.server_class(**cls.settings)
        cls.addClassCleanup(cls.server.remove)
        cls.server.initialise()
        cls.server.start()
        cls.template = None

    def setUp(self):
        super().setUp()
        self.database = self._make_database()
        self.addCleanup(self.server.forget, self.database)
        self.url = self.server.url(self.database, "relay")
        self.owner_url = self.server.url(self.database)
        self.sink_rows = Delivered(self.events)

    def _make_database(self):
        """The outbox is made once per class, and copied for each test."""
        cls = type(self)
        if cls.template is None:
            name = cls.server.create_database()
            self.make_outbox(cls.server, name)
            cls.template = name
        return cls.server.create_database(cls.template)

    def make_outbox(self, server, database):
        self.run_outrider("init", "--db", server.url(database), *self.init_arguments)
        for user, role in (("app", WRITER_ROLE), ("relay", RELAY_ROLE)):
            if not server.query(f"SELECT 1 FROM pg_roles WHERE rolname = '{user}'"):
                server.query(f"CREATE ROLE {user} LOGIN IN ROLE {role}")

    # Sessions and events

    def session(self, user="app", **options):
        s = self.server.session(self.database, user, **options)
        self.addCleanup(s.close)
        return s

    def owner(self, sql):
        """One statement of the owner; its rows."""
        return self.server.query(sql, self.database)

    def owner_session(self):
        return self.session(user=None)

    @staticmethod
    def insert(label, key="k"):
        return ("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) "
                f"VALUES ('order', '{key}', 'changed', '{{\"n\": \"{label}\"}}')")

    def commit_event(self, label, key="k"):
        """One event in a transaction and a session of its own."""
        self.server.query(self.insert(label, key), self.database, "app")

    # What the relay did

    def delivered_labels(self):
        return self.sink_rows.labels()

    def wait_label(self, *labels, relay=None):
        def are_there():
            if relay is not None and not relay.is_running():
                raise AssertionError(f"the relay ended ({relay.process.returncode}):\n{relay.err()}")
            return set(labels) <= set(self.delivered_labels())
        wait_until(are_there, f"delivery of {labels}" + ("; its log:\n" + relay.err()[-4000:] if relay else ""))

    def gaps(self, name="default"):
        """The saved gaps as text: {} when there are none."""
        rows = self.owner(f"SELECT gaps FROM outrider_cursor WHERE pipeline = '{name}'")
        return rows[0][0] if rows else None

    def wait_no_gaps(self):
        """That a gap was given up is saved with the next batch, so events of a
        topic of their own, which no test counts, nudge the relay."""
        nudger = self.session()

        def are_forgotten():
            nudger.execute("INSERT INTO outbox (aggregate_type, aggregate_id, event_type) VALUES ('nudge', '', '')")
            return self.gaps() == "{}"
        wait_until(are_forgotten, "the gaps to be forgotten")

    def position(self, name="default"):
        rows = self.owner(f"SELECT position FROM outrider_cursor WHERE pipeline = '{name}'")
        return int(rows[0][0]) if rows else None

    def outbox_labels(self):
        """What is committed, as the table has it."""
        return [n for (n,) in self.owner("SELECT payload->>'n' FROM outbox WHERE aggregate_type <> 'nudge' ORDER BY seq")]

    def relay_backends(self):
        """The server's processes that serve the relay's connections."""
        return [int(p) for (p,) in self.owner("SELECT pid FROM pg_stat_activity WHERE usename = 'relay' "
                                              f"AND datname = '{self.database}'")]

    def active_backend(self):
        """The one that holds the pipeline's lock, or None."""
        rows = self.owner("SELECT l.pid FROM pg_locks l JOIN pg_database d ON d.oid = l.database "
                          f"WHERE l.locktype = 'advisory' AND l.granted AND d.datname = '{self.database}' "
                          "AND l.objsubid IN (1, 2)")
        return int(rows[0][0]) if rows else None

    def stop_relay(self, relay):
        """Ends it in order: exit 0, and the sanitizers are content."""
        code = relay.stop()
        self.assertEqual(code, 0, relay.err()[-4000:])
        self.check_log(relay)

    def check_log(self, relay):
        text = relay.err()
        self.assertNotRegex(text, r"AddressSanitizer|LeakSanitizer|runtime error:")
        self.assertNotIn('"n":', text, "a payload in the log")

    def wait_log(self, relay, pattern, since=0):
        """A line of the log, from line number `since` on, that matches."""
        def find():
            for line in relay.err_lines[since:]:
                if re.search(pattern, line):
                    return line
            if not relay.is_running():
                relay.join()
                for line in relay.err_lines[since:]:
                    if re.search(pattern, line):
                        return line
                raise AssertionError(f"ended ({relay.process.returncode}) before logging {pattern!r}:\n"
                                     + relay.err()[-4000:])
            return None
        try:
            return wait_until(find, pattern)
        except AssertionError as e:
            raise AssertionError(f"{e}\nthe relay's log:\n{relay.err()[-4000:]}") from None

    def assert_all_delivered(self, loads=(), duplicates=True):
        """Everything in the table, nothing else, the first deliveries of a key in order."""
        committed = self.outbox_labels()
        try:
            wait_until(lambda: set(committed) <= set(self.delivered_labels()), "all that is committed")
        except AssertionError:
            lost = [n for n in committed if n not in set(self.delivered_labels())]
            raise AssertionError(f"lost {len(lost)} of {len(committed)}: {lost[:20]}") from None
        first = self.sink_rows.first_labels()
        self.assertEqual(set(first) - set(committed), set(), "delivered, but not committed")
        if not duplicates:
            self.assertEqual(len(self.delivered_labels()), len(committed), "delivered twice")
        for load in loads:
            self.assertEqual(set(load.committed) - set(committed), set(), "the server lost a commit")
            mine = [n for n in first if n.startswith(load._key + "-")]
            self.assertEqual(mine, sorted(mine, key=lambda n: int(n.rsplit("-", 1)[1])), "out of order")

    @contextlib.contextmanager
    def load(self, *keys, **options):
        loads = [Load(self, key, **options) for key in keys]
        try:
            yield loads
        finally:
            for load in loads:
                load.stop()
