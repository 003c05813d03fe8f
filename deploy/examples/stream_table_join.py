"""A stream joined with a table: each purchase gets the name and the city of its customer, as they are known at that moment.

    python stream_table_join.py customer c1 Ann Oslo    # a row of the table, also to change it
    python stream_table_join.py purchase c1 12.50
    python stream_table_join.py join                    # writes example-purchases-with-customers

Both topics have the same number of partitions and the customer as key, so a row is in the partition of the same number as its purchases:
whoever of the group `example-join` has a partition of the stream needs that partition of the table, and keeps it in memory. What a purchase
becomes and its offset are committed together: each purchase is joined once, whenever this program dies.
"""

from __future__ import annotations

import argparse
from itertools import islice
from typing import Any

from needs import cluster_at, make_missing, require_same_partitions

from kafkalite.client import NewTopic, SyncAdmin, SyncConsumer, SyncProducer, TopicPartition

CUSTOMERS, PURCHASES, JOINED = "example-customers", "example-purchases", "example-purchases-with-customers"
READ: Any = {"key_deserializer": "str", "value_deserializer": "json"}
WRITTEN: Any = {"key_serializer": "str", "value_serializer": "json"}


def make_topics(servers: str, partitions: int = 3) -> None:
    """Those that are not there; of a customer the table keeps the latest row."""
    table = NewTopic(CUSTOMERS, partitions, topic_configs={"cleanup.policy": "compact"})
    with SyncAdmin(bootstrap_servers=servers) as admin:
        make_missing(admin, table, NewTopic(PURCHASES, partitions), NewTopic(JOINED, partitions))
        require_same_partitions(admin, CUSTOMERS, PURCHASES)


def write(servers: str, topic: str, customer: str, row: dict[str, Any] | None) -> None:
    """A row of the table or of the stream; None removes a customer."""
    with SyncProducer(bootstrap_servers=servers, **WRITTEN) as producer:
        producer.send_and_wait(topic, row, key=customer)


class Table:
    """Partitions of a compacted topic in memory."""

    def __init__(self, servers: str) -> None:
        self._rows: dict[int, dict[str, Any]] = {}
        self._consumer = SyncConsumer(bootstrap_servers=servers, **READ)
        self._consumer.connect()

    def find(self, partition: int, key: str) -> Any:
        """The row as it is now; None for no row."""
        place = TopicPartition(CUSTOMERS, partition)
        if partition not in self._rows:
            self._rows[partition] = {}
            self._consumer.assign([*self._consumer.assignment(), place])
            self._consumer.seek_to_beginning(place)
        end = self._consumer.end_offsets([place])[place]
        while self._consumer.position(place) < end:
            for each, records in self._consumer.poll(timeout_ms=1000).items():
                self._rows[each.partition] |= {record.key: record.value for record in records}
        return self._rows[partition].get(key)

    def close(self) -> None:
        self._consumer.close()


def join(servers: str, count: int | None = None) -> None:
    """The next `count` purchases."""
    table = Table(servers)
    options: Any = {"bootstrap_servers": servers, "enable_auto_commit": False, "auto_offset_reset": "earliest"}
    with (
        SyncProducer(bootstrap_servers=servers, transactional_id=JOINED, **WRITTEN) as producer,
        SyncConsumer(PURCHASES, group_id="example-join", **options, **READ) as consumer,
    ):
        producer.init_transactions()
        for record in islice(consumer, count):
            joined = record.value | {"customer": table.find(record.partition, record.key)}
            with producer.transaction():
                producer.send(JOINED, joined, key=record.key)
                done = {record.topic_partition: record.offset + 1}
                producer.send_offsets_to_transaction(done, consumer.group_metadata())
            print(record.key, joined)
    table.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap-server", default="localhost:9092")
    parser.add_argument("words", nargs="+", metavar="customer ID NAME CITY | purchase ID SUM | join")
    given = parser.parse_args()
    with cluster_at(given.bootstrap_server):
        make_topics(given.bootstrap_server)
        match given.words:
            case ["customer", customer, name, city]:
                write(given.bootstrap_server, CUSTOMERS, customer, {"name": name, "city": city})
            case ["purchase", customer, total]:
                write(given.bootstrap_server, PURCHASES, customer, {"sum": float(total)})
            case ["join"]:
                join(given.bootstrap_server)
            case _:
                parser.error("see --help")
