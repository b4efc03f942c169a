# SPDX-License-Identifier: MIT
"""Layout log under torture: many writers with random delays, rollbacks,
savepoints and prepared transactions, and a relay that is killed again and
again; and a death at each failpoint on the way.

OUTRIDER_SOAK=1 runs the random part for a minute instead of ten seconds;
OUTRIDER_SEED repeats a run's choices (not its timing)."""
import os
import random
import threading
import time

import harness
from harness import wait_until
from pgcase import PostgresTest
from pgserver import SqlError

SECONDS = 60 if harness.SOAK else 10
SEED = int(os.environ.get("OUTRIDER_SEED", time.time_ns() % 1000000))
WRITERS = 8
KEYS = 12


class Writer(threading.Thread):
    """Locks aggregates, changes them and tells, in one transaction: the version
    of an aggregate, the fact that a version was reached, and the event go
    together or not at all. The table `fact` is what the relay is judged by."""

    def __init__(self, test, number, until):
        super().__init__(daemon=True)
        self.chance = random.Random(SEED * 1000 + number)
        self.number, self.until = number, until
        self.options = "-c synchronous_commit=off" if number % 4 == 3 else ""
        self.session = test.session("app", options=self.options)
        self.nonce = 0
        self.failure = None

    def run(self):
        try:
            while time.monotonic() < self.until:
                self.attempt()
                self.pause()
        except BaseException as e:
            self.failure = e

    def attempt(self):
        try:
            self.transaction()
        except SqlError as e:
            if e.state not in ("40P01", "40001"):
                raise
            self.session.rollback()

    def pause(self):
        kind = self.chance.random()
        time.sleep(0 if kind < 0.5 else self.chance.uniform(0, 0.02) if kind < 0.95 else self.chance.uniform(0, 0.3))

    def change(self, key):
        """Lock first, then enqueue: the condition of order per key."""
        self.nonce += 1
        nonce = f"{self.number}-{self.nonce}"
        version = self.session.value(f"UPDATE account SET version = version + 1 WHERE key = {key} RETURNING version")
        if self.chance.random() < 0.1:
            self.pause()
        self.session.execute(f"INSERT INTO fact VALUES ({key}, {version}, '{nonce}')")
        payload = f'{{"key": {key}, "version": {version}, "nonce": "{nonce}"}}'
        if self.chance.random() < 0.5:
            self.session.execute(f"SELECT outbox_enqueue('account', '{key}', 'changed', '{payload}')")
        else:
            self.session.execute("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) "
                                 f"VALUES ('account', '{key}', 'changed', '{payload}')")

    def transaction(self):
        s, chance = self.session, self.chance
        s.begin()
        # In the order of keys, so that deadlocks are rare.
        for key in sorted(chance.sample(range(KEYS), chance.choice((1, 1, 1, 2, 3)))):
            if chance.random() < 0.25:
                s.execute("SAVEPOINT here")
                self.change(key)
                if chance.random() < 0.6:
                    s.execute("ROLLBACK TO here")
                s.execute("RELEASE here")
            else:
                self.change(key)
            if chance.random() < 0.2:
                self.pause()
        end = chance.random()
        if end < 0.2:
            s.rollback()
        elif end < 0.3:
            self.two_phase()
        else:
            s.commit()

    def two_phase(self):
        name = f"w{self.number}-{self.nonce}"
        self.session.execute(f"PREPARE TRANSACTION '{name}'")
        self.pause()
        verb = "COMMIT" if self.chance.random() < 0.7 else "ROLLBACK"
        self.session.execute(f"{verb} PREPARED '{name}'")


