# SPDX-License-Identifier: MIT
"""A broker that asks for TLS, a password and rights."""
import os
import shutil
import subprocess
import sys
import tempfile

import harness
import kafkaserver
import kafkatest

cluster = None
keys = None


def make_keys(directory):
    """A certificate of its own authority, and the same with its key for the broker."""
    cert, key = os.path.join(directory, "cert.pem"), os.path.join(directory, "key.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-keyout", key, "-out", cert], check=True, stderr=subprocess.DEVNULL)
    with open(os.path.join(directory, "broker.pem"), "wb") as out:
        for path in (key, cert):
            with open(path, "rb") as f:
                out.write(f.read())
    return cert


def setUpModule():
    global cluster, keys
    kafkaserver.need()
    keys = tempfile.mkdtemp(prefix="outrider-keys-")
    make_keys(keys)
    # Who comes without a password, on the other listener, is the administrator.
    cluster = kafkaserver.Cluster(
        sasl=True, keystore=os.path.join(keys, "broker.pem"),
        **{"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
           "super.users": "User:ANONYMOUS"}).start()


def tearDownModule():
    if cluster:
        cluster.close()
    if keys:
        shutil.rmtree(keys, ignore_errors=True)


class Security(kafkatest.KafkaTest):
    def setUp(self):
        self.cluster = cluster
        super().setUp()
        self.sink = self.url_for("right")

    def url_for(self, password, cert="cert.pem", user="relay"):
        return "kafka://%s:%s@127.0.0.1:%d?ssl.ca.location=%s" % (
            user, password, cluster.nodes[0].sasl_port, os.path.join(keys, cert))

    def check_rights(self, *more):
        mine, other = self.topic, self.topic + "-other"
        cluster.create_topic(mine)
        cluster.create_topic(other)
        cluster.allow("User:relay", "write", "topic", mine)
        relay = self.start_relay("--set", "retry.delays=200ms", "--set",
                                 "retry.max_attempts=1000", *more)
        self.put_many([self.row("a", i, other) for i in range(4)] +
                      [self.row("b", i, mine) for i in range(4)])
        relay.wait_for_log("may not be written to")
        harness.wait_until(lambda: self.numbers(mine) == {"b": [0, 1, 2, 3]}, "the other lane")
        s = harness.wait_until(lambda: self.status()["pending"] == 0 and self.status(), "parking")
        self.assertEqual((s["parked"] + s["queued"], s["dead"]), (4, 0))
        self.assertEqual(cluster.read(other), [])
        cluster.allow("User:relay", "write", "topic", other)
        harness.wait_until(lambda: self.status()["parked"] + self.status()["queued"] == 0, "rights")
        self.assert_in_order(["a"], 4, other)
        self.assertEqual(relay.stop(), 0, relay.err())

    def test_a_topic_without_rights_blocks_its_own_lanes_only_until_they_are_given(self):
        self.check_rights()

    def allow_transactions(self):
        """What exactly once needs, but for the right to write the progress."""
        progress = "progress." + self.topic
        cluster.create_topic(progress, cleanup_policy="compact")
        for operation in ("write", "describe"):
            cluster.allow("User:relay", operation, "transactional-id", "outrider:", is_prefix=True)
        cluster.allow("User:relay", "read", "topic", progress)
        return progress, ("--set", "exactly_once=true", "--set", "sink.progress_topic=" + progress)

    def test_exactly_once_a_topic_without_rights_blocks_its_own_lanes_only(self):
        progress, exact = self.allow_transactions()
        cluster.allow("User:relay", "write", "topic", progress)
        self.check_rights(*exact)

    def test_exactly_once_stops_where_the_progress_may_not_be_written(self):
        progress, exact = self.allow_transactions()
        cluster.create_topic(self.topic)
        cluster.allow("User:relay", "write", "topic", self.topic)
        self.put_many([self.row("a", i) for i in range(4)])
        relay = self.start("relay", "--from", self.url, "--to", self.sink, *exact)
        self.assertEqual(relay.join(), 1)
        told = [x for x in relay.err_lines if "allow this user Write on topic '%s'" % progress in x]
        self.assertEqual(len(told), 1, relay.err())
        self.assertEqual(cluster.read(self.topic), [])
        cluster.allow("User:relay", "write", "topic", progress)
        self.relay_once(*exact)
        self.assert_in_order(["a"], 4)

    def test_a_wrong_password_over_tls_stops_with_one_line(self):
        self.put_many([self.row("a", 0)])
        relay = self.start("relay", "--from", self.url, "--to", self.url_for("hunter2"))
        self.assertEqual(relay.join(), 1)
        self.assertEqual(len([x for x in relay.err_lines if "refuses these credentials" in x]), 1,
                         relay.err())
        self.assertNotIn("hunter2", relay.err())
        self.assertEqual(self.status()["pending"], 1)

    def test_a_certificate_that_nobody_vouches_for_is_not_trusted(self):
        os.makedirs(os.path.join(keys, "stranger"), exist_ok=True)
        make_keys(os.path.join(keys, "stranger"))
        self.put_many([self.row("a", 0)])
        sink = self.url_for("right", "stranger/cert.pem")
        r = self.relay_once("--set", "connect_timeout=2s", sink=sink, code=1)
        self.assertIn("certificate verify failed", r.err)
        self.assertEqual(self.status()["pending"], 1)
        r = self.run_outrider("doctor", "--from", self.url, "--to", sink, "--set",
                              "connect_timeout=2s", code=1)
        self.assertIn("certificate verify failed", r.out)

    def test_a_user_who_may_write_nowhere_stops_with_the_right_that_is_missing(self):
        cluster.create_topic(self.topic)
        self.put_many([self.row("a", 0)])
        sink = self.url_for("right", user="guest")
        relay = self.start("relay", "--from", self.url, "--to", sink)
        self.assertEqual(relay.join(), 1)
        self.assertEqual(len([x for x in relay.err_lines if "IdempotentWrite" in x]), 1,
                         relay.err())
        s = self.status()
        self.assertEqual((s["pending"] + s["parked"], s["dead"]), (1, 0))
        r = self.run_outrider("doctor", "--from", self.url, "--to", sink, code=1)
        self.assertIn("refuses an idempotent producer", r.out)

    def test_doctor_tells_what_is_wrong_with_a_connection_in_one_sentence(self):
        node = cluster.nodes[0]
        tls, plain = "127.0.0.1:%d" % node.sasl_port, "127.0.0.1:%d" % node.port
        (free,) = kafkaserver.free_ports(1)
        ca = "?ssl.ca.location=" + os.path.join(keys, "cert.pem")

        def protocol(name):
            return ("--set", "sink.kafka.security.protocol=" + name)
        for url, args, text in (
                ("127.0.0.1:%d" % free, (), "Connection refused"),
                ("no.such.host.invalid:1", (), "Failed to resolve"),
                (plain, protocol("ssl"), "does not speak TLS on this port"),
                ("relay:right@" + plain, (), "does not speak TLS on this port"),
                ("relay:right@" + plain, protocol("sasl_plaintext"), "asks for no password on this port"),
                (tls, (), "it speaks TLS on this port"),
                ("relay:right@" + tls, protocol("sasl_plaintext"), "it speaks TLS on this port"),
                (tls + ca, protocol("ssl"), "it asks for a user and a password"),
                ("relay:right@" + tls, (), "certificate verify failed: no authority in ssl.ca.location"),
                ("relay:right@" + tls + "?ssl.ca.location=/nowhere.pem", (),
                 "ssl.ca.location: cannot read '/nowhere.pem': No such file"),
                ("relay:right@" + tls + ca, ("--set", "sink.kafka.sasl.mechanism=SCRAM-SHA-256"),
                 "broker's supported mechanisms: PLAIN")):
            with self.subTest(url=url, args=args):
                r = self.run_outrider("doctor", "--from", self.url, "--to", "kafka://" + url, "--json", "--set",
                                      "connect_timeout=1s", *args, code=1)
                (problem,) = [f["what"] for f in r.json()["findings"] if f["level"] == "problem"]
                self.assertIn(text, problem)
                self.assertNotIn("identical error", problem)
                self.assertNotIn("right", problem)

    def doctor(self, *args, code):
        r = self.run_outrider("doctor", "--from", self.url, "--to", self.sink, "--json", "--set",
                              "route.topic=" + self.topic, *args, code=code)
        return [(f["level"], f["what"]) for f in r.json()["findings"]]

    def test_doctor_tells_which_rights_are_missing(self):
        cluster.create_topic(self.topic)
        found = self.doctor(code=1)
        self.assertEqual([level for level, what in found if "'%s'" % self.topic in what],
                         ["problem"])
        self.assertEqual([level for level, what in found if "transactions" in what], ["note"])
        found = self.doctor("--set", "exactly_once=true", code=1)
        self.assertEqual([level for level, what in found if "transactions" in what], ["problem"])
        cluster.allow("User:relay", "write", "topic", self.topic)
        cluster.allow("User:relay", "all", "transactional-id", "outrider:", True)
        found = self.doctor(code=0)
        self.assertIn(("ok", "this user may write as an idempotent producer"), found)
        self.assertIn(("ok", "this user may use transactions"), found)
        self.assertIn(("ok", "topic '%s' has 1 partition" % self.topic), found)


if __name__ == "__main__":
    sys.exit(harness.main())
