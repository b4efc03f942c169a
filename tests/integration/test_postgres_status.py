#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Layout `status` on PostgreSQL: our own table, order per key, competing
relays, leases and fencing."""
import json
import signal
import unittest

import harness
import pgtest
from harness import wait_until
from pgtest import seed

FAIL_FIRST = {"OUTRIDER_FAILPOINTS": "relay.delivered=eio@1"}
# One event of a key at a time, so that those behind a failed one are not on their way yet.
ONE_BY_ONE = ("--set", "retry.on_dead=block")


def setUpModule():
    pgtest.start_server()


def tearDownModule():
    pgtest.stop_server()


class StatusTest(pgtest.PostgresTest):
    def setUp(self):
        super().setUp()
        self.init("--layout", "status")

    def insert(self, n, keys=7, first=1, **columns):
        more = "".join(", " + c for c in columns)
        values = "".join(", " + v for v in columns.values())
        self.sql("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload%s) SELECT 'order', "
                 "'k' || i %% %d, 'Created', jsonb_build_object('n', i)%s FROM generate_series(%d, %d) i"
                 % (more, keys, values, first, first + n - 1))

    def count(self, status):
        return int(self.value("SELECT count(*) FROM outbox WHERE status = '%s'" % status))

    @staticmethod
    def wait_stopped(relay):
        def is_stopped():
            with open("/proc/%d/stat" % relay.pid, encoding="utf-8") as f:
                return f.read().rsplit(")", 1)[1].split()[0] == "T"
        wait_until(is_stopped, "the relay to be stopped")

    def wait_published(self, n):
        wait_until(lambda: self.count("PUBLISHED") == n, "%d published rows" % n)


class OwnTable(StatusTest):
    def test_init_can_be_run_twice_and_the_function_fills_the_table(self):
        self.init("--layout", "status")
        self.sql("SELECT outbox_enqueue('order', '1', 'Created', '{\"n\": 1}')")
        self.put("{}", 2)
        self.relay_once()
        self.assertEqual(self.sql("SELECT DISTINCT status, attempts, published_at IS NULL, locked_by, claim FROM outbox"),
                         [["PUBLISHED", "0", "f", None, "0"]])
        self.assertEqual(len(self.delivered("order.Created")), 2)

    def test_the_relays_role_is_enough(self):
        name = "relay_of_" + self.database
        self.sql("CREATE ROLE %s LOGIN IN ROLE outrider_relay" % name)
        self.insert(3)
        url = self.server.url(self.database, name)
        self.run_outrider("relay", "--from", url, "--to", self.sink, "--once")
        self.assertEqual(self.count("PUBLISHED"), 3)

    def test_a_partitioned_table_works(self):
        other = self.server.create_database()
        url = self.server.url(other)
        self.run_outrider("init", "--db", url, "--layout", "status", "--partition", "month")
        self.server.query("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) SELECT 'a', "
                          "'1', 'b', '{}' FROM generate_series(1, 10)", other)
        self.run_outrider("relay", "--from", url, "--to", self.sink, "--once")
        self.assertEqual(self.server.query("SELECT status, count(*) FROM outbox GROUP BY 1", other),
                         [("PUBLISHED", "10")])

    def test_a_rolled_back_event_is_never_published(self):
        s = self.session()
        s.begin()
        s.execute("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) VALUES ('a', '1', 'b', '{}')")
        self.insert(2)
        relay = self.start_relay()
        self.wait_published(2)
        s.rollback()
        self.insert(1)
        self.wait_published(3)
        self.assertEqual(relay.stop(), 0)
        self.assertEqual(len(self.delivered()), 3)

    def test_a_row_that_commits_late_is_delivered_though_its_seq_is_low(self):
        s = self.session()
        s.begin()
        s.execute("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) VALUES ('a', '1', 'late', '{}')")
        self.insert(5)
        self.start_relay()
        self.wait_published(5)
        s.commit()
        self.wait_published(6)

    def test_what_is_too_large_is_a_dead_letter(self):
        self.sql("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) VALUES "
                 "('a', '1', 'b', to_jsonb(repeat('x', 5000))), ('a', '2', 'b', '1')")
        self.relay_once("--set", "max_payload=1000", code=3)
        self.assertEqual(self.sql("SELECT status, last_error_code FROM outbox ORDER BY seq"),
                         [["DEAD_LETTER", "TOO_LARGE"], ["PUBLISHED", None]])

    def test_what_expired_is_settled_as_expired(self):
        self.insert(2, expires_at="now() - interval '1 s'")
        self.relay_once()
        self.assertEqual(self.count("EXPIRED"), 2)
        self.assertEqual(self.status()["expired_total"], 2)

    def test_clean_up_removes_published_rows_past_their_retention(self):
        self.insert(5)
        self.relay_once()
        self.insert(1)
        self.sql("UPDATE outbox SET published_at = now() - interval '8 d' WHERE status = 'PUBLISHED' AND seq < 5")
        self.start_relay("--set", "cleanup.every=50ms", "--set", "cleanup.batch=2", "--set", "min_age=12h")
        self.wait_for("SELECT count(*) FROM outbox", "2")
        self.assertEqual((self.count("PUBLISHED"), self.count("PENDING")), (1, 1))

    def test_published_rows_can_be_removed_at_once(self):
        self.insert(2500)
        self.relay_once("--set", "after_publish=delete")
        self.assertEqual(self.value("SELECT count(*) FROM outbox"), "0")
        self.assertEqual(len(self.delivered()), 2500)


class Order(StatusTest):
    def orders(self, rows=None):
        """Per key: the numbers in the order of their first delivery."""
        keys = {}
        for row in self.delivered() if rows is None else rows:
            seen = keys.setdefault(row["key"], {})
            seen.setdefault(row["payload"]["n"], None)
        return {key: list(seen) for key, seen in keys.items()}

    def check_order(self, n):
        orders = self.orders()
        self.assertEqual(sum(len(o) for o in orders.values()), n)
        for key, numbers in orders.items():
            self.assertEqual(numbers, sorted(numbers), key)

    def test_a_failing_key_waits_alone_and_comes_back_in_order(self):
        self.insert(70)
        self.relay_once("--set", "retry.delays=[1h]", *ONE_BY_ONE, env=FAIL_FIRST, code=3)
        self.assertEqual((self.count("PUBLISHED"), self.count("FAILED"), self.count("PENDING")), (60, 1, 9))
        self.assertEqual(self.value("SELECT count(DISTINCT aggregate_id) FROM outbox WHERE status <> 'PUBLISHED'"), "1")
        self.insert(14, first=71)
        self.relay_once(*ONE_BY_ONE, code=3)
        self.assertEqual((self.count("PUBLISHED"), self.count("FAILED"), self.count("PENDING")), (72, 1, 11))
        self.sql("UPDATE outbox SET next_attempt_at = now() WHERE status = 'FAILED'")
        self.relay_once(*ONE_BY_ONE)
        self.check_order(84)

    def test_order_holds_through_failures_small_batches_and_restarts(self):
        self.insert(600, keys=11)
        for at in (3, 40, 90):
            relay = self.start_relay("--set", "source.batch=5", "--set", "retry.delays=[20ms]", *ONE_BY_ONE,
                                     env={"OUTRIDER_FAILPOINTS": "relay.delivered=eio@%d,relay.after_settle=kill@%d"
                                          % (at, at // 3 + 2)})
            self.assertEqual(relay.join(), -signal.SIGKILL)
        self.insert(100, keys=11, first=601)
        self.relay_once("--set", "source.batch=20", "--set", "retry.delays=[0]", *ONE_BY_ONE, code=None)
        self.relay_once(*ONE_BY_ONE)
        self.check_order(700)

    def test_a_dead_letter_blocks_its_key_where_that_is_asked_for(self):
        self.insert(6, keys=2)
        self.relay_once("--set", "retry.max_attempts=1", *ONE_BY_ONE, env=FAIL_FIRST, code=3)
        self.assertEqual((self.count("PUBLISHED"), self.count("DEAD_LETTER"), self.count("PENDING")), (3, 1, 2))
        self.run_outrider("dead", "discard", "--db", self.url, "--all")
        self.relay_once(*ONE_BY_ONE)
        self.assertEqual((self.count("PUBLISHED"), self.count("PENDING")), (5, 0))

    def test_rows_that_the_application_has_claimed_hold_their_key_until_their_lease_ends(self):
        self.insert(1, keys=1, status="'PROCESSING'", locked_by="'app:1'", locked_at="now()",
                    locked_until="now() + interval '1 h'")
        self.insert(6, keys=2, first=2)
        self.relay_once(code=None)
        self.assertEqual(self.column("SELECT DISTINCT aggregate_id FROM outbox WHERE status = 'PUBLISHED'"), ["k1"])
        self.sql("UPDATE outbox SET locked_until = now() WHERE status = 'PROCESSING'")
        self.relay_once()
        self.assertEqual(self.count("PUBLISHED"), 7)
        self.assertEqual(self.orders()["k0"], [1, 2, 4, 6])

    def test_a_standby_takes_over_what_the_killed_one_had_claimed_without_waiting_for_the_lease(self):
        self.script(seed("001_outbox_orders"))
        self.sql("INSERT INTO outbox_orders (idempotency_key, order_request_json, request_digest, status) SELECT 'k' || i, "
                 "jsonb_build_object('n', i), '', 'pending' FROM generate_series(1, 50) i")
        common = ("--from", self.url, "--to", self.sink, "--table", "outbox_orders", "--set", "lease=1h")
        first = self.start("relay", *common, env={"OUTRIDER_FAILPOINTS": "relay.before_settle=stop"})
        self.wait_for("SELECT count(*) FROM outbox_orders WHERE status = 'sending'", "50")
        second = self.start("relay", *common)
        second.wait_for_log("another relay is active")
        first.kill()
        self.wait_for("SELECT count(*) FROM outbox_orders WHERE status = 'succeeded'", "50")
        self.assertEqual(self.value("SELECT count(*) FROM outbox_orders WHERE locked_by IS NOT NULL"), "0")

    def test_a_relay_that_was_superseded_cannot_settle(self):
        relay = self.start_relay(env={"OUTRIDER_FAILPOINTS": "relay.before_settle=stop"})
        self.insert(3)
        wait_until(lambda: len(self.delivered()) == 3, "delivery")
        self.wait_stopped(relay)
        self.sql("UPDATE outrider_cursor SET epoch = epoch + 1")
        relay.send(signal.SIGCONT)
        relay.wait_for_log("another relay took over")
        self.wait_published(3)
        self.assertEqual(relay.stop(), 0)
        self.assertEqual(len(self.delivered()), 6)


class Competing(StatusTest):
    ARGS = ("--set", "ordered=false")

    def relay(self, *args, env=None, lease="1s"):
        r = self.start("relay", "--from", self.url, "--to", "stdout:", *self.ARGS, "--set", "lease=" + lease, *args,
                       env=env)
        r.wait_for_log("connected and active")
        return r

    @staticmethod
    def ids(relay):
        return [json.loads(line)["headers"]["event-id"] for line in list(relay.out_lines)]

    def test_relays_share_the_work_and_the_killed_ones_rows_come_back(self):
        victim = self.relay("--set", "source.batch=50", env={"OUTRIDER_FAILPOINTS": "relay.before_settle=kill@3"})
        others = [self.relay("--set", "source.batch=50") for _ in range(2)]
        total = 0
        while victim.is_running():  # the others may be quicker than the victim
            total += 2000
            self.insert(2000)
            self.wait_published(total)
        self.assertEqual(victim.join(), -signal.SIGKILL)
        for relay in others:
            self.assertEqual(relay.stop(), 0)
        all_ids = set(self.column("SELECT id FROM outbox"))
        delivered = [i for relay in (victim, *others) for i in self.ids(relay)]
        self.assertEqual(set(delivered), all_ids)
        self.assertLessEqual(len(delivered) - total, 200)
        for relay in others:
            self.assertTrue(self.ids(relay))
        self.assertEqual(self.sql("SELECT DISTINCT locked_by, locked_at, locked_until FROM outbox"), [[None, None, None]])

    def test_a_late_relay_cannot_overwrite_a_newer_outcome(self):
        late = self.relay(env={"OUTRIDER_FAILPOINTS": "relay.delivered=eio@*,relay.before_settle=stop"}, lease="300ms")
        self.insert(1)
        self.wait_for("SELECT count(*) FROM outbox WHERE claim = 1", "1")
        second = self.relay(lease="300ms")
        self.wait_published(1)
        before = self.value("SELECT settled_at FROM outrider_cursor")
        late.send(signal.SIGCONT)
        wait_until(lambda: self.value("SELECT settled_at FROM outrider_cursor") != before, "the late settle")
        self.assertEqual(self.sql("SELECT status, attempts, claim, last_error_code FROM outbox"),
                         [["PUBLISHED", "0", "2", None]])
        self.assertEqual(len(self.ids(second)), 1)

    def test_a_late_relay_is_fenced_by_owner_alone_too(self):
        self.sql("DROP TABLE outbox")
        self.script(seed("001_outbox_orders"))
        table = ("--table", "outbox_orders")
        late = self.relay(*table, env={"OUTRIDER_FAILPOINTS": "relay.delivered=eio@*,relay.before_settle=stop"},
                          lease="300ms")
        self.sql("INSERT INTO outbox_orders (idempotency_key, order_request_json, request_digest, status) VALUES "
                 "('k', '1', '', 'pending')")
        self.wait_for("SELECT count(*) FROM outbox_orders WHERE status = 'sending'", "1")
        self.relay(*table, lease="300ms")
        self.wait_for("SELECT count(*) FROM outbox_orders WHERE status = 'succeeded'", "1")
        before = self.value("SELECT settled_at FROM outrider_cursor")
        late.send(signal.SIGCONT)
        wait_until(lambda: self.value("SELECT settled_at FROM outrider_cursor") != before, "the late settle")
        self.assertEqual(self.sql("SELECT status, attempts FROM outbox_orders"), [["succeeded", "0"]])

    def test_a_slow_delivery_keeps_its_lease(self):
        env = {"OUTRIDER_FAILPOINTS": "file.before_write=delay:2s@1"}
        args = ("--set", "ordered=false", "--set", "lease=500ms")
        self.insert(3)
        self.start_relay(*args, env=env)
        self.wait_for("SELECT count(*) FROM outbox WHERE status = 'PROCESSING'", "3")
        self.start_relay(*args)
        self.wait_published(3)
        self.assertEqual(self.column("SELECT DISTINCT claim FROM outbox"), ["1"])
        self.assertEqual(len(self.delivered()), 3)

    def test_failed_rows_are_tried_again_by_any(self):
        self.relay("--set", "retry.delays=[100ms]", env=FAIL_FIRST)
        self.relay("--set", "retry.delays=[100ms]", env=FAIL_FIRST)
        self.insert(20)
        self.wait_published(20)
        self.assertIn(self.value("SELECT sum(attempts) FROM outbox"), ("1", "2"))

    def test_a_table_without_lock_columns_has_one_relay_at_a_time(self):
        self.sql("DROP TABLE outbox")
        self.script(seed("002_outbox"))
        self.relay()
        second = self.start("relay", "--from", self.url, "--to", "stdout:", *self.ARGS)
        second.wait_for_log("another relay is active")

    def test_a_stop_gives_claimed_rows_back(self):
        relay = self.start_relay(*self.ARGS, "--set", "shutdown_timeout=100ms", "--set", "lease=1h",
                                 env={"OUTRIDER_FAILPOINTS": "file.before_write=delay:5s@1"})
        self.insert(3)
        self.wait_for("SELECT count(*) FROM outbox WHERE status = 'PROCESSING'", "3")
        relay.send(signal.SIGTERM)
        self.wait_for("SELECT count(*) FROM outbox WHERE status = 'PENDING' AND locked_by IS NULL", "3")


class Replay(StatusTest):
    """Published rows, again, to another place; nothing of theirs changes."""

    def replayed(self, table, *point, code=0):
        result = self.run_outrider("replay", "--db", self.url, "--table", table, "--to", "stdout:", "--set", "source.batch=3", *point,
                                   code=code)
        return [json.loads(line)["payload"]["n"] for line in result.out.splitlines()] if code == 0 else result

    def test_rows_are_read_from_a_seq_or_a_time_on_and_left_as_they_are(self):
        self.insert(8)
        self.relay_once()
        self.insert(2, first=9)
        before = self.sql("SELECT * FROM outbox ORDER BY seq")
        cursor = self.sql("SELECT * FROM outrider_cursor")
        self.assertEqual(self.replayed("outbox", "--from-seq", "3"), [3, 4, 5, 6, 7, 8])
        self.assertEqual(self.replayed("outbox", "--since", "1h"), [1, 2, 3, 4, 5, 6, 7, 8])
        self.assertEqual(self.replayed("outbox", "--since", "2100-01-01"), [])
        self.assertEqual(self.sql("SELECT * FROM outbox ORDER BY seq"), before)
        self.assertEqual(self.sql("SELECT * FROM outrider_cursor"), cursor)

    def test_it_runs_beside_a_relay(self):
        self.insert(3)
        relay = self.start_relay()
        self.wait_published(3)
        self.assertEqual(self.replayed("outbox", "--from-seq", "1"), [1, 2, 3])
        self.assertEqual(relay.stop(), 0)

    def test_an_adopted_table_without_a_sequence_is_read_by_time_and_id(self):
        self.sql("CREATE TABLE plain_outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregate_type text, aggregate_id "
                 "text, event_type text, payload jsonb, published boolean, created_at timestamptz)")
        self.sql("INSERT INTO plain_outbox (aggregate_type, aggregate_id, event_type, payload, published, created_at) "
                 "SELECT 'order', '1', 'Created', jsonb_build_object('n', i), true, now() - "
                 "interval '1 hour' + i / 4 * interval '1 second' FROM generate_series(1, 10) i")
        wanted = [int(n) for n in self.column("SELECT payload->>'n' FROM plain_outbox ORDER BY created_at, id")]
        self.assertEqual(self.replayed("plain_outbox", "--since", "2h"), wanted)
        result = self.replayed("plain_outbox", "--from-seq", "1", code=1)
        self.assertRegex(result.err, "no sequence.*--since")


class BadNights(StatusTest):
    def test_a_lost_connection_costs_nothing(self):
        relay = self.start_relay("--set", "source.batch=50")
        for i in range(5):
            self.insert(300, first=1 + 300 * i)
            self.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
                     "AND pid <> pg_backend_pid() AND application_name LIKE 'outrider%'")
        self.wait_published(1500)
        self.assertEqual(relay.stop(), 0)
        self.assertEqual({r["payload"]["n"] for r in self.delivered()}, set(range(1, 1501)))

    def test_a_relay_that_seldom_looks_keeps_its_session(self):
        relay = self.start_relay("--set", "poll_interval=12s")
        before = self.column("SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'outrider%' AND "
                             "datname = current_database()")
        # Longer than the server's patience with a silent session.
        self.wait_for("SELECT clock_timestamp() > backend_start + interval '10 s' FROM pg_stat_activity WHERE pid = %s"
                      % before[0], "t")
        self.insert(1)
        self.wait_published(1)
        self.assertEqual(relay.stop(), 0)
        self.assertNotIn("lost", relay.err())

    def test_a_locked_row_delays_and_loses_nothing(self):
        self.insert(5)
        s = self.session()
        s.begin()
        s.execute("SELECT FROM outbox WHERE seq = 2 FOR UPDATE")
        relay = self.start_relay()
        wait_until(lambda: len(self.delivered()) >= 5, "delivery")
        s.commit()
        self.wait_published(5)
        self.assertEqual(relay.stop(), 0)

    def test_the_application_may_publish_a_row_itself_meanwhile(self):
        self.insert(1)
        relay = self.start_relay(env={"OUTRIDER_FAILPOINTS": "relay.delivered=eio@1,relay.before_settle=stop"})
        self.wait_stopped(relay)
        self.sql("UPDATE outbox SET status = 'PUBLISHED', published_at = now()")
        relay.send(signal.SIGCONT)
        self.insert(1, first=2)
        self.wait_published(2)
        self.assertEqual(self.value("SELECT attempts FROM outbox WHERE seq = 1"), "0")


if __name__ == "__main__":
    unittest.main(verbosity=2)
