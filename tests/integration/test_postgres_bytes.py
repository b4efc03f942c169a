# SPDX-License-Identifier: MIT
"""Columns of type bytea: an event has the same bytes however it is read, after it
was parked, in a dead letter and in a replay."""
import base64
import unittest

import kafkaserver
from pgcdc import CdcTest

KEYS = (b"plain", "schlüssel".encode(), b"", b"\xff\xfe\x00\x01", b"nul\x00inside", b"\\x4142", b"\\xzz", b"\xc3",
        bytes(range(256)))
HEADERS = b'{"trace": "\\u00fc", "n": 1}'
PAYLOAD = b"\x00\x01\xff"
ROW = ("id uuid PRIMARY KEY DEFAULT gen_random_uuid(), {key} bytea, aggregatetype text NOT NULL, type text NOT NULL, "
       "payload {payload}, headers {headers}, published boolean NOT NULL DEFAULT false, "
       "n bigint GENERATED ALWAYS AS IDENTITY")


def bytea(value):
    return f"'\\x{value.hex()}'"


def key_of(row):
    if "key_base64" in row:
        return base64.b64decode(row["key_base64"])
    return row["key"].encode()


def payload_of(row):
    return base64.b64decode(row["payload_base64"])


class BytesTest(CdcTest):
    key = "aggregateid"
    headers, payload = "bytea", "bytea"
    more = ""
    settings = {**CdcTest.settings, "bytea_output": "escape"}

    def make_outbox(self, server, database):
        super().make_outbox(server, database)
        columns = ROW.format(key=self.key, headers=self.headers, payload=self.payload)
        server.script(f"CREATE TABLE events ({columns}{self.more}); GRANT ALL ON events TO relay", database)

    def publish(self):
        self.owner(f"CREATE PUBLICATION {self.slot} FOR TABLE events "
                   "WITH (publish = 'insert', publish_via_partition_root = true)")

    def arguments(self):
        return ("--table", "events", "--set", "map.seq=n")

    def once(self, *args, **how):
        return super().once(*self.arguments(), *args, **how)

    def write(self, key, kind="changed", payload=PAYLOAD):
        self.owner(f"INSERT INTO events ({self.key}, aggregatetype, type, payload, headers) VALUES ({bytea(key)}, "
                   f"'order', '{kind}', {bytea(payload)}, {bytea(HEADERS)})")

    def write_all(self):
        for key in KEYS:
            self.write(key)

    def delivered(self, topic="order.changed", directory=None):
        return super().delivered(topic, directory)

    def keys(self, topic="order.changed"):
        return [key_of(row) for row in self.delivered(topic)]

    def assert_the_same(self, times=1, topic="order.changed"):
        """Every event came so many times, each time with all of its bytes."""
        rows = self.delivered(topic)
        self.assertEqual(sorted(map(key_of, rows)), sorted(KEYS * times))
        for row in rows:
            self.assertEqual(payload_of(row), PAYLOAD)
            self.assertEqual((row["headers"]["trace"], row["headers"]["n"]), ("ü", "1"))


FAIL = {"OUTRIDER_FAILPOINTS": "relay.delivered=eio@*"}
LATE = ("--set", "retry.delays=[1h]", "--set", "retry.on_dead=block")


