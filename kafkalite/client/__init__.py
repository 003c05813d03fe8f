"""The client library: `Producer`, `Consumer`, `Admin` for asyncio, and `SyncProducer`, `SyncConsumer`, `SyncAdmin`.

Names are loaded at first use, so that a program pays for what it imports.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafkalite.client.producer import Producer as Producer

_HOMES = {
    "Admin": "admin",
    "ClientError": "errors",
    "Consumer": "consumer",
    "ConsumerRecord": "records",
    "Producer": "producer",
    "RecordMetadata": "records",
    "SyncAdmin": "sync",
    "SyncConsumer": "sync",
    "SyncProducer": "sync",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__} has no {name}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
