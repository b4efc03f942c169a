# SPDX-License-Identifier: MIT
"""Every command's ordinary work, from init to clean-up."""
import base64
import json
import os
import re
import subprocess
import uuid

import harness


def row(i, **more):
    return dict({"aggregate_type": "order", "aggregate_id": i, "event_type": "Created",
                 "payload": {"n": i}}, **more)


class InitAndPut(harness.OutriderTest):
    def test_init_makes_an_outbox_that_plain_sql_can_write_to(self):
        r = self.init()
        self.assertEqual(r.out, "")
        self.sql("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) "
                 "VALUES ('order', '7', 'Created', '{\"a\":1}')")
        self.relay_once()
        self.assertEqual([e["payload"] for e in self.delivered()], [{"a": 1}])

    def test_init_twice_changes_nothing(self):
        self.init()
        self.put()
        before = self.sql("SELECT name, sql FROM sqlite_master ORDER BY name")
        self.init()
        self.assertEqual(self.sql("SELECT name, sql FROM sqlite_master ORDER BY name"), before)
        self.assertEqual(self.sql("SELECT count(*) FROM outbox"), [(1,)])

    def test_a_dry_run_prints_the_sql_and_makes_nothing(self):
        r = self.run_outrider("init", "--db", self.url, "--dry-run")
        self.assertIn("CREATE TABLE", r.out)
        self.assertIn("outbox", r.out)
        self.run_outrider("status", "--db", self.url, code=1)

    def test_put_prints_the_id_under_which_the_event_is_delivered(self):
        self.init()
        event_id = self.put('{"total":10}', 42, "OrderCreated")
        self.assertEqual(str(uuid.UUID(event_id)), event_id)
        self.relay_once()
        self.assertEqual(self.delivered_ids("order.OrderCreated"), [event_id])

    def test_put_json_prints_an_object(self):
        self.init()
        r = self.run_outrider("put", "--from", self.url, "--aggregate-type", "a", "--aggregate-id",
                              "1", "--type", "T", "--payload", "{}", "--json")
        uuid.UUID(r.json()["id"])

    def test_every_flag_of_put_reaches_the_event(self):
        self.init()
        event_id = str(uuid.uuid4())
        self.put('{"x": [1, 2]}', 5, "T", "--topic", "mine", "--key", "k", "--header", "a=b=c",
                 "--header", "traceparent=00-1", "--id", event_id, "--occurred-at",
                 "2026-01-31T08:00:00Z", "--expires-at", "1h")
        self.relay_once()
        e = self.delivered("mine")[0]
        self.assertEqual(e["key"], "k")
        self.assertEqual(e["headers"]["event-id"], event_id)
        self.assertEqual(e["headers"]["a"], "b=c")
        self.assertEqual(e["headers"]["traceparent"], "00-1")
        self.assertEqual(e["payload"], {"x": [1, 2]})

    def test_a_payload_may_come_from_a_file_or_from_stdin(self):
        self.init()
        self.put("@" + self.path("p.json", '{"from":"file"}'), 1)
        self.run_outrider("put", "--db", self.url, "--aggregate-type", "order", "--aggregate-id",
                          "1", "--type", "Created", "--payload", "-", stdin='{"from":"stdin"}')
        self.relay_once()
        self.assertEqual([e["payload"]["from"] for e in self.delivered()], ["file", "stdin"])

    def test_jsonl_puts_many_in_transactions_and_keeps_payload_bytes(self):
        self.init()
        lines = ('{"aggregate_type":"o","aggregate_id":"1","event_type":"E",'
                 '"payload":  {"n": 1.10, "a":1,  "a":2} }\n\n'
                 '{"aggregate_type":"o","aggregate_id":2,"event_type":"E","payload":"text"}')
        r = self.run_outrider("put", "--db", self.url, "--jsonl", "-", "--batch", "1", "--json",
                              stdin=lines)
        self.assertEqual(r.json(), {"events": 2, "transactions": 2})
        got = [bytes(p, "utf-8") if isinstance(p, str) else p
               for (p,) in self.sql("SELECT payload FROM outbox ORDER BY seq")]
        self.assertEqual(got, [b'{"n": 1.10, "a":1,  "a":2}', b'"text"'])

    def test_jsonl_takes_text_and_base64_payloads_where_the_outbox_takes_bytes(self):
        self.init("--payload", "bytea")
        data = bytes(range(256))
        self.put_many([
            {"aggregate_type": "o", "aggregate_id": "1", "event_type": "E",
             "payload_text": "not json"},
            {"aggregate_type": "o", "aggregate_id": "1", "event_type": "E",
             "payload_base64": base64.b64encode(data).decode()}])
        self.relay_once()
        lines = self.delivered("o.E")
        self.assertEqual(lines[0]["payload_text"], "not json")
        self.assertEqual(base64.b64decode(lines[1]["payload_base64"]), data)

    def test_a_thousand_lines_arrive_in_order_per_key(self):
        self.init()
        self.put_many([row(i % 7, payload={"i": i}) for i in range(1000)], "--batch", "64")
        self.relay_once()
        seen = {}
        for e in self.delivered():
            self.assertLess(seen.get(e["key"], -1), e["payload"]["i"])
            seen[e["key"]] = e["payload"]["i"]
        self.assertEqual(len(self.delivered()), 1000)