class Keys(BytesTest):
    def make_due(self):
        self.owner("UPDATE outrider_parked SET next_attempt_at = now() WHERE next_attempt_at IS NOT NULL")

    def test_polled(self):
        self.write_all()
        self.once(mode="poll")
        self.assert_the_same()

    def test_swept_and_streamed(self):
        self.write_all()
        self.once()
        self.assert_the_same()
        self.write_all()
        self.once()
        self.assert_the_same(2)

    def test_parked_and_tried_again(self):
        for mode in ("poll", "cdc"):
            with self.subTest(mode):
                if mode == "cdc":
                    self.setUp()
                    self.once()
                self.write_all()
                self.once(*LATE, mode=mode, env=FAIL, code=3)
                self.assertEqual(self.owner("SELECT count(*) FROM outrider_parked"), [(str(len(KEYS)),)])
                self.make_due()
                self.once(*LATE, mode=mode)
                self.assert_the_same(2)

    def test_swept_parked_and_tried_again(self):
        self.write_all()
        self.once(*LATE, env=FAIL, code=3)
        self.make_due()
        self.once(*LATE)
        self.assert_the_same(2)

    def test_an_event_waits_behind_a_parked_one_of_its_key(self):
        for mode in ("poll", "cdc"):
            with self.subTest(mode):
                if mode == "cdc":
                    self.setUp()
                    self.once()
                self.write_all()
                self.once(*LATE, mode=mode, env=FAIL, code=3)
                self.write_all()
                self.write(b"free")
                self.once(*LATE, mode=mode, code=3)
                self.assertEqual(self.keys()[len(KEYS):], [b"free"])
                self.make_due()
                self.once(*LATE, mode=mode)
                self.assertEqual(sorted(self.keys()), sorted([*KEYS * 3, b"free"]))

    def test_what_polling_parked_blocks_its_key_in_mode_cdc(self):
        self.write_all()
        self.once(*LATE, mode="poll", env=FAIL, code=3)
        self.write_all()
        self.once(*LATE, code=3)
        self.assertEqual(len(self.keys()), len(KEYS))
        self.make_due()
        self.once(*LATE)
        self.assertEqual(sorted(self.keys()), sorted(KEYS * 3))

    def test_dead_letters(self):
        for mode in ("poll", "cdc"):
            with self.subTest(mode):
                if mode == "cdc":
                    self.setUp()
                    self.once()
                self.write(b"\xff\x00")
                limits = ("--set", "max_attempts=1", "--set", "dead_letter.topic=dead")
                self.once(*limits, mode=mode, env={"OUTRIDER_FAILPOINTS": "relay.delivered=eio@1"}, code=3)
                rows = self.delivered("dead")
                self.assertEqual([(key_of(row), payload_of(row)) for row in rows], [(b"\xff\x00", PAYLOAD)])

    def test_a_dead_letter_is_listed_and_tried_again(self):
        key = b"\xff\x00"
        for mode in ("poll", "cdc"):
            with self.subTest(mode):
                if mode == "cdc":
                    self.setUp()
                    self.once()
                self.write(key)
                self.once("--set", "max_attempts=1", mode=mode, env=FAIL, code=3)
                where = ("--db", self.owner_url, "--name", self.name, *self.arguments(), "--set", "source.mode=" + mode)
                dead = self.run_outrider("dead", "list", *where, "--json").json()
                self.assertEqual([d["key"] for d in dead], ["\\xff00"])
                self.run_outrider("dead", "retry", *where, "--all")
                self.once(mode=mode)
                self.assertEqual(self.keys(), [key, key])

    def test_replayed(self):
        self.write_all()
        self.once(mode="poll")
        self.run_outrider("replay", "--db", self.url, *self.arguments(), "--to", self.sink, "--from-seq", "1")
        self.assert_the_same(2)


class PartitionKeys(Keys):
    """The key in one column, and text in the other one."""
    key = "partition_key"
    more = ", aggregateid text NOT NULL DEFAULT 'a'"


OWN_LOG = ("DROP TABLE events; ALTER TABLE outbox ALTER aggregate_id TYPE bytea USING aggregate_id::bytea, "
           "ALTER headers DROP DEFAULT, ALTER headers TYPE bytea USING headers::text::bytea")


class OwnLog(Keys):
    """The outbox that init makes, with columns of bytes."""
    init_arguments = ("--payload", "bytea")

    def make_outbox(self, server, database):
        super().make_outbox(server, database)
        server.script(OWN_LOG, database)

    def publish(self):
        CdcTest.publish(self)

    def arguments(self):
        return ()

    def write(self, key, kind="changed", payload=PAYLOAD):
        self.owner("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, headers) VALUES "
                   f"('order', {bytea(key)}, '{kind}', {bytea(payload)}, {bytea(HEADERS)})")


# Bytes that continue a character of UTF-8, and begin none: none of them ends a text.
LONG = b"\x80" * 20000
LONGEST = b"\xff" * 16384
LARGE_HEADERS = b'{"h": "' + b"x" * 70000 + b'"}'


