# SPDX-License-Identifier: MIT
"""The program on each page of docs/guides/languages runs as it stands against a
real PostgreSQL, and its event is relayed.

Drivers come through each language's own package manager, by name, into the
cache (OUTRIDER_CACHE) or the manager's own. Where a toolchain or a driver is
not to be had, that language is skipped in one loud line.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

import harness
from pgcase import PostgresTest

PAGES = pathlib.Path(harness.SOURCE) / "docs" / "guides" / "languages"
CACHE = pathlib.Path(os.environ.get("OUTRIDER_CACHE") or (
    "/var/cache/outrider" if os.geteuid() == 0 else
    os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "outrider")))
CARGO = """[package]
name = "enqueue"
version = "0.1.0"
edition = "2021"
[dependencies]
postgres = { version = "=0.19.9", features = ["with-serde_json-1"] }
serde_json = "1"
"""


def snippet(language):
    """The page's one program."""
    found = re.findall(r"^```(?:python|go|java|js|rust)\n(.*?)^```$", (PAGES / f"{language}.md").read_text(), re.M | re.S)
    if len(found) != 1:
        raise AssertionError(f"{language}.md has {len(found)} programs")
    return found[0]


class Languages(PostgresTest):
    def make_outbox(self, server, database):
        super().make_outbox(server, database)
        server.query("CREATE TABLE orders (id bigint PRIMARY KEY, state text NOT NULL)", database)
        server.query("GRANT INSERT ON orders TO app", database)

    def skip_loudly(self, why):
        print(f"\n*** {self.id().rpartition('.')[2]}: NOT RUN: {why} ***\n", file=sys.stderr, flush=True)
        self.skipTest(why)

    def need(self, *tools):
        for tool in tools:
            if shutil.which(tool) is None:
                self.skip_loudly(f"there is no {tool}")

    def place(self, name):
        """A directory of the cache, for drivers and what is built of them."""
        directory = CACHE / f"language-{name}"
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def fetch(self, *command, cwd, env=None):
        """A driver that cannot be had is no failure of ours."""
        p = subprocess.run(command, cwd=cwd, env=dict(os.environ, **env or {}), capture_output=True,
                           text=True, timeout=300)
        if p.returncode != 0:
            self.skip_loudly(f"{command[0]} could not get the driver: {(p.stderr or p.stdout).strip()[-300:]}")
        return p.stdout.strip()

    def build(self, *command, cwd, env=None):
        p = subprocess.run(command, cwd=cwd, env=dict(os.environ, **env or {}), capture_output=True,
                           text=True, timeout=300)
        self.assertEqual(p.returncode, 0, p.stderr)

    def check(self, *command, cwd, url=None, **env):
        """The first run commits an order and its event; the second finds the
        order there, fails, and must leave no event behind."""
        url = url or self.server.url(self.database, "app", tcp=True)
        environment = harness.environment(dict(env, SHOP_URL=url))
        first = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=60)
        self.assertEqual(first.returncode, 0, first.stderr)
        second = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=60)
        self.assertNotEqual(second.returncode, 0, "the order was there already")
        self.assertEqual(self.owner("SELECT count(*) FROM outbox")[0][0], "1")
        self.run_outrider("relay", "--once", "--from", self.url, "--to", f"file:{self.events}")
        (row,) = self.sink_rows.read()
        self.assertEqual(row["topic"], "order.OrderCreated")
        self.assertEqual(row["payload"], {"total": 990})
        self.assertEqual(row["headers"]["event-id"], first.stdout.strip())
        self.assertEqual(row["headers"]["X-Correlation-ID"], "abc")

    def test_python(self):
        place = self.place("python%d.%d-psycopg-3.2.3" % sys.version_info[:2])
        if not (place / "psycopg").is_dir():
            self.fetch(sys.executable, "-m", "pip", "install", "-q", "--target", str(place),
                       "psycopg[binary]==3.2.3", cwd=self.dir)
        program = self.path("enqueue.py", snippet("python"))
        self.check(sys.executable, program, cwd=self.dir, PYTHONPATH=str(place))

    def test_go(self):
        self.need("go")
        place = self.place("go-pgx-5.7.1")
        (place / "main.go").write_text(snippet("go"))
        (place / "go.mod").write_text("module enqueue\n\ngo 1.21\n\nrequire github.com/jackc/pgx/v5 v5.7.1\n")
        self.fetch("go", "mod", "tidy", cwd=place)
        self.build("go", "build", "-o", "enqueue", ".", cwd=place)
        self.check(str(place / "enqueue"), cwd=self.dir)

    def test_java(self):
        self.need("javac", "java")
        fetch = os.path.join(harness.SOURCE, "scripts", "fetch-jars")
        jars = self.fetch(fetch, "pgjdbc-42.7.4", "org.postgresql:postgresql:42.7.4", cwd=self.dir)
        self.path("Enqueue.java", snippet("java"))
        self.build("javac", "-d", ".", "Enqueue.java", cwd=self.dir)
        url = f"jdbc:postgresql://127.0.0.1:{self.server.port}/{self.database}?user=app"
        self.check("java", "-cp", f"{jars}/*:.", "Enqueue", cwd=self.dir, url=url)

    def test_node(self):
        self.need("node", "npm")
        place = self.place("node-pg-8.13.1")
        if not (place / "node_modules" / "pg").is_dir():
            self.fetch("npm", "install", "--silent", "--prefix", str(place), "pg@8.13.1", cwd=place)
        program = self.path("enqueue.js", snippet("node"))
        self.check("node", program, cwd=self.dir, NODE_PATH=str(place / "node_modules"))

    def test_rust(self):
        self.need("cargo")
        place = self.place("rust-postgres-0.19.9")
        (place / "src").mkdir(exist_ok=True)
        (place / "Cargo.toml").write_text(CARGO)
        (place / "src" / "main.rs").write_text(snippet("rust"))
        self.fetch("cargo", "fetch", "--quiet", cwd=place)
        self.build("cargo", "build", "--quiet", cwd=place)
        self.check(str(place / "target" / "debug" / "enqueue"), cwd=self.dir)


if __name__ == "__main__":
    harness.main()
