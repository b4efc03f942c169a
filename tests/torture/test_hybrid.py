#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Hybrid publishing by several processes, beside a relay, while all of them die.

The load is examples/hybrid: every order counts up its customer's orders, under
that customer's lock, and its event carries the number. So of each customer the
first deliveries must be 1, 2, 3, ... up to what the table says, whoever made
them. All processes and the relay write to one file, in append mode: its lines
stand in the order of the deliveries.
"""
import json
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import harness
from pgserver import Server, clean_environment, wait_for

BUILD = os.environ.get("OUTRIDER_BUILD", "build-test")
OUTRIDER = os.environ.get("OUTRIDER", os.path.join(BUILD, "outrider"))
HYBRID = os.path.join(BUILD, "examples", "hybrid", "hybrid")
ROUNDS = 100 if harness.SOAK else 8
CUSTOMERS = 12
PROCESSES = 4


class HybridTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.addClassCleanup(cls.server.remove)
        cls.server.initialise()
        cls.server.start()

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="outrider-hybrid-")
        self.addCleanup(shutil.rmtree, self.dir)
        self.received = os.path.join(self.dir, "received")
        self.env = clean_environment(OUTRIDER_MODULE_PATH=os.path.join(BUILD, "modules"))
        self.running = []
        self.addCleanup(self.end_all)
        self.make_outbox("--layout", "status")

    def make_outbox(self, *options):
        """In a new database; what was received so far is forgotten."""
        self.database = self.server.create_database()
        self.url = self.server.url(self.database)
        self.outrider("init", "--db", self.url, *options)
        self.query("CREATE TABLE customers (id integer PRIMARY KEY, orders integer NOT NULL)")
        with open(self.received, "wb"):
            pass

    def end_all(self):
        for p in self.running:
            if p.poll() is None:
                p.send_signal(signal.SIGCONT)
                p.kill()
            if not p.stderr.closed:
                p.communicate()

    def outrider(self, *arguments, stdout=subprocess.DEVNULL):
        done = subprocess.run([OUTRIDER, *arguments], env=self.env, stdout=stdout,
                              stderr=subprocess.PIPE, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)

    def query(self, sql):
        return self.server.query(sql, self.database)

    def count(self, sql):
        return int(self.query(sql)[0][0])

    def orders(self):
        return self.count("SELECT coalesce(sum(orders), 0) FROM customers")

    def spawn(self, *command, stdout=None):
        with open(self.received, "ab") as out:
            p = subprocess.Popen(command, env=self.env, stdout=stdout or out,
                                 stderr=subprocess.PIPE, text=True)
        self.running.append(p)
        return p

    def shop(self, orders, *options, stdout=None, customers=CUSTOMERS):
        return self.spawn(HYBRID, self.url, "stdout:", str(orders), str(customers), *options, stdout=stdout)

    def relay(self):
        return self.spawn(OUTRIDER, "relay", "--from", self.url, "--to", "stdout:")

    def finish(self, process):
        """Its exit must be a good one; the figures that it tells at its end."""
        _, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, err)
        return {name: int(n) for name, n in re.findall(r"(\w+) (\d+)", err)}

    def drain(self):
        with open(self.received, "ab") as out:
            self.outrider("relay", "--from", self.url, "--to", "stdout:", "--once", stdout=out)

    def wait_leases(self):
        wait_for(lambda: self.count("SELECT count(*) FROM outbox WHERE locked_until > clock_timestamp()") == 0,
                 "leases to run out")

    def wait_sessions(self):
        """A killed client's session ends what it was asked for: a COMMIT may still come true."""
        wait_for(lambda: self.count("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND "
                                    "backend_type = 'client backend' AND pid <> pg_backend_pid()") == 0,
                 "sessions to end")

    def deliveries(self):
        """(customer, n) in the order of arrival. A line that a kill has cut is none, but what somebody else has
        written behind it is."""
        with open(self.received, encoding="utf-8", errors="replace") as f:
            for line in f:
                for begin in re.finditer(r'{"offset":', line):
                    try:
                        payload = json.loads(line[begin.start():])["payload"]
                    except ValueError:
                        continue
                    yield payload["customer"], payload["n"]
                    break

    def check_order(self):
        """Nothing lost, nothing invented, first deliveries in order; how many came twice."""
        taken = {int(c): int(n) for c, n in self.query("SELECT id, orders FROM customers")}
        seen, first, n_all = {}, [], 0
        for customer, n in self.deliveries():
            n_all += 1
            if n in seen.setdefault(customer, set()):
                continue
            self.assertEqual(n, len(seen[customer]) + 1, f"customer {customer}: out of order")
            seen[customer].add(n)
            first.append(n)
        self.assertEqual({c: len(s) for c, s in seen.items()}, taken,
                         self.query("SELECT status, count(*) FROM outbox GROUP BY status"))
        self.assertEqual(self.count("SELECT count(*) FROM outbox WHERE status <> 'PUBLISHED'"), 0)
        return n_all - len(first)


