"""ISR changes by way of the controller (KIP-497): what each answer does to the partition (AlterPartitionManager)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kafkalite.broker.replication import isr_changes
from kafkalite.broker.replication.effects import IsrChange
from kafkalite.broker.replication.isr_changes import AlterPartitionSender
from kafkalite.broker.replication.partition import Partition
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.testing.simulation import virtual_time
from kafkalite.types import TopicPartition
from tests.unit.broker.fake_log import TP, FakeLog, assignment, make_partition

r = messages.alter_partition_response


class FakeController:
    """Stands where `ControllerChannel` is; `answers` are given one after the other, the last for ever."""

    def __init__(self, *answers: Callable[[Any], Any]) -> None:
        self.answers = list(answers)
        self.requests: list[tuple[Any, int | None, float]] = []

    async def request(self, message: Any, deadline_s: float | None = None, max_version: int | None = None) -> Any:
        self.requests.append((message, max_version, asyncio.get_running_loop().time()))
        await asyncio.sleep(0.01)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return answer(message)


def each_partition(code: ErrorCode = ErrorCode.NONE, partition_epoch: int = 1, **fields: Any) -> Callable[[Any], Any]:
    """The same answer for every partition of the request; what was asked for, unless it says otherwise."""

    def answer(request: Any) -> Any:
        return r.AlterPartitionResponse(
            topics=[
                r.TopicData(
                    topic_id=topic.topic_id,
                    topic_name=topic.topic_name if not any(topic.topic_id) else "",
                    partitions=[
                        r.PartitionData(
                            partition_index=asked.partition_index,
                            error_code=code,
                            leader_epoch=fields.get("leader_epoch", asked.leader_epoch),
                            isr=fields.get("isr", [each.broker_id for each in asked.new_isr_with_epochs]),
                            partition_epoch=partition_epoch,
                        )
                        for asked in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    return answer


def leader(topic_partition: TopicPartition = TP, topic_id: bytes = bytes(range(16))) -> tuple[Partition, IsrChange]:
    """A partition with a change that is due: 3 joins."""
    partition = make_partition(FakeLog(topic_id=topic_id), topic_partition=topic_partition)
    partition.become_leader(assignment(isr=(1, 2)), 0.0)
    change = partition.follower_fetched(3, 0, 0, 0.0, partition.followers[3].requester)
    assert change is not None
    return partition, change


def propose(
    controller: FakeController, *proposed: tuple[Partition, IsrChange], seconds: float = 1.0
) -> AlterPartitionSender:
    async def scenario() -> AlterPartitionSender:
        sender = AlterPartitionSender(1, lambda: 9, controller, lambda: 0.0)  # type: ignore[arg-type]
        for partition, change in proposed:
            sender.propose(partition, change)
        await asyncio.sleep(seconds)
        await sender.close()
        return sender

    return virtual_time.run(scenario())


def test_a_change_that_is_written_is_committed() -> None:
    controller, (partition, change) = FakeController(each_partition()), leader()
    sender = propose(controller, (partition, change))
    assert (partition.isr, partition.partition_epoch, partition.pending_change) == ((1, 2, 3), 1, None)
    assert (sender.expands, sender.shrinks) == (1, 0)
    ((request, max_version, _),) = controller.requests
    assert (request.broker_id, request.broker_epoch, max_version) == (1, 9, None)
    ((topic,),) = (request.topics,)
    assert (topic.topic_id, topic.partitions[0].leader_epoch) == (bytes(range(16)), 0)


def test_changes_that_wait_travel_together() -> None:
    controller = FakeController(each_partition())
    proposed = [leader(TopicPartition("t", index)) for index in range(3)]
    propose(controller, *proposed)
    assert all(partition.isr == (1, 2, 3) for partition, _ in proposed)
    ((request, _, _),) = controller.requests
    assert [asked.partition_index for asked in request.topics[0].partitions] == [0, 1, 2]


def test_thousands_of_changes_that_wait_were_one_request_that_held_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that must be tried again come behind the others, which would wait for them else."""
    monkeypatch.setattr(isr_changes, "_CHANGES_TOGETHER", 2)
    again = each_partition(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    controller = FakeController(again, each_partition())
    proposed = [leader(TopicPartition("t", index)) for index in range(5)]
    propose(controller, *proposed)
    asked = [[each.partition_index for each in request.topics[0].partitions] for request, _, _ in controller.requests]
    assert asked == [[0, 1], [2, 3], [4, 0], [1]]
    assert all(partition.isr == (1, 2, 3) for partition, _ in proposed)


def test_without_topic_ids_names_are_sent() -> None:
    controller = FakeController(each_partition())
    proposed = [leader(), leader(TopicPartition("old", 0), bytes(16))]
    controller.answers = [lambda request: _by_name(request)]
    propose(controller, *proposed)
    assert controller.requests[0][1] == 1
    assert all(partition.isr == (1, 2, 3) for partition, _ in proposed)


def _by_name(request: Any) -> Any:
    response = each_partition()(request)
    for topic, asked in zip(response.topics, request.topics, strict=True):
        topic.topic_id, topic.topic_name = bytes(16), asked.topic_name
    return response


@pytest.mark.parametrize("code", [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA])
def test_a_refused_change_may_be_proposed_again(code: ErrorCode) -> None:
    controller, (partition, change) = FakeController(each_partition(code)), leader()
    propose(controller, (partition, change))
    assert (partition.isr, partition.pending_change) == ((1, 2), None)
    assert len(controller.requests) == 1


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    ],
)
def test_with_an_old_view_the_change_stays_pending(code: ErrorCode) -> None:
    """The larger ISR may have been written, so it stays in force until the controller says how things are."""
    controller, (partition, change) = FakeController(each_partition(code)), leader()
    propose(controller, (partition, change))
    assert partition.pending_change is change
    assert partition.maximal_isr == (1, 2, 3)
    assert len(controller.requests) == 1


