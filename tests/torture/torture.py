# SPDX-License-Identifier: MIT
"""What the torture tests share: a shop at work, a relay that dies, a verdict.

The load is the example's program (examples/orders): every step of an order is
a transaction with its event, one in twenty is rolled back, and its verifier
says what was lost, invented, or out of order.
"""
import os
import signal
import subprocess

import harness

ORDERS = os.path.join(os.environ.get("OUTRIDER_BUILD", "build-test"), "examples", "orders", "orders")
WRITERS, PER_WRITER = 2, 40
EVENTS = WRITERS * PER_WRITER * 3

# Small batches, so that a little load makes many; one topic, so that the order
# of deliveries can be read from one file; small segments, so that it rotates.
OPTIONS = ("route.topic=orders", "source.batch=16", "sink.rotate_size=16KiB")


def sets(options):
    return [word for option in options for word in ("--set", option)]


class TortureTest(harness.OutriderTest):
    def setUp(self):
        super().setUp()
        self.init()
        self.loads = 0

    def start_load(self):
        """Writers at work, on orders of their own each time."""
        self.loads += 1
        writers = subprocess.Popen([ORDERS, "write", "--db", self.db, "--writers", str(WRITERS), "--orders",
                                    str(PER_WRITER), "--seed", str(self.loads)], stderr=subprocess.PIPE)
        self.addCleanup(writers.stderr.close)
        self.addCleanup(writers.wait)
        self.addCleanup(writers.kill)
        return writers

    def finish_load(self, writers):
        self.assertEqual(writers.wait(harness.DEADLINE), 0, writers.stderr.read().decode())

    def relay(self, *options, failpoints=""):
        env = {"OUTRIDER_FAILPOINTS": failpoints} if failpoints else None
        return self.start("relay", "--from", self.url, "--to", self.sink, *sets(OPTIONS + options), env=env)

    def drain(self, *options):
        """A relay that nobody disturbs, until there is nothing left."""
        self.relay_once(*sets(OPTIONS + options))

    def await_settled(self, relay):
        def is_settled():
            self.assertTrue(relay.is_running(), "the relay ended by itself:\n" + relay.err())
            status = self.status()
            return status["pending"] + status["parked"] + status["queued"] == 0
        harness.wait_until(is_settled, "everything to be settled; the relay says\n" + relay.err())

    def load_until_killed(self, relay, what, max_loads):
        """Load, again and again, until the relay has died of its failpoint."""
        for _ in range(max_loads):
            writers = self.start_load()
            harness.wait_until(lambda: writers.poll() is not None, "the writers")
            self.finish_load(writers)
            if not relay.is_running():
                break
        try:
            code = relay.join()
        except subprocess.TimeoutExpired:
            self.fail("%s was never reached:\n%s" % (what, relay.err()))
        self.assertEqual(code, -signal.SIGKILL, "%s:\n%s" % (what, relay.err()))

    def verify(self):
        """The promise was kept, and there was something to keep it for."""
        done = subprocess.run([ORDERS, "verify", "--db", self.db, "--log", self.events], timeout=120,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found = {name: int(value) for name, value in map(str.split, done.stdout.splitlines())}
        self.assertEqual(found["committed"], self.loads * EVENTS)
        self.assertEqual(found["delivered"], found["committed"])
        offsets = [row["offset"] for row in self.delivered("orders")]
        self.assertEqual(offsets, list(range(len(offsets))), "offsets of the log have a gap")
        return found
