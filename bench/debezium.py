# SPDX-License-Identifier: MIT
"""Debezium's connector for PostgreSQL in Kafka Connect (standalone, with no other
connector), for bench/kafka.py: tuned as its documentation says, with small poll
intervals and large batches, and a producer that fills its own."""
import os

import connectserver
from pgserver import wait_for


class Debezium:
    @staticmethod
    def is_there():
        return bool(connectserver.jars())

    @classmethod
    def fetch(cls, server, database, cluster, directory):
        return cls(server, database, cluster, directory) if cls.is_there() else None

    def __init__(self, server, database, cluster, directory):
        self.server, self.database = server, database
        self.name = "bench-" + database
        self.connect = connectserver.Connect(cluster, os.path.join(directory, "debezium-" + database))

    @property
    def process(self):
        return self.connect.process

    def connector(self, topic):
        router = "transforms.outbox."
        return {
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
        # The memory that Kafka's own script gives it.
        self.connect.run([{"name": self.name, "config": self.connector(topic)}], "-Xms256M", "-Xmx2G")
        wait_for(lambda: self.check() or self.is_streaming(), self.connect.log, 120)

    def is_streaming(self):
        return self.server.query("SELECT 1 FROM pg_replication_slots WHERE active AND slot_name = "
                                 f"'debezium_{self.database}'")

    def check(self):
        """Raises if it has failed."""
        self.connect.check(self.name)

    def stop(self):
        self.connect.stop()