class Status(harness.OutriderTest):
    def test_status_counts_what_waits_and_what_was_delivered(self):
        self.init()
        self.put_many([row(i) for i in range(3)])
        s = self.status()
        self.assertEqual((s["pipeline"], s["pending"], s["head"], s["lag"]), ("default", 3, 3, 3))
        self.assertIsNotNone(s["oldest_pending_at"])
        self.relay_once()
        s = self.status()
        self.assertEqual((s["pending"], s["position"], s["lag"], s["delivered_total"]), (0, 3, 0, 3))
        self.assertEqual(s["sink"], self.sink)
        self.assertFalse(s["relay_active"])

    def test_the_table_names_the_pipeline_and_its_sink(self):
        self.init()
        self.relay_once("--name", "orders")
        out = self.run_outrider("status", "--db", self.url).out
        self.assertIn("orders", out)
        self.assertIn(self.sink, out)
        self.assertNotIn("\x1b", out)

    def test_an_active_relay_shows(self):
        self.init()
        self.start_relay()
        self.assertTrue(self.status()["relay_active"])

    def test_before_the_first_relay_everything_is_pending(self):
        self.init()
        self.put()
        s = self.status()
        self.assertEqual((s["pending"], s["position"], s["sink"]), (1, 0, None))

    def test_a_pipeline_that_never_ran_beside_others_is_an_error(self):
        self.init()
        self.relay_once()
        r = self.run_outrider("status", "--db", self.url, "--name", "nobody", code=1)
        self.assertIn("nobody", r.err)


class Dead(harness.OutriderTest):
    def setUp(self):
        super().setUp()
        self.init()
        self.ids = [self.put('{"secret":"%s"}' % ("x" * 200), i, kind)
                    for i, kind in ((1, "Big"), (2, "Big"), (3, "Other"))]
        self.limit = ("--set", "max_payload=100")
        r = self.relay_once(*self.limit, code=3)
        self.assertIn("3 dead", r.err)

    def dead(self, *args, code=0):
        return self.run_outrider("dead", *args, "--db", self.url, code=code)

    def test_list_shows_each_with_its_reason_and_not_its_payload(self):
        r = self.dead("list")
        self.assertEqual(len(r.out.splitlines()), 3)
        for i in self.ids:
            self.assertIn(i, r.out)
        self.assertIn("TOO_LARGE", r.out)
        self.assertNotIn("secret", r.out)
        self.assertNotIn("secret", self.dead("list", "--json").out)

    def test_a_pipe_gets_whole_values_and_a_terminal_lines_that_fit(self):
        long = "Type" + "y" * 80
        self.put('{"member":1}', "k" * 90, long)
        self.relay_once("--set", "route.topic=${header:%s}" % ("h" * 60), code=3)
        error = self.dead("list", "--json", "--type", long).json()[0]["error"]
        self.assertGreater(len(error), 60)
        out = self.dead("list", "--type", long).out
        for text in (error, long, "k" * 90):
            self.assertIn(text, out)
        master, slave = os.openpty()
        self.addCleanup(os.close, master)
        subprocess.run([harness.OUTRIDER, "dead", "list", "--db", self.url, "--type", long],
                       stdout=slave, check=True, env=harness.environment())
        os.close(slave)
        shown = os.read(master, 65536).decode()
        self.assertIn(error[:50], shown)
        for text in (error, long, "k" * 90):
            self.assertNotIn(text, shown)

    def test_json_lists_are_arrays_that_filters_narrow(self):
        rows = self.dead("list", "--json").json()
        self.assertEqual([r["id"] for r in rows], self.ids)
        self.assertEqual({r["state"] for r in rows}, {"dead"})
        self.assertEqual({r["error_code"] for r in rows}, {"TOO_LARGE"})
        rows = self.dead("list", "--json", "--type", "Other").json()
        self.assertEqual([r["id"] for r in rows], self.ids[2:])
        rows = self.dead("list", "--json", "--id", self.ids[0], "--id", self.ids[2]).json()
        self.assertEqual([r["id"] for r in rows], [self.ids[0], self.ids[2]])
        self.assertEqual(self.dead("list", "--json", "--since", "2099-01-01").json(), [])
        self.assertEqual(len(self.dead("list", "--json", "--since", "1h").json()), 3)
        self.assertEqual(self.dead("list", "--json", "--name", "other").json(), [])

    def test_show_prints_everything_including_the_payload(self):
        r = self.dead("show", "--id", self.ids[0])
        for text in (self.ids[0], "Big", "TOO_LARGE", "secret", "default"):
            self.assertIn(text, r.out)
        shown = self.dead("show", "--id", self.ids[0], "--json").json()
        self.assertEqual(shown[0]["payload"], {"secret": "x" * 200})

    def test_retry_delivers_once_the_reason_is_gone(self):
        r = self.dead("retry", "--type", "Big")
        self.assertEqual(r.out, "2 events will be tried again\n")
        self.relay_once(code=3)
        self.assertEqual(sorted(self.delivered_ids()), sorted(self.ids[:2]))
        self.assertEqual(self.dead("retry", "--all", "--json").json(), {"retried": 1})
        self.relay_once()
        self.assertEqual(sorted(self.delivered_ids()), sorted(self.ids))
        self.assertEqual(self.dead("list", "--json").json(), [])

    def test_discard_forgets_them(self):
        self.assertEqual(self.dead("discard", "--id", self.ids[1]).out, "1 event discarded\n")
        self.assertEqual(self.dead("discard", "--all", "--json").json(), {"discarded": 2})
        self.relay_once()
        self.assertEqual(self.delivered(), [])

    def test_retry_and_discard_want_to_know_which(self):
        for verb in ("retry", "discard"):
            self.assertIn("--all", self.dead(verb, code=2).err)
        self.assertEqual(len(self.dead("list", "--json").json()), 3)

    def test_an_id_that_is_not_dead_is_an_error(self):
        other = str(uuid.uuid4())
        for verb in ("show", "retry", "discard"):
            self.assertIn("no dead letter", self.dead(verb, "--id", other, code=1).err)