class RandomWriters(PostgresTest):
    def make_outbox(self, server, database):
        super().make_outbox(server, database)
        server.script("CREATE TABLE account (key int PRIMARY KEY, version int NOT NULL);"
                      f"INSERT INTO account SELECT k, 0 FROM generate_series(0, {KEYS - 1}) k;"
                      "CREATE TABLE fact (key int, version int, nonce text PRIMARY KEY);"
                      "GRANT ALL ON account, fact TO app", database)

    def test_random_writers_lose_invent_and_reorder_nothing(self):
        print(f"OUTRIDER_SEED={SEED}")
        self.run_storm(kills=True, arguments=())

    def test_small_batches_in_a_partitioned_outbox(self):
        self.server.forget(self.database)
        self.server.query(f"DROP DATABASE {self.database}")
        type(self).init_arguments = ("--partition", "day")
        self.database = self.server.create_database()
        self.url = self.server.url(self.database, "relay")
        try:
            self.make_outbox(self.server, self.database)
        finally:
            type(self).init_arguments = ()
        self.run_storm(kills=True, arguments=("--set", "source.batch=3"), seconds=SECONDS / 2)

    def run_storm(self, kills, arguments, seconds=SECONDS):
        chance = random.Random(SEED)
        unrelated = self.owner_session()
        unrelated.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        unrelated.execute("CREATE TABLE unrelated (i int)")
        until = time.monotonic() + seconds
        writers = [Writer(self, i, until) for i in range(WRITERS)]
        relay = self.start_relay(*arguments)
        for w in writers:
            w.start()
        killed = 0
        while time.monotonic() < until:
            time.sleep(chance.uniform(0.1, 1.2))  # not for synchronisation: when the axe falls
            if kills:
                relay.kill()
                self.check_log(relay)
                killed += 1
                relay = self.start("relay", "--from", self.url, "--to", self.sink, *arguments)
        for w in writers:
            w.join(120)
            if w.failure:
                raise w.failure
        self.judge(relay)
        self.assertEqual(unrelated.value("SELECT count(*) FROM unrelated"), "0")
        self.stop_relay(relay)
        print(f"{len(self.sink_rows.rows)} deliveries, {killed} kills")

    def judge(self, relay):
        facts = {nonce: (int(key), int(version)) for key, version, nonce in self.owner("SELECT * FROM fact")}
        self.assertGreater(len(facts), 100)

        def nonces():
            self.assertTrue(relay.is_running(), relay.err()[-4000:])
            return {row["payload"]["nonce"] for row in self.sink_rows.read()}
        try:
            wait_until(lambda: set(facts) <= nonces(), "every committed event")
        except AssertionError:
            lost = set(facts) - nonces()
            seqs = self.owner("SELECT seq, payload FROM outbox WHERE payload->>'nonce' IN ("
                              + ",".join(f"'{n}'" for n in lost) + ") ORDER BY seq")
            cursor = self.owner("SELECT position, gaps FROM outrider_cursor")
            raise AssertionError(f"lost {len(lost)} of {len(facts)}: {seqs[:10]}; cursor {cursor}\n"
                                 + relay.err()[-3000:]) from None
        invented = nonces() - set(facts)
        self.assertEqual(invented, set(), "published, but not committed")
        self.wait_no_gaps()
        seen, versions = set(), {}
        for row in self.sink_rows.read():
            if row["headers"]["event-id"] in seen:
                continue
            seen.add(row["headers"]["event-id"])
            versions.setdefault(row["payload"]["key"], []).append(row["payload"]["version"])
        for key, order in versions.items():
            self.assertEqual(order, sorted(order), f"key {key} out of order")
        self.assertEqual(len(seen), len(facts))


def failpoints():
    """Every failpoint that a relay of PostgreSQL into files can pass."""
    names = harness.failpoints("core", "db/postgres", "sink/file")
    return sorted(name for name in names if not name.startswith(("cdc.", "status.", "slot.", "exact.", "intent.")))


class Deaths(PostgresTest):
    def test_a_death_at_each_failpoint_loses_and_reorders_nothing(self):
        """Events are waiting; one transaction sits in a gap, and ends while the relay is dead."""
        passed = []
        for name in failpoints():
            for nth in (1, 2):
                with self.subTest(f"{name}@{nth}"):
                    if self.die_at(name, nth):
                        passed.append(name)
        print("died at:", " ".join(sorted(set(passed))))
        self.assertIn("relay.before_settle", passed)

    def die_at(self, name, nth):
        tag = f"{name}@{nth}"
        slow = self.session()
        slow.begin()
        slow.execute(self.insert(f"{tag} slow", f"{tag}-slow"))
        s = self.session()
        for i in range(6):
            s.execute(self.insert(f"{tag} {i}", tag))
        result = self.run_outrider("relay", "--from", self.url, "--to", self.sink, "--once", "--set", "source.batch=2",
                                   env={"OUTRIDER_FAILPOINTS": f"{name}=kill@{nth}"}, code=None)
        died = result.code == -9
        self.assertIn(result.code, (0, -9), str(result))
        slow.commit()
        slow.close()
        s.close()
        self.relay_once()
        self.assert_all_delivered()
        mine = [n for n in self.sink_rows.first_labels() if n.startswith(tag) and not n.endswith("slow")]
        self.assertEqual(mine, [f"{tag} {i}" for i in range(6)])
        return died

    def test_killed_between_publishing_and_saving_it_publishes_again(self):
        for i in range(5):
            self.commit_event(i)
        relay = self.start("relay", "--from", self.url, "--to", self.sink,
                           env={"OUTRIDER_FAILPOINTS": "relay.before_settle=kill"})
        relay.join()
        self.assertEqual(relay.process.returncode, -9, relay.err())
        self.assertEqual(self.delivered_labels(), [str(i) for i in range(5)])
        self.relay_once()
        self.assertEqual(self.delivered_labels(), [str(i) for i in range(5)] * 2)
        self.assertEqual(self.sink_rows.first_labels(), [str(i) for i in range(5)])

    def test_an_error_at_each_failpoint_is_survived_without_a_restart(self):
        relay_points = [n for n in failpoints() if not n.startswith(("relay.", "file."))]
        for name in relay_points:
            with self.subTest(name):
                relay = self.start("relay", "--from", self.url, "--to", self.sink,
                                   env={"OUTRIDER_FAILPOINTS": f"{name}=eio@2"})
                with self.load(f"x{relay_points.index(name)}") as loads:
                    loads[0].wait(10)
                self.assert_all_delivered(loads)
                self.stop_relay(relay)


if __name__ == "__main__":
    harness.main()
