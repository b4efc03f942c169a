# SPDX-License-Identifier: MIT
"""Two relays on one pipeline: the active one is killed, frozen or cut off; the
other takes over, nothing is lost, and the order of a key is kept."""
import signal
import time

import harness
from harness import wait_until
from pgcase import PostgresTest
from pgserver import Proxy


class TwoRelays(PostgresTest):
    def setUp(self):
        super().setUp()
        self.proxy = Proxy(self.server.port)
        self.addCleanup(self.proxy.close)
        by_proxy = self.server.url(self.database, "relay", port=self.proxy.port)
        self.first = self.start("relay", "--from", by_proxy, "--to", self.sink)
        self.first.wait_for_log("connected and active")
        self.second = self.start("relay", "--from", self.url, "--to", self.sink)
        self.second.wait_for_log("standing by")

    def take_over(self, what):
        """Waits for the second one to be active, and tells how long it took."""
        began = time.monotonic()
        self.second.wait_for_log("connected and active")
        print(f"{what}: taken over after {time.monotonic() - began:.1f} s")

    def under_load(self, break_it, what, mend=None):
        with self.load("a", "b") as loads:
            loads[0].wait(20)
            break_it()
            self.take_over(what)
            if mend:
                mend()
            loads[0].wait(20)
        try:
            self.assert_all_delivered(loads)
        except AssertionError as e:
            raise AssertionError(f"{e}\nthe first:\n{self.first.err()[-2000:]}\nthe second:\n{self.second.err()}") from None
        self.check_log(self.first)
        self.stop_relay(self.second)

    def test_a_killed_relay_is_replaced(self):
        self.under_load(self.first.kill, "killed")

    def test_a_stopped_relay_is_replaced(self):
        self.under_load(lambda: self.stop_relay(self.first), "stopped")

    def test_a_relay_whose_backend_was_terminated_is_replaced_or_comes_back(self):
        with self.load("a", "b") as loads:
            for _ in range(5):
                loads[0].wait(10)
                pid = wait_until(self.active_backend, "an active relay")
                self.owner(f"SELECT pg_terminate_backend({pid})")
                wait_until(lambda gone=pid: self.active_backend() not in (None, gone), "a relay to take over")
        self.assert_all_delivered(loads)
        self.stop_relay(self.first)
        self.stop_relay(self.second)

    def test_a_relay_whose_socket_dropped_is_replaced(self):
        def cut():
            self.proxy.refuse = True
            self.proxy.cut()
        self.under_load(cut, "cut off", lambda: setattr(self.proxy, "refuse", False))
        self.stop_relay(self.first)

    def test_a_relay_behind_a_dead_network_is_replaced(self):
        self.under_load(self.proxy.freeze, "network frozen", self.proxy.thaw)

    def test_a_frozen_relay_is_replaced_and_cannot_settle_when_it_wakes_up(self):
        def wake():
            self.position_at_wake = self.position()
            self.first.send(signal.SIGCONT)
            # It notices that it is no longer the active one, and stands by.
            self.wait_log(self.first, "source lost|standing by|took over")
        self.under_load(lambda: self.first.send(signal.SIGSTOP), "frozen", wake)
        self.assertGreaterEqual(self.position(), self.position_at_wake)
        # The woken one waits its turn, and gets it.
        self.commit_event("last", "z")
        self.wait_label("last", relay=self.first)
        self.stop_relay(self.first)

    def test_once_beside_an_active_relay_says_who_is_active(self):
        result = self.relay_once("--set", "connect_timeout=1s", code=None)
        self.assertEqual(result.code, 1, str(result))
        self.assertRegex(result.err, "(?i)active")


class Epoch(PostgresTest):
    def test_a_relay_that_lost_its_epoch_cannot_settle(self):
        """What a pooler that hands one lock to two would do: the epoch moves on
        under a relay that still holds its lock."""
        relay = self.start_relay()
        self.commit_event("one")
        self.wait_label("one", relay=relay)
        wait_until(lambda: self.position() == 1, "the position to be saved")
        self.owner("UPDATE outrider_cursor SET epoch = epoch + 1")
        self.commit_event("two")
        self.wait_log(relay, "FENCED|another relay took over")
        # It starts over with a new epoch: at least once.
        self.wait_label("two", relay=relay)
        wait_until(lambda: self.position() == 2, "the position to be saved again")
        self.stop_relay(relay)

    def test_a_relay_that_lost_its_epoch_cannot_park(self):
        relay = self.start_relay(env={"OUTRIDER_FAILPOINTS": "relay.delivered=eio@2"})
        self.commit_event("one")
        self.wait_label("one", relay=relay)
        wait_until(lambda: self.position() == 1, "the position to be saved")
        self.owner("UPDATE outrider_cursor SET epoch = epoch + 1")
        self.owner("CREATE TABLE parkings (id text); CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS "
                   "'BEGIN INSERT INTO parkings VALUES (NEW.id); RETURN NEW; END'; CREATE TRIGGER note AFTER INSERT ON "
                   "outrider_parked FOR EACH ROW EXECUTE FUNCTION note()")
        self.commit_event("two")
        self.wait_log(relay, "FENCED|another relay took over")
        # It did not get to park the failed one; under its new epoch it delivers it.
        wait_until(lambda: self.position() == 2, "the position to be saved again")
        self.assertEqual(self.delivered_labels()[-1], "two")
        self.assertEqual(self.owner("SELECT * FROM parkings"), [])
        self.stop_relay(relay)


if __name__ == "__main__":
    harness.main()
