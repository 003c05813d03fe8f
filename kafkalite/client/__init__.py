"""The client library: `Producer`, `Consumer`, `Admin` for asyncio, and `SyncProducer`, `SyncConsumer`, `SyncAdmin`.

Names are loaded at first use, so that a program pays for what it imports.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafkalite.client.admin import Admin as Admin
    from kafkalite.client.admin import NewTopic as NewTopic
    from kafkalite.client.consumer import Consumer as Consumer
    from kafkalite.client.errors import ClientError as ClientError
    from kafkalite.client.group_session import RebalanceListener as RebalanceListener
    from kafkalite.client.producer import Producer as Producer
    from kafkalite.client.records import ConsumerRecord as ConsumerRecord
    from kafkalite.client.records import OffsetAndMetadata as OffsetAndMetadata
    from kafkalite.client.records import RecordMetadata as RecordMetadata
    from kafkalite.client.sync_admin import SyncAdmin as SyncAdmin
    from kafkalite.client.sync_consumer import SyncConsumer as SyncConsumer
    from kafkalite.client.sync_producer import SyncProducer as SyncProducer
    from kafkalite.types import TopicPartition as TopicPartition

_HOMES = {
    "Admin": "admin",
    "ClientError": "errors",
    "Consumer": "consumer",
    "ConsumerRecord": "records",
    "NewTopic": "admin",
    "OffsetAndMetadata": "records",
    "Producer": "producer",
    "RebalanceListener": "group_session",
    "RecordMetadata": "records",
    "SyncAdmin": "sync_admin",
    "SyncConsumer": "sync_consumer",
    "SyncProducer": "sync_producer",
    "TopicPartition": "records",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__} has no {name}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
