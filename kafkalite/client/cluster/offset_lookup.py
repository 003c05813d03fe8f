"""Offsets by time: earliest, latest, or the first at or after a timestamp, asked of the leaders (ListOffsets)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, Literal

from kafkalite.client.cluster.client import ClusterClient
from kafkalite.client.cluster.retry import is_retriable
from kafkalite.client.cluster.view import PartitionView
from kafkalite.client.errors import ClientError, ClientTimeoutError, error_of
from kafkalite.client.offsets import OffsetAndTimestamp
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.types import NO_BROKER, TopicPartition, group_by_topic

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
"""The record with the largest timestamp (KIP-734)."""

IsolationLevel = Literal["read_uncommitted", "read_committed"]
_ISOLATION_LEVELS: Final[dict[IsolationLevel, int]] = {"read_uncommitted": 0, "read_committed": 1}

_CONSUMER_REPLICA_ID = -1

Known = Callable[[TopicPartition], PartitionView | None]
"""What is known of a partition: who leads it, in which epoch."""


def isolation_number(level: IsolationLevel) -> int:
    """Return an isolation level as requests have it: 0 for uncommitted, 1 for committed. ValueError for another name."""
    for name, number in _ISOLATION_LEVELS.items():
        if name == level:
            return number
    raise ValueError(f"isolation_level is {level!r}; it may be {', '.join(_ISOLATION_LEVELS)}")


async def list_offsets(
    cluster: ClusterClient,
    wanted: Mapping[TopicPartition, int],
    isolation_level: int,
    timeout_s: float,
    known: Known | None = None,
) -> dict[TopicPartition, OffsetAndTimestamp | None]:
    """Return for each partition the offset at its timestamp in `wanted` (ms, or LATEST, EARLIEST, MAX_TIMESTAMP).

    None where no record is that young. Waits for leaders up to `timeout_s`, then raises ClientTimeoutError with the last
    problem, or ClientError UNKNOWN_TOPIC_OR_PARTITION if that was the problem all the time: a broker that has just started knows no topic
    yet. An answer that no retry can change raises its ClientError at once. With `known` the cluster's view has these topics only
    when some leader was another.
    """
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + timeout_s
    found: dict[TopicPartition, OffsetAndTimestamp | None] = {}
    problem: Exception | None = None
    failures = 0
    is_missing = True
    if known is None:
        known = _in_the_view(cluster)
        cluster.watch_topics({each.topic for each in wanted})
        if any(known(each) is None for each in wanted):
            await cluster.try_refresh()
    while True:
        missing = {each: timestamp for each, timestamp in wanted.items() if each not in found}
        if not missing:
            return found
        round_problem = await _one_round(cluster, known, missing, isolation_level, found)
        if round_problem is None:
            continue
        problem = round_problem
        failures += 1
        is_missing &= isinstance(problem, ClientError) and problem.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        delay_s = cluster.retry.delay_ms(failures, cluster.chance()) / 1000
        if loop.time() + delay_s >= deadline_s:
            if is_missing:
                raise problem
            raise ClientTimeoutError(f"no offsets within {timeout_s:g} s: {problem}") from problem
        await asyncio.sleep(delay_s)
        known = _in_the_view(cluster)
        cluster.watch_topics({each.topic for each in missing})
        await cluster.try_refresh()


def _in_the_view(cluster: ClusterClient) -> Known:
    return lambda each: cluster.view.partition(each)


async def _one_round(
    cluster: ClusterClient,
    known: Known,
    missing: Mapping[TopicPartition, int],
    isolation_level: int,
    found: dict[TopicPartition, OffsetAndTimestamp | None],
) -> Exception | None:
    """Ask every leader once; fills `found`. The last problem that a retry may cure, or None when all are found; others are raised."""
    by_leader: dict[int, dict[TopicPartition, int]] = {}
    for topic_partition, timestamp in missing.items():
        leader = partition.leader if (partition := known(topic_partition)) is not None else NO_BROKER
        by_leader.setdefault(leader if leader in cluster.view.brokers else NO_BROKER, {})[topic_partition] = timestamp
    problem: Exception | None = None
    leaderless = by_leader.pop(NO_BROKER, None)
    if leaderless:
        problem = _why_leaderless(cluster, known, next(iter(leaderless)))
    questions = [_ask(cluster, known, leader, asked, isolation_level, found) for leader, asked in by_leader.items()]
    for outcome in await asyncio.gather(*questions, return_exceptions=True):
        if isinstance(outcome, BaseException):
            if not isinstance(outcome, Exception) or not is_retriable(outcome):
                raise outcome
            problem = outcome
        elif outcome is not None:
            problem = outcome
    if problem is None:
        lacking = next((each for each in missing if each not in found), None)
        if lacking is not None:
            problem = ClientError(ErrorCode.UNKNOWN_SERVER_ERROR, f"offsets of {lacking}: the answer lacks it")
    return problem


def _why_leaderless(cluster: ClusterClient, known: Known, topic_partition: TopicPartition) -> ClientError:
    code = cluster.view.topic_errors.get(topic_partition.topic, 0)
    if not code and known(topic_partition) is None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return error_of(code or ErrorCode.LEADER_NOT_AVAILABLE, str(topic_partition))


async def _ask(
    cluster: ClusterClient,
    known: Known,
    leader: int,
    asked: Mapping[TopicPartition, int],
    isolation_level: int,
    found: dict[TopicPartition, OffsetAndTimestamp | None],
) -> Exception | None:
    m = messages.list_offsets_request
    epochs = {each: view.leader_epoch if (view := known(each)) is not None else -1 for each in asked}
    topics = group_by_topic(
        (
            each.topic,
            m.ListOffsetsPartition(
                partition_index=each.partition, current_leader_epoch=epochs[each], timestamp=timestamp
            ),
        )
        for each, timestamp in asked.items()
    )
    request = m.ListOffsetsRequest(
        replica_id=_CONSUMER_REPLICA_ID,
        isolation_level=isolation_level,
        topics=[m.ListOffsetsTopic(name=name, partitions=each) for name, each in topics.items()],
    )
    response = await cluster.request(leader, request)
    problem: Exception | None = None
    for topic in response.topics:
        for answer in topic.partitions:
            topic_partition = TopicPartition(topic.name, answer.partition_index)
            if topic_partition not in asked:
                continue
            if answer.error_code:
                error = error_of(answer.error_code, f"offsets of {topic_partition}")
                if not error.retriable:
                    raise error
                problem = error
            elif answer.offset < 0:
                found[topic_partition] = None
            else:
                found[topic_partition] = OffsetAndTimestamp(answer.offset, answer.timestamp, answer.leader_epoch)
    return problem
