"""Every replica's copy is read to the end of its span, or it is said why not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kafkalite.cli.migrate.evidence import CopyDigest, Span, UnreadCopy
from kafkalite.cli.migrate.replica_reader import read_copies
from kafkalite.client.cluster.view import PartitionView
from kafkalite.errors import ErrorCode
from kafkalite.net.connection import Connection
from kafkalite.protocol import messages
from kafkalite.protocol.record_batches.records import NewRecord, build_batch
from kafkalite.types import TopicPartition

T0 = TopicPartition("t", 0)
BATCHES = [bytes(build_batch([NewRecord(None, b"%d" % each, 0)] * 2, base_offset=2 * each)) for each in range(3)]
Answer = Callable[[Any], Any]


def fetched(data: bytes = b"", error: ErrorCode = ErrorCode.NONE) -> Any:
    m = messages.fetch_response
    aborted = [m.AbortedTransaction(producer_id=7, first_offset=1), m.AbortedTransaction(producer_id=8, first_offset=5)]
    some = m.PartitionData(partition_index=0, error_code=error, records=data, aborted_transactions=aborted)
    return m.FetchResponse(responses=[m.FetchableTopicResponse(topic="t", partitions=[some])])


def whole(request: Any) -> Any:
    """The batch that holds the offset."""
    return fetched(BATCHES[request.topics[0].partitions[0].fetch_offset // 2])


class Brokers:
    """Brokers 1, 2, … whose fetches are answered by these functions; replica 9 is not in sync."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: Answer, version: int = 12) -> None:
        self.answers = dict(enumerate(answers, 1))
        self.version = version
        self.requests: list[Any] = []
        monkeypatch.setattr(Connection, "open", self.open)

    async def open(self, host: str, port: int, **options: Any) -> Any:
        if (answer := self.answers.get(port)) is None:
            raise ConnectionError("refused")

        async def request(message: Any, version: int, timeout_s: float) -> Any:
            self.requests.append(message)
            return answer(message)

        async def negotiate(timeout_s: float) -> None: ...

        return SimpleNamespace(
            negotiate=negotiate, request=request, version_of=lambda key: self.version, close=lambda: None
        )

    async def describe_cluster(self) -> Any:
        return SimpleNamespace(brokers=[SimpleNamespace(id=each, host="h", port=each) for each in range(1, 4)])

    async def describe_topics(self, names: list[str]) -> Any:
        isr = tuple(range(1, 4))
        return [SimpleNamespace(partitions=[PartitionView("t", 0, 1, replicas=(*self.answers, 9), isr=isr)])]

    def read(self, timeout_s: float = 5.0) -> tuple[list[CopyDigest], list[UnreadCopy]]:
        return asyncio.run(read_copies(self, {T0: Span(1, 6, 4)}, {}, timeout_s))  # type: ignore[arg-type]


def test_copies_are_read_from_followers_too_whatever_they_are_sent_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    held = [fetched(), fetched(error=ErrorCode.NOT_LEADER_OR_FOLLOWER)]

    def late(request: Any) -> Any:
        return held.pop() if held else fetched(b"".join(BATCHES))

    brokers = Brokers(monkeypatch, whole, late)
    copies, unread = brokers.read()
    assert [(each.broker, each.batches, each.aborted) for each in copies] == [(1, 3, 1), (2, 3, 1)]
    assert copies[0].digest == copies[1].digest
    assert unread == [UnreadCopy("t", 0, 9, "it is not in sync")]
    levels = [each.isolation_level for each in brokers.requests if each.topics[0].partitions[0].fetch_offset < 4]
    assert set(levels) == {1} and {each.replica_id for each in brokers.requests} == {-1}


def test_old_followers_serve_the_verification_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers(monkeypatch, whole, version=7)
    assert [each.batches for each in brokers.read()[0]] == [3]
    assert {each.replica_id for each in brokers.requests} == {-2}


@pytest.mark.parametrize(
    ("answer", "why", "is_lacking"),
    [
        (lambda request: fetched(error=ErrorCode.OFFSET_OUT_OF_RANGE), "OFFSET_OUT_OF_RANGE", True),
        (lambda request: fetched(error=ErrorCode.NOT_LEADER_OR_FOLLOWER), "NOT_LEADER_OR_FOLLOWER", False),
        (lambda request: fetched(), "nothing from offset 1 on", True),
    ],
)
def test_a_copy_that_cannot_be_read_is_told(
    monkeypatch: pytest.MonkeyPatch, answer: Answer, why: str, is_lacking: bool
) -> None:
    copies, unread = Brokers(monkeypatch, whole, answer).read(timeout_s=0.2)
    assert [each.broker for each in copies] == [1]
    assert UnreadCopy("t", 0, 2, why, is_lacking) in unread


def test_a_broker_that_cannot_be_reached_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers(monkeypatch, whole, whole)
    del brokers.answers[2]
    brokers.answers[3] = whole
    monkeypatch.setattr(brokers, "describe_topics", lambda names: _topics((1, 2, 3)))
    copies, unread = brokers.read()
    assert [each.broker for each in copies] == [1, 3] and unread == [UnreadCopy("t", 0, 2, "refused")]


async def _topics(replicas: tuple[int, ...]) -> Any:
    return [SimpleNamespace(partitions=[PartitionView("t", 0, 1, replicas=replicas, isr=replicas)])]
