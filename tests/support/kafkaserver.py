# SPDX-License-Identifier: MIT
"""Real Kafka brokers for tests: started on free loopback ports in a temporary
directory, killed, restarted, and read with tools that nobody here wrote.

Where Kafka cannot be had (scripts/fetch-kafka), need() skips the tests in one
loud line; with CI=true it fails instead.
"""
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import unittest
import uuid

import harness

JAVA_FLAGS = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
RESOURCES = {"topic": 2, "cluster": 4, "transactional-id": 5}
OPERATIONS = {"all": 2, "read": 3, "write": 4, "create": 5, "describe": 8, "idempotent-write": 12}
_jars = None


def jars():
    """The directory with Kafka's jars, or None with a loud line."""
    global _jars
    if _jars is None:
        p = subprocess.run([os.path.join(harness.SOURCE, "scripts", "fetch-kafka")],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if p.returncode == 0 and shutil.which("kcat"):
            _jars = p.stdout.strip()
        else:
            why = p.stderr.strip() or "kcat is not installed"
            if os.environ.get("CI") == "true":
                raise RuntimeError("CI insists on a real Kafka: " + why)
            print("\n*** NO REAL KAFKA: only librdkafka's mock cluster is tested: %s ***\n" % why,
                  file=sys.stderr, flush=True)
            _jars = ""
    return _jars or None


def need():
    if jars() is None:
        raise unittest.SkipTest("no real Kafka")


def free_ports(n):
    held = [socket.socket() for _ in range(n)]
    try:
        for s in held:
            s.bind(("127.0.0.1", 0))
        return [s.getsockname()[1] for s in held]
    finally:
        for s in held:
            s.close()


def java(main, *args, heap="256m", stdin=None, output=False):
    """Runs one of Kafka's own tools to its end; its standard output, of which
    there must be some if `output`: a consumer that saw nothing exits with 0."""
    p = subprocess.run(["java", "-Xmx" + heap, *JAVA_FLAGS, "-cp", jars() + "/*", main, *args],
                       input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       timeout=harness.DEADLINE * 2)
    if p.returncode != 0 or (output and not p.stdout):
        raise AssertionError("%s %s: %s" % (main, args, p.stderr.decode("utf-8", "replace")))
    return p.stdout


def _string(text):
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _read_exactly(s, n):
    data = b""
    while len(data) < n:
        more = s.recv(n - len(data))
        if not more:
            raise OSError("connection closed")
        data += more
    return data


class Node:
    def __init__(self, cluster, number, port, controller_port, sasl_port, keystore=None):
        self.cluster, self.number, self.keystore = cluster, number, keystore
        self.port, self.controller_port, self.sasl_port = port, controller_port, sasl_port
        self.dir = os.path.join(cluster.dir, "node%d" % number)
        os.mkdir(self.dir)
        self.config = os.path.join(self.dir, "server.properties")
        self.process = None

    def write_config(self, voters, extra):
        protocols = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:" + (
            "SASL_SSL" if self.keystore else "SASL_PLAINTEXT")
        listeners = "PLAINTEXT://127.0.0.1:%d" % self.port
        if self.sasl_port:
            listeners += ",SASL://127.0.0.1:%d" % self.sasl_port
        n = min(3, len(self.cluster.nodes) or 1)
        values = {
            "process.roles": "broker,controller", "node.id": self.number,
            "controller.quorum.voters": voters,
            "listeners": listeners + ",CONTROLLER://127.0.0.1:%d" % self.controller_port,
            "advertised.listeners": listeners,
            "listener.security.protocol.map": protocols,
            "controller.listener.names": "CONTROLLER", "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": os.path.join(self.dir, "data"),
            "offsets.topic.replication.factor": n, "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": n, "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 1,
            "group.initial.rebalance.delay.ms": 0, "num.network.threads": 2, "num.io.threads": 4,
            "log.cleaner.enable": "false", "broker.heartbeat.interval.ms": 500,
            "broker.session.timeout.ms": 3000, "replica.lag.time.max.ms": 5000,
            "controlled.shutdown.enable": "true", "auto.create.topics.enable": "false",
        }
        if self.sasl_port:
            values["sasl.enabled.mechanisms"] = "PLAIN"
            values["listener.name.sasl.plain.sasl.jaas.config"] = (
                "org.apache.kafka.common.security.plain.PlainLoginModule required "
                'user_relay="right" user_guest="right";')
        if self.keystore:
            values["listener.name.sasl.ssl.keystore.type"] = "PEM"
            values["listener.name.sasl.ssl.keystore.location"] = self.keystore
        values.update(extra)
        with open(self.config, "w", encoding="utf-8") as f:
            for name, value in values.items():
                f.write("%s=%s\n" % (name, value))

    def format(self):
        java("kafka.tools.StorageTool", "format", "-t", self.cluster.id, "-c", self.config)

    def start(self):
        log = open(os.path.join(self.dir, "out"), "ab")
        self.process = subprocess.Popen(
            ["java", *self.cluster.java_flags, "-cp", jars() + "/*", "kafka.Kafka", self.config],
            cwd=self.dir, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        log.close()

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        """As a power cut would: no shutdown of any kind."""
        if self.is_running():
            self.process.kill()
        if self.process is not None:
            self.process.wait()

    def stop(self):
        if self.is_running():
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()

    def log(self):
        with open(os.path.join(self.dir, "out"), "r", errors="replace", encoding="utf-8") as f:
            return f.read()[-3000:]


class Cluster:
    """n brokers in combined mode; `with Cluster() as c`, or start() and close()."""
    java_flags = ["-Xmx512m", *JAVA_FLAGS]

    def __init__(self, n=1, sasl=False, keystore=None, **properties):
        """keystore: a PEM file with key and certificate, for SASL over TLS."""
        need()
        self.id = "".join(c for c in uuid.uuid4().hex[:22])
        self.dir = tempfile.mkdtemp(prefix="outrider-kafka-")
        self.nodes = []
        ports = free_ports(3 * n)
        self.nodes = [Node(self, i + 1, ports[3 * i], ports[3 * i + 1],
                           ports[3 * i + 2] if sasl else None, keystore) for i in range(n)]
        voters = ",".join("%d@127.0.0.1:%d" % (x.number, x.controller_port) for x in self.nodes)
        extra = {name.replace("_", "."): value for name, value in properties.items()}
        for node in self.nodes:
            node.write_config(voters, extra)

    @property
    def servers(self):
        return ",".join("127.0.0.1:%d" % n.port for n in self.nodes)

    @property
    def url(self):
        return "kafka://" + self.servers

    def start(self):
        for node in self.nodes:
            node.format()
            node.start()
        try:
            self.wait_ready()
        except BaseException:
            self.close()
            raise
        return self

    def wait_ready(self, nodes=None):
        for node in nodes or self.nodes:
            def ready(node=node):
                if not node.is_running():
                    raise AssertionError("Kafka ended: " + node.log())
                p = subprocess.run(["kcat", "-L", "-J", "-m", "2", "-b", "127.0.0.1:%d" % node.port],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
                return p.returncode == 0 and p.stdout.count('"id":') >= len(
                    [x for x in self.nodes if x.is_running()])
            harness.wait_until(ready, "Kafka on port %d" % node.port, harness.DEADLINE * 2)

    def close(self):
        for node in self.nodes:
            node.kill()
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self.start()

    def __exit__(self, *exc):
        self.close()

    def _request(self, key, version, body):
        node = next(n for n in self.nodes if n.is_running())
        with socket.create_connection(("127.0.0.1", node.port), 30) as s:
            s.settimeout(30)
            head = struct.pack(">hhi", key, version, 1) + _string("test")
            s.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
            (size,) = struct.unpack(">i", _read_exactly(s, 4))
            return _read_exactly(s, size)[4:]

    def create_topic(self, name, partitions=1, replication=1, **configs):
        """Through the wire protocol (CreateTopics 4): a JVM takes seconds to start."""
        body = struct.pack(">i", 1) + _string(name) + struct.pack(">ih", partitions, replication)
        body += struct.pack(">i", 0) + struct.pack(">i", len(configs))
        for key, value in configs.items():
            body += _string(key.replace("_", ".")) + _string(str(value))
        body += struct.pack(">i?", 30000, False)
        answer = self._request(19, 4, body)
        at = 8 + 2 + len(name.encode())
        (error,) = struct.unpack_from(">h", answer, at)
        if error not in (0, 36):
            raise AssertionError("cannot create topic %s: error %d" % (name, error))
        harness.wait_until(lambda: self.partitions(name) == partitions, "topic " + name)

    def allow(self, principal, operation, resource, name, is_prefix=False):
        """An ACL (CreateAcls 1), by numbers of the protocol: see OPERATIONS, RESOURCES."""
        body = struct.pack(">ib", 1, RESOURCES[resource]) + _string(name) + (
            b"\x04" if is_prefix else b"\x03")
        body += _string(principal) + _string("*") + struct.pack(">bb", OPERATIONS[operation], 3)
        (error,) = struct.unpack_from(">h", self._request(30, 1, body), 8)
        if error != 0:
            raise AssertionError("cannot make an ACL: error %d" % error)

    def delete_topic(self, name):
        answer = self._request(20, 3, struct.pack(">i", 1) + _string(name) +
                               struct.pack(">i", 30000))
        (error,) = struct.unpack_from(">h", answer, 8 + 2 + len(name.encode()))
        if error != 0:
            raise AssertionError("cannot delete topic %s: error %d" % (name, error))

    def partitions(self, name):
        """How many partitions with a leader, as the first running broker tells."""
        return len([x for x in self._metadata(name) if x["leader"] > 0])

    def leader(self, name, partition=0):
        for x in self._metadata(name):
            if x["partition"] == partition and x["leader"] > 0:
                return next(n for n in self.nodes if n.number == x["leader"])
        return None

    def _metadata(self, name):
        """Of all topics: to ask for one may create it."""
        p = subprocess.run(["kcat", "-L", "-J", "-m", "5", "-b", self._running()],
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if p.returncode != 0:
            return []
        found = [t for t in json.loads(p.stdout)["topics"] if t["topic"] == name]
        return found[0]["partitions"] if found and "error" not in found[0] else []

    def _running(self):
        return ",".join("127.0.0.1:%d" % n.port for n in self.nodes if n.is_running())

    def read(self, topic, isolation="read_committed"):
        """Everything in a topic now, as kcat sees it: dicts, partition by partition."""
        p = subprocess.run(
            ["kcat", "-C", "-q", "-e", "-b", self._running(), "-t", topic, "-o", "beginning",
             "-X", "isolation.level=" + isolation, "-f", "%p %o %T %K %S %h\n%k%s"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=harness.DEADLINE)
        if p.returncode != 0:
            raise AssertionError("kcat: " + p.stderr.decode("utf-8", "replace"))
        return sorted(_parse(p.stdout), key=lambda m: (m["partition"], m["offset"]))


def _parse(data):
    messages, at = [], 0
    while at < len(data):
        end = data.index(b"\n", at)
        meta = data[at:end].decode("utf-8", "replace").split(" ", 5)
        partition, offset, timestamp, klen, slen = (int(x) for x in meta[:5])
        at = end + 1
        key = None if klen < 0 else data[at:at + klen]
        at += max(klen, 0)
        payload = None if slen < 0 else data[at:at + slen]
        at += max(slen, 0)
        # kcat joins them with commas, which a value may hold too.
        parts = re.split(r",(?=[\w.-]+=)", meta[5]) if len(meta) > 5 and meta[5] else []
        headers = dict(h.split("=", 1) for h in parts)
        messages.append({"partition": partition, "offset": offset, "timestamp": timestamp,
                         "key": key, "payload": payload, "headers": headers})
    return messages
