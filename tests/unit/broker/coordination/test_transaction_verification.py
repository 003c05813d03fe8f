"""Which coordinator is asked about transactions, how often, and what becomes of its answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from kafkalite.broker.coordination.transaction_verification import Producer, Refusals, TransactionVerifier
from kafkalite.broker.metadata_cache import MetadataCache
from kafkalite.config.broker import BrokerConfig, LiveConfig
from kafkalite.controller.control_requests import LiveBroker
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol import messages
from kafkalite.testing.simulation import virtual_time
from kafkalite.types import TRANSACTIONS_TOPIC, Endpoint, TopicPartition
from tests.unit.broker.memory_parts import know

P = [TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)]
WHO = Producer("x", 7, 3)


class Peer:
    """A connection to broker 2, which answers when `go` is set, with `codes` for the partitions and `whole` for the request."""

    def __init__(self) -> None:
        self.host, self.port, self.closed, self.version = "host2", 9092, False, 5
        self.requests: list[Any] = []
        self.go = asyncio.Event()
        self.go.set()
        self.codes: dict[TopicPartition, int] = {}
        self.whole = 0
        self.failure: Exception | None = None

    def version_of(self, api_key: int) -> int:
        return self.version

    async def request(self, request: Any, version: int, timeout_s: float) -> Any:
        self.requests.append(request)
        await self.go.wait()
        if self.failure is not None:
            raise self.failure
        m = messages.add_partitions_to_txn_response
        return m.AddPartitionsToTxnResponse(
            error_code=self.whole,
            results_by_transaction=[
                m.AddPartitionsToTxnResult(
                    transactional_id=each.transactional_id,
                    topic_results=[
                        m.AddPartitionsToTxnTopicResult(
                            name=topic.name,
                            results_by_partition=[
                                m.AddPartitionsToTxnPartitionResult(
                                    partition_index=index,
                                    partition_error_code=self.codes.get(TopicPartition(topic.name, index), 0),
                                )
                                for index in topic.partitions
                            ],
                        )
                        for topic in each.topics
                    ],
                )
                for each in request.transactions
            ],
        )


@dataclass
class Machine:
    """A coordinator's machine that has one answer for everybody."""

    answer: Any

    def verify(self, *_: object) -> Any:
        return self.answer


class Coordinators:
    """The runtime of this broker, whose machine has `answer` for everybody."""

    def __init__(self) -> None:
        self.answer: Any = {}

    def partition_for(self, transactional_id: str) -> int:
        return 0

    def machine_for(self, transactional_id: str) -> Any:
        if isinstance(self.answer, KafkaError):
            raise self.answer
        return Machine(self.answer)


class Site:
    """Broker 1, which asks `peer` when `leader` coordinates."""

    def __init__(self, leader: int = 2) -> None:
        config = BrokerConfig.from_properties({"zookeeper.connect": "unused", "broker.id": "1"}, {})
        metadata = MetadataCache()
        metadata.brokers = {2: LiveBroker(2, {"PLAINTEXT": Endpoint("PLAINTEXT", "host2", 9092)})}
        know(metadata, TopicPartition(TRANSACTIONS_TOPIC, 0), leader=leader)
        self.metadata, self.coordinators, self.peer = metadata, Coordinators(), Peer()
        self.verifier = TransactionVerifier(
            1,
            LiveConfig(config),
            metadata,
            self.coordinators,  # type: ignore[arg-type]
            lambda coroutine, name: asyncio.ensure_future(coroutine),
        )

        async def connected(*_: Any) -> Peer:
            return self.peer

        self.verifier._connect_to = connected  # type: ignore[method-assign,assignment]

    async def verify(self, *partitions: TopicPartition, who: Producer = WHO) -> Refusals:
        answer = self.verifier.verify(who, partitions or P)
        return await answer if isinstance(answer, asyncio.Future) else answer


