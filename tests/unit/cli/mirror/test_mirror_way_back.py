"""What the way back does when answers are lost, leaders move and somebody else has changed one side; both clusters are in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from kafkalite.cli.mirror.back.deleted_records import Starts
from kafkalite.cli.mirror.back.way_back import WayBack
from kafkalite.cli.mirror.clusters import Clusters
from kafkalite.cli.mirror.plan import KnownTopic, MirroredTopic
from kafkalite.client import ConfigResource, OffsetAndMetadata
from kafkalite.client.cluster.view import BrokerNode, ClusterView, PartitionView, TopicView
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol import messages
from kafkalite.protocol.record_batches.records import (
    BatchHeader,
    NewRecord,
    build_batch,
    iter_batches,
    set_offset_and_epoch_in_place,
)
from kafkalite.storage.log.append_checks import adopt_copy
from kafkalite.types import TopicPartition, topic_id_to_text

T0 = TopicPartition("t", 0)
SOURCE_ID, TARGET_ID = b"s" * 16, b"t" * 16
KNOWN = {"t": KnownTopic(topic_id_to_text(SOURCE_ID), topic_id_to_text(TARGET_ID))}
EPOCHS = {SOURCE_ID: 3, TARGET_ID: 9}


def batch(offset: int, value: bytes = b"v", count: int = 1, epoch: int = 9) -> bytes:
    made = build_batch([NewRecord(None, value, 1000)] * count)
    set_offset_and_epoch_in_place(made, 0, offset, epoch)
    return bytes(made)


def header_of(records: bytes | bytearray) -> BatchHeader:
    return next(iter_batches(records))


class Cluster:
    """A cluster with one broker and partition 0 of topic "t"; it is the cluster client and the admin in one."""

    def __init__(self, topic_id: bytes, *batches: bytes, start: int = 0) -> None:
        self.topic_id, self.batches, self.start = topic_id, list(batches), start
        self.partitions, self.stable = 1, -1
        self.absence, self.refusals = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, dict[str, ErrorCode]()
        """What is said of topics that are not listed, and of some of them."""
        self.topics = ["t", "other"] if topic_id == TARGET_ID else ["t"]
        self.failures: list[Any] = []
        """What happens at the next appends: an error code, or an exception after the append."""
        self.committed: dict[TopicPartition, OffsetAndMetadata] = {}
        """Of the only group."""
        self.used_up = 0
        self.highest_producer_id = -1
        partition = PartitionView("t", 0, 5, EPOCHS[topic_id], (5,), (5,))
        topics = {"t": TopicView("t", topic_id, False, {0: partition})}
        self.view = ClusterView(brokers={5: BrokerNode(5, "h", 1)}, topics=topics)

    @property
    def end(self) -> int:
        if not self.batches:
            return self.start
        return max(self.start, max(each.next_offset for each in iter_batches(b"".join(self.batches))))

    # As a cluster client

    def watch_topics(self, topics: Any) -> None:
        pass

    async def refresh(self) -> None:
        pass

    async def request_any(self, request: messages.MetadataRequest) -> messages.MetadataResponse:
        topic = messages.metadata_response.MetadataResponseTopic
        codes = {each.name: self.refusals.get(each.name or "", self.absence) for each in request.topics or ()}
        return messages.MetadataResponse(topics=[topic(error_code=code, name=name) for name, code in codes.items()])

    async def request(self, broker: int, request: Any) -> Any:
        if isinstance(request, messages.InitProducerIdRequest):
            self.used_up += 1
            return messages.InitProducerIdResponse(producer_id=self.used_up)
        assert (broker, request.topics[0].topic_id) == (5, self.topic_id)
        offset = request.topics[0].partitions[0].fetch_offset
        answer = messages.fetch_response.PartitionData(high_watermark=self.end, records=b"")
        if not self.start <= offset <= self.end:
            answer.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        else:
            answer.records = next((each for each in self.batches if header_of(each).last_offset >= offset), b"")
        topic = messages.fetch_response.FetchableTopicResponse(topic_id=self.topic_id, partitions=[answer])
        return messages.FetchResponse(responses=[topic])

    async def connection(self, broker: int) -> Any:
        return SimpleNamespace(request=self._append)

    async def _append(self, request: messages.CopyRecordsRequest, version: int, timeout_s: float) -> Any:
        failure = self.failures.pop(0) if self.failures else None
        if isinstance(failure, int):
            return messages.CopyRecordsResponse(error_code=failure)
        records = bytearray(request.records or b"")
        try:
            adopt_copy(records, self.end, request.log_end_offset, EPOCHS[self.topic_id])
        except KafkaError as problem:
            return messages.CopyRecordsResponse(error_code=problem.code, log_end_offset=self.end)
        self.batches += [bytes(records[each.position : each.end]) for each in iter_batches(records)]
        if failure is not None:
            raise failure
        return messages.CopyRecordsResponse(log_end_offset=self.end)

    # As an admin

    async def delete_records(self, offsets: dict[TopicPartition, int]) -> None:
        assert self.start < offsets[T0] <= self.end, "Kafka refuses others"
        self.start = offsets[T0]

    async def list_topics(self, include_internal: bool = False) -> list[str]:
        return self.topics

    async def describe_topics(self, names: list[str]) -> list[Any]:
        views = tuple(PartitionView("t", each, 5, 0, (5,), (5,)) for each in range(self.partitions))
        topic_id = topic_id_to_text(self.topic_id)
        return [SimpleNamespace(name=each, topic_id=topic_id, partitions=views) for each in names]

    async def describe_resource_configs(self, resources: list[ConfigResource]) -> Any:
        return {each: {} for each in resources}

    async def list_offsets(self, asked: dict[TopicPartition, str], isolation_level: str = "") -> Any:
        def find(what: str) -> int:
            if what == "earliest":
                return self.start
            return self.stable if isolation_level == "read_committed" and self.stable >= 0 else self.end

        return {place: SimpleNamespace(offset=find(what)) for place, what in asked.items()}

    async def list_groups(self) -> list[Any]:
        return [SimpleNamespace(group_id="g")] if self.committed else []

    async def list_group_offsets(self, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
        return self.committed

    async def alter_group_offsets(self, group: str, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        self.committed = self.committed | offsets

    async def describe_producers(self, places: Any) -> Any:
        return {T0: [SimpleNamespace(producer_id=self.highest_producer_id)]}


def way_between(source: Cluster, target: Cluster, known: Mapping[str, KnownTopic] = KNOWN) -> WayBack:
    sides: Any = Clusters(source, source, target, target)  # type: ignore[arg-type]
    return WayBack(sides, known)


def copy(source: Cluster, target: Cluster, rounds: int = 1) -> list[str]:
    """What is in the way after so many rounds."""

    async def play() -> list[str]:
        way = way_between(source, target)
        for _ in range(rounds):
            problems = await way.copy_once()
        return problems + way.behind

    return asyncio.run(play())


def with_epoch(batches: list[bytes]) -> list[bytes]:
    """As the source's leader has them."""
    made = [bytearray(each) for each in batches]
    for each in made:
        set_offset_and_epoch_in_place(each, 0, header_of(each).base_offset, EPOCHS[SOURCE_ID])
    return [bytes(each) for each in made]


