"""Brokers that each UpdateMetadata names are read once, as long as they are the same."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.errors import ProtocolViolation
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import ApiKey

VERSIONS = (5, 7)


def _encoded(version: int, *brokers: int, partitions: int = 1) -> bytes:
    m = messages.update_metadata_request
    endpoint = [m.Endpoint(port=9092, host="h", listener="PLAINTEXT", security_protocol=0)]
    state = m.PartitionState(leader=1, isr=[1, 2], replicas=[1, 2])
    request = m.UpdateMetadataRequest(
        controller_id=1,
        topic_states=[m.TopicState(topic_name="t", partition_states=[state] * partitions)],
        live_brokers=[m.LiveBroker(id=each, endpoints=endpoint, rack=f"rack-{each}") for each in brokers],
    )
    return b"".join(codec.encode_request(request, version))


def _decoded(version: int, data: bytes | memoryview) -> Any:
    return codec.decode_request(ApiKey.UPDATE_METADATA, version, data)


@pytest.mark.parametrize("version", VERSIONS)
def test_brokers_of_the_message_before_are_used_again(version: int) -> None:
    first = _decoded(version, _encoded(version, 1, 2, 3))
    second = _decoded(version, memoryview(_encoded(version, 1, 2, 3, partitions=4)))
    assert second.live_brokers is first.live_brokers
    assert len(second.topic_states[0].partition_states) == 4


@pytest.mark.parametrize("version", VERSIONS)
def test_other_brokers_are_read(version: int) -> None:
    for ids in ([1, 2, 3], [1, 2], [1, 2, 3], [1, 2, 4], [], [1, 2, 4], [2], [], [1, 2, 3]):
        found = _decoded(version, _encoded(version, *ids)).live_brokers
        assert [(each.id, each.rack, each.endpoints[0].host) for each in found] == [
            (each, f"rack-{each}", "h") for each in ids
        ]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_message_that_ends_within_the_brokers_is_refused_all_the_same(version: int) -> None:
    data = _encoded(version, 1, 2, 3)
    _decoded(version, data)
    for size in range(len(data) - 40, len(data) - 2):
        with pytest.raises(ProtocolViolation):
            _decoded(version, data[:size])
    assert [each.id for each in _decoded(version, data).live_brokers] == [1, 2, 3]
