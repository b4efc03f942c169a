# SPDX-License-Identifier: MIT
"""Debezium's connector for PostgreSQL in Kafka Connect (standalone, with no other
connector), for bench/kafka.py: tuned as its documentation says, with small poll
intervals and large batches, and a producer that fills its own."""
import json
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request

import harness
from kafkaserver import free_ports
from pgserver import wait_for

WORKER = """bootstrap.servers={servers}
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
offset.storage.file.filename={directory}/offsets
offset.flush.interval.ms=1000
connector.client.config.override.policy=All
listeners=http://127.0.0.1:{port}
"""


class Debezium:
    _jars = None

    @classmethod
    def is_there(cls):
        if cls._jars is None:
            p = subprocess.run([os.path.join(harness.SOURCE, "scripts", "fetch-debezium")], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
            cls._jars = p.stdout.split() if p.returncode == 0 else []
            if not cls._jars:
                print("*** NO DEBEZIUM to compare with: " + p.stderr.strip() + " ***", file=sys.stderr, flush=True)
        return bool(cls._jars)

    @classmethod
    def fetch(cls, server, database, cluster, directory):
        return cls(server, database, cluster, directory) if cls.is_there() else None

    def __init__(self, server, database, cluster, directory):
        self.server, self.database, self.cluster = server, database, cluster
        self.directory = os.path.join(directory, "debezium-" + database)
        shutil.rmtree(self.directory, ignore_errors=True)
        os.mkdir(self.directory)
        self.process = self.port = None

    def connector(self, topic):
        router = "transforms.outbox."
        return {
            "name": "bench-" + self.database,
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector", "tasks.max": "1",
            "database.hostname": "127.0.0.1", "database.port": str(self.server.port),
            "database.user": self.server.user, "database.password": "none", "database.dbname": self.database,
            "topic.prefix": "bench", "table.include.list": "public.outbox", "plugin.name": "pgoutput",
            "slot.name": "debezium_" + self.database, "publication.name": "debezium_" + self.database,
            "publication.autocreate.mode": "filtered", "snapshot.mode": "no_data",
            "poll.interval.ms": "1", "max.batch.size": "20480", "max.queue.size": "81920",
            "producer.override.linger.ms": "1", "producer.override.batch.size": "1000000",
            "producer.override.buffer.memory": "67108864",
            "transforms": "outbox", router + "type": "io.debezium.transforms.outbox.EventRouter",
            router + "table.field.event.key": "aggregate_id", router + "route.by.field": "aggregate_type",
            router + "table.fields.additional.placement": "event_type:header,aggregate_type:header",
            router + "route.topic.replacement": topic,
        }

    def start(self, topic):
        """Returns when it reads the stream."""
        self.port = free_ports(1)[0]
        worker = os.path.join(self.directory, "worker.properties")
        with open(worker, "w", encoding="utf-8") as f:
            f.write(WORKER.format(servers=self.cluster.servers, directory=self.directory, port=self.port))
        connector = os.path.join(self.directory, "connector.json")
        with open(connector, "w", encoding="utf-8") as f:
            json.dump({"name": "bench-" + self.database, "config": self.connector(topic)}, f)
        with open(os.path.join(self.directory, "log"), "ab") as log:
            self.process = subprocess.Popen(
                # The memory that Kafka's own script gives it.
                ["java", "-Xms256M", "-Xmx2G", "-cp", ":".join(x + "/*" for x in self._jars),
                 "org.apache.kafka.connect.cli.ConnectStandalone", worker, connector],
                cwd=self.directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_for(lambda: self.check() or self.is_streaming(), self.log, 120)

    def is_streaming(self):
        return self.server.query("SELECT 1 FROM pg_replication_slots WHERE active AND slot_name = "
                                 f"'debezium_{self.database}'")

    def check(self):
        """Raises if it has failed."""
        if self.process.poll() is not None:
            raise RuntimeError("Debezium ended:\n" + self.log())
        url = f"http://127.0.0.1:{self.port}/connectors/bench-{self.database}/status"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                status = json.load(answer)
        except (OSError, urllib.error.HTTPError):
            return
        for task in status["tasks"]:
            if task["state"] == "FAILED":
                raise RuntimeError("Debezium failed: " + task.get("trace", "")[:2000])

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
