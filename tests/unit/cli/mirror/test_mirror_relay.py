"""What a follower of the target gets from the relay, beside what the source answers."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from kafkalite.cli.mirror.batch_headers import read_headers
from kafkalite.cli.mirror.positions import Positions
from kafkalite.cli.mirror.relay import Relay
from kafkalite.client.cluster.view import BrokerNode, ClusterView, PartitionView, TopicView
from kafkalite.client.record_codec import BatchWriter
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.types import TopicPartition

T0 = TopicPartition("t", 0)
SOURCE_ID, TARGET_ID = b"s" * 16, b"t" * 16


def batch(value: bytes) -> bytes:
    writer = BatchWriter(1 << 20)
    writer.append(1000, None, value, [])
    return bytes(writer.build(0))


class Source:
    """A source whose only broker answers each fetch with the same."""

    def __init__(self, *, epoch: int = 3, **answer: Any) -> None:
        partition = PartitionView("t", 0, 5, epoch, (5,), (5,))
        topics = {"t": TopicView("t", SOURCE_ID, False, {0: partition})}
        self.view = ClusterView(brokers={5: BrokerNode(5, "h", 1)}, topics=topics)
        self.asked: list[Any] = []
        self.refreshed = 0
        fields = {"partition_index": 0, "high_watermark": 20, "last_stable_offset": 20, "log_start_offset": 4}
        self._answer = messages.fetch_response.PartitionData(**{**fields, "records": b"", **answer})

    def request_refresh(self) -> None:
        self.refreshed += 1

    async def open(self, broker: int) -> Any:
        assert broker == 5
        return SimpleNamespace(version_of=lambda _: 13, request=self._request)

    async def _request(self, request: Any, version: int, timeout_s: float) -> Any:
        self.asked.append(request)
        topic = messages.fetch_response.FetchableTopicResponse(topic_id=SOURCE_ID, partitions=[self._answer])
        return messages.FetchResponse(responses=[topic])


def fetch(source: Source, relay: Relay, *, epoch: int = 3, replica: int = 1) -> Any:
    m = messages.fetch_request
    partition = m.FetchPartition(
        partition=0, current_leader_epoch=epoch, fetch_offset=10, last_fetched_epoch=2, partition_max_bytes=99
    )
    request = m.FetchRequest(
        replica_state=m.ReplicaState(replica_id=replica, replica_epoch=77),
        max_bytes=1000,
        topics=[m.FetchTopic(topic_id=TARGET_ID, partitions=[partition])],
    )
    return asyncio.run(relay.answer_fetch(source, request))  # type: ignore[arg-type]


def make_relay(source: Source) -> tuple[Relay, Positions]:
    positions = Positions()
    relay = Relay(source, positions, {1}.__contains__)  # type: ignore[arg-type]
    relay.names = {TARGET_ID: "t"}
    return relay, positions


def only(response: Any) -> Any:
    return response.responses[0].partitions[0]


def test_a_followers_fetch_becomes_one_of_the_source_and_its_batches_go_on_as_they_are() -> None:
    records = batch(b"a") + batch(b"b")
    source = Source(records=records)
    relay, positions = make_relay(source)
    response = fetch(source, relay)
    assert response.responses[0].topic_id == TARGET_ID
    assert only(response).records == records
    assert (only(response).high_watermark, only(response).log_start_offset) == (20, 4)
    (asked,) = source.asked
    (partition,) = asked.topics[0].partitions
    assert (asked.topics[0].topic_id, partition.fetch_offset, partition.last_fetched_epoch) == (SOURCE_ID, 10, 2)
    assert partition.current_leader_epoch == 3, "the source refuses when it has a newer one than was compared"
    assert positions.offset_of(T0, 1) == 10 and positions.broker_epochs == {1: 77}
    assert positions.bounds_of(T0) == (4, 20)


def test_nothing_is_noted_or_given_out_for_brokers_and_partitions_that_there_are_not() -> None:
    source = Source(records=batch(b"a"))
    relay, positions = make_relay(source)
    assert only(fetch(source, relay, replica=7)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not source.asked and not positions.broker_epochs
    source.view = ClusterView()
    fetch(source, relay)
    assert positions.offset_of(T0, 1) == -1


def test_nothing_is_given_out_before_the_target_has_reached_the_sources_leader_epoch() -> None:
    source = Source(epoch=3, records=batch(b"a"))
    relay, _ = make_relay(source)
    assert only(fetch(source, relay, epoch=2)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not source.asked
    assert only(fetch(source, relay, epoch=3)).error_code == 0


def test_a_frozen_relay_notes_positions_and_gives_out_nothing_new() -> None:
    source = Source(records=batch(b"a"))
    relay, positions = make_relay(source)
    relay.is_frozen = True
    assert only(fetch(source, relay)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER, "bounds are not known yet"
    relay.is_frozen = False
    fetch(source, relay)
    relay.is_frozen = True
    positions.forget_followers()
    answer = only(fetch(source, relay))
    assert (answer.error_code, answer.records, answer.high_watermark, answer.log_start_offset) == (0, b"", 20, 4)
    assert positions.offset_of(T0, 1) == 10 and len(source.asked) == 1


def test_the_sources_cut_and_its_start_reach_the_follower() -> None:
    end = messages.fetch_response.EpochEndOffset(epoch=1, end_offset=6)
    source = Source(diverging_epoch=end)
    assert only(fetch(source, make_relay(source)[0])).diverging_epoch == end
    out = Source(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
    assert only(fetch(out, make_relay(out)[0])).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_other_errors_of_the_source_are_asked_about_and_have_the_follower_ask_again() -> None:
    source = Source(error_code=ErrorCode.FENCED_LEADER_EPOCH)
    relay, positions = make_relay(source)
    assert only(fetch(source, relay)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert source.refreshed == 1 and positions.bounds_of(T0) is None


def test_consumers_are_told_that_the_mirror_does_not_lead() -> None:
    source = Source(records=batch(b"a"))
    answer = fetch(source, make_relay(source)[0], replica=-1)
    assert (answer.responses[0].topic_id, only(answer).error_code) == (TARGET_ID, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert not source.asked


def test_old_formats_are_refused() -> None:
    old = bytearray(batch(b"a"))
    old[16] = 1
    source = Source(records=bytes(old))
    relay, positions = make_relay(source)
    assert only(fetch(source, relay)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert "format before 0.11" in positions.refused[T0]


@pytest.mark.parametrize("cut", [0, 1, 20, 60])
def test_headers_are_read_up_to_a_batch_that_is_cut(cut: int) -> None:
    one, other = bytearray(batch(b"a")), bytearray(batch(b"bb"))
    one[43:51], other[43:51] = (7).to_bytes(8, "big"), (9).to_bytes(8, "big")
    whole = bytes(one + other)
    assert read_headers(whole) == (False, 9)
    assert read_headers(bytes(one) + bytes(other[:cut])) == (False, 7)
    assert read_headers(b"") == (False, -1)
