"""MetadataDigests: its bytes, who may ask, and that nobody else changes what was told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kafkalite.broker.handlers import metadata_digests
from kafkalite.broker.identity.authorizer import CLUSTER_ACTION
from kafkalite.broker.metadata_cache import TopicMetadata
from kafkalite.controller.control_requests import LiveBroker, PartitionMetadata, UpdateMetadata, UpdateMetadataTopic
from kafkalite.controller.metadata_digests import digest_metadata
from kafkalite.errors import ErrorCode, KafkaError, ProtocolViolation
from kafkalite.portions import in_one_go
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.testing.simulation import virtual_time
from tests.unit.broker.loop_turns import measured_turns
from tests.unit.broker.memory_parts import MemoryParts
from tests.unit.broker.replication.test_replicas import ID, Node

CLIENTS = "CLIENT"
"""A listener that is not the one of brokers."""
STATE = PartitionMetadata(1, 7, [1, 2], [1, 2], [], 11, 4)


def play(scenario: Callable[[], Awaitable[Any]]) -> Any:
    return virtual_time.run(scenario())  # type: ignore[arg-type]


def parts_with_replicas(**settings: str) -> MemoryParts:
    """Parts with real replicas, which have the epochs and the lock."""
    parts = MemoryParts(**settings)
    node = Node()
    node.replicas.broker_epoch, node.replicas.controller_epoch = 70, 4
    node.metadata.topics = {"t": TopicMetadata("t", ID, {0: STATE})}
    parts.replicas = node.replicas  # type: ignore[assignment]
    return parts


def question(controller_epoch: int = 5, broker_epoch: int = 70, buckets: int = 3) -> messages.MetadataDigestsRequest:
    return messages.MetadataDigestsRequest(
        controller_id=2, controller_epoch=controller_epoch, broker_epoch=broker_epoch, buckets=buckets
    )


def update(controller_epoch: int, state: PartitionMetadata, partitions: int = 1) -> UpdateMetadata:
    topic = UpdateMetadataTopic("t", ID, dict.fromkeys(range(partitions), state))
    return UpdateMetadata(2, controller_epoch, 70, [topic], [LiveBroker(1, {})])


def expected(parts: MemoryParts, buckets: int = 3) -> bytes:
    return in_one_go(digest_metadata(parts.replicas.metadata.topics.values(), buckets))


def test_the_bytes_of_both() -> None:
    whole = bytes.fromhex("00000002 00000005 0000000000000046 00000003 00")
    assert b"".join(codec.encode_request(question(), 0)) == whole
    assert codec.decode_request(ApiKey.METADATA_DIGESTS, 0, whole) == question()
    for length in range(len(whole)):
        with pytest.raises(ProtocolViolation):
            codec.decode_request(ApiKey.METADATA_DIGESTS, 0, whole[:length])
    response = messages.MetadataDigestsResponse(error_code=11, digests=b"abc")
    answer = bytes.fromhex("00000000 000b 04 616263 00")
    assert b"".join(codec.encode_response(response, 0)) == answer
    assert codec.decode_response(ApiKey.METADATA_DIGESTS, 0, answer) == response


def test_a_broker_tells_what_it_has_at_that_moment() -> None:
    async def scenario() -> None:
        parts = parts_with_replicas()
        before = await parts.ask(question(), 0)
        assert before == messages.MetadataDigestsResponse(digests=expected(parts))
        await parts.replicas.update_metadata(update(5, PartitionMetadata(1, 7, [1], [1, 2], [], 12, 4)))
        after = await parts.ask(question(), 0)
        assert after.digests == expected(parts) != before.digests

    play(scenario)


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (question(controller_epoch=3), ErrorCode.STALE_CONTROLLER_EPOCH),
        (question(broker_epoch=69), ErrorCode.STALE_BROKER_EPOCH),
        (question(buckets=0), ErrorCode.INVALID_REQUEST),
        (question(buckets=-1), ErrorCode.INVALID_REQUEST),
        (question(buckets=4097), ErrorCode.INVALID_REQUEST),
    ],
    ids=["a former controller", "an earlier incarnation", "no bucket", "fewer", "too many"],
)
def test_what_is_refused(request_: messages.MetadataDigestsRequest, code: ErrorCode) -> None:
    response = play(lambda: parts_with_replicas().ask(request_, 0))
    assert response == messages.MetadataDigestsResponse(error_code=code)


def test_from_the_answer_on_no_former_controller_changes_what_was_told() -> None:
    async def scenario() -> None:
        parts = parts_with_replicas()
        told = (await parts.ask(question(), 0)).digests
        with pytest.raises(KafkaError, match="controller epoch 4, seen was 5"):
            await parts.replicas.update_metadata(update(4, PartitionMetadata(2, 8, [2], [1, 2], [], 12, 4)))
        assert expected(parts) == told

    play(scenario)


def test_what_was_accepted_before_is_in_the_answer() -> None:
    """An update of the former controller is applied in portions; the answer waits for its end."""

    async def scenario() -> None:
        parts = parts_with_replicas()
        applied = asyncio.ensure_future(
            parts.replicas.update_metadata(update(4, PartitionMetadata(2, 8, [2], [1, 2], [], 12, 4), partitions=2000))
        )
        await asyncio.sleep(0)
        response = await parts.ask(question(), 0)
        assert applied.done() and len(parts.replicas.metadata.topics["t"].partitions) == 2000
        assert response.digests == expected(parts)

    play(scenario)


def test_much_metadata_is_digested_in_portions() -> None:
    async def scenario() -> None:
        parts = parts_with_replicas()
        parts.replicas.metadata.topics = {
            name: TopicMetadata(name, ID, dict.fromkeys(range(2000), STATE)) for name in map(str, range(20))
        }
        await parts.ask(question(), 0)
        with measured_turns() as turns:
            await parts.ask(question(buckets=4096), 0)
        assert turns.longest < turns.calls / 4, turns

    play(scenario)


def test_it_needs_cluster_action_and_the_listener_of_brokers() -> None:
    (served,) = metadata_digests.APIS
    assert (served.api.is_private, served.cluster_permission) == (True, CLUSTER_ACTION)

    async def scenario() -> None:
        parts = parts_with_replicas(
            listeners=f"PLAINTEXT://:9092,{CLIENTS}://:9093",
            listener_security_protocol_map=f"PLAINTEXT:PLAINTEXT,{CLIENTS}:PLAINTEXT",
            inter_broker_listener_name="PLAINTEXT",
        )
        with pytest.raises(ProtocolViolation, match=r"^unknown api key 20001$"):
            await parts.ask(question(), 0, listener=CLIENTS)
        assert parts.replicas.controller_epoch == 4

    play(scenario)
