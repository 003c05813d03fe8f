"""What a fetch answers for a partition that it cannot read."""

from __future__ import annotations

from typing import Any, cast

import pytest

from kafkalite.broker.fetch.fetch_sessions import FetchItem
from kafkalite.broker.fetch.partition_reader import FetchParams, PartitionReader
from kafkalite.broker.settings.rates import ReplicationRate
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.types import NO_TOPIC_ID, TopicPartition


class NoReplicas:
    def __init__(self, code: ErrorCode) -> None:
        self.code = code

    def require(self, name: TopicPartition) -> Any:
        raise KafkaError(self.code)


@pytest.mark.parametrize("code", [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_records_of_a_refused_partition_are_empty_and_not_null(code: ErrorCode) -> None:
    """librdkafka cannot parse null records: it asked again at once, for ever, and never learnt of the new epoch."""
    reader = PartitionReader(
        cast(Any, NoReplicas(code)), lambda partition, change: None, ReplicationRate(11, 1000, lambda: 1e18)
    )
    item = FetchItem(TopicPartition("t", 0), TopicPartition("t", 0), NO_TOPIC_ID, 0, 100)
    limits = FetchParams(-1, 16, 100, 1, 1000, 0)
    data = reader.read(item, limits, 1000, True, cast(Any, None))
    assert data.error_code == code
    assert data.records == b""
