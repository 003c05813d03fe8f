"""Stand-ins for brokers: what they read of requests and what they answer; no sockets."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.net.frames import request_frame, response_body_position
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import APIS, ApiKey
from tests.bench.stand_in_frames import Head, Skimmer, Tally, answer_to, is_published, partitions_in, request_in
from tests.bench.stand_in_process import StandIn

VERSIONS = ((ApiKey.LEADER_AND_ISR, 7), (ApiKey.STOP_REPLICA, 4), (ApiKey.UPDATE_METADATA, 8), (ApiKey.API_VERSIONS, 3))


def metadata_of(partitions: int) -> Any:
    m = messages.update_metadata_request
    states = [m.PartitionState(partition_index=number, replicas=[1, 2]) for number in range(partitions)]
    return m.UpdateMetadataRequest(topic_states=[m.TopicState(topic_name="idle-0", partition_states=states)])


def framed(message: Any, version: int, correlation_id: int = 7) -> bytes:
    api = APIS[message.API.key]
    return b"".join(request_frame(api, version, correlation_id, "test", codec.encode_request(message, version)))


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("piece", [1, 3, 12, 13, 500, 100_000])
def test_requests_are_cut_wherever_the_stream_is(piece: int, keeps: bool) -> None:
    frames = [framed(metadata_of(count), 8, count) for count in (0, 50, 1)]
    stream, skimmer, found = b"".join(frames), Skimmer(), []
    skimmer.keeps = keeps
    for begin in range(0, len(stream), piece):
        found += skimmer.feed(stream[begin : begin + piece])
    assert [each.head for each in found] == [Head(6, 8, 0), Head(6, 8, 50), Head(6, 8, 1)]
    assert [each.size_bytes for each in found] == [len(each) for each in frames]
    if keeps:
        assert [each.frame for each in found] == [each[4:] for each in frames]
        assert [len(partitions_in(request_in(each))) for each in found] == [0, 50, 1]


def test_what_is_not_kept_is_skipped() -> None:
    skimmer = Skimmer()
    (found,) = skimmer.feed(framed(metadata_of(3), 8))
    assert found.frame is None
    assert request_in(found) is None


def test_a_request_without_a_head_is_refused() -> None:
    with pytest.raises(ValueError, match="no head"):
        Skimmer().feed(bytes(12))


@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_answers_are_successes(key: ApiKey, version: int) -> None:
    frame = answer_to(Head(key, version, 12))[4:]
    response = codec.decode_response(key, version, frame, response_body_position(APIS[key], version, memoryview(frame)))
    assert int.from_bytes(frame[:4], "big") == 12
    assert response.error_code == 0


def test_what_is_not_spoken_is_not_answered() -> None:
    with pytest.raises(KeyError):
        answer_to(Head(ApiKey.FETCH, 12, 1))


def test_published_is_what_all_have_got_since_the_first_partition() -> None:
    witness = Tally(metadata_bytes=[90, 500, 60], partitions=10, since_partitions=2)
    other = Tally(metadata_bytes=[90, 95, 500])
    assert not is_published({1: Tally(), 2: Tally()}, 1, 10)
    assert not is_published({1: witness, 2: other}, 1, 10), "the other one lacks the last one"
    other.metadata_bytes.append(60)
    assert is_published({1: witness, 2: other}, 1, 10), "what came before the partitions may differ"
    assert not is_published({1: witness, 2: other}, 1, 11)
    assert not is_published({1: witness, 2: Tally(metadata_bytes=[60])}, 1, 10)


def test_a_witness_counts_from_the_first_request_with_partitions() -> None:
    stand_in, skimmer = StandIn(1, ""), Skimmer()
    stand_in.reset(is_witness=True)
    skimmer.keeps = True
    for count in (0, 5, 0):
        for skimmed in skimmer.feed(framed(metadata_of(count), 8)):
            stand_in.record(skimmed, 1000)
    assert stand_in.tally.partitions == 5
    assert stand_in.tally.since_partitions == 2
    assert len(stand_in.tally.metadata_bytes) == 3
    assert stand_in.tally.requests == {"UPDATE_METADATA": 3}