def play(scenario: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        await scenario()

    virtual_time.run(run())


def test_a_coordinator_on_this_broker_is_asked_at_once() -> None:
    async def scenario() -> None:
        site = Site(leader=1)
        site.coordinators.answer = {"t": frozenset({0, 1}), "u": frozenset({0})}
        assert site.verifier.verify(WHO, P) == {}
        site.coordinators.answer = {"t": frozenset({1}), "u": frozenset()}
        assert site.verifier.verify(WHO, P) == dict.fromkeys([P[0], P[2]], ErrorCode.TRANSACTION_ABORTABLE)
        site.coordinators.answer = ErrorCode.PRODUCER_FENCED
        assert await site.verify(P[0]) == {P[0]: ErrorCode.INVALID_PRODUCER_EPOCH}
        site.coordinators.answer = KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        assert await site.verify(P[0]) == {P[0]: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}

    play(scenario)


def test_another_one_is_asked_with_verify_only() -> None:
    async def scenario() -> None:
        site = Site()
        site.peer.codes = {P[1]: ErrorCode.TRANSACTION_ABORTABLE, P[2]: ErrorCode.PRODUCER_FENCED}
        assert await site.verify() == {
            P[1]: ErrorCode.TRANSACTION_ABORTABLE,
            P[2]: ErrorCode.INVALID_PRODUCER_EPOCH,
        }
        (asked,) = site.peer.requests[0].transactions
        assert (asked.transactional_id, asked.producer_id, asked.producer_epoch, asked.verify_only) == (*WHO, True)
        assert [(topic.name, topic.partitions) for topic in asked.topics] == [("t", [0, 1]), ("u", [0])]

    play(scenario)


def test_what_comes_together_goes_together() -> None:
    """One request at a time; meanwhile others gather, those of one transaction as one question."""

    async def scenario() -> None:
        site = Site()
        site.peer.go.clear()
        first = asyncio.ensure_future(site.verify(P[0]))
        await asyncio.sleep(0.1)
        others = [
            asyncio.ensure_future(site.verify(partition, who=who))
            for partition, who in ((P[1], WHO), (P[2], WHO), (P[0], Producer("y", 8, 0)))
        ]
        await asyncio.sleep(0.1)
        site.peer.codes = {P[2]: ErrorCode.TRANSACTION_ABORTABLE}
        site.peer.go.set()
        assert await first == {}
        found = await asyncio.gather(*others)
        assert [P[2] in each for each in found] == [True, True, False]
        assert [len(request.transactions) for request in site.peer.requests] == [1, 2]

    play(scenario)


def test_of_two_epochs_the_newer_one_is_asked_about() -> None:
    async def scenario() -> None:
        site = Site()
        older = asyncio.ensure_future(site.verify(P[0]))
        newer = asyncio.ensure_future(site.verify(P[0], who=WHO._replace(producer_epoch=4)))
        oldest = asyncio.ensure_future(site.verify(P[0], who=WHO._replace(producer_epoch=2)))
        assert await older == await oldest == {P[0]: ErrorCode.INVALID_PRODUCER_EPOCH}
        assert await newer == {}
        assert [each.producer_epoch for each in site.peer.requests[0].transactions] == [4]

    play(scenario)


@pytest.mark.parametrize(
    ("failure", "whole", "code"),
    [
        (ConnectionError("gone"), 0, ErrorCode.NETWORK_EXCEPTION),
        (TimeoutError("late"), 0, ErrorCode.NETWORK_EXCEPTION),
        (None, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.INVALID_TXN_STATE),
        (None, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_when_there_is_no_answer(failure: Exception | None, whole: int, code: ErrorCode) -> None:
    async def scenario() -> None:
        site = Site()
        site.peer.failure, site.peer.whole = failure, whole
        assert await site.verify(P[0]) == {P[0]: code}

    play(scenario)


def test_a_coordinator_that_does_not_answer_is_left_alone_for_longer_and_longer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "kafkalite.broker.coordination.transaction_verification")

    async def scenario() -> None:
        site = Site()
        site.peer.failure = ConnectionError("gone")
        for _ in range(100):
            assert await site.verify(P[0]) == {P[0]: ErrorCode.NETWORK_EXCEPTION}
            await asyncio.sleep(0.1)  # as producers come again
        assert 10 <= len(site.peer.requests) <= 20, "in ten seconds"
        site.peer.failure = None
        await asyncio.sleep(1)
        assert await site.verify(P[0]) == {}

    play(scenario)
    silent, back = (each.getMessage() for each in caplog.records)
    assert silent == "broker 2 does not verify transactions: gone; it is asked again and again"
    assert back.startswith("broker 2 verifies transactions again, after 1")


def test_who_waits_for_a_coordinator_that_failed_hears_of_it_at_once() -> None:
    async def scenario() -> None:
        site = Site()
        site.peer.failure = ConnectionError("gone")
        site.peer.go.clear()
        first = asyncio.ensure_future(site.verify(P[0]))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(site.verify(P[0], who=Producer("y", 8, 0)))
        await asyncio.sleep(0.01)
        site.peer.go.set()
        assert await first == await second == {P[0]: ErrorCode.NETWORK_EXCEPTION}
        assert len(site.peer.requests) == 1

    play(scenario)


def test_an_older_broker_is_not_asked() -> None:
    async def scenario() -> None:
        site = Site()
        site.peer.version = 3
        assert await site.verify() == {} and site.peer.requests == []

    play(scenario)


def test_nobody_coordinates() -> None:
    async def scenario() -> None:
        site = Site(leader=3)
        expected = {P[0]: ErrorCode.COORDINATOR_NOT_AVAILABLE}
        assert await site.verify(P[0]) == expected, "its broker is not alive"
        site.metadata.topics.clear()
        assert await site.verify(P[0]) == expected
        assert await site.verify(P[0], who=Producer("", 7, 3)) == {P[0]: ErrorCode.INVALID_REQUEST}

    play(scenario)