def test_what_the_target_has_more_is_appended_with_its_gaps() -> None:
    target = Cluster(TARGET_ID, batch(0), batch(1), batch(5, count=2), batch(9))
    source = Cluster(SOURCE_ID, batch(0, epoch=1))
    assert copy(source, target) == []
    assert source.batches == [batch(0, epoch=1), *with_epoch(target.batches[1:])]
    assert copy(source, target) == [] and len(source.batches) == 4, "and nothing twice"


def test_an_append_whose_response_is_lost_is_not_made_twice() -> None:
    target, source = Cluster(TARGET_ID, batch(0), batch(1)), Cluster(SOURCE_ID)
    source.failures = [ConnectionError("lost")]
    assert "lost" in copy(source, target)[0]
    assert copy(source, target) == [] and source.batches == with_epoch(target.batches)


def test_errors_of_the_source_are_named_and_tried_again() -> None:
    target, source = Cluster(TARGET_ID, batch(0)), Cluster(SOURCE_ID)
    source.failures = [int(ErrorCode.NOT_LEADER_OR_FOLLOWER), int(ErrorCode.NOT_ENOUGH_REPLICAS)]
    assert "t-0: appending at offset 0" in copy(source, target)[0]
    assert copy(source, target, rounds=2) == [] and source.end == 1


def test_records_that_somebody_else_has_written_to_the_source_are_found() -> None:
    target = Cluster(TARGET_ID, batch(0), batch(1))
    for source in (Cluster(SOURCE_ID, batch(0, b"w")), Cluster(SOURCE_ID, batch(0), batch(1, b"w"))):
        before = list(source.batches)
        (problem,) = copy(source, target)
        assert "different records" in problem and source.batches == before
    (problem,) = copy(Cluster(SOURCE_ID, batch(0), batch(1), batch(2)), target)
    assert "records of its own" in problem


