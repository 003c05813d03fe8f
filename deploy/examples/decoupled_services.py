"""Services that do not know each other: a shop says what was ordered, whoever has to do with it reads that, when he can.

    python decoupled_services.py shop --orders 5    # writes orders
    python decoupled_services.py billing            # a bill for each order, with kafkalite's client
    python decoupled_services.py shipping           # a parcel for each bill that was paid, with confluent-kafka

The shop need not run for the others to work, nor they for the shop; who was down finds what it has missed. Another service is added by
another group, and none of these changes. `billing` commits a bill and its place among the orders in one transaction, so there is one
bill for each order; `shipping` commits behind its work, so it looks whether a parcel was sent before.
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import islice
from typing import Any

from needs import cluster_at, require

from kafkalite.client import SyncConsumer, SyncProducer

ORDERS, BILLS = "example-orders", "example-bills"
PRICES = {"book": 12, "lamp": 40, "pen": 1}


def shop(servers: str, orders: int, first: int = 0) -> None:
    with SyncProducer(bootstrap_servers=servers, key_serializer="str", value_serializer="json") as producer:
        for number in range(first, first + orders):
            what = list(PRICES)[number % len(PRICES)]
            producer.send(ORDERS, {"order": number, "article": what, "pieces": 1 + number % 4}, key=f"order-{number}")


def billing(servers: str, count: int | None = None) -> None:
    """A bill for each of the next `count` orders."""
    formats: Any = {"key_serializer": "str", "value_serializer": "json"}
    options: Any = {"key_deserializer": "str", "value_deserializer": "json", "auto_offset_reset": "earliest"}
    options |= {"bootstrap_servers": servers, "enable_auto_commit": False}
    with (
        SyncProducer(bootstrap_servers=servers, transactional_id="example-billing", **formats) as producer,
        SyncConsumer(ORDERS, group_id="example-billing", **options) as consumer,
    ):
        producer.init_transactions()
        for record in islice(consumer, count):
            order = record.value
            with producer.transaction():
                producer.send(BILLS, order | {"sum": PRICES[order["article"]] * order["pieces"]}, key=record.key)
                producer.send_offsets_to_transaction(
                    {record.topic_partition: record.offset + 1}, consumer.group_metadata()
                )
            print(f"a bill for {record.key}")


def shipping(servers: str, parcels: dict[str, Any], count: int | None = None) -> None:
    """Until there are `count` parcels; `parcels` is what this service remembers, in a database if it were a real one."""
    require("confluent_kafka", "pip install confluent-kafka")
    from confluent_kafka import Consumer, KafkaException

    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "example-shipping",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",  # no bill that was taken back
        }
    )
    consumer.subscribe([BILLS])
    try:
        while count is None or len(parcels) < count:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if (problem := message.error()) is not None:
                if problem.name() != "UNKNOWN_TOPIC_OR_PART":  # until the first bill is written
                    raise KafkaException(problem)
                continue
            key, value = message.key(), message.value()
            if key is not None and value is not None and key.decode() not in parcels:
                parcels[key.decode()] = json.loads(value)
                print(f"a parcel for {key.decode()}")
            consumer.commit(message)
    finally:
        consumer.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("shop", "billing", "shipping"))
    parser.add_argument("--bootstrap-server", default="localhost:9092")
    parser.add_argument("--orders", type=int, default=5)
    given = parser.parse_args()
    with cluster_at(given.bootstrap_server, ORDERS, BILLS):
        if given.what == "shop":  # with numbers that no earlier run has given
            shop(given.bootstrap_server, given.orders, first=time.time_ns() // 1_000_000)
        elif given.what == "billing":
            billing(given.bootstrap_server)
        else:
            shipping(given.bootstrap_server, parcels={})
