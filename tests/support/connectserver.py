# SPDX-License-Identifier: MIT
"""Kafka Connect (standalone) with Debezium's connector for PostgreSQL, to compare with."""
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request

import harness
from kafkaserver import free_ports

WORKER = """bootstrap.servers={servers}
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
offset.storage.file.filename={directory}/offsets
offset.flush.interval.ms=1000
connector.client.config.override.policy=All
listeners=http://127.0.0.1:{port}
"""
_jars = None


def jars():
    """Where its classes are; empty, with a loud line, where it cannot be had."""
    global _jars
    if _jars is None:
        p = subprocess.run([os.path.join(harness.SOURCE, "scripts", "fetch-debezium")], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True)
        _jars = p.stdout.split() if p.returncode == 0 else []
        if not _jars:
            print("*** NO DEBEZIUM to compare with: " + p.stderr.strip() + " ***", file=sys.stderr, flush=True)
    return _jars


class Connect:
    def __init__(self, cluster, directory):
        self.cluster, self.directory = cluster, directory
        shutil.rmtree(directory, ignore_errors=True)
        os.mkdir(directory)
        self.process = self.port = None

    def run(self, connectors, *flags):
        """connectors: as Kafka Connect takes them, with name and config; flags are Java's."""
        self.port = free_ports(1)[0]
        files = [self._write("worker.properties", WORKER.format(servers=self.cluster.servers,
                                                                directory=self.directory, port=self.port))]
        files += [self._write(c["name"] + ".json", json.dumps(c)) for c in connectors]
        with open(os.path.join(self.directory, "log"), "ab") as log:
            self.process = subprocess.Popen(
                ["java", *flags, "-cp", ":".join(x + "/*" for x in jars()),
                 "org.apache.kafka.connect.cli.ConnectStandalone", *files],
                cwd=self.directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def _write(self, name, text):
        path = os.path.join(self.directory, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def ask(self, method, path, body=None):
        """What its REST interface answers, once it answers; None where there is nothing to say."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method,
                                         data=json.dumps(body).encode() if body is not None else None,
                                         headers={"Content-Type": "application/json"})

        def answer():
            if self.process.poll() is not None:
                raise RuntimeError("Kafka Connect ended:\n" + self.log())
            try:
                with urllib.request.urlopen(request, timeout=30) as reply:
                    return [reply.read()]
            except (urllib.error.URLError, ConnectionError) as e:
                if isinstance(e, urllib.error.HTTPError) and e.code not in (404, 409, 500, 503):
                    raise RuntimeError(f"{method} {path}: {e.read()[:1000]}") from None
                return None
        text = harness.wait_until(answer, f"{method} {path}", harness.DEADLINE * 2)[0]
        return json.loads(text) if text else None

    def stored_offset(self, name):
        """Of a worker that is gone: what its file holds, a map of Java's with JSON in it."""
        with open(os.path.join(self.directory, "offsets"), "rb") as f:
            found = re.search(rb'\["%s",.*?({"[^}]*"lsn"[^}]*})' % name.encode(), f.read(), re.S)
        return json.loads(found.group(1)) if found else None

    def kill(self):
        self.process.kill()
        self.process.wait()

    def properties(self, connector):
        """What the connector and its transforms say of themselves: name -> default."""
        answer = self.ask("PUT", f"/connector-plugins/{connector['connector.class']}/config/validate", connector)
        return {c["definition"]["name"]: c["definition"]["default_value"] for c in answer["configs"]}

    def check(self, name):
        """Raises if it, or the connector, has failed."""
        if self.process.poll() is not None:
            raise RuntimeError("Kafka Connect ended:\n" + self.log())
        url = f"http://127.0.0.1:{self.port}/connectors/{name}/status"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                status = json.load(answer)
        except (OSError, urllib.error.HTTPError):
            return
        for task in status["tasks"]:
            if task["state"] == "FAILED":
                raise RuntimeError(f"Debezium's {name} failed: " + task.get("trace", "")[:2000])

    def log(self):
        with open(os.path.join(self.directory, "log"), encoding="utf-8", errors="replace") as f:
            return f.read()[-3000:]

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
