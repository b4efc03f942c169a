# SPDX-License-Identifier: MIT
"""What tests that drive the real program share: running it, waiting, reading.

Nothing here sleeps for synchronisation: wait_until() polls a condition and
fails loudly at its deadline.
"""
import json
import os
import re
import shlex
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import threading
import time
import unittest

OUTRIDER = os.environ.get("OUTRIDER", "build-test/outrider")
SOURCE = os.environ.get("OUTRIDER_SOURCE", ".")
SOAK = os.environ.get("OUTRIDER_SOAK", "") not in ("", "0")  # full counts: scripts/soak
DEADLINE = 60.0  # generous: a slow machine must not fail a test


class Result:
    """How a run ended: code, out, err (text)."""

    def __init__(self, args, code, out, err):
        self.args, self.code, self.raw_out, self.raw_err = args, code, out, err
        self.out = out.decode("utf-8", "replace")
        self.err = err.decode("utf-8", "replace")

    def json(self):
        return json.loads(self.out)

    def lines(self):
        return [json.loads(line) for line in self.out.splitlines()]

    def __str__(self):
        return "%s\nexit %s\nstdout: %s\nstderr: %s" % (
            " ".join(shlex.quote(a) for a in self.args), self.code, self.out[:4000], self.err[:4000])


def environment(extra=None):
    env = dict(os.environ)
    for name in ("OUTRIDER_FAILPOINTS", "NO_COLOR", "OUTRIDER_MODULE_PATH"):
        env.pop(name, None)
    env.update(extra or {})
    return env


def failpoints(*rooms):
    """The names of the failpoints in these rooms of src, with all that is in them. A room
    without one is a mistake of the caller: a test that kills nowhere passes always."""
    names = set()
    for room in rooms:
        found = set()
        for directory, _, files in os.walk(os.path.join(SOURCE, "src", room)):
            for name in files:
                if name.endswith(".c"):
                    with open(os.path.join(directory, name), encoding="utf-8") as f:
                        found.update(re.findall(r'FAILPOINT\("([^"]+)"\)', f.read()))
        if not found:
            raise AssertionError("no failpoint in src/%s" % room)
        names |= found
    return names


def wait_until(condition, what="the condition", deadline=DEADLINE):
    """Returns the condition's first true value; fails after the deadline."""
    end = time.monotonic() + deadline
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError("waited %ss for %s" % (deadline, what))
        time.sleep(0.01)


