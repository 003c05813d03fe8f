"""Fields of requests that several parts of the broker read before the handler does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.net.frames import RECEIVE_BYTES

if TYPE_CHECKING:
    from kafkalite.protocol import messages
    from kafkalite.types import BrokerId


def find_replica_id(request: messages.FetchRequest) -> BrokerId:
    """Return the id of the follower that fetches, a negative number for a consumer. From version 15 on it is in a tagged field."""
    return request.replica_id if request.replica_state is None else request.replica_state.replica_id


def copy_shared_records(request: messages.ProduceRequest, request_bytes: int) -> None:
    """Copy the records of a request that may lie in the receive buffer of all connections, which is overwritten when this call returns."""
    if request_bytes <= RECEIVE_BYTES:
        for topic in request.topic_data:
            for asked in topic.partition_data:
                if asked.records is not None:
                    asked.records = bytearray(asked.records)