class BoundsTest(BytesTest):
    ways = ("poll", "sweep", "stream")

    def write(self, key=b"k", headers=HEADERS):
        self.owner(f"INSERT INTO events ({self.key}, aggregatetype, type, payload, headers) VALUES ({bytea(key)}, "
                   f"'order', 'changed', {bytea(PAYLOAD)}, {bytea(headers)})")

    def begin(self, way):
        """Whether events are polled, swept or streamed."""
        self.setUp()
        if way == "stream":
            self.once()
        return "poll" if way == "poll" else "cdc"

    def where(self, mode):
        return ("--db", self.owner_url, "--name", self.name, *self.arguments(), "--set", "source.mode=" + mode)

    def dead(self, column):
        return self.owner(f"SELECT error_code, split_part(error_message, ' ', 1), {column} "
                          "FROM outrider_parked WHERE state = 'dead'")


class TooLarge(BoundsTest):
    """Bounds are those of the bytes, however these are sent and stored, and what is above
    one is a dead letter that has its data."""
    copied = ("sweep", "stream")  # a table that is polled is read again itself

    def key_column(self):
        return "aggregate_id"

    def shorten(self):
        """Where the relay reads it again: in the row that is polled, or in its copy."""
        self.owner(f"UPDATE events SET {self.key} = substr({self.key}, 1, 2)")
        self.owner(f"UPDATE outrider_parked SET {self.key_column()} = left({self.key_column()}, 6)")

    def test_a_key(self):
        for way in self.ways:
            with self.subTest(way):
                mode = self.begin(way)
                self.write(key=LONG)
                self.once(mode=mode, code=3)
                found = ("TOO_LARGE", self.key_column(), "\\x" + LONG.hex())
                self.assertEqual(self.dead(self.key_column()), [found])
                self.run_outrider("dead", "retry", *self.where(mode), "--all")
                self.once(mode=mode, code=3)
                self.assertEqual(self.dead(self.key_column()), [found])
                self.shorten()
                self.run_outrider("dead", "retry", *self.where(mode), "--all")
                self.once(mode=mode)
                self.assertEqual(self.keys(), [b"\x80\x80"])

    def test_headers(self):
        for way in self.ways:
            with self.subTest(way):
                mode = self.begin(way)
                self.write(headers=LARGE_HEADERS)
                self.once(mode=mode, code=3)
                self.assertEqual(self.dead("headers"), [("TOO_LARGE", "headers", "\\x" + LARGE_HEADERS.hex())])
                self.run_outrider("dead", "retry", *self.where(mode), "--all")
                self.once("--set", "max_headers=100000", mode=mode)
                self.assertEqual([row["headers"]["h"] for row in self.delivered()], ["x" * 70000])

    def test_a_key_that_is_dead_again_lets_those_behind_it_go(self):
        """Its lane is the same, read from the outbox and from its copy."""
        for way in self.copied:
            with self.subTest(way):
                mode = self.begin(way)
                self.write(key=LONG)
                self.once(mode=mode, code=3)
                self.run_outrider("dead", "retry", *self.where(mode), "--all")
                self.owner("INSERT INTO outrider_parked (pipeline, outbox, seq, id, aggregate_type, aggregate_id, event_type, "
                           "payload, headers, topic, partition_key, lane, state) SELECT pipeline, outbox, seq, gen_random_uuid(), "
                           "aggregate_type, '\\x41', event_type, payload, headers, topic, NULL, lane, 'queued' FROM outrider_parked")
                self.once(mode=mode, code=3)
                self.assertEqual(self.keys(), [b"A"])

    def test_as_many_bytes_as_are_allowed(self):
        """In outrider_parked they take twice as many."""
        for way in self.ways:
            with self.subTest(way):
                mode = self.begin(way)
                self.write(key=LONGEST, headers=b'{"h": "' + b"x" * 65000 + b'"}')
                self.once(*LATE, mode=mode, env=FAIL, code=3)
                self.owner("UPDATE outrider_parked SET next_attempt_at = now()")
                self.once(*LATE, mode=mode)
                self.assertEqual(self.keys(), [LONGEST] * 2)
                self.assertEqual([row["headers"]["h"] for row in self.delivered()], ["x" * 65000] * 2)


class TooLargeDomains(TooLarge):
    """The server streams text."""

    def make_outbox(self, server, database):
        super().make_outbox(server, database)
        server.script("CREATE DOMAIN raw AS bytea; ALTER TABLE events ALTER aggregateid TYPE raw, ALTER payload TYPE raw, "
                      "ALTER headers TYPE raw", database)


