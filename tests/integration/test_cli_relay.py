# SPDX-License-Identifier: MIT
"""The relay as a process: signals, standby, reload, logs, several pipelines."""
import ctypes
import json
import os
import platform
import pty
import signal
import subprocess
import sys

import harness

TWO = """
log: {level: %(level)s}
pipelines:
  - name: one
    source: {url: "sqlite:shop.db", poll_interval: %(poll)s, batch: %(batch)d}
    sink: {url: "file:one"}
  - name: two
    source: {url: "sqlite:shop.db"}
    sink: {url: "file:two"}
    retry: {max_attempts: %(attempts)s}
"""


class Signals(harness.OutriderTest):
    def setUp(self):
        super().setUp()
        self.init()

    def test_a_commit_is_delivered_while_the_relay_runs(self):
        self.start_relay()
        ids = [self.put("{}", i) for i in range(3)]
        self.wait_delivered(3)
        self.assertEqual(self.delivered_ids(), ids)

    def test_sigterm_and_sigint_settle_and_exit_0(self):
        for n, number in enumerate((signal.SIGTERM, signal.SIGINT)):
            relay = self.start_relay()
            self.put()
            self.wait_delivered(n + 1)
            self.assertEqual(relay.stop(number), 0, relay.err())
            self.assertIn("stopping", relay.err())
            self.assertEqual(self.status()["pending"], 0)
        self.assertEqual(len(self.delivered()), 2)

    def test_a_stop_in_an_outage_does_not_wait_for_it_and_loses_nothing(self):
        self.put()
        relay = self.start("relay", "--from", self.url, "--to", self.sink,
                           env={"OUTRIDER_FAILPOINTS": "file.before_write=eio@*"})
        relay.wait_for_log("sink is down")
        self.assertEqual(relay.stop(), 0, relay.err())
        self.assertEqual(self.status()["pending"], 1)
        self.relay_once()
        self.assertEqual(len(self.delivered()), 1)

    def test_a_file_sink_is_the_same_however_its_path_is_written(self):
        os.mkdir(os.path.join(self.dir, "below"))
        for cwd, to in (("below", "file:../events"), ("", "file:events/"), ("", "file:./events"),
                        ("below", f"file:{os.path.join(self.dir, 'events')}")):
            with self.subTest(cwd=cwd, to=to):
                done = subprocess.run(
                    [harness.OUTRIDER, "relay", "--from", f"sqlite:{self.dir}/shop.db", "--to", to,
                     "--once"], cwd=os.path.join(self.dir, cwd), capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_second_signal_ends_at_once(self):
        self.put()
        relay = self.start("relay", "--from", self.url, "--to", self.sink, "--set",
                           "shutdown_timeout=1h",
                           env={"OUTRIDER_FAILPOINTS": "file.before_sync=delay:10m"})
        relay.wait_for_log("connected and active")
        harness.wait_until(self.delivered, "the write before the sync")
        relay.send(signal.SIGTERM)
        relay.wait_for_log("asked to stop")

        def ended():
            # One that comes too soon after the first belongs to the first.
            relay.send(signal.SIGTERM)
            return not relay.is_running()
        harness.wait_until(ended, "the end at once")
        self.assertEqual(relay.join(), 1)
        self.assertIn("ending at once", relay.err())

    def test_signals_that_come_together_are_one_request_to_stop(self):
        # A thread's pending signals and its process's are kept apart, so two SIGTERMs are two.
        syscall = ctypes.CDLL(None).syscall
        tgkill = {"x86_64": 234, "aarch64": 131}[platform.machine()]
        pairs = {"SIGTERM twice": lambda pid: (os.kill(pid, signal.SIGTERM),
                                               syscall(tgkill, pid, pid, signal.SIGTERM)),
                 "SIGINT and SIGTERM": lambda pid: (os.kill(pid, signal.SIGINT),
                                                    os.kill(pid, signal.SIGTERM))}
        for name, send in pairs.items():
            with self.subTest(name):
                relay = self.start_relay()
                event_id = self.put()
                relay.send(signal.SIGSTOP)
                harness.wait_until(relay.is_frozen, "the relay to stand still")
                send(relay.pid)
                relay.send(signal.SIGCONT)
                self.assertEqual(relay.join(), 0, relay.err())
                self.assertIn("already asked to stop", relay.err())
                self.relay_once()
                self.assertIn(event_id, self.delivered_ids())

    def test_killed_at_any_time_it_goes_on_where_it_was(self):
        for i in range(3):
            relay = self.start_relay()
            ids = [self.put("{}", k) for k in range(2)]
            harness.wait_until(lambda: set(ids) <= set(self.delivered_ids()), "delivery")
            relay.kill()
        self.relay_once()
        self.assertEqual(len(set(self.delivered_ids())), 6)
        self.assertEqual(self.status()["pending"], 0)

    def test_a_standby_waits_and_takes_over(self):
        first = self.start_relay()
        second = self.start("relay", "--from", self.url, "--to", self.sink)
        second.wait_for_log("another relay is active")
        r = self.relay_once("--set", "connect_timeout=200ms", code=1)
        self.assertIn("another relay is active", r.err)
        first.kill()
        second.wait_for_log("connected and active")
        event_id = self.put()
        harness.wait_until(lambda: event_id in self.delivered_ids(), "delivery by the second")

    def test_pipelines_of_other_names_do_not_wait_for_each_other(self):
        self.start_relay()
        self.put()
        self.relay_once("--name", "second", sink="file:" + self.path("second"))
        self.assertEqual(len(self.delivered(directory=self.path("second"))), 1)

    def test_once_delivers_all_and_exits_3_while_something_is_dead(self):
        self.put('"%s"' % ("x" * 300), 1)
        good = self.put("{}", 2)
        r = self.relay_once("--set", "max_payload=100", code=3)
        self.assertIn("1 dead", r.err)
        self.assertEqual(self.delivered_ids(), [good])
        self.relay_once(code=3)
        self.run_outrider("dead", "discard", "--all", "--db", self.url)
        self.relay_once()

    def test_once_that_is_interrupted_is_not_a_success(self):
        self.put()
        relay = self.start("relay", "--from", self.url, "--to", self.sink, "--once",
                           env={"OUTRIDER_FAILPOINTS": "file.before_write=eio@*"})
        relay.wait_for_log("sink is down")
        self.assertEqual(relay.stop(), 1, relay.err())
        self.assertEqual(self.status()["pending"], 1)

    def test_an_expired_event_is_settled_and_counted_and_not_delivered(self):
        self.put("{}", 1, "Created", "--expires-at", "2020-01-01T00:00:00Z")
        self.relay_once()
        s = self.status()
        self.assertEqual((s["pending"], s["expired_total"]), (0, 1))
        self.assertEqual(self.delivered(), [])


class SeveralPipelines(harness.OutriderTest):
    def setUp(self):
        super().setUp()
        self.init()

    def config(self, **values):
        values = dict({"level": "info", "poll": "100ms", "batch": 1000, "attempts": 6}, **values)
        return self.path("o.yaml", TWO % values)

    def test_one_process_runs_all_pipelines_of_a_file(self):
        self.put()
        self.run_outrider("relay", "-c", self.config(), "--once")
        for name in ("one", "two"):
            self.assertEqual(len(self.delivered(directory=self.path(name))), 1)
        rows = self.run_outrider("status", "-c", self.path("o.yaml"), "--json").json()["pipelines"]
        self.assertLessEqual({"one", "two"}, {r["pipeline"] for r in rows})

    def test_a_name_picks_one_pipeline_and_flags_override_it(self):
        self.put()
        self.run_outrider("relay", "-c", self.config(), "--name", "two", "--once", "--to",
                          "file:three", "--set", "route.topic=t")
        self.assertFalse(os.path.exists(self.path("one")))
        self.assertFalse(os.path.exists(self.path("two")))
        self.assertEqual(len(self.delivered("t", self.path("three"))), 1)

    def failures(self, relay, count=1):
        """Which pipelines failed, and why, as the log tells it."""
        fields = [harness.logfmt(line) for line in relay.wait_for_log("pipeline failed", count)]
        self.assertEqual({f["level"] for f in fields}, {"error"})
        return [(f["pipeline"], f["error_code"]) for f in fields]

    def take_sink_of(self, *names):
        """Another sink has these cursors: a relay of the file must stop."""
        for name in names:
            self.run_outrider("relay", "-c", self.path("o.yaml"), "--name", name, "--once", "--to", "null:")

    def test_a_pipeline_that_must_stop_leaves_the_others_alone_and_sighup_tries_it_again(self):
        conf = self.config()
        self.take_sink_of("two")
        relay = self.start("relay", "-c", conf)
        self.assertEqual(self.failures(relay), [("two", "SINK_MISMATCH")])
        self.assertIn("the others go on", relay.err())
        self.put()
        harness.wait_until(lambda: self.delivered(directory=self.path("one")), "the other pipeline")
        relay.send(signal.SIGHUP)  # nothing has changed
        self.assertEqual(self.failures(relay, 2)[1], ("two", "SINK_MISMATCH"))
        self.sql("DELETE FROM outrider_cursor WHERE pipeline = 'two'")
        relay.send(signal.SIGHUP)
        relay.wait_for_log("pipeline starts again", 2)
        harness.wait_until(lambda: self.delivered(directory=self.path("two")), "the mended pipeline")
        self.assertEqual(relay.stop(), 0, relay.err())
        self.assertEqual(len(self.delivered(directory=self.path("one"))), 1)

    def test_sighup_takes_all_options_for_a_pipeline_that_has_failed(self):
        conf = self.config()
        self.take_sink_of("two")
        relay = self.start("relay", "-c", conf)
        self.failures(relay)
        text = (TWO % {"level": "info", "poll": "100ms", "batch": 1000, "attempts": 6}).replace("file:two", "null:")
        self.path("o.yaml", text)
        relay.send(signal.SIGHUP)
        relay.wait_for_log("pipeline starts again")
        relay.wait_for_log("connected and active", 2)
        self.assertEqual(relay.stop(), 0, relay.err())

    def test_the_program_fails_when_no_pipeline_is_left(self):
        conf = self.config()
        self.take_sink_of("one", "two")
        relay = self.start("relay", "-c", conf)
        self.assertEqual(relay.join(), 1)
        self.assertEqual({name for name, _ in self.failures(relay, 2)}, {"one", "two"})

    def test_a_failed_pipeline_is_told_by_the_exit_code_too(self):
        conf = self.config()
        self.take_sink_of("two")
        relay = self.start("relay", "-c", conf)
        self.failures(relay)
        relay.wait_for_log("connected and active")
        self.assertEqual(relay.stop(), 1, relay.err())

    def test_with_once_a_pipeline_that_must_stop_takes_the_others_with_it(self):
        conf = self.config()
        self.take_sink_of("two")
        done = self.run_outrider("relay", "-c", conf, "--once", code=1)
        self.assertEqual(done.err.count("pipeline 'two': "), 1, done.err)

    def test_sighup_takes_what_is_reloadable_and_names_what_is_not(self):
        conf = self.config()
        relay = self.start("relay", "-c", conf)
        relay.wait_for_log("connected and active", 2)
        self.config(batch=7, attempts=2, level="debug")
        relay.send(signal.SIGHUP)
        fields = [harness.logfmt(line) for line in relay.wait_for_log("msg=reloaded", 2)]
        changed = {f["pipeline"]: f["changed"] for f in fields}
        self.assertEqual(changed["two"], "retry.max_attempts")
        kept = harness.logfmt(relay.wait_for_log("needs a restart")[0])
        self.assertEqual((kept["pipeline"], kept["options"], kept["level"]),
                         ("one", "source.batch", "warn"))
        self.put('{}')
        relay.wait_for_log("batch settled")  # the new log level
        relay.wait_for_log("status=delivered")
        relay.send(signal.SIGHUP)
        for f in [harness.logfmt(line) for line in relay.wait_for_log("msg=reloaded", 4)][2:]:
            self.assertEqual(f["changed"], "nothing")
        self.assertEqual(relay.stop(), 0, relay.err())

    def test_a_reloaded_route_holds_for_the_next_event(self):
        text = 'source: {url: "sqlite:shop.db"}\nsink: {url: "file:events"}\nroute: {topic: "%s"}\n'
        conf = self.path("o.yaml", text % "before")
        relay = self.start("relay", "-c", conf)
        relay.wait_for_log("connected and active")
        self.put()
        self.wait_delivered(1)
        for i in range(3):
            self.path("o.yaml", text % ("after%d" % i))
            relay.send(signal.SIGHUP)
            relay.wait_for_log("changed=route.topic", i + 1)

            def arrived(topic="after%d" % i):
                # The wish reaches the relay's thread a moment after the log line.
                self.put()
                return self.delivered(topic)
            harness.wait_until(arrived, "the new topic")
        self.assertEqual(relay.stop(), 0)

    def test_a_file_that_became_wrong_changes_nothing(self):
        relay = self.start("relay", "-c", self.config())
        relay.wait_for_log("connected and active", 2)
        self.path("o.yaml", "pipelines: [")
        relay.send(signal.SIGHUP)
        fields = harness.logfmt(relay.wait_for_log("reload failed")[0])
        self.assertIn("o.yaml", fields["error"])
        self.put()
        harness.wait_until(lambda: self.delivered(directory=self.path("one")), "delivery")
        self.assertEqual(relay.stop(), 0)

    def test_pipelines_that_came_or_went_are_named(self):
        relay = self.start("relay", "-c", self.config())
        relay.wait_for_log("connected and active", 2)
        self.path("o.yaml", (TWO % {"level": "info", "poll": "100ms", "batch": 1000,
                                    "attempts": 6}).replace("name: two", "name: three"))
        relay.send(signal.SIGHUP)
        self.assertIn("pipeline=two", relay.wait_for_log("gone from the file")[0])
        self.assertIn("pipeline=three", relay.wait_for_log("new in the file")[0])
        self.assertEqual(relay.stop(), 0)


class Logs(harness.OutriderTest):
    KEYS = ["plain", "two words", 'quo"te', "line\nend", "ünï", "a=b", "\\", " ", "\x1b[31m"]

    def test_every_line_parses_in_both_formats_whatever_the_keys_hold(self):
        self.init()
        for fmt, parse in (("json", json.loads), ("logfmt", harness.logfmt)):
            rows = [{"aggregate_type": "order", "aggregate_id": k, "event_type": "T",
                     "payload": {"card": "4111-secret"}} for k in self.KEYS]
            self.put_many(rows)
            r = self.relay_once("--log-level", "debug", "--log-format", fmt, "--name", fmt,
                                sink="null:")
            lines = [parse(line) for line in r.err.splitlines()]
            for fields in lines:
                self.assertLessEqual({"ts", "level", "msg"}, set(fields))
            events = [f for f in lines if f.get("status") == "delivered"]
            self.assertEqual({f["key"] for f in events}, set(self.KEYS))
            for f in events:
                self.assertLessEqual({"event_id", "type", "key", "attempts", "sink", "pipeline"},
                                     set(f))
            self.assertNotIn("4111", r.err)

    def test_a_dead_event_is_logged_with_its_reason(self):
        self.init()
        event_id = self.put('"%s"' % ("x" * 300), 7)
        r = self.relay_once("--set", "max_payload=100", "--log-format", "json", code=3)
        f = [json.loads(x) for x in r.err.splitlines() if event_id in x][0]
        self.assertEqual((f["level"], f["status"], f["key"], f["error_code"], f["sink"]),
                         ("error", "dead", "7", "TOO_LARGE", self.sink))

    def test_delivered_events_are_quiet_unless_asked_for(self):
        self.init()
        event_id = self.put()
        self.assertNotIn(event_id, self.relay_once().err)

    def test_data_on_stdout_is_not_mixed_with_talk(self):
        self.init()
        self.put()
        r = self.relay_once("--log-level", "debug", sink="stdout:")
        self.assertEqual(len(r.lines()), 1)


class Secrets(harness.OutriderTest):
    URLS = ["postgresql://me:hunter2@127.0.0.1:1/shop", "kafka://me:hunter2@127.0.0.1:1?sasl.password=hunter2",
            "http://h/x?token=hunter2", "mysql://me:hun:ter@hunter2@h/d"]

    def test_no_command_shows_a_password_of_a_url_it_refuses(self):
        once = ("--once", "--set", "connect_timeout=200ms")
        for url in self.URLS:
            for args in (("status", "--db", url), ("relay", "--from", self.url, "--to", url, *once),
                         ("relay", "--from", url, "--to", url, *once),
                         ("doctor", "--from", self.url, "--to", url),
                         ("relay", "--set", "source.url=" + url, "--to", "null:", *once),
                         ("status", "--bd=" + url), ("status", url), ("dead", url), (url,),
                         ("help", url), ("tail", url, url, url)):
                with self.subTest(args):
                    r = self.run_outrider(*args, code=None)
                    self.assertIn(r.code, (1, 2))
                    self.assertNotIn("hunter2", r.out + r.err)

    def test_ps_does_not_show_a_password(self):
        self.init()
        fifo = self.path("fifo")
        os.mkfifo(fifo)
        p = self.start("put", "--db", self.url, "--set", "sink.url=kafka://me:hunter2@h:1", "--set",
                       "sink.kafka.sasl.password=hunter2", "--set=sink.kafka={ssl.key.password: hunter2, linger.ms: 5}",
                       "--set", "sink.kafka.linger.ms=7", "--jsonl", fifo)
        writer = os.open(fifo, os.O_WRONLY)  # opens once put reads from it
        try:
            with open("/proc/%d/cmdline" % p.pid, "rb") as f:
                line = f.read()
            shown = subprocess.run(["ps", "-o", "args=", "-p", str(p.pid)], capture_output=True, text=True).stdout
        finally:
            os.close(writer)
        self.assertIn(b"--set", line)
        self.assertIn(b"kafka://", line)
        self.assertNotIn(b"hunter2", line)
        self.assertIn(b"linger.ms=7", line)
        self.assertNotIn("hunter2", shown)
        self.assertIn("sasl.password=*******", shown)
        self.assertEqual(p.join(), 0, p.err())


class Terminal(harness.OutriderTest):
    def on_a_terminal(self, *args, env=None):
        """What the program writes where both streams are a terminal."""
        parent, child = pty.openpty()
        extra = dict({"TERM": "xterm"}, **(env or {}))
        p = subprocess.Popen([harness.OUTRIDER, *args], cwd=self.dir, stdin=subprocess.DEVNULL,
                             stdout=child, stderr=child, env=harness.environment(extra))
        os.close(child)
        out = b""
        while True:
            try:
                data = os.read(parent, 65536)
            except OSError:
                break
            if not data:
                break
            out += data
        os.close(parent)
        self.assertEqual(p.wait(harness.DEADLINE), 0, out)
        return out

    def test_colour_only_on_a_terminal_and_never_with_no_color(self):
        self.init()
        self.assertIn(b"\x1b[1m", self.on_a_terminal("status", "--db", self.url))
        self.assertNotIn(b"\x1b", self.on_a_terminal("status", "--db", self.url,
                                                     env={"NO_COLOR": "1"}))
        self.assertNotIn(b"\x1b", self.on_a_terminal("help", env={"TERM": "dumb"}))
        self.assertNotIn("\x1b", self.run_outrider("status", "--db", self.url).out)

    def test_long_work_shows_progress_on_a_terminal_only(self):
        self.init()
        row = ('{"aggregate_type":"o","aggregate_id":"1","event_type":"E","payload":1}\n')
        many = self.path("many.jsonl", row * 50)
        out = self.on_a_terminal("put", "--db", self.url, "--jsonl", many, "--batch", "10")
        self.assertIn(b"events put", out)
        out = self.on_a_terminal("relay", "--from", self.url, "--to", self.sink, "--once")
        self.assertIn(b"events settled", out)
        r = self.run_outrider("put", "--db", self.url, "--jsonl", many, "--batch", "10")
        self.assertNotIn("\r", r.err)


if __name__ == "__main__":
    sys.exit(harness.main())
