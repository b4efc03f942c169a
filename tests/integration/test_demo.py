#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The demo convinces only if its verifier can say no: both are tried here."""
import glob
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

SOURCE = os.environ.get("OUTRIDER_SOURCE", os.path.join(os.path.dirname(__file__), "..", ".."))
BUILD = os.environ.get("OUTRIDER_BUILD", os.path.join(SOURCE, "build"))
ORDERS = os.path.join(BUILD, "examples", "orders", "orders")
WRITERS, PER_WRITER = 3, 100
EVENTS = WRITERS * PER_WRITER * 3


def run_demo(directory):
    env = dict(os.environ, OUTRIDER_BUILD=BUILD, DEMO_DIR=directory, DEMO_WRITERS=str(WRITERS),
               DEMO_ORDERS=str(PER_WRITER), DEMO_KILLS="2")
    return subprocess.run([os.path.join(SOURCE, "examples", "orders", "demo")], env=env,
                          capture_output=True, text=True, timeout=300)


class Demo(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="outrider-demo-")
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        cls.demo = run_demo(cls.dir)
        cls.report = dict(re.findall(r"^  ([a-z][a-z ]*?) +([0-9.]+)   ", cls.demo.stdout, re.M))

    def setUp(self):
        self.assertEqual(self.demo.returncode, 0, self.demo.stdout + self.demo.stderr)

    def test_the_report_names_every_promise_and_its_count(self):
        for name in ("committed", "delivered"):
            self.assertEqual(self.report[name], str(EVENTS), self.demo.stdout)
        for name in ("lost", "phantom", "out of order"):
            self.assertEqual(self.report[name], "0", self.demo.stdout)
        self.assertGreater(int(self.report["rolled back"]), 0)
        self.assertGreaterEqual(int(self.report["duplicates"]), 0)
        self.assertGreater(int(self.report["speed"]), 0)
        self.assertGreater(float(self.report["peak memory"]), 0)
        self.assertIn("may be more than 0", self.demo.stdout)

    def test_what_is_not_a_terminal_gets_no_colours_and_no_progress(self):
        self.assertNotIn("\x1b", self.demo.stdout + self.demo.stderr)
        self.assertNotIn("\r", self.demo.stdout + self.demo.stderr)

    def test_the_three_commands_at_the_end_work_as_printed(self):
        commands = self.demo.stdout.rstrip().split("\n")[-3:]
        for command in commands:
            done = subprocess.run(["bash", "-c", command], cwd=SOURCE, capture_output=True,
                                  text=True, timeout=60)
            self.assertEqual(done.returncode, 0, command + "\n" + done.stderr)
        self.assertEqual(json.loads(done.stdout)["payload"], {"total": 10})
        self.assertEqual(json.loads(done.stdout)["key"], "42")


class Verifier(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="outrider-demo-")
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        done = run_demo(cls.dir)
        assert done.returncode == 0, done.stdout + done.stderr
        [cls.log] = glob.glob(os.path.join(cls.dir, "events", "orders", "*.jsonl"))
        with open(cls.log, encoding="utf-8") as f:
            cls.lines = f.readlines()

    def verify(self, lines):
        with open(self.log, "w", encoding="utf-8") as f:
            f.writelines(lines)
        done = subprocess.run([ORDERS, "verify", "--db", os.path.join(self.dir, "shop.db"), "--log",
                               os.path.join(self.dir, "events")], capture_output=True, text=True, timeout=60)
        return done.returncode, dict(line.split() for line in done.stdout.splitlines())

    def first_with_version(self, version):
        for i, line in enumerate(self.lines):
            if json.loads(line)["payload"]["version"] == version:
                return i
        raise AssertionError("no such line")

    def test_a_log_as_the_relay_left_it_passes(self):
        code, found = self.verify(self.lines)
        self.assertEqual((code, found["delivered"]), (0, str(EVENTS)))

    def test_a_missing_line_is_a_lost_event(self):
        gone = json.loads(self.lines[-1])["headers"]["event-id"]
        code, found = self.verify([line for line in self.lines if gone not in line])
        self.assertEqual((code, found["lost"], found["phantom"]), (1, "1", "0"))

    def test_a_line_of_a_rolled_back_event_is_a_phantom(self):
        with open(os.path.join(self.dir, "shop.db.rolled-back"), encoding="utf-8") as f:
            rolled_back = f.readline().strip()
        line = json.loads(self.lines[-1])
        line["headers"]["event-id"] = rolled_back
        code, found = self.verify(self.lines + [json.dumps(line) + "\n"])
        self.assertEqual((code, found["lost"], found["phantom"]), (1, "0", "1"))

    def test_a_line_before_its_time_is_out_of_order(self):
        later = self.lines[self.first_with_version(3)]
        code, found = self.verify([later] + self.lines)
        self.assertEqual((code, found["lost"], found["phantom"]), (1, "0", "0"))
        self.assertEqual(found["out_of_order"], "2")

    def test_a_line_that_comes_again_is_a_duplicate_and_nothing_worse(self):
        _, before = self.verify(self.lines)
        code, found = self.verify(self.lines + [self.lines[0]])
        self.assertEqual((code, found["out_of_order"]), (0, "0"))
        self.assertEqual(int(found["duplicates"]), int(before["duplicates"]) + 1)


if __name__ == "__main__":
    unittest.main()