class Background:
    """A running outrider, or another program, whose output is collected line by line."""

    def __init__(self, args, cwd, env=None, prefix=(), program=OUTRIDER):
        self.args = [*prefix, program, *args]
        self.process = subprocess.Popen(
            self.args, cwd=cwd, env=environment(env), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.out_lines, self.err_lines = [], []
        self._threads = [
            threading.Thread(target=self._collect, args=(stream, into), daemon=True)
            for stream, into in ((self.process.stdout, self.out_lines),
                                 (self.process.stderr, self.err_lines))]
        for thread in self._threads:
            thread.start()

    @staticmethod
    def _collect(stream, into):
        for line in stream:
            into.append(line.decode("utf-8", "replace").rstrip("\n"))

    @property
    def pid(self):
        return self.process.pid

    def err(self):
        return "\n".join(self.err_lines)

    def is_running(self):
        return self.process.poll() is None

    def is_frozen(self):
        """Stopped by a signal or a failpoint, until SIGCONT."""
        with open("/proc/%d/stat" % self.pid, encoding="ascii") as f:
            return f.read().rsplit(")", 1)[1].split()[0] == "T"

    def wait_for_log(self, text, count=1):
        """Waits until `count` lines of the log hold the text."""
        def seen():
            hits = [line for line in list(self.err_lines) if text in line]
            if len(hits) >= count:
                return hits
            if not self.is_running():
                self.join()
                hits = [line for line in self.err_lines if text in line]
                if len(hits) >= count:
                    return hits
                raise AssertionError("ended (%s) before logging %r:\n%s" % (
                    self.process.returncode, text, self.err()))
            return None
        return wait_until(seen, "log line with %r in\n%s" % (text, self.err()))

    def send(self, number):
        self.process.send_signal(number)

    def join(self, deadline=DEADLINE):
        code = self.process.wait(deadline)
        for thread in self._threads:
            thread.join(deadline)
        return code

    def stop(self, number=signal.SIGTERM):
        """Ends it in order; returns the exit code."""
        if self.is_running():
            self.send(number)
        return self.join()

    def kill(self):
        if self.is_running():
            self.process.kill()
        self.process.wait()
        for thread in self._threads:
            thread.join(DEADLINE)
        self.process.stdout.close()
        self.process.stderr.close()


class OutriderTest(unittest.TestCase):
    """A temporary directory, a database in it, and whatever was started, ended."""

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="outrider-test-")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.db = os.path.join(self.dir, "shop.db")
        self.url = "sqlite:" + self.db
        self.events = os.path.join(self.dir, "events")
        self.sink = "file:" + self.events

    def path(self, name, text=None):
        path = os.path.join(self.dir, name)
        if text is not None:
            with open(path, "wb") as f:
                f.write(text if isinstance(text, bytes) else text.encode())
        return path

    def run_outrider(self, *args, code=0, stdin=None, env=None, timeout=DEADLINE * 2):
        """Runs it to its end; code None accepts any exit code."""
        data = stdin.encode() if isinstance(stdin, str) else stdin
        where = {"input": data} if data is not None else {"stdin": subprocess.DEVNULL}
        p = subprocess.run([OUTRIDER, *args], cwd=self.dir, env=environment(env),
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout, **where)
        result = Result([OUTRIDER, *args], p.returncode, p.stdout, p.stderr)
        if code is not None:
            self.assertEqual(result.code, code, str(result))
        self.assertNotIn("AddressSanitizer", result.err)
        self.assertNotIn("runtime error:", result.err)
        return result

    def start(self, *args, env=None, prefix=(), program=OUTRIDER):
        b = Background(args, self.dir, env, prefix, program)
        self.addCleanup(b.kill)
        return b

    def start_relay(self, *args, env=None, log="info"):
        """A relay from the test's database to its file sink, active before this returns."""
        b = self.start("relay", "--from", self.url, "--to", self.sink, "--log-level", log, *args,
                       env=env)
        b.wait_for_log("connected and active")
        return b

    def init(self, *args):
        return self.run_outrider("init", "--db", self.url, *args)

    def put(self, payload="{}", aggregate="1", kind="Created", *args, code=0):
        """One event; its id."""
        r = self.run_outrider("put", "--db", self.url, "--aggregate-type", "order",
                              "--aggregate-id", str(aggregate), "--type", kind,
                              "--payload=" + payload, *args, code=code)
        return r.out.strip() if r.code == 0 else r

    def put_many(self, rows, *args):
        text = "".join(json.dumps(r) + "\n" for r in rows)
        return self.run_outrider("put", "--db", self.url, "--jsonl", "-", *args, stdin=text)

    def relay_once(self, *args, code=0, sink=None, env=None):
        return self.run_outrider("relay", "--from", self.url, "--to", sink or self.sink, "--once",
                                 *args, code=code, env=env)

    def status(self, name=None):
        args = ["--name", name] if name else []
        rows = self.run_outrider("status", "--db", self.url, "--json", *args).json()["pipelines"]
        return rows[0] if len(rows) == 1 else rows

    def sql(self, text, *values):
        """Runs SQL on the test's database and commits; the rows."""
        db = sqlite3.connect(self.db, timeout=DEADLINE)
        try:
            with db:
                return db.execute(text, values).fetchall()
        finally:
            db.close()

    def delivered(self, topic=None, directory=None):
        """Complete lines of the file sink, of one topic or of all, per topic in order."""
        root = directory or self.events
        rows = []
        for name in sorted(os.listdir(root)) if os.path.isdir(root) else []:
            folder = os.path.join(root, name)
            if not os.path.isdir(folder):
                continue
            for segment in sorted(s for s in os.listdir(folder) if s.endswith(".jsonl")):
                with open(os.path.join(folder, segment), "rb") as f:
                    for line in f.read().split(b"\n")[:-1]:
                        row = json.loads(line)
                        if topic is None or row["topic"] == topic:
                            rows.append(row)
        return rows

    def delivered_ids(self, topic=None):
        return [row["headers"]["event-id"] for row in self.delivered(topic)]

    def wait_delivered(self, n):
        wait_until(lambda: len(self.delivered()) >= n, "%d delivered events" % n)
        return self.delivered()


def logfmt(line):
    """A logfmt line as a dict; fails on anything that is not logfmt."""
    fields, at = {}, 0
    decoder = json.JSONDecoder()
    while at < len(line):
        eq = line.index("=", at)
        name, at = line[at:eq], eq + 1
        assert name and " " not in name and '"' not in name, line
        if line[at:at + 1] == '"':
            value, at = decoder.raw_decode(line, at)
        else:
            end = line.find(" ", at)
            end = len(line) if end < 0 else end
            value, at = line[at:end], end
        assert at == len(line) or line[at] == " ", line
        assert name not in fields, line
        fields[name] = value
        at += 1
    return fields


def main():
    unittest.main(verbosity=2)
