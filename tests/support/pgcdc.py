# SPDX-License-Identifier: MIT
"""What the tests of mode cdc share. Slots have one namespace for the whole
server, so every test's pipeline has a name of its own: its database's."""
from harness import wait_until
from pgcase import PostgresTest


class CdcTest(PostgresTest):
    settings = {"wal_level": "logical", "max_prepared_transactions": 10}
    mode = "cdc"

    def setUp(self):
        super().setUp()
        self.owner("ALTER ROLE relay REPLICATION")
        self.name = self.database
        self.slot = "outrider_" + self.name
        self.publish()
        self.addCleanup(self.drop_slot)

    def publish(self):
        self.owner(f"CREATE PUBLICATION {self.slot} FOR TABLE outbox "
                   "WITH (publish = 'insert', publish_via_partition_root = true)")

    def drop_slot(self):
        if not self.server.is_running():
            return

        def is_gone():
            self.owner("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots "
                       f"WHERE slot_name LIKE '{self.slot}%' AND active")
            self.owner("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
                       f"WHERE slot_name LIKE '{self.slot}%' AND NOT active")
            return not self.owner(f"SELECT 1 FROM pg_replication_slots WHERE slot_name LIKE '{self.slot}%'")
        wait_until(is_gone, "the slot to be dropped")

    def relay(self, *args, mode="cdc", env=None, wait=True, log="info"):
        b = self.start("relay", "--from", self.url, "--to", self.sink, "--mode", mode, "--name", self.name,
                       "--log-level", log, *args, env=env)
        if wait:
            b.wait_for_log("connected and active")
        return b

    def once(self, *args, mode="cdc", code=0, env=None):
        return self.run_outrider("relay", "--from", self.url, "--to", self.sink, "--mode", mode, "--name",
                                 self.name, "--once", *args, code=code, env=env)

    def cursor(self, column):
        rows = self.owner(f"SELECT {column} FROM outrider_cursor WHERE pipeline = '{self.name}' AND mode <> 'member'")
        return rows[0][0] if rows else None

    def wait_mode(self, mode, relay=None):
        def is_there():
            if relay is not None and not relay.is_running():
                raise AssertionError(f"the relay ended:\n{relay.err()[-4000:]}")
            return self.cursor("mode") == mode
        wait_until(is_there, f"mode {mode}" + ("; its log:\n" + relay.err()[-4000:] if relay else ""))

    def wait_streaming(self, relay=None):
        """The slot is made, what was there before is delivered, and the stream is read."""
        self.wait_mode("cdc", relay)
        wait_until(lambda: self.owner(f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{self.slot}' AND active"),
                   "the slot to be read" + ("; log:\n" + relay.err()[-4000:] if relay else ""))

    def slot_value(self, column):
        rows = self.owner(f"SELECT {column} FROM pg_replication_slots WHERE slot_name = '{self.slot}'")
        return rows[0][0] if rows else None

    def wait_confirmed(self):
        """Until the slot is confirmed past everything that is committed now."""
        lsn = self.owner("SELECT pg_current_wal_insert_lsn()")[0][0]
        self.owner("SELECT pg_logical_emit_message(true, 'test', '')")
        wait_until(lambda: self.owner(f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{self.slot}' "
                                      f"AND confirmed_flush_lsn >= '{lsn}'"), "the slot to be confirmed")

    def emit(self, content, prefix="outrider", transactional=True, session=None):
        sql = (f"SELECT pg_logical_emit_message({str(transactional).lower()}, '{prefix}', "
               f"$content${content}$content$)")
        (session.execute if session else self.owner)(sql)
