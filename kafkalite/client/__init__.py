"""The client library: `Producer`, `Consumer`, `Admin` for asyncio, and `SyncProducer`, `SyncConsumer`, `SyncAdmin`.

Names are loaded at first use, so that a program pays for what it imports.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafkalite.client.admin.admin import Admin as Admin
    from kafkalite.client.admin.admin import NewTopic as NewTopic
    from kafkalite.client.admin.sync import SyncAdmin as SyncAdmin
    from kafkalite.client.consumer.consumer import Consumer as Consumer
    from kafkalite.client.consumer.sync import SyncConsumer as SyncConsumer
    from kafkalite.client.errors import ClientError as ClientError
    from kafkalite.client.group.session import RebalanceListener as RebalanceListener
    from kafkalite.client.producer.producer import Producer as Producer
    from kafkalite.client.producer.sync import SyncProducer as SyncProducer
    from kafkalite.client.records import ConsumerRecord as ConsumerRecord
    from kafkalite.client.records import OffsetAndMetadata as OffsetAndMetadata
    from kafkalite.client.records import RecordMetadata as RecordMetadata
    from kafkalite.types import TopicPartition as TopicPartition

_HOMES = {
    "Admin": "admin.admin",
    "ClientError": "errors",
    "Consumer": "consumer.consumer",
    "ConsumerRecord": "records",
    "NewTopic": "admin.topics",
    "OffsetAndMetadata": "records",
    "Producer": "producer.producer",
    "RebalanceListener": "group.session",
    "RecordMetadata": "records",
    "SyncAdmin": "admin.sync",
    "SyncConsumer": "consumer.sync",
    "SyncProducer": "producer.sync",
    "TopicPartition": "records",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__} has no {name}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