class TooLargePartitionKeys(TooLarge):
    key = "partition_key"
    more = ", aggregateid text NOT NULL DEFAULT 'a'"

    def key_column(self):
        return "partition_key"


class TooLargeOwnLog(TooLarge):
    init_arguments = OwnLog.init_arguments
    copied = TooLarge.ways

    def make_outbox(self, server, database):
        super().make_outbox(server, database)
        server.script(OWN_LOG, database)

    def publish(self):
        CdcTest.publish(self)

    def arguments(self):
        return ()

    def write(self, key=b"k", headers=HEADERS):
        self.owner("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, headers) VALUES "
                   f"('order', {bytea(key)}, 'changed', {bytea(PAYLOAD)}, {bytea(headers)})")

    def shorten(self):
        self.owner("UPDATE outrider_parked SET aggregate_id = left(aggregate_id, 6)")


class TooLargeTogether(BoundsTest):
    """The event's own headers, and a column beside them: each is small enough."""
    headers = "json"
    more = ", note text NOT NULL DEFAULT repeat('n', 40000)"

    def arguments(self):
        return (*super().arguments(), "--set", "map.header_columns={note: note}")

    def write(self, key=b"k", headers=HEADERS):
        self.owner(f"INSERT INTO events (aggregateid, aggregatetype, type, payload, headers) VALUES ({bytea(key)}, 'order', "
                   f"'changed', {bytea(PAYLOAD)}, '{headers.decode()}')")

    def test_headers(self):
        for way in self.ways:
            with self.subTest(way):
                mode = self.begin(way)
                self.write(headers=b'{"h": "' + b"x" * 40000 + b'"}')
                self.once(mode=mode, code=3)
                found = self.dead("headers::json->>'h' = repeat('x', 40000) AND headers::json->>'note' = repeat('n', 40000)")
                self.assertEqual(found, [("TOO_LARGE", "headers", "t")])
                self.run_outrider("dead", "retry", *self.where(mode), "--all")
                self.once("--set", "max_headers=100000", mode=mode)
                self.assertEqual([(len(row["headers"]["h"]), len(row["headers"]["note"])) for row in self.delivered()],
                                 [(40000, 40000)])


class TooLargeTypes(BoundsTest):
    """A type of bytes is cut in the middle of a character, and is a text all the same."""
    more = ", kind bytea"

    def arguments(self):
        return (*super().arguments(), "--set", "map.event_type=kind")

    def test_a_type(self):
        kind = ("a" + "ü" * 10000).encode()
        for way in self.ways:
            with self.subTest(way):
                mode = self.begin(way)
                self.owner(f"INSERT INTO events (aggregateid, aggregatetype, type, payload, kind) VALUES ('k', 'order', 'x', "
                           f"'x', {bytea(kind)})")
                self.once(mode=mode, code=3)
                self.assertEqual(self.dead("event_type"), [("TOO_LARGE", "event_type", "\\x" + kind.hex())])


class TextHeaders(BytesTest):
    headers, payload = "jsonb", "jsonb"

    def write(self, key, kind="changed", payload=b'{"n": "x"}'):
        self.owner(f"INSERT INTO events (aggregateid, aggregatetype, type, payload) VALUES ({bytea(key)}, 'order', "
                   f"'{kind}', '{payload.decode()}')")

    def test_keys_alone_are_bytes(self):
        self.write_all()
        self.once()
        self.write_all()
        self.once()
        self.assertEqual(self.keys(), list(KEYS * 2))


