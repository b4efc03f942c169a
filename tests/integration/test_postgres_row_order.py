# SPDX-License-Identifier: MIT
"""Tables that number nothing: a random id, and no time or a time that many rows
share. Their rows are read in the order of insertion, as far as the heap tells."""
import unittest

from pgcdc import CdcTest

COLUMNS = ("id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype text NOT NULL, "
           "aggregateid text NOT NULL, type text NOT NULL, payload jsonb{}")
INSERT = "INSERT INTO events (aggregatetype, aggregateid, type, payload) "


class RowOrderTest(CdcTest):
    more = ""   # columns
    part = ""   # how it is partitioned

    def make_outbox(self, server, database):
        super().make_outbox(server, database)
        server.script(f"CREATE TABLE events ({COLUMNS.format(self.more)}) {self.part}; "
                      "GRANT ALL ON events TO relay", database)

    def publish(self):
        self.owner(f"CREATE PUBLICATION {self.slot} FOR TABLE events "
                   "WITH (publish = 'insert', publish_via_partition_root = true)")

    def setUp(self):
        super().setUp()
        self.n = 0

    def rows(self, n=1, key="k"):
        """One statement that inserts the next n rows."""
        values = [f"('order', '{key}', 'changed', '{{\"n\": \"{i}\"}}')" for i in range(self.n, self.n + n)]
        self.n += n
        return INSERT + "VALUES " + ", ".join(values)

    def transaction(self, *statements):
        s = self.owner_session()
        s.begin()
        for sql in statements:
            s.execute(sql)
        s.commit()

    def write_history(self):
        """Rows of one key: many transactions, many statements in one, many rows in one."""
        for _ in range(10):
            self.owner(self.rows())
        self.transaction(self.rows(), self.rows(20), self.rows(), self.rows())
        self.owner(self.rows(30))
        for _ in range(5):
            self.transaction(self.rows(2), self.rows(2))

    def relayed(self, *args, **how):
        self.once("--table", "events", *args, **how)
        return self.delivered_labels()

    def assert_in_order(self, labels):
        self.assertEqual(labels, [str(i) for i in range(self.n)])


class Swept(RowOrderTest):
    def test_rows_from_before_the_slot_come_in_the_order_of_insertion(self):
        self.write_history()
        self.assert_in_order(self.relayed())
        self.owner(self.rows(10))
        self.assert_in_order(self.relayed())

    def test_so_do_rows_that_stand_where_others_were_removed(self):
        self.owner(self.rows(300, key="gone"))
        self.n = 0
        self.owner(self.rows(50))
        self.owner("DELETE FROM events WHERE aggregateid = 'gone'")
        self.owner("VACUUM events")
        self.write_history()
        place = self.owner("SELECT payload->>'n' FROM events ORDER BY ctid LIMIT 1")
        self.assertNotEqual(place, [("0",)], "no row stands in a place that was free")
        self.assert_in_order(self.relayed())

    def test_so_do_frozen_rows(self):
        self.write_history()
        self.owner("VACUUM (FREEZE) events")
        self.write_history()
        self.assert_in_order(self.relayed())

    def test_one_sweep_reads_them_in_many_portions(self):
        self.write_history()
        self.assert_in_order(self.relayed("--set", "source.batch=7"))


class SweptByCommit(RowOrderTest):
    """A server that notes when a transaction committed knows more than the heap."""
    settings = {**CdcTest.settings, "track_commit_timestamp": "on"}

    def test_rows_come_as_their_transactions_committed(self):
        slow = self.owner_session()
        slow.begin()
        slow.execute("SELECT pg_current_xact_id()")
        self.write_history()
        slow.execute(self.rows(3))
        slow.commit()
        self.write_history()
        self.assert_in_order(self.relayed())

    def test_savepoints_change_nothing(self):
        self.owner(self.rows())
        self.transaction(self.rows(), "SAVEPOINT a", self.rows(2), "SAVEPOINT b", self.rows(), "RELEASE a",
                         self.rows(), "SAVEPOINT a", self.rows())
        self.owner(self.rows())
        self.assert_in_order(self.relayed())


