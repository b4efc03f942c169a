# SPDX-License-Identifier: MIT
"""What tests share that relay from PostgreSQL tables to the file sink: one
server for all tests of a file, a database of its own for each of them."""
import os

import harness
from pgserver import Server

SEEDS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "seeds")
_server = None


def start_server(**settings):
    global _server
    _server = Server(**settings).__enter__()


def stop_server():
    global _server
    _server.remove()
    _server = None


def seed(name):
    with open(os.path.join(SEEDS, name + ".sql"), encoding="utf-8") as f:
        return f.read()


class PostgresTest(harness.OutriderTest):
    """self.url is the test's own database."""

    def setUp(self):
        super().setUp()
        self.server = _server
        self.database = _server.create_database()
        self.url = _server.url(self.database)
        self._session = None

    def sql(self, text, *unused):
        if self._session is None:
            self._session = self.session()
        return [list(row) for row in self._session.execute(text)]

    def script(self, text):
        self.server.script(text, self.database)

    def value(self, text):
        return self.sql(text)[0][0]

    def column(self, text):
        return [row[0] for row in self.sql(text)]

    def session(self, **more):
        s = self.server.session(self.database, **more)
        self.addCleanup(s.close)
        return s

    def wait_for(self, text, expected):
        """Waits until a query has this value."""
        harness.wait_until(lambda: self.value(text) == expected, "%s to be %r" % (text, expected))

    def tables(self, *names):
        return [a for n in names for a in ("--table", n)]