class Malformed(BytesTest):
    """What must be text is a dead letter where its bytes are none, in every mode alike."""
    more = ", kind bytea, place bytea"

    def arguments(self):
        return (*super().arguments(), "--set", "map.event_type=kind", "--set", "map.topic=place")

    def write(self, kind, place, headers=HEADERS):
        self.owner("INSERT INTO events (aggregateid, aggregatetype, type, payload, headers, kind, place) VALUES "
                   f"('k', 'order', 'x', {bytea(PAYLOAD)}, {bytea(headers)}, {bytea(kind)}, {place})")

    def test_types_and_topics(self):
        for mode in ("poll", "cdc"):
            for streamed in (False, True):
                with self.subTest(mode, streamed=streamed):
                    self.setUp()
                    if streamed:
                        self.once(mode=mode)
                    self.write(b"changed", "NULL")
                    self.write(b"moved", bytea(b"there"))
                    self.write(b"\xff\x00", "NULL")
                    self.write(b"changed", bytea(b"\xff"))
                    self.write(b"changed", "NULL", headers=b"\xff{")
                    self.once(mode=mode, code=3)
                    self.assertEqual([len(self.delivered(t)) for t in ("order.changed", "there")], [1, 1])
                    self.assertEqual(self.owner("SELECT error_code, error_message FROM outrider_parked ORDER BY arrival"),
                                     [("INVALID", "event_type is not UTF-8 text"), ("INVALID", "topic is not UTF-8 text"),
                                      ("NOT_JSON", "the event's headers are not a JSON object: correct the row's headers, "
                                       "then retry the dead letter")])
                    dead = self.run_outrider("dead", "list", "--db", self.owner_url, "--name", self.name,
                                             *self.arguments(), "--set", "source.mode=" + mode, "--type", "changed",
                                             "--json").json()
                    self.assertEqual([d["event_type"] for d in dead], ["changed"] * 2)


class Ids(BytesTest):
    """An id of bytes is told as the server writes it."""

    def make_outbox(self, server, database):
        super().make_outbox(server, database)
        server.script("ALTER TABLE events ALTER id DROP DEFAULT, ALTER id TYPE bytea USING uuid_send(id), "
                      "ALTER id SET DEFAULT uuid_send(gen_random_uuid())", database)

    def test_in_every_mode(self):
        self.write(b"polled")
        self.once(mode="poll")
        self.write(b"swept")
        self.once("--set", "after_publish=mark")
        self.write(b"streamed")
        self.once("--set", "after_publish=mark")
        rows = self.owner("SELECT '\\x' || encode(id, 'hex') FROM events ORDER BY n")
        self.assertEqual([(row["headers"]["event-id"],) for row in self.delivered()], rows)
        self.assertEqual(self.owner("SELECT count(*) FROM events WHERE published"), [("3",)])

    def test_parked_and_tried_again(self):
        for mode in ("poll", "cdc"):
            with self.subTest(mode):
                if mode == "cdc":
                    self.setUp()
                    self.once()
                self.write(b"k")
                self.once(*LATE, mode=mode, env=FAIL, code=3)
                self.owner("UPDATE outrider_parked SET next_attempt_at = now()")
                self.once(*LATE, mode=mode)
                self.assertEqual(len({row["headers"]["event-id"] for row in self.delivered()}), 1)
                self.assertEqual(len(self.delivered()), 2)


class Domains(Keys):
    """A domain over bytea makes the server stream text."""
    key = "aggregateid"

    def make_outbox(self, server, database):
        super().make_outbox(server, database)
        server.script("CREATE DOMAIN raw AS bytea; ALTER TABLE events ALTER aggregateid TYPE raw, ALTER payload TYPE raw, "
                      "ALTER headers TYPE raw", database)


class Forms(BytesTest):
    """Where a form needs a text, a key that is none is told as the server writes it."""

    def test_the_key_in_json(self):
        self.write(b"\xff\x00")
        self.once("--set", "form=envelope", mode="poll")
        self.assertEqual(self.delivered()[0]["payload"]["aggregateId"], "\\xff00")
        self.write(b"\xff\x00")
        self.once("--set", "form=cloudevents", mode="poll")
        self.assertEqual(self.delivered()[1]["payload"]["subject"], "\\xff00")
        self.write(b"\xff\x00")
        self.once("--set", "form=cloudevents-binary", mode="poll")
        self.assertEqual(self.delivered()[2]["headers"]["ce-subject"], "\\xff00")
        self.assertEqual(self.keys(), [b"\xff\x00"] * 3)


class IntoKafka(BytesTest):
    @classmethod
    def setUpClass(cls):
        kafkaserver.need()
        super().setUpClass()
        cls.cluster = kafkaserver.Cluster()
        cls.addClassCleanup(cls.cluster.close)
        cls.cluster.start()

    def test_a_key_is_the_bytes_of_its_column(self):
        self.cluster.create_topic("order.changed")
        self.sink = self.cluster.url
        self.write_all()
        self.once()
        self.write_all()
        self.once()
        self.assertEqual([r["key"] for r in self.cluster.read("order.changed")], [*KEYS * 2])


if __name__ == "__main__":
    unittest.main()
