#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""examples/embedded: an application that carries its relay with it, and how it ends."""
import glob
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import unittest

SOURCE = os.environ.get("OUTRIDER_SOURCE", os.path.join(os.path.dirname(__file__), "..", ".."))
BUILD = os.environ.get("OUTRIDER_BUILD", os.path.join(SOURCE, "build"))
EMBEDDED = os.path.join(BUILD, "examples", "embedded", "embedded")
ENV = dict(os.environ, OUTRIDER_MODULE_PATH=os.path.join(BUILD, "modules"))


class Embedded(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="outrider-embedded-")
        self.addCleanup(shutil.rmtree, self.dir)

    def trade(self, orders):
        return subprocess.run([EMBEDDED, self.dir, str(orders)], env=ENV, capture_output=True,
                              text=True, timeout=120)

    def published(self):
        lines = []
        for name in glob.glob(os.path.join(self.dir, "events", "*", "*.jsonl")):
            with open(name, encoding="utf-8") as f:
                lines += [json.loads(line)["headers"]["event-id"] for line in f]
        return lines

    def committed(self):
        with sqlite3.connect(os.path.join(self.dir, "shop.db")) as db:
            return [row[0] for row in db.execute("SELECT id FROM outbox ORDER BY seq")]

    def end_early(self, how):
        """Ends it by a signal when it has published something."""
        p = subprocess.Popen([EMBEDDED, self.dir, "1000000"], env=ENV, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
        self.assertIn("delivered", p.stdout.readline())
        p.send_signal(how)
        _, stderr = p.communicate(timeout=120)
        return p.returncode, stderr

    def test_every_order_is_published_once(self):
        done = self.trade(100)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.published(), self.committed())
        self.assertEqual(len(self.committed()), 100)
        self.assertEqual(done.stdout.count("delivered"), 100)

    def test_the_applications_own_signal_handler_ends_it_in_order(self):
        code, stderr = self.end_early(signal.SIGTERM)
        self.assertEqual((code, stderr), (0, ""))
        self.assertGreater(len(self.published()), 0)
        self.assertEqual(self.trade(1).returncode, 0)
        self.assertEqual(self.published(), self.committed())

    def test_killed_it_goes_on_where_it_was(self):
        code, _ = self.end_early(signal.SIGKILL)
        self.assertEqual(code, -signal.SIGKILL)
        self.assertEqual(self.trade(1).returncode, 0)
        first = list(dict.fromkeys(self.published()))
        self.assertEqual(first, self.committed())


if __name__ == "__main__":
    unittest.main()