class TailReplayCleanup(harness.OutriderTest):
    def test_tail_lists_topics_and_prints_their_lines(self):
        self.init()
        self.put_many([row(i) for i in range(5)] + [row(9, event_type="Paid")])
        self.relay_once()
        self.assertEqual(self.run_outrider("tail", self.events).out,
                         "order.Created\norder.Paid\n")
        lines = self.run_outrider("tail", self.events, "order.Created").lines()
        self.assertEqual([e["offset"] for e in lines], [0, 1, 2, 3, 4])
        lines = self.run_outrider("tail", self.sink, "order.Created", "-n", "2").lines()
        self.assertEqual([e["offset"] for e in lines], [3, 4])
        self.assertEqual(self.run_outrider("tail", self.events, "order.Created", "-n0").out, "")

    def test_tail_follows_across_rotation(self):
        self.init()
        self.start_relay("--set", "rotate_size=4KiB")
        tail = self.start("tail", self.events, "order.Created", "-f")
        for start in (0, 40, 80):
            self.put_many([row(i, payload={"i": i, "pad": "x" * 100})
                           for i in range(start, start + 40)])
            harness.wait_until(lambda n=start + 40: len(tail.out_lines) >= n, "followed lines")
        got = [json.loads(line) for line in tail.out_lines]
        self.assertEqual([e["offset"] for e in got], list(range(120)))
        self.assertEqual([e["payload"]["i"] for e in got], list(range(120)))

    def test_tail_waits_for_a_topic_and_can_leave_out_what_is_there(self):
        self.init()
        self.start_relay()
        new = self.start("tail", self.events, "order.Later", "-f", "-n", "3")
        self.put("{}", 1, "Created")
        self.wait_delivered(1)
        rest = self.start("tail", self.events, "order.Created", "-f", "-n", "0")
        seen = []

        def both():
            self.put("{}", 1, "Created")
            self.put("{}", 1, "Later")
            seen[:] = [json.loads(line)["offset"] for line in rest.out_lines]
            return seen and new.out_lines
        harness.wait_until(both, "both tails")
        self.assertNotIn(0, seen)

    def test_replay_delivers_again_and_moves_no_position(self):
        self.init()
        self.put_many([row(i) for i in range(5)])
        self.relay_once()
        before = self.status()
        r = self.run_outrider("replay", "--db", self.url, "--from-seq", "3", "--to", "stdout:")
        self.assertEqual([e["payload"]["n"] for e in r.lines()], [2, 3, 4])
        r = self.run_outrider("replay", "--db", self.url, "--since", "1h", "--to",
                              "file:" + self.path("again"))
        self.assertEqual(len(self.delivered(directory=self.path("again"))), 5)
        self.assertEqual(self.status(), before)

    def test_replay_runs_beside_a_relay(self):
        self.init()
        self.start_relay()
        self.put()
        self.wait_delivered(1)
        r = self.run_outrider("replay", "--db", self.url, "--from-seq", "1", "--to", "stdout:")
        self.assertEqual(len(r.lines()), 1)

    def test_replay_needs_one_point_to_begin_at(self):
        self.init()
        self.run_outrider("replay", "--db", self.url, "--to", "null:", code=2)
        self.run_outrider("replay", "--db", self.url, "--to", "null:", "--since", "1h",
                          "--from-seq", "1", code=2)
        self.run_outrider("replay", "--db", self.url, "--since", "1h", code=2)

    def test_cleanup_removes_what_is_settled_and_old_enough_and_nothing_else(self):
        self.init()
        self.put_many([row(i) for i in range(10)])
        self.relay_once()
        self.put_many([row(i) for i in range(10, 14)])
        r = self.run_outrider("cleanup", "--db", self.url, "--retention", "1h")
        self.assertIn("0 settled events removed", r.out)
        r = self.run_outrider("cleanup", "--db", self.url, "--retention", "1us", "--set",
                              "cleanup.batch=3", "--set", "cleanup.pause=0", "--json")
        self.assertGreaterEqual(r.json()["removed"], 9)  # the anchor may stay
        self.relay_once()
        self.assertEqual(len(self.delivered()), 14)

    def test_a_retention_of_zero_means_for_ever_wherever_it_is_written(self):
        self.init()
        self.put_many([row(i) for i in range(5)])
        self.relay_once()
        for flags in (("--retention", "0"), ("--retention", "0s"), ("--set", "cleanup.retention=0"),
                      ("--retention", "0", "--inbox")):
            with self.subTest(flags):
                r = self.run_outrider("cleanup", "--db", self.url, *flags, code=2)
                self.assertIn("keeps events for ever", r.err)
                self.assertIn("--retention 7d", r.err)
        self.assertEqual(self.sql("SELECT count(*) FROM outbox"), [(5,)])