def test_records_of_others_are_found_though_the_target_got_more_since() -> None:
    target, source = Cluster(TARGET_ID, batch(0)), Cluster(SOURCE_ID)

    async def play() -> list[str]:
        way = way_between(source, target)
        assert await way.copy_once() == [] and not way.behind
        source.batches.append(batch(1, b"w"))
        target.batches += [batch(1), batch(2), batch(3)]
        return await way.copy_once() + await way.copy_once()

    problems = asyncio.run(play())
    assert len(problems) == 2 and all("different records at offset 1" in each for each in problems)
    assert source.end == 2, "nothing is appended behind them"


def test_offsets_of_groups_go_back_without_leader_epochs_where_the_records_are_the_same() -> None:
    target, source = Cluster(TARGET_ID, batch(0), batch(1)), Cluster(SOURCE_ID)
    target.committed = {T0: OffsetAndMetadata(2, "note", leader_epoch=9)}
    assert copy(source, target) == []
    assert source.committed == {T0: OffsetAndMetadata(2, "note")}, "the source's leader is of epoch 3"


def test_offsets_of_a_partition_that_clients_have_returned_to_are_left_alone() -> None:
    target, source = Cluster(TARGET_ID, batch(0)), Cluster(SOURCE_ID, batch(0), batch(1))
    target.committed, source.committed = {T0: OffsetAndMetadata(1)}, {T0: OffsetAndMetadata(2)}
    assert "records of its own" in copy(source, target)[0]
    assert source.committed == {T0: OffsetAndMetadata(2)}


def test_a_target_that_begins_behind_the_end_of_the_source_is_named() -> None:
    target = Cluster(TARGET_ID, batch(8), start=8)
    (problem,) = copy(Cluster(SOURCE_ID, batch(0)), target)
    assert "nothing is left at offset 0 to be compared" in problem
    source = Cluster(SOURCE_ID, start=8)
    assert copy(source, target) == [] and source.end == 9, "all that was before is deleted on both sides"


def test_an_empty_source_begins_where_the_target_does() -> None:
    target, source = Cluster(TARGET_ID, batch(8), batch(9), start=8), Cluster(SOURCE_ID)
    assert copy(source, target) == []
    assert (source.start, source.end) == (8, 10) and source.batches[1:] == with_epoch(target.batches)
    within, source = Cluster(TARGET_ID, batch(5, count=4), batch(9), start=7), Cluster(SOURCE_ID)
    assert copy(source, within) == []
    assert (source.start, source.end) == (7, 10) and with_epoch(within.batches) == source.batches[1:]
    first, source = Cluster(TARGET_ID, batch(0, count=4), batch(4), start=2), Cluster(SOURCE_ID)
    assert copy(source, first) == [] and source.batches == with_epoch(first.batches)
    empty, source = Cluster(TARGET_ID, start=8), Cluster(SOURCE_ID)
    assert copy(source, empty) == [] and (source.start, source.end) == (8, 8), "all records are deleted in the target"
    empty.batches.append(batch(8))
    assert copy(source, empty) == [] and source.end == 9


def test_a_start_that_was_interrupted_goes_on_without_the_deletion() -> None:
    target, source = Cluster(TARGET_ID, batch(8), start=8), Cluster(SOURCE_ID)
    source.failures = [ConnectionError("lost")]
    assert "lost" in copy(source, target)[0]
    assert copy(source, target) == [] and source.end == 9


def test_topics_of_another_id_and_partitions_of_the_source_alone_are_named() -> None:
    made_again = Cluster(TARGET_ID)
    made_again.topic_id = b"x" * 16
    assert "deleted in the target and made again" in copy(Cluster(SOURCE_ID), made_again)[0]
    source = Cluster(SOURCE_ID)
    source.partitions = 2
    assert "topic t has got more partitions in the source" in copy(source, Cluster(TARGET_ID))[0]


def judge(source: dict[str, bytes], target: dict[str, bytes], **changes: Any) -> str:
    """Return what the way back says of a topic with these ids; `changes` are those of what is known of it."""

    def describe(side: dict[str, bytes]) -> Any:
        return {name: MirroredTopic(name, topic_id_to_text(each), ()) for name, each in side.items()}

    way = way_between(Cluster(SOURCE_ID), Cluster(TARGET_ID), {"t": replace(KNOWN["t"], **changes)})
    return way._judge_topic("t", describe(source), describe(target))