class Alone(HybridTest):
    def test_what_was_claimed_is_published_without_a_relay(self):
        figures = self.finish(self.shop(200, customers=100000))
        self.assertGreater(figures["claimed"], 50)
        self.assertEqual(figures["unsuitable"], 0)
        self.assertGreaterEqual(self.count("SELECT count(*) FROM outbox WHERE status = 'PUBLISHED'"),
                                figures["claimed"])
        self.assertEqual(self.count("SELECT count(*) FROM outbox WHERE locked_by IS NOT NULL"), 0)
        self.drain()
        self.assertEqual(self.check_order(), 0)

    def test_a_receiver_that_takes_nothing_does_not_hold_the_application_up(self):
        read, write = os.pipe()
        self.addCleanup(os.close, read)
        # Hardly two orders of one customer: nothing but the queue keeps a claim from being made.
        shop = self.shop(1000, "hybrid.queue=20", "hybrid.lease=3s", "shutdown_timeout=1s", stdout=write,
                         customers=100000)
        os.close(write)
        figures = self.finish(shop)
        self.assertGreater(figures["full"], 100)
        self.assertEqual(self.orders(), 1000)
        self.wait_leases()
        self.drain()
        # What the pipe took counts for the publisher as delivered, and the rest is here.
        os.set_blocking(read, False)
        piped = os.read(read, 1 << 20).decode()
        with open(self.received, encoding="utf-8") as f:
            came = f.read()
        n = len(set(re.findall(r'"event-id":"([^"]*)"', piped + came)))
        self.assertEqual(n, 1000)

    def test_a_lane_that_dead_letters_block_is_left_to_the_relay(self):
        self.query("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, status) "
                   "VALUES ('order', '1', 'Old', '{}', 'DEAD_LETTER')")
        figures = self.finish(self.shop(40, "retry.on_dead=block", customers=1))
        self.assertEqual(figures["claimed"], 0)
        self.assertGreater(figures["busy"], 0)
        figures = self.finish(self.shop(10, customers=1))  # behind those 40
        self.assertEqual(figures["claimed"], 0)

    def test_whatever_makes_claims_unsafe_leaves_everything_to_the_relay(self):
        for setting in ("default_transaction_isolation = 'repeatable read'",
                        "default_transaction_isolation = 'serializable'", "synchronous_commit = off"):
            with self.subTest(setting):
                self.query(f"ALTER DATABASE {self.database} SET {setting}")
                figures = self.finish(self.shop(20))
                self.assertEqual(figures["claimed"], 0)
                self.assertGreater(figures["unsuitable"], 0)  # the first ones came before the publisher
                self.query(f"ALTER DATABASE {self.database} RESET {setting.split()[0]}")
        self.query("INSERT INTO outrider_cursor (pipeline, outbox, mode) VALUES ('x', 'y', 'cdc')")
        self.assertEqual(self.finish(self.shop(20))["claimed"], 0)
        self.query("DELETE FROM outrider_cursor WHERE pipeline = 'x'")
        self.drain()
        self.assertEqual(self.check_order(), 0)

    def test_a_table_without_lock_columns_is_written_and_relayed_as_ever(self):
        self.make_outbox("--layout", "log")
        figures = self.finish(self.shop(20))
        self.assertEqual((figures["claimed"], figures["unsuitable"]), (0, 20))
        self.assertEqual(self.count("SELECT count(*) FROM outbox"), 20)

    def test_a_payload_of_any_type_of_column(self):
        for payload in ("text", "bytea"):
            with self.subTest(payload):
                self.make_outbox("--layout", "status", "--payload", payload)
                self.assertGreater(self.finish(self.shop(20, customers=100000))["claimed"], 0)
                self.drain()
                self.assertEqual(self.check_order(), 0)

    def test_a_role_needs_the_right_to_look_and_to_mark(self):
        self.server.query("DROP ROLE IF EXISTS hybrid_app")
        self.query("CREATE ROLE hybrid_app LOGIN IN ROLE outrider_writer")
        self.query("GRANT ALL ON customers TO hybrid_app")
        self.query("GRANT CREATE ON SCHEMA public TO hybrid_app")
        self.url = self.server.url(self.database, "hybrid_app")
        shop = self.shop(20)
        _, err = shop.communicate(timeout=60)
        self.assertEqual(shop.returncode, 1)
        self.assertIn("GRANT SELECT", err)
        self.query("GRANT outrider_relay TO hybrid_app")
        self.assertGreater(self.finish(self.shop(50, customers=100000))["claimed"], 0)
        self.drain()
        self.assertEqual(self.check_order(), 0)

    def test_a_publisher_from_which_rows_are_hidden_leaves_them_to_the_relay(self):
        """A mark that hits nothing is not taken for one: every event would come twice."""
        self.server.query("DROP ROLE IF EXISTS hybrid_bound")
        self.query("CREATE ROLE hybrid_bound LOGIN IN ROLE outrider_writer, outrider_relay")
        self.query("GRANT ALL ON customers TO hybrid_bound")
        self.query("GRANT CREATE ON SCHEMA public TO hybrid_bound")
        self.query("ALTER TABLE outbox ENABLE ROW LEVEL SECURITY")
        self.query("CREATE POLICY writes ON outbox FOR INSERT WITH CHECK (true)")
        self.query("CREATE POLICY reads ON outbox FOR SELECT USING (true)")
        owner, self.url = self.url, self.server.url(self.database, "hybrid_bound")
        figures = self.finish(self.shop(20, "hybrid.lease=300ms", customers=100000))
        self.assertEqual(figures["published"], 0)
        self.url = owner
        self.wait_leases()
        self.drain()
        self.assertLess(self.check_order(), 20)

    def test_a_mode_that_it_cannot_keep_is_refused(self):
        for option in ("source.mode=cdc", "source.durable=standby"):
            shop = self.shop(1, option)
            _, err = shop.communicate(timeout=60)
            self.assertEqual(shop.returncode, 1)
            self.assertIn("hybrid publishing", err)