class SweptPartitions(RowOrderTest):
    part = "PARTITION BY HASH (id)"

    def make_outbox(self, server, database):
        super().make_outbox(server, database)
        server.script("; ".join(f"CREATE TABLE events_{i} PARTITION OF events FOR VALUES WITH (MODULUS 3, REMAINDER {i})"
                                for i in range(3)), database)

    def test_statements_come_in_their_order_over_all_partitions(self):
        for _ in range(30):
            self.owner(self.rows())
        self.transaction(*(self.rows() for _ in range(20)))
        self.assert_in_order(self.relayed())


class SweptWithTime(RowOrderTest):
    more = ", created_at timestamptz NOT NULL DEFAULT now()"

    def test_rows_of_one_transaction_come_in_order_although_they_share_a_time(self):
        self.write_history()
        self.assert_in_order(self.relayed())

    def test_the_time_goes_before_the_place(self):
        self.owner(self.rows())
        self.owner(self.rows())
        self.owner("UPDATE events SET created_at = created_at - interval '1 hour' WHERE payload->>'n' = '1'")
        self.assertEqual(self.relayed(), ["1", "0"])


class Polled(RowOrderTest):
    """A mark and nothing else: the row does not change until it is published."""
    mode = "poll"
    more = ", published boolean NOT NULL DEFAULT false"

    def relayed(self, *args, **how):
        return RowOrderTest.relayed(self, "--set", "source.batch=7", *args, mode="poll", **how)

    def test_rows_come_in_the_order_of_insertion(self):
        self.write_history()
        self.assert_in_order(self.relayed())

    def test_a_key_that_failed_keeps_its_order(self):
        self.write_history()
        late = ("--set", "retry.delays=[1h]", "--set", "retry.on_dead=block")
        self.relayed(*late, code=3, env={"OUTRIDER_FAILPOINTS": "relay.delivered=eio@5"})
        self.assertLess(len(set(self.delivered_labels())), self.n, "nothing was left behind the failed event")
        self.owner("UPDATE outrider_parked SET next_attempt_at = now()")
        if "next_attempt_at" in self.more:
            self.owner("UPDATE events SET next_attempt_at = now() WHERE next_attempt_at IS NOT NULL")
        self.relayed(*late)
        self.assert_in_order(self.sink_rows.first_labels())


class PolledWithTime(Polled):
    more = ", published boolean NOT NULL DEFAULT false, created_at timestamptz NOT NULL DEFAULT now()"


class PolledByClaims(Polled):
    """Each row is changed before it is published: its place is another one then."""
    more = (", status text NOT NULL DEFAULT 'PENDING' CHECK (status IN ('PENDING', 'PROCESSING', 'PUBLISHED', "
            "'FAILED', 'DEAD_LETTER')), attempts int NOT NULL DEFAULT 0, next_attempt_at timestamptz, "
            "locked_by text, locked_at timestamptz, claim bigint NOT NULL DEFAULT 0")


class PolledByClaimsWithTime(PolledByClaims):
    more = PolledByClaims.more + ", created_at timestamptz NOT NULL DEFAULT now()"


class PolledByClaimsThatNobodyCounts(PolledByClaims):
    """An id that grows tells of rows that were given back what their place does not."""
    more = PolledByClaims.more.replace(", claim bigint NOT NULL DEFAULT 0", "")

    def make_outbox(self, server, database):
        super().make_outbox(server, database)
        server.script("CREATE SEQUENCE numbers; ALTER TABLE events ALTER id SET DEFAULT ('00000000-0000-7000-8000-' || "
                      "lpad(to_hex(nextval('numbers')), 12, '0'))::uuid", database)


class PolledByClaimsWithRandomIds(RowOrderTest):
    mode = "poll"
    more = PolledByClaimsThatNobodyCounts.more
    relayed = Polled.relayed

    def test_rows_come_in_the_order_of_insertion(self):
        self.write_history()
        self.assert_in_order(self.relayed())


if __name__ == "__main__":
    unittest.main()