def test_a_topic_that_one_side_has_lost_is_named_until_the_other_has_deleted_it() -> None:
    source, target, other = {"t": SOURCE_ID}, {"t": TARGET_ID}, {"t": b"x" * 16}
    assert judge(source, target) == ""
    for sides in ((source, target), ({}, target), (source, {}), (other, other)):
        assert judge(*sides, source_id="", is_unconfirmed=True) == "", "nothing of the source is its own"
    for there in ({}, other):
        assert "delete it in the source" in judge(source, there)
        assert judge({}, there) == ""
    assert "delete it in the source" in judge(other, target)
    assert "delete it in the target, or keep it there and return once nothing else" in judge({}, target)


def test_a_topic_that_is_not_copied_does_not_keep_others_from_it() -> None:
    target, source = Cluster(TARGET_ID, batch(0)), Cluster(SOURCE_ID)
    source.topics = ["t", "gone"]
    target.highest_producer_id = 3
    known = {"gone": KnownTopic(topic_id_to_text(SOURCE_ID), topic_id_to_text(TARGET_ID)), **KNOWN}
    way = way_between(source, target, known)
    (problem,) = asyncio.run(way.copy_once())
    assert (
        "topic gone is not in the target any more: delete it in the source, or call this with --delete-topics"
        in problem
    )
    assert source.end == 1 and source.used_up >= 3


def test_a_topic_that_may_be_of_somebody_else_or_is_left_is_not_copied() -> None:
    for known, left in (({"t": replace(KNOWN["t"], source_id="", is_unconfirmed=True)}, ""), (KNOWN, "t")):
        target, source = Cluster(TARGET_ID, batch(0)), Cluster(SOURCE_ID)
        way = way_between(source, target, known)
        way._is_left = left.__eq__
        assert asyncio.run(way.copy_once()) == [] and source.batches == []


def test_a_topic_that_is_not_shown_is_not_taken_for_a_deleted_one() -> None:
    for hides_source in (True, False):
        target, source = Cluster(TARGET_ID, batch(0)), Cluster(SOURCE_ID)
        side = source if hides_source else target
        side.topics, side.refusals = [], {"t": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
        (problem,) = copy(source, target)
        assert f"topic t is not shown by the {'source' if hides_source else 'target'}, which may have it" in problem
        assert "delete" not in problem and source.batches == []
        side.refusals = {"t": ErrorCode.LEADER_NOT_AVAILABLE}
        assert "may be there (LEADER_NOT_AVAILABLE): it is asked again" in copy(source, target)[0]


def copy_and_delete(source: Cluster, target: Cluster) -> tuple[list[str], Starts]:
    """What is in the way after deletions that somebody has agreed to, and which starts still differ."""

    async def play() -> tuple[list[str], Starts]:
        way = way_between(source, target)
        way.deletes = await way.find_moved_starts()
        problems = await way.copy_once()
        return problems + way.behind, await way.find_moved_starts()

    return asyncio.run(play())


def test_records_that_were_deleted_in_the_target_are_deleted_with_consent_alone() -> None:
    target = Cluster(TARGET_ID, batch(0), batch(1), batch(2), start=1)
    source = Cluster(SOURCE_ID, batch(0), batch(1))
    assert copy(source, target) == [] and (source.start, source.end) == (0, 3)
    assert asyncio.run(way_between(source, target).find_moved_starts()) == {T0: (0, 1)}
    assert copy_and_delete(source, target) == ([], {}) and (source.start, source.end) == (1, 3)
    source.start = 2
    assert copy_and_delete(source, target) == ([], {}) and source.start == 2, "it may have less"


def test_a_source_whose_end_is_deleted_in_the_target_goes_on_there_with_consent() -> None:
    for batches, end in (((batch(8), batch(9)), 10), ((), 8)):
        target = Cluster(TARGET_ID, *batches, start=8)
        source = Cluster(SOURCE_ID, batch(0), batch(1))
        assert "nothing is left at offset 1 to be compared" in copy(source, target)[0]
        assert copy_and_delete(source, target) == ([], {}) and (source.start, source.end) == (8, end)
        assert source.batches[3:] == with_epoch(list(batches))
        assert copy(source, target) == []


def test_an_open_transaction_keeps_the_source_from_being_level() -> None:
    target = Cluster(TARGET_ID, batch(0))
    target.stable = 0
    source = Cluster(SOURCE_ID)
    assert copy(source, target) == ["t-0: a transaction is open in the target since offset 0"]
    assert source.end == 1, "its records are copied all the same"


def test_producer_ids_of_the_target_are_used_up_in_the_source() -> None:
    target, source = Cluster(TARGET_ID, batch(0)), Cluster(SOURCE_ID)
    target.highest_producer_id = 250
    assert copy(source, target) == [] and source.used_up >= 250
