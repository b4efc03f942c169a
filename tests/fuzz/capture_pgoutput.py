# SPDX-License-Identifier: MIT
"""Captures what a real server sends into tests/fuzz/corpus/fuzz_pgoutput: one
file for each scenario, in the form that fuzz_pgoutput.c reads. Run it again when
the decoder learns something new, or with OUTRIDER_PG_BIN for another version."""
import os
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
from pgserver import Server  # noqa: E402

TABLE = """CREATE TABLE {name} (seq bigint GENERATED ALWAYS AS IDENTITY, id uuid DEFAULT gen_random_uuid(),
    aggregate_type text NOT NULL, aggregate_id text NOT NULL, event_type text NOT NULL, payload {payload},
    headers jsonb, topic text, partition_key text, partition int, occurred_at timestamptz,
    created_at timestamptz DEFAULT now(), expires_at timestamptz)"""
ROW = "INSERT INTO {name} (aggregate_type, aggregate_id, event_type, payload) VALUES ('a', 'b', 'c', {value})"
MESSAGE = ('{"aggregate_type":"a","aggregate_id":"b","event_type":"c","payload":{"n":1},"headers":{"x":"y"},'
           '"occurred_at":"2026-01-02T03:04:05Z"}')

SCENARIOS = {
    "rows": ["BEGIN", ROW.format(name="outbox", value="'{\"n\": 1}'"),
             "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, headers, topic, partition_key, "
             "partition, occurred_at, expires_at) VALUES ('a', 'b', 'c', NULL, '{\"h\": \"1\"}', 't', 'k', 3, now(), "
             "'infinity')", "COMMIT"],
    "large": [ROW.format(name="outbox", value="to_jsonb(repeat('x', 600))")],
    "columns": [ROW.format(name="outbox", value="'1'"), "ALTER TABLE outbox ADD COLUMN extra int DEFAULT 5",
                ROW.format(name="outbox", value="'2'"), "ALTER TABLE outbox DROP COLUMN headers",
                ROW.format(name="outbox", value="'3'"), "ALTER TABLE outbox RENAME COLUMN topic TO subject",
                ROW.format(name="outbox", value="'4'"), "ALTER TABLE outbox ALTER COLUMN payload TYPE text",
                ROW.format(name="outbox", value="'5'"), "ALTER TABLE outbox RENAME COLUMN aggregate_id TO other",
                "INSERT INTO outbox (aggregate_type, other, event_type) VALUES ('a', 'b', 'c')"],
    "changes": [ROW.format(name="outbox", value="'1'"), "ALTER TABLE outbox REPLICA IDENTITY FULL",
                "UPDATE outbox SET topic = 'x'", "DELETE FROM outbox", "TRUNCATE outbox"],
    "messages": ["BEGIN", f"SELECT pg_logical_emit_message(true, 'outrider', '{MESSAGE}')",
                 "SELECT pg_logical_emit_message(true, 'outrider', '')",
                 "SELECT pg_logical_emit_message(true, 'outrider', '\\x00ff'::bytea)",
                 "SELECT pg_logical_emit_message(true, 'other', 'x')",
                 f"SELECT pg_logical_emit_message(false, 'outrider', '{MESSAGE}')", "COMMIT"],
    "quoted": ['CREATE TYPE mood AS ENUM (\'glad\')', 'CREATE TABLE "odd ""name" (id mood, v numeric)',
               'INSERT INTO "odd ""name" VALUES (\'glad\', 1.5)'],
    "bytes": ["ALTER TABLE outbox ALTER COLUMN payload TYPE bytea USING NULL",
              ROW.format(name="outbox", value="'\\x0001ff'"), ROW.format(name="outbox", value="''")],
}


def capture(server, name, statements, binary):
    database = server.create_database()
    server.query(TABLE.format(name="outbox", payload="jsonb"), database)
    server.query("CREATE PUBLICATION p FOR ALL TABLES", database)
    server.query(f"SELECT pg_create_logical_replication_slot('{database}', 'pgoutput')", database)
    server.script(";\n".join(statements), database)
    rows = server.query(f"SELECT encode(data, 'hex') FROM pg_logical_slot_get_binary_changes('{database}', NULL, NULL, "
                        "'proto_version', '1', 'publication_names', 'p', "
                        f"'binary', '{str(binary).lower()}', 'messages', 'true')", database)
    server.query(f"SELECT pg_drop_replication_slot('{database}')", database)
    directory = os.path.join(HERE, "corpus", "fuzz_pgoutput")
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, f"{name}-{'binary' if binary else 'text'}"), "wb") as f:
        for (row,) in rows:
            data = bytes.fromhex(row)
            f.write(struct.pack(">H", len(data)) + data)


def main():
    server = Server(wal_level="logical", max_replication_slots=10)
    try:
        server.initialise()
        server.start()
        for name, statements in SCENARIOS.items():
            for binary in (True, False):
                capture(server, name, statements, binary)
    finally:
        server.remove()


if __name__ == "__main__":
    main()