class Together(HybridTest):
    def test_four_processes_and_a_relay_keep_the_order_of_every_key(self):
        relay = self.relay()
        shops = [self.shop(150) for _ in range(PROCESSES)]
        figures = [self.finish(shop) for shop in shops]
        self.assertGreater(sum(f["claimed"] for f in figures), 0)
        self.assertGreater(sum(f["busy"] for f in figures), 0)
        relay.terminate()
        self.finish(relay)
        self.drain()
        self.assertEqual(self.check_order(), 0)

    def test_the_order_holds_through_kills_and_freezes(self):
        options = ("hybrid.lease=300ms",)
        chance = random.Random(20)
        relay = self.relay()
        shops = [self.shop(1000000, *options) for _ in range(PROCESSES)]
        for _ in range(ROUNDS):
            before = self.orders()
            wait_for(lambda at=before: self.orders() > at + 20, "orders")
            time.sleep(chance.random() * 0.1)  # where it finds them does not matter
            i = chance.randrange(PROCESSES)
            how = chance.choice(("kill", "kill", "freeze", "relay"))
            if how == "kill":
                shops[i].kill()
                shops[i].communicate()
                shops[i] = self.shop(1000000, *options)
            elif how == "freeze":
                shops[i].send_signal(signal.SIGSTOP)
                time.sleep(0.5)  # longer than its lease: the relay has taken over when it wakes up
                shops[i].send_signal(signal.SIGCONT)
            else:
                relay.kill()
                relay.communicate()
                relay = self.relay()
        for shop in shops:
            shop.kill()
            shop.communicate()
        relay.terminate()
        relay.communicate(timeout=60)
        self.wait_sessions()
        self.wait_leases()
        self.drain()
        self.check_order()


if __name__ == "__main__":
    unittest.main()
