# SPDX-License-Identifier: MIT
"""Mode cdc: from polling to the stream and back, while writers go on."""
import unittest

from harness import wait_until
from pgcdc import CdcTest


class Move(CdcTest):
    def test_a_pipeline_moves_from_poll_to_cdc_and_back_without_loss_or_doubles(self):
        with self.load("a", "b", pause=0.002) as loads:
            for mode in ("poll", "cdc", "poll", "cdc"):
                relay = self.relay(mode=mode)
                self.wait_mode(mode, relay)
                for load in loads:
                    load.wait(30)
                self.stop_relay(relay)
                for load in loads:
                    load.wait(5)
        relay = self.relay()
        self.assert_all_delivered(loads, duplicates=False)
        self.stop_relay(relay)

    def test_a_transaction_that_stays_open_across_the_move_is_not_lost(self):
        """It holds up the slot: polling goes on, and the process is named."""
        relay = self.relay(mode="poll")
        slow = self.session()
        slow.begin()
        slow.execute(self.insert("slow", "s"))
        self.commit_event("before")
        self.wait_label("before", relay=relay)
        self.stop_relay(relay)
        relay = self.relay()
        self.commit_event("meanwhile")
        self.wait_label("meanwhile", relay=relay)
        pid = slow.value("SELECT pg_backend_pid()")
        self.wait_log(relay, rf"goes on while the server waits.*server process {pid}")
        self.assertEqual(self.cursor("mode"), "poll")
        slow.commit()
        self.wait_label("slow", relay=relay)
        self.wait_streaming(relay)
        self.commit_event("after")
        self.wait_label("after", relay=relay)
        self.assert_all_delivered(duplicates=False)
        self.stop_relay(relay)

    def test_a_transaction_that_stays_open_across_the_way_back_is_not_lost(self):
        relay = self.relay()
        self.wait_streaming(relay)
        slow = self.session()
        slow.begin()
        slow.execute(self.insert("slow", "s"))
        self.commit_event("before")
        self.wait_label("before", relay=relay)
        self.stop_relay(relay)
        relay = self.relay(mode="poll")
        for n in range(20):
            self.commit_event(f"m{n}")
        self.wait_label("m19", relay=relay)
        self.assertEqual(self.cursor("mode"), "cdc")
        slow.commit()
        self.wait_label("slow", relay=relay)
        self.wait_mode("poll", relay)
        self.commit_event("after")
        self.wait_label("after", relay=relay)
        self.assert_all_delivered(duplicates=False)
        self.assertIsNone(self.slot_value("slot_name"))
        self.stop_relay(relay)

    def test_gaps_of_polling_come_with_the_stream(self):
        """A row that was a gap for polling commits after the slot was made."""
        relay = self.relay(mode="poll")
        slow = self.session()
        slow.begin()
        slow.execute(self.insert("gap", "s"))
        self.commit_event("later")
        self.wait_label("later", relay=relay)
        self.stop_relay(relay)
        slow.execute("ROLLBACK AND CHAIN")
        relay = self.relay()
        self.wait_streaming(relay)
        slow.execute(self.insert("gap2", "s"))
        self.commit_event("later2")
        slow.commit()
        self.wait_label("gap2", "later2", relay=relay)
        self.assert_all_delivered(duplicates=False)
        self.stop_relay(relay)

    def test_a_slot_whose_beginning_is_not_recorded_is_dropped_and_remade(self):
        for point in ("cdc.slot_made", "cdc.planned", "cdc.plan_saved"):
            self.commit_event("x " + point)
            relay = self.relay(env={"OUTRIDER_FAILPOINTS": point + "=kill"}, wait=False)
            relay.join()
        self.commit_event("last")
        relay = self.relay()
        self.wait_streaming(relay)
        self.commit_event("streamed")
        self.wait_label("streamed", relay=relay)
        self.assert_all_delivered()
        self.stop_relay(relay)

    def test_killed_on_the_way_back_it_goes_on_and_the_slot_is_dropped(self):
        self.once()
        for point in ("cdc.slot_made", "cdc.planned", "cdc.left"):
            self.commit_event("x " + point)
            relay = self.relay(mode="poll", env={"OUTRIDER_FAILPOINTS": point + "=kill"}, wait=False)
            relay.join()
        self.assertEqual(self.cursor("mode"), "leaving")
        relay = self.relay(mode="poll")
        self.wait_mode("poll", relay)
        self.commit_event("last")
        self.wait_label("last", relay=relay)
        self.assert_all_delivered()
        self.assertIsNone(self.slot_value("slot_name"))
        self.stop_relay(relay)

    def test_polling_goes_on_while_the_slot_cannot_be_made(self):
        relay = self.relay(env={"OUTRIDER_FAILPOINTS": "cdc.make_slot=econnreset"})
        self.commit_event("polled")
        self.wait_label("polled", relay=relay)
        self.wait_log(relay, "polling goes on without a slot: cannot make the replication slot")
        self.wait_streaming(relay)
        self.commit_event("streamed")
        self.wait_label("streamed", relay=relay)
        self.assert_all_delivered(duplicates=False)
        self.assertNotRegex(relay.err(), "source lost")
        self.stop_relay(relay)

    def test_a_stream_that_never_comes_up_ends_once_after_the_timeout(self):
        """The first connection works each time: that is no reason to try for ever."""
        self.once()
        self.commit_event("a")
        done = self.once("--set", "connect_timeout=2s", code=1,
                         env={"OUTRIDER_FAILPOINTS": "cdc.start_stream=econnreset@*"})
        self.assertRegex(done.err, "cannot start replication")
        self.once()
        self.assertEqual(self.delivered_labels(), ["a"])

    def restarted(self, statement):
        """Polling delivers three events, the stream takes over, and seqs begin anew."""
        for n in range(3):
            self.commit_event(f"polled {n}")
        self.once(mode="poll")
        self.once()
        self.owner(statement)
        for n in range(5):
            self.commit_event(f"anew {n}")

    def test_seqs_that_are_handed_out_again_are_new_events(self):
        self.restarted("TRUNCATE outbox RESTART IDENTITY")
        self.once()
        self.assertEqual(self.delivered_labels(), [f"polled {n}" for n in range(3)] + [f"anew {n}" for n in range(5)])

    def test_seqs_handed_out_again_under_a_running_relay_are_new_events(self):
        for n in range(3):
            self.commit_event(f"polled {n}")
        self.once(mode="poll")
        relay = self.relay()
        self.wait_streaming(relay)
        self.owner("TRUNCATE outbox RESTART IDENTITY")
        for n in range(5):
            self.commit_event(f"anew {n}")
        self.wait_label("anew 4", relay=relay)
        self.stop_relay(relay)
        self.assertEqual(self.delivered_labels(), [f"polled {n}" for n in range(3)] + [f"anew {n}" for n in range(5)])

    def test_an_empty_outbox_moves_as_well(self):
        self.once()
        self.once(mode="poll")
        relay = self.relay(mode="poll")
        self.wait_mode("poll", relay)
        self.commit_event("a")
        self.wait_label("a", relay=relay)
        self.stop_relay(relay)


if __name__ == "__main__":
    unittest.main()
