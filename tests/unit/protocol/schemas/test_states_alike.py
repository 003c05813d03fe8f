"""States of partitions whose bytes behind the index are those of another: what is read is the same, whichever were read before."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kafkalite.errors import ProtocolViolation
from kafkalite.portions import in_one_go
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import ApiKey

m = messages.leader_and_isr_request
VERSIONS = (0, 2, 3, 4, 6, 7)
"""States that name their topics, those that do not, and flexible ones."""


def request(states: list[Any]) -> messages.LeaderAndIsrRequest:
    topic = m.TopicState(topic_name="t", topic_id=b"\1" * 16, partition_states=states)
    return m.LeaderAndIsrRequest(controller_id=1, controller_epoch=3, broker_epoch=5, topic_states=[topic])


def some_states(seed: int, count: int) -> list[Any]:
    """Return states of which many are alike, some with longer lists."""
    rng = random.Random(seed)
    return [
        m.PartitionState(
            partition_index=rng.randrange(1 << 31),
            controller_epoch=3,
            leader=rng.randrange(2),
            leader_epoch=rng.randrange(2),
            isr=[1, 2, 3][: rng.randrange(1, 4)],
            partition_epoch=7,
            replicas=rng.choice(([1, 2, 3], [], list(range(200)))),
            is_new=rng.random() < 0.5,
        )
        for _ in range(count)
    ]


def read(body: bytes, version: int) -> Any:
    return codec.reader(ApiKey.LEADER_AND_ISR, "request", version)(body, 0)


def read_in_portions(body: bytes, version: int) -> Any:
    budget = codec.request_budget(ApiKey.LEADER_AND_ISR, len(body))
    return in_one_go(codec.request_portions(ApiKey.LEADER_AND_ISR, version, memoryview(body), 0, budget))


@pytest.mark.parametrize("version", VERSIONS)
def test_each_state_is_what_was_written(version: int) -> None:
    states = some_states(version, 300)
    body = b"".join(codec.encode_request(request(states), version))
    topic_name = "t" if version == 0 else ""
    for found in (read(body, version), read_in_portions(body, version)):
        for state, given in zip(found.topic_states[0].partition_states, states, strict=True):
            given.topic_name = state.topic_name = topic_name
            if version == 0:
                given.is_new = state.is_new
            assert state == given


def test_states_alike_share_their_lists() -> None:
    alike = [m.PartitionState(partition_index=index, isr=[1, 2], replicas=[1, 2, 3]) for index in range(3)]
    first, second, third = read(b"".join(codec.encode_request(request(alike), 7)), 7).topic_states[0].partition_states
    assert [first.partition_index, second.partition_index, third.partition_index] == [0, 1, 2]
    assert second.isr is third.isr and second.replicas is third.replicas


def test_states_of_several_lengths_share_their_lists() -> None:
    isrs = ([1, 2, 3], [1, 2], [1])
    mixed = [m.PartitionState(partition_index=index, isr=isrs[index % 3], replicas=[1, 2, 3]) for index in range(9)]
    states = read(b"".join(codec.encode_request(request(mixed), 7)), 7).topic_states[0].partition_states
    assert len({id(state.isr) for state in states[3:]}) == 3


def test_long_states_are_not_kept() -> None:
    long = [m.PartitionState(partition_index=index, isr=list(range(100))) for index in range(2)]
    first, second = read(b"".join(codec.encode_request(request(long), 7)), 7).topic_states[0].partition_states
    assert first.isr == second.isr and first.isr is not second.isr


@pytest.mark.parametrize("version", (2, 7))
def test_a_state_that_is_cut_off_is_refused_after_one_like_it(version: int) -> None:
    body = b"".join(codec.encode_request(request(some_states(1, 1) * 2), version))
    read(body, version)
    for end in range(len(body) - 12, len(body) - 60, -7):
        with pytest.raises(ProtocolViolation):
            read(body[:end], version)