class DoctorCheckVersion(harness.OutriderTest):
    def test_doctor_finds_no_problem_in_a_fresh_outbox(self):
        self.init()
        r = self.run_outrider("doctor", "--from", self.url, "--to", self.sink)
        self.assertRegex(r.out, r"(?m)^ok ")
        self.assertIn("can be opened", r.out)
        self.assertNotIn("problem", r.out)
        findings = self.run_outrider("doctor", "--from", self.url, "--json").json()
        self.assertTrue(findings["ok"])
        self.assertLessEqual({f["level"] for f in findings["findings"]},
                             {"ok", "note", "warning"})

    def test_doctor_exits_1_where_there_is_a_problem(self):
        r = self.run_outrider("doctor", "--from", self.url, code=1)
        self.assertIn("problem", r.out)
        self.assertIn("init", r.out)
        self.init()
        self.path("blocked", "a file, not a directory")
        r = self.run_outrider("doctor", "--from", self.url, "--to",
                              "file:" + self.path("blocked"), code=1)
        self.assertIn("problem", r.out)

    def test_doctor_tells_of_seqs_that_were_chosen_by_hand(self):
        """The last one is delivered; then nobody can insert, until it is gone again."""
        self.init()
        self.put()
        insert = "INSERT INTO outbox (seq, id, aggregate_type, aggregate_id, event_type) VALUES (?, ?, 'a', 'k', 't')"
        self.sql(insert, -7, "below")
        self.sql(insert, 2 ** 63 - 1, "last")
        self.relay_once()
        self.assertEqual(len(self.delivered_ids()), 2)
        r = self.run_outrider("doctor", "--from", self.url, code=1)
        self.assertRegex(r.out, "problem .*seqs are used up")
        self.assertRegex(r.out, "warning .*1 rows have a seq below 1")
        self.put(code=1)
        self.sql("DELETE FROM outbox WHERE seq = ?", 2 ** 63 - 1)
        self.sql("UPDATE sqlite_sequence SET seq = (SELECT max(seq) FROM outbox) WHERE name = 'outbox'")
        self.run_outrider("resync", "--db", self.url)
        self.put()
        self.relay_once()
        self.assertIn(self.sql("SELECT id FROM outbox WHERE seq = 2")[0][0], self.delivered_ids())
        self.assertNotIn("used up", self.run_outrider("doctor", "--from", self.url).out)

    def test_resync_leaves_an_intact_history_alone(self):
        self.init()
        self.put()
        self.relay_once()
        before = self.status()
        self.assertIn("intact", self.run_outrider("resync", "--db", self.url).out)
        self.assertEqual(self.status(), before)

    def test_a_pipeline_moves_to_another_sink_and_delivers_the_rest_there(self):
        self.init()
        self.put('{"n":1}')
        self.relay_once()
        self.put('{"n":2}')
        other = "file:" + self.path("elsewhere")
        err = self.relay_once(sink=other, code=1).err
        way_out = re.search("outrider (pipeline move --name default --to file:\\S+)", err).group(1)
        r = self.run_outrider(*way_out.split(), "--db", self.url)
        self.assertRegex(r.out, f"pipeline 'default' delivers to {other} from now on; before: file:/")
        self.relay_once(sink=other)
        self.assertEqual(self.status()["pending"], 0)
        self.assertEqual(self.run_outrider("tail", "elsewhere", "order.Created").out.count('"n":2'), 1)
        self.assertNotIn('"n":1', self.run_outrider("tail", "elsewhere", "order.Created").out)
        self.relay_once(code=1)

    def test_a_pipeline_is_not_moved_under_a_relay_or_to_nowhere(self):
        self.init()
        relay = self.start_relay()
        move = ("pipeline", "move", "--db", self.url)
        self.assertIn("stop that relay first", self.run_outrider(*move, "--to", "null:", code=1).err)
        relay.stop()
        self.assertIn("no sink for 'amqp:'", self.run_outrider(*move, "--to", "amqp://h", code=2).err)
        self.assertIn("--to URL", self.run_outrider(*move, code=2).err)
        self.assertIn("no pipeline 'x'", self.run_outrider(*move, "--to", "null:", "--name", "x", code=1).err)
        r = self.run_outrider(*move, "--to", "null:", "--json").json()
        self.assertEqual(r["pipeline"], "default")
        self.assertEqual(self.status()["sink"], "null:")

    def test_progress_is_set_only_where_exactly_once_has_run(self):
        self.init()
        self.put()
        self.relay_once()
        self.assertIn("exactly_once", self.run_outrider("resync", "--db", self.url, "--progress", "0", code=1).err)
        self.assertIn("exactly_once", self.run_outrider("resync", "--db", self.url, "--forget-intent", code=1).err)
        for bad in ("x", "7", "-1:2", "1:", "1:2x", ""):
            self.assertIn("--progress", self.run_outrider("resync", "--db", self.url, "--progress", bad, code=None).err, bad)

    def test_check_sums_up_and_prints_what_it_can_read_back(self):
        conf = self.path("o.yaml", """
pipelines:
  - name: orders
    source: {url: "sqlite:shop.db"}
    sink: {url: "file:events"}
    retry: {delays: [1s, 5m], max_attempts: 4}
    route: {topic: "x.${event_type}", by_type: {Paid: money}}
  - name: audit
    source: {url: "sqlite:shop.db"}
    sink: {url: "null:"}
""")
        r = self.run_outrider("check", "-c", conf)
        self.assertEqual(r.out, "ok orders: sqlite:shop.db -> file:events\n"
                                "ok audit: sqlite:shop.db -> null:\n")
        printed = self.run_outrider("check", "-c", conf, "--print", "--set", "max_attempts=9",
                                    "--name", "orders").out
        self.assertRegex(printed, r'retry.max_attempts: "?9"?')
        again = self.path("again.yaml", printed)
        self.assertEqual(self.run_outrider("check", "-c", again, "--print").out, printed)
        j = self.run_outrider("check", "-c", conf, "--json").json()
        self.assertEqual([p["name"] for p in j["pipelines"]], ["orders", "audit"])
        self.assertEqual(j["pipelines"][0]["options"]["retry.max_attempts"], "4")

    def test_version_names_the_adapters_and_their_clients(self):
        r = self.run_outrider("version")
        self.assertRegex(r.out, r"\Aoutrider \d+\.\d+\.\d+\n")
        self.assertRegex(r.out, r"sqlite +source +SQLite 3\.")
        j = self.run_outrider("version", "--json").json()
        self.assertEqual(j["builtin_sinks"], ["file", "null", "stdout"])
        self.assertTrue(re.match(r"\d+\.\d+\.\d+$", j["version"]))
        self.assertEqual(self.run_outrider("--version").out, r.out)


if __name__ == "__main__":
    harness.main()
