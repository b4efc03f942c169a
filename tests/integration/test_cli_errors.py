# SPDX-License-Identifier: MIT
"""Bad input: each has its message, its exit code, and does no harm."""
import json
import os
import shutil
import sqlite3
import subprocess

import harness

PUT = ("--aggregate-type", "order", "--aggregate-id", "1", "--type", "Created")


class BadDatabase(harness.OutriderTest):
    def every_command(self):
        yield ("put", "--db", self.url, *PUT, "--payload", "{}")
        yield ("status", "--db", self.url)
        yield ("dead", "list", "--db", self.url)
        yield ("cleanup", "--db", self.url)
        yield ("resync", "--db", self.url)
        yield ("relay", "--from", self.url, "--to", "null:", "--once", "--set",
               "connect_timeout=300ms")
        yield ("replay", "--from", self.url, "--to", "null:", "--from-seq", "1", "--set",
               "connect_timeout=300ms")

    def assert_all_fail(self, text):
        for args in self.every_command():
            with self.subTest(args[0]):
                r = self.run_outrider(*args, code=1)
                self.assertIn(text, r.err)
                self.assertIn("shop.db", r.err)
                self.assertEqual(r.out, "")

    def test_a_database_that_does_not_exist_points_at_init_and_is_not_made(self):
        self.assert_all_fail("outrider init")
        self.assertFalse(os.path.exists(self.db))

    def test_a_database_without_an_outbox_points_at_init(self):
        db = sqlite3.connect(self.db)
        db.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
        db.commit()
        db.close()
        self.assert_all_fail("outrider init")

    def test_a_file_that_is_no_database_is_named(self):
        self.path("shop.db", "this is a text file, and long enough to have a header " * 40)
        self.assert_all_fail("not a database")
        self.run_outrider("init", "--db", self.url, code=1)

    def test_a_directory_is_no_database(self):
        os.mkdir(self.db)
        for args in self.every_command():
            with self.subTest(args[0]):
                self.assertIn("shop.db", self.run_outrider(*args, code=1).err)

    def test_a_read_only_database_is_named(self):
        self.init()
        os.chmod(self.db, 0o444)
        os.chmod(self.dir, 0o555)
        self.addCleanup(os.chmod, self.dir, 0o755)
        # root may write anywhere, so it becomes somebody else.
        who = {"user": 65534} if os.geteuid() == 0 else {}
        try:
            p = subprocess.run([harness.OUTRIDER, "put", "--db", self.url, *PUT, "--payload", "{}"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env=harness.environment(), **who)
        except PermissionError:
            self.skipTest("nobody may not run the program from where it is")
        self.assertEqual(p.returncode, 1, p.stderr)
        self.assertRegex(p.stderr, b"read-only|cannot be written")

    def test_a_locked_database_is_waited_for_and_then_named(self):
        self.init()
        holder = sqlite3.connect(self.db, isolation_level=None)
        self.addCleanup(holder.close)
        holder.execute("BEGIN IMMEDIATE")
        r = self.put("{}", 1, "Created", "--set", "connect_timeout=200ms", code=1)
        self.assertIn("locked", r.err)
        holder.execute("ROLLBACK")
        self.put()

    def test_a_newer_schema_is_refused(self):
        self.init()
        version = self.sql("PRAGMA user_version")[0][0]
        if version > 0:
            self.sql("PRAGMA user_version = 999")
        else:
            self.sql("UPDATE outrider_schema SET version = 999")
        r = self.run_outrider("status", "--db", self.url, code=1)
        self.assertIn("schema version 999", r.err)
        self.assertIn("upgrade", r.err)


class BadUrls(harness.OutriderTest):
    def test_an_unknown_scheme_lists_what_there_is(self):
        r = self.run_outrider("relay", "--from", self.url, "--to", "carrier-pigeon:x", code=2)
        self.assertRegex(r.err, "no sink for 'carrier-pigeon:'; there are file, .*null, stdout$")
        r = self.run_outrider("status", "--db", "oracle:x", code=2)
        self.assertRegex(r.err, "no source for 'oracle:'; there are .*sqlite$")

    def test_nobody_is_told_to_install_what_does_not_exist(self):
        for scheme in ("amqp", "nats", "redis", "mqtt"):
            r = self.run_outrider("relay", "--from", self.url, "--to", scheme + "://h/d", code=2)
            self.assertIn(f"no sink for '{scheme}:'; there are file", r.err)
            self.assertNotIn("install", r.err)

    def test_a_module_that_is_not_there_is_named(self):
        alone = shutil.copy(os.environ["OUTRIDER"], self.path("alone"))
        r = subprocess.run([alone, "status", "--db", "sqlite:shop.db"], capture_output=True, text=True)
        self.assertEqual(r.returncode, 2)
        self.assertRegex(r.stderr, r"no source for 'sqlite:': its module sqlite.so is neither beside the program nor in /.*; there are none")

    def test_options_of_an_adapter_are_known_where_the_adapter_is_missing(self):
        alone = shutil.copy(os.environ["OUTRIDER"], self.path("alone"))
        r = subprocess.run([alone, "help", "--render", "options"], capture_output=True, text=True, check=True)
        for option in ("sink.kafka", "source.publication", "sink.rotate_size"):
            self.assertIn(f"`{option}`", r.stdout)

    def test_a_sink_is_no_source_and_a_source_is_no_sink(self):
        r = self.run_outrider("status", "--db", "file:x", code=2)
        self.assertIn("'file:' is a sink, not a source; there are", r.err)
        r = self.run_outrider("relay", "--from", self.url, "--to", "sqlite:x", code=2)
        self.assertIn("'sqlite:' is a source, not a sink; there are file", r.err)

    def test_no_url_at_all_says_what_one_looks_like(self):
        r = self.run_outrider("status", "--db", "shop.db", code=2)
        self.assertIn("sqlite:shop.db", r.err)
        self.run_outrider("relay", "--from", self.url, code=2)
        self.run_outrider("relay", "--to", "null:", code=2)
        self.run_outrider("status", code=2)

    def test_a_module_of_another_build_is_refused(self):
        modules = self.path("modules")
        os.mkdir(modules)
        self.path("modules/sqlite.so", "not an object file")
        r = self.run_outrider("status", "--db", self.url, code=2,
                              env={"OUTRIDER_MODULE_PATH": modules})
        self.assertIn("modules/sqlite.so", r.err)
        r = self.run_outrider("version", env={"OUTRIDER_MODULE_PATH": modules})
        self.assertIn("cannot be loaded", r.out)


class BadConfiguration(harness.OutriderTest):
    def check(self, text):
        return self.run_outrider("check", "-c", self.path("o.yaml", text), code=2).err

    def test_an_unknown_key_names_its_line_and_what_was_meant(self):
        err = self.check("source:\n  url: sqlite:x\nsink:\n  url: 'null:'\nretry:\n  delay: 1s\n")
        self.assertIn("o.yaml:6: unknown option 'retry.delay' (did you mean 'retry.delays'?)", err)

    def test_a_slip_in_a_section_or_in_a_key_of_the_file_finds_what_was_meant(self):
        rest = "\nsource: {url: 'sqlite:x'}\nsink: {url: 'null:'}\n"
        for key, meant in (("sources", "source"), ("sinks", "sink"), ("retrys", "retry"),
                           ("pipeline", "pipelines"), ("logs", "log"), ("heders", "headers")):
            with self.subTest(key):
                self.assertIn("unknown option '%s' (did you mean '%s'?)" % (key, meant),
                              self.check("%s: {}%s" % (key, rest)))
        err = self.check("pipelines: [{source: {url: 'sqlite:x'}, sink: {url: 'null:'}}]\n"
                         "logs: {level: info}\n")
        self.assertIn("(did you mean 'log'?)", err)

    def test_every_error_of_a_file_is_told_at_once_and_each_once(self):
        err = self.check("""pipelines:
  - name: one
    sources: {url: "sqlite:x", mode: poll}
    headers: {event_id: same, event_type: same}
    retry:
      max_attempts: many
      delay: [1s, {a: b}]
      delays: [1s, soon]
      jitter: 9
    select: [a, b]
    sink: {url: "null:"}
  - name: two
    source: {url: "sqlite:x"}
    retry: {delays: [], base: 0}
    route: {regex: a}
  - just a word
  - name: three
    source: {url: "oracle:x"}
    sink: {url: "carrier-pigeon:x"}
    exactly_once: true
    ordered: false
log: {level: loud, format: verse}
""")
        lines = err.splitlines()
        wanted = [":3: unknown option 'sources'", "pipeline 'one': two of headers.event_id", ":6: option 'retry.max_attempts'",
                  ":7: unknown option 'retry.delay'", ":8: option 'retry.delays'",
                  ":9: option 'retry.jitter'", ":10: 'select' is a section",
                  ":16: a pipeline has options",
                  ":22: option 'log.level'", ":22: option 'log.format'",
                  "pipeline 'two': sink.url is missing", "pipeline 'two': retry.delays is empty",
                  "pipeline 'two': route.regex needs route.replacement",
                  "pipeline 'three': exactly_once and ordered", "oracle", "carrier-pigeon"]
        for text in wanted:
            with self.subTest(text):
                self.assertEqual(len([line for line in lines if text in line]), 1, err)
        self.assertEqual(len(lines), len(wanted), err)
        for line in lines:
            self.assertTrue(line.startswith("outrider: "), line)
            self.assertEqual(line.count("o.yaml"), 1, line)
            self.assertLessEqual(line.count("pipeline '"), 1, line)

    def test_every_error_of_a_connector_is_told_at_once(self):
        conf = self.path("c.json", json.dumps({
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "database.hostname": "h", "table.include.list": "public.(a|b)",
            "snapshot.mode": "always", "column.mask.hash": "x", "transforms": "outbox",
            "transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter",
            "transforms.outbox.route.topic.regex": "(",
            "transforms.outbox.table.fields.additional.placement": "a:nowhere,b,c:header",
            "value.converter": "io.confluent.connect.avro.AvroConverter"}))
        err = self.run_outrider("check", "--debezium", conf, code=2).err
        for text in ("table.include.list", "snapshot.mode", "column.mask.hash",
                     "route.topic.regex", "'nowhere' is no place", "'b' is not column:header",
                     "value.converter"):
            with self.subTest(text):
                self.assertEqual(err.count(text), 1, err)
        self.assertEqual(len(err.splitlines()), 7, err)

    def test_malformed_yaml_names_its_line(self):
        self.assertIn("o.yaml:2:", self.check("source: {url: 'null:'}\nsink: ]\n"))

    def test_a_missing_or_unreadable_file_is_named(self):
        for command in (("check",), ("relay",), ("status",)):
            r = self.run_outrider(*command, "-c", self.path("none.yaml"), code=2)
            self.assertIn("none.yaml", r.err)
        r = self.run_outrider("check", "-c", self.dir, code=2)
        self.assertIn(self.dir, r.err)

    def test_a_variable_that_is_not_set_is_named_and_its_value_never_shown(self):
        text = "source: {url: 'sqlite:x'}\nsink: {url: '${SINK_URL}'}\n"
        self.assertIn("SINK_URL", self.check(text))
        conf = self.path("o.yaml", text)
        r = self.run_outrider("check", "-c", conf, "--print", "--json", code=None,
                              env={"SINK_URL": "kafka://me:hunter2@host"})
        self.assertNotIn("hunter2", r.out + r.err)

    def test_a_value_of_the_wrong_type_or_range_is_refused(self):
        for pair in ("max_attempts=many", "max_attempts=0", "poll_interval=5", "on_dead=perhaps",
                     "retry.delays=[1s,x]", "no.such=1", "max_payload=1parsec"):
            with self.subTest(pair):
                r = self.run_outrider("relay", "--from", self.url, "--to", "null:", "--once",
                                      "--set", pair, code=2)
                self.assertIn(pair.split("=")[0].split(".")[-1], r.err)

    def test_flags_for_a_file_with_several_pipelines_need_a_name(self):
        conf = self.path("o.yaml", """
pipelines:
  - {name: a, source: {url: "sqlite:a.db"}, sink: {url: "null:"}}
  - {name: b, source: {url: "sqlite:b.db"}, sink: {url: "null:"}}
""")
        r = self.run_outrider("relay", "-c", conf, "--once", "--set", "batch=5", code=2)
        self.assertIn("--name", r.err)
        r = self.run_outrider("status", "-c", conf, code=2)
        self.assertIn("--name", r.err)
        r = self.run_outrider("status", "-c", conf, "--name", "c", code=2)
        self.assertIn("a, b", r.err)

    def test_a_bad_pattern_is_found_before_anything_runs(self):
        r = self.run_outrider("relay", "--from", self.url, "--to", "null:", "--once", "--set",
                              "route.regex=(", "--set", "route.replacement=x", code=2)
        self.assertIn("regex", r.err)

    def test_a_pipeline_name_that_no_database_would_take_is_refused(self):
        self.run_outrider("status", "--db", self.url, "--name", "a b;--", code=2)


class BadPayloads(harness.OutriderTest):
    def setUp(self):
        super().setUp()
        self.init()

    def count(self):
        return self.sql("SELECT count(*) FROM outbox")[0][0]

    def test_a_payload_that_is_not_json_is_refused_where_the_outbox_asks_for_json(self):
        r = self.put("{nonsense", code=1)
        self.assertIn("not valid JSON", r.err)
        self.assertNotIn("nonsense", r.err)
        self.assertEqual(self.count(), 0)

    def test_a_payload_above_max_payload_is_refused_from_everywhere(self):
        big = '"%s"' % ("x" * 2000)
        limit = ("--set", "max_payload=1KiB")
        self.assertIn("max_payload", self.put(big, 1, "T", *limit, code=1).err)
        self.assertIn("max_payload",
                      self.put("@" + self.path("big", big), 1, "T", *limit, code=1).err)
        line = '{"aggregate_type":"o","aggregate_id":"1","event_type":"E","payload":%s}\n' % big
        r = self.run_outrider("put", "--db", self.url, "--jsonl", "-", *limit, stdin=line, code=1)
        self.assertIn("stdin:1:", r.err)
        self.assertIn("max_payload", r.err)
        self.assertEqual(self.count(), 0)

    def test_the_default_of_max_payload_is_one_mebibyte(self):
        self.put("@" + self.path("fits", '"%s"' % ("x" * ((1 << 20) - 2))))
        self.put("@" + self.path("big", '"%s"' % ("x" * ((1 << 20) - 1))), code=1)
        self.assertEqual(self.count(), 1)

    def test_a_payload_written_past_the_program_becomes_a_dead_letter(self):
        self.sql("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) "
                 "VALUES ('o', '1', 'E', ?)", '"%s"' % ("x" * (1 << 20)))
        self.relay_once(code=3)
        self.assertEqual(self.status()["dead"], 1)

    def test_a_bad_line_is_named_and_what_was_committed_is_said(self):
        good = '{"aggregate_type":"o","aggregate_id":"1","event_type":"E","payload":1}\n'
        name = self.path("in.jsonl", good * 5 + '{"aggregate_type":"o"}\n' + good)
        r = self.run_outrider("put", "--db", self.url, "--jsonl", name, "--batch", "2", code=1)
        self.assertIn("in.jsonl:6: 'aggregate_id' is missing", r.err)
        self.assertIn("4 events committed before it, 1 rolled back", r.err)
        self.assertEqual(self.count(), 4)

    def test_files_that_cannot_be_read_are_named(self):
        self.assertIn("none", self.put("@" + self.path("none"), code=1).err)
        r = self.run_outrider("put", "--db", self.url, "--jsonl", self.path("none"), code=1)
        self.assertIn("none", r.err)
        self.put("@" + self.dir, code=1)

    def test_an_id_must_be_a_uuid_and_new(self):
        self.put("{}", 1, "T", "--id", "42", code=1)
        event_id = self.put()
        self.put("{}", 1, "T", "--id", event_id, code=1)
        self.assertEqual(self.count(), 1)

    def test_put_says_which_flag_is_missing(self):
        r = self.run_outrider("put", "--db", self.url, "--aggregate-type", "a", "--type", "T",
                              "--payload", "{}", code=2)
        self.assertIn("--aggregate-id", r.err)
        r = self.run_outrider("put", "--db", self.url, "--jsonl", "-", "--payload", "{}", code=2)
        self.assertIn("do not go together", r.err)


class BadSink(harness.OutriderTest):
    def test_a_full_disk_is_waited_out_and_loses_nothing(self):
        self.init()
        ids = [self.put("{}", i) for i in range(3)]
        relay = self.start("relay", "--from", self.url, "--to", self.sink,
                           env={"OUTRIDER_FAILPOINTS": "file.before_write=enospc"})
        line = relay.wait_for_log("sink is down")[0]
        self.assertIn("NO_SPACE", line)
        self.assertIn("level=warn", line)
        self.wait_delivered(3)
        relay.wait_for_log("sink is up")
        self.assertEqual(relay.stop(), 0)
        self.assertEqual(self.delivered_ids(), ids)
        s = self.status()
        self.assertEqual((s["parked"], s["dead"], s["pending"]), (0, 0, 0))

    def test_once_gives_up_on_a_full_disk_after_connect_timeout(self):
        self.init()
        self.put()
        r = self.relay_once("--set", "connect_timeout=300ms", code=1,
                            env={"OUTRIDER_FAILPOINTS": "file.before_write=enospc@*"})
        self.assertIn("outrider: ", r.err)
        self.assertEqual(self.status()["pending"], 1)
        self.relay_once()
        self.assertEqual(len(self.delivered()), 1)

    def test_once_gives_up_on_a_sink_that_cannot_be_opened(self):
        self.init()
        self.put()
        self.path("events", "a file where the directory should be")
        r = self.relay_once("--set", "connect_timeout=300ms", code=1)
        self.assertIn("events", r.err)
        self.assertEqual(self.status()["pending"], 1)

    def test_another_sink_for_the_same_pipeline_is_refused_with_the_way_out(self):
        self.init()
        self.put()
        self.relay_once()
        r = self.relay_once(sink="stdout:", code=1)
        self.assertIn("--name", r.err)
        self.assertEqual(r.out, "")
        self.assertEqual(len(self.relay_once("--name", "second", sink="stdout:").lines()), 1)

    def test_stdout_that_cannot_be_written_is_not_a_success(self):
        for args in (("version",), ("help",), ("relay", "--help")):
            with self.subTest(args):
                with open("/dev/full", "wb") as full:
                    p = subprocess.run([harness.OUTRIDER, *args], stdout=full,
                                       stderr=subprocess.PIPE, env=harness.environment())
                self.assertEqual(p.returncode, 1)
                self.assertIn(b"cannot write to standard output", p.stderr)


if __name__ == "__main__":
    harness.main()
