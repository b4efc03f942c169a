# SPDX-License-Identifier: MIT
"""Hybrid publishing from PostgreSQL into a real broker, with a relay behind it.

The application is examples/hybrid: every order counts up its customer's orders,
and its event carries the number; so of each customer the first deliveries are 1,
2, 3, ... up to what the table says, and a number beyond that was rolled back.
"""
import json
import os
import re
import subprocess

import harness
import kafkaserver
from pgcase import PostgresTest

HYBRID = os.path.join(os.environ.get("OUTRIDER_BUILD", "build-test"), "examples", "hybrid", "hybrid")
TOPIC = "order.OrderTaken"
cluster = None

# Every seventh order fails at the last moment, in COMMIT, behind the claim. A
# sequence goes on through rollbacks.
REFUSE = """
CREATE SEQUENCE tries;
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
    IF nextval('tries') % 7 = 0 THEN RAISE check_violation; END IF;
    RETURN NULL;
END$$;
CREATE CONSTRAINT TRIGGER refuse AFTER INSERT OR UPDATE ON customers DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION refuse();
"""


def setUpModule():
    global cluster
    if kafkaserver.jars() is not None:
        cluster = kafkaserver.Cluster().start()


def tearDownModule():
    if cluster is not None:
        cluster.close()


class HybridIntoKafka(PostgresTest):
    init_arguments = ("--layout", "status")

    def setUp(self):
        kafkaserver.need()
        super().setUp()
        self.url = self.owner_url
        self.sink = cluster.url
        self.owner("CREATE TABLE customers (id integer PRIMARY KEY, orders integer NOT NULL)")
        self.owner(REFUSE)
        cluster.create_topic(TOPIC, 3)
        self.addCleanup(cluster.delete_topic, TOPIC)

    def shop(self, orders, *options, customers=30):
        p = subprocess.Popen([HYBRID, self.url, self.sink, str(orders), str(customers), *options],
                             env=harness.environment({"OUTRIDER_MODULE_PATH": os.path.join(
                                 os.path.dirname(harness.OUTRIDER), "modules")}),
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

        def end():
            if p.poll() is None:
                p.kill()
            p.communicate()
        self.addCleanup(end)
        return p

    def finish(self, shop):
        """Its exit must be a good one; the figures that it tells at its end."""
        _, err = shop.communicate(timeout=harness.DEADLINE * 2)
        self.assertEqual(shop.returncode, 0, err)
        return {name: int(n) for name, n in re.findall(r"(\w+) (\d+)", err)}

    def count(self, sql):
        return int(self.owner("SELECT " + sql)[0][0])

    def orders(self):
        return self.count("coalesce(sum(orders), 0) FROM customers")

    def wait_published(self):
        harness.wait_until(lambda: self.count("count(*) FROM outbox WHERE status <> 'PUBLISHED'") == 0,
                           "everything to be published")

    def received(self):
        """{customer: numbers in the order of arrival}: a key has one partition."""
        seen = {}
        for m in cluster.read(TOPIC):
            payload = json.loads(m["payload"])
            self.assertEqual(m["key"].decode(), str(payload["customer"]))
            seen.setdefault(payload["customer"], []).append(payload["n"])
        return seen

    def check(self):
        """All that is committed and nothing else, in order; how many came twice."""
        taken = {int(c): int(n) for c, n in self.owner("SELECT id, orders FROM customers")}
        seen = self.received()
        for customer, numbers in seen.items():
            first = list(dict.fromkeys(numbers))
            self.assertEqual(first, list(range(1, len(first) + 1)), f"customer {customer}")
        self.assertEqual({c: len(set(n)) for c, n in seen.items()}, taken)
        self.assertEqual(self.count("count(*) FROM outbox"), sum(taken.values()))
        return sum(len(n) for n in seen.values()) - sum(taken.values())

    def test_the_application_publishes_by_itself_and_the_relay_the_rest(self):
        figures = self.finish(self.shop(300, customers=100000))  # nobody else is there
        self.assertGreater(figures["claimed"], 50)
        self.assertGreater(figures["refused"], 20)
        self.assertEqual(figures["unsuitable"], 0)
        by_itself = sum(len(n) for n in self.received().values())
        self.assertEqual(by_itself, figures["claimed"])
        self.assertEqual(self.count("count(*) FROM outbox WHERE status = 'PUBLISHED'"), by_itself)
        self.start_relay()
        self.wait_published()
        self.assertEqual(self.check(), 0)

    def test_two_applications_beside_a_relay_keep_every_key_in_order(self):
        relay = self.start_relay()
        figures = [self.finish(shop) for shop in [self.shop(250) for _ in range(2)]]
        self.wait_published()
        self.assertEqual(self.orders() + sum(f["refused"] for f in figures), 500)
        for f in figures:
            self.assertGreater(f["claimed"], 0)
            self.assertGreater(f["busy"], 0)  # the hot key is the relay's
        self.assertEqual(self.check(), 0)
        self.stop_relay(relay)

    def test_a_broker_that_is_away_blocks_no_commit_and_loses_nothing(self):
        relay = self.start_relay()
        shop = self.shop(1000, "hybrid.lease=2s", "shutdown_timeout=1s")
        harness.wait_until(lambda: self.orders() > 100, "orders")
        node = cluster.nodes[0]
        node.kill()
        try:
            figures = self.finish(shop)  # to its last order, without a broker
            self.assertGreater(figures["claimed"], 0)
            self.assertGreater(figures["full"], 0)
            self.assertEqual(self.orders() + figures["refused"], 1000)
            self.assertGreater(self.count("count(*) FROM outbox WHERE status <> 'PUBLISHED'"), 0)
        finally:
            node.start()
            cluster.wait_ready()
        self.wait_published()
        self.check()
        self.stop_relay(relay)

    def test_an_outbox_that_a_relay_publishes_exactly_once_is_refused(self):
        exact = ("--set", "exactly_once=true")
        self.relay_once(*exact)
        shop = self.shop(10)
        _, err = shop.communicate(timeout=harness.DEADLINE)
        self.assertEqual(shop.returncode, 1)
        self.assertIn("pipeline 'default' of this outbox runs with exactly_once", err)
        self.relay_once()  # from now on without
        self.assertGreater(self.finish(self.shop(20, customers=100000))["claimed"], 0)
        self.relay_once()
        # The other way round: a relay that begins with it finds what an application has claimed.
        self.owner("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, status, locked_by, "
                   "locked_at, locked_until) VALUES ('order', '0', 'OrderTaken', '{\"customer\": 0, \"n\": 1}', "
                   "'PROCESSING', 'hybrid:gone', now(), now() + interval '5 seconds')")
        self.owner("ALTER TABLE customers DISABLE TRIGGER refuse")
        self.owner("INSERT INTO customers VALUES (0, 1)")
        relay = self.start_relay(*exact)
        relay.wait_for_log("exactly_once: 1 events in public.outbox are claimed by applications")
        self.wait_published()
        self.assertEqual(self.check(), 0)
        self.stop_relay(relay)


if __name__ == "__main__":
    harness.main()