def _top_level(request: Any) -> Any:
    return r.AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)


def _empty(request: Any) -> Any:
    return r.AlterPartitionResponse()


@pytest.mark.parametrize(
    "first", [_top_level, _empty, each_partition(ErrorCode.UNKNOWN_SERVER_ERROR)], ids=["whole", "missing", "partition"]
)
def test_anything_else_is_tried_again_after_a_pause(first: Callable[[Any], Any]) -> None:
    controller, (partition, change) = FakeController(first, first, each_partition()), leader()
    propose(controller, (partition, change))
    assert partition.isr == (1, 2, 3)
    assert len(controller.requests) == 3
    times_s = [when for _, _, when in controller.requests]
    assert times_s[1] - times_s[0] >= 0.05


@pytest.mark.parametrize("fields", [{"leader_epoch": 5}, {"partition_epoch": -1}])
def test_an_answer_about_another_time_changes_nothing(fields: dict[str, int]) -> None:
    controller, (partition, change) = FakeController(each_partition(**fields)), leader()  # type: ignore[arg-type]
    sender = propose(controller, (partition, change))
    assert partition.isr == (1, 2)
    assert partition.pending_change is change
    assert (sender.expands, sender.shrinks) == (0, 0)


def test_a_change_that_a_leader_and_isr_overtook_is_not_sent() -> None:
    controller, (partition, change) = FakeController(each_partition()), leader()
    partition.become_leader(assignment(isr=(1, 2), leader_epoch=1, partition_epoch=1), 0.0)
    propose(controller, (partition, change))
    assert controller.requests == []


def test_a_shrink_counts_as_one() -> None:
    partition = make_partition()
    partition.become_leader(assignment(isr=(1, 2, 3)), 0.0)
    partition.append(b"", 1, 1.0, 1, 9)
    change = partition.shrink(1_000_000.0)
    assert change is not None and change.isr == (1,)
    sender = propose(FakeController(each_partition()), (partition, change))
    assert (sender.expands, sender.shrinks, partition.isr) == (0, 1, (1,))


def test_an_unexpected_error_left_an_isr_change_pending_for_ever() -> None:
    controller, (partition, change) = FakeController(each_partition()), leader()
    ask, failures = controller.request, 2

    async def stumble(*arguments: Any, **options: Any) -> Any:
        nonlocal failures
        if failures:
            failures -= 1
            raise ZeroDivisionError("a bug")
        return await ask(*arguments, **options)

    controller.request = stumble  # type: ignore[method-assign]

    async def scenario() -> int:
        sender = AlterPartitionSender(1, lambda: 9, controller, lambda: 0.0)  # type: ignore[arg-type]
        with virtual_time.expected_errors() as seen:
            sender.propose(partition, change)
            await asyncio.sleep(1)
        await sender.close()
        return seen.count

    assert virtual_time.run(scenario()) == 2
    assert (partition.isr, partition.pending_change) == ((1, 2, 3), None)
