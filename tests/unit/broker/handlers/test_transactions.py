"""Requests of transactional producers and administrators, over codec and dispatch, to a coordinator in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import pytest

from kafkalite.broker.coordination.leadership_proof import LeadershipProof
from kafkalite.coordinators.runtime import CoordinatorRuntime, HostingRules
from kafkalite.coordinators.transaction.machine import TransactionMachine
from kafkalite.coordinators.transaction.requests import MarkersWritten, WriteMarkers
from kafkalite.coordinators.transaction.settings import TransactionSettings
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.testing.simulation import virtual_time
from kafkalite.types import OFFSETS_TOPIC, TopicPartition
from tests.unit.broker.memory_parts import MemoryParts, know
from tests.unit.coordinators.test_runtime import FakeLog

E = ErrorCode
ADD = messages.add_partitions_to_txn_request


class FreshIds:
    """Producer ids 1, 2, 3 and so on."""

    def __init__(self) -> None:
        self._ids = count(1)

    async def next(self) -> int:
        return next(self._ids)


class Site:
    """A coordinator of all transactional ids, topics "t" and "u" of two partitions."""

    def __init__(self) -> None:
        self.parts: Any = MemoryParts()
        for name in ("t", "u", OFFSETS_TOPIC):
            for index in (0, 1):
                know(self.parts.metadata, TopicPartition(name, index))
        self.parts.producer_ids = FreshIds()
        self.sent: list[WriteMarkers] = []
        self.log = FakeLog()
        self.runtime = self.parts.transactions = CoordinatorRuntime(
            "__transaction_state",
            HostingRules(load_buffer_bytes=1 << 20, append_timeout_ms=5000, codec=0, required_acks=-1),
            lambda _: TransactionMachine(TransactionSettings()),
            lambda: 1,
            virtual_time.VirtualClock(),
            lambda coroutine, name: asyncio.ensure_future(coroutine),
            lambda reason: None,
            lambda _, message: self.sent.append(message),
        )

    async def open(self) -> Site:
        self.runtime.on_election(0, 1, self.log)
        await virtual_time.settle()
        return self

    async def init(self, version: int = 5, **fields: Any) -> tuple[ErrorCode, int, int]:
        fields = {"transactional_id": "id", "transaction_timeout_ms": 60_000, **fields}
        reply = await self.parts.ask(messages.init_producer_id_request.InitProducerIdRequest(**fields), version)
        return ErrorCode(reply.error_code), reply.producer_id, reply.producer_epoch

    async def add(
        self, *partitions: tuple[str, int], name: str = "id", producer: tuple[int, int] = (1, 0), version: int = 3
    ) -> list[ErrorCode]:
        request = ADD.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=topics(*partitions),
        )
        reply = await self.parts.ask(request, version)
        return codes_of(reply.results_by_topic_v3_and_below, partitions)

    async def end(
        self, commit: bool = True, name: str = "id", producer: tuple[int, int] = (1, 0), version: int = 3
    ) -> ErrorCode:
        request = messages.end_txn_request.EndTxnRequest(
            transactional_id=name, producer_id=producer[0], producer_epoch=producer[1], committed=commit
        )
        return ErrorCode((await self.parts.ask(request, version)).error_code)

    async def add_offsets(self, name: str = "id", producer: tuple[int, int] = (1, 0), version: int = 3) -> ErrorCode:
        request = messages.add_offsets_to_txn_request.AddOffsetsToTxnRequest(
            transactional_id=name, producer_id=producer[0], producer_epoch=producer[1], group_id="g"
        )
        return ErrorCode((await self.parts.ask(request, version)).error_code)

    def mark(self) -> WriteMarkers:
        sent = self.sent.pop(0)
        self.runtime.submit(sent.transactional_id, MarkersWritten(*sent[:3]), lambda reply: reply)
        return sent


def topics(*partitions: tuple[str, int]) -> list[Any]:
    return [ADD.AddPartitionsToTxnTopic(name=name, partitions=[index]) for name, index in partitions]


def codes_of(results: Any, partitions: Any) -> list[ErrorCode]:
    found = {(t.name, p.partition_index): p.partition_error_code for t in results for p in t.results_by_partition}
    return [ErrorCode(found[each]) for each in partitions]


def play(scenario: Callable[[Site], Awaitable[None]]) -> None:
    async def run() -> None:
        await scenario(await Site().open())

    virtual_time.run(run())


@pytest.mark.parametrize("version", range(4))
def test_a_transaction_in_every_version_of_clients(version: int) -> None:
    async def scenario(site: Site) -> None:
        assert await site.init(version) == (E.NONE, 1, 0)
        assert await site.add(("t", 0), ("u", 1), version=version) == [E.NONE] * 2
        assert await site.add_offsets(version=version) is E.NONE
        assert await site.end(version=version) is E.NONE
        place = {"t": frozenset({0}), "u": frozenset({1}), OFFSETS_TOPIC: frozenset({0})}
        assert site.mark() == WriteMarkers("id", 1, 0, True, place)
        assert await site.init(version) == (E.NONE, 1, 1)

    play(scenario)


@pytest.mark.parametrize(
    ("version", "code"), [(1, E.INVALID_PRODUCER_EPOCH), (2, E.PRODUCER_FENCED), (3, E.PRODUCER_FENCED)]
)
def test_old_clients_hear_of_fencing_by_another_name(version: int, code: ErrorCode) -> None:
    async def scenario(site: Site) -> None:
        await site.init()
        await site.init()
        assert await site.add(("t", 0), version=version) == [code]
        assert await site.add_offsets(version=version) is await site.end(version=version) is code

    play(scenario)


def test_init_before_version_four_does_not_know_of_fencing() -> None:
    async def scenario(site: Site) -> None:
        await site.init()
        assert await site.init(3, producer_id=1, producer_epoch=0) == (E.NONE, 1, 1)
        assert await site.init(3, producer_id=7, producer_epoch=0) == (E.INVALID_PRODUCER_EPOCH, -1, -1)
        assert await site.init(4, producer_id=7, producer_epoch=0) == (E.PRODUCER_FENCED, -1, -1)

    play(scenario)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"transactional_id": ""}, E.INVALID_REQUEST),
        ({"transaction_timeout_ms": 0}, E.INVALID_TRANSACTION_TIMEOUT),
        ({"transaction_timeout_ms": 900_001}, E.INVALID_TRANSACTION_TIMEOUT),
        ({"transaction_timeout_ms": 900_000}, E.NONE),
        ({"producer_id": 5}, E.INVALID_REQUEST),
        ({"producer_epoch": 5}, E.INVALID_REQUEST),
        ({"transactional_id": None, "producer_id": 5}, E.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_initialized(fields: dict[str, Any], code: ErrorCode) -> None:
    async def scenario(site: Site) -> None:
        assert await site.init(**fields) == ((code, -1, -1) if code else (code, 1, 0))

    play(scenario)


def test_without_a_transactional_id_every_producer_gets_an_id() -> None:
    async def scenario(site: Site) -> None:
        site.runtime.on_resignation(0, 2)
        assert await site.init(transactional_id=None) == (E.NONE, 1, 0)
        assert await site.init(transactional_id=None, producer_id=1, producer_epoch=0) == (E.NONE, 2, 0)

    play(scenario)


def test_one_partition_that_cannot_be_added_leaves_the_others_out() -> None:
    async def scenario(site: Site) -> None:
        await site.init()
        codes = await site.add(("t", 0), ("t", 2), ("nowhere", 0), (OFFSETS_TOPIC, 0))
        unknown = E.UNKNOWN_TOPIC_OR_PARTITION
        assert codes == [E.OPERATION_NOT_ATTEMPTED, unknown, unknown, E.TOPIC_AUTHORIZATION_FAILED]
        assert await site.end() is E.INVALID_TXN_STATE

    play(scenario)


class Leadership:
    """A `LeadershipProof` that is needed; `is_proven` is its outcome."""

    is_needed = True
    confirm = LeadershipProof.confirm
    _confirm = LeadershipProof._confirm

    def __init__(self, is_proven: bool) -> None:
        self.is_proven = is_proven

    async def seek(self, topic_partition: TopicPartition) -> bool:
        assert topic_partition == TopicPartition("__transaction_state", 0)
        return self.is_proven


@pytest.mark.parametrize("is_proven", [True, False])
def test_a_coordinator_that_may_have_a_successor_tells_nothing_from_memory(is_proven: bool) -> None:
    """It would say that the next transaction is committed, which only its successor knows, or that its producer is fenced."""

    async def scenario(site: Site) -> None:
        await site.init()
        await site.add(("t", 0))
        assert await site.add(("t", 0)) == [E.NONE]
        assert await site.end() is E.NONE
        site.mark()
        assert await site.end() is E.NONE
        site.parts.leadership = Leadership(is_proven)
        assert await site.end() is (E.NONE if is_proven else E.NOT_COORDINATOR)
        fenced = E.PRODUCER_FENCED if is_proven else E.NOT_COORDINATOR
        assert await site.end(producer=(1, 1)) is await site.add_offsets(producer=(1, 1)) is fenced
        assert await site.add(("t", 0), producer=(1, 1)) == [fenced]
        assert await site.init(producer_id=7, producer_epoch=0) == (fenced, -1, -1)

    play(scenario)


def test_an_empty_id_is_refused() -> None:
    async def scenario(site: Site) -> None:
        assert await site.add(("t", 0), name="") == [E.INVALID_REQUEST]
        assert await site.end(name="") is await site.add_offsets(name="") is E.INVALID_REQUEST

    play(scenario)


def test_who_does_not_coordinate_says_so() -> None:
    async def scenario(site: Site) -> None:
        await site.init()
        site.log.lagging = True
        waiting = asyncio.ensure_future(site.add(("t", 0)))
        await virtual_time.settle()
        site.runtime.on_resignation(0, 2)
        assert await waiting == [E.NOT_COORDINATOR]
        assert await site.init() == (E.NOT_COORDINATOR, -1, -1)
        assert await site.add(("t", 0)) == [E.NOT_COORDINATOR]
        assert await site.end() is await site.add_offsets() is E.NOT_COORDINATOR

    play(scenario)


def test_brokers_verify_and_add_for_several_transactions() -> None:
    async def scenario(site: Site) -> None:
        await site.init()
        await site.add(("t", 0))
        m = ADD.AddPartitionsToTxnTransaction

        def asked(name: str, *partitions: tuple[str, int], verify: bool = True, epoch: int = 0) -> Any:
            return m(
                transactional_id=name,
                producer_id=1,
                producer_epoch=epoch,
                verify_only=verify,
                topics=topics(*partitions),
            )

        transactions = [
            asked("id", ("t", 0), ("t", 1)),
            asked("other", ("t", 0)),
            asked("", ("t", 0)),
            asked("id", ("t", 0), epoch=4),
            asked("id", ("u", 0), verify=False),
            asked("id", ("u", 0), ("u", 7)),
        ]
        reply = await site.parts.ask(ADD.AddPartitionsToTxnRequest(transactions=transactions), 5)
        assert not reply.error_code
        found = [
            [
                (t.name, p.partition_index, ErrorCode(p.partition_error_code))
                for t in result.topic_results
                for p in t.results_by_partition
            ]
            for result in reply.results_by_transaction
        ]
        assert found == [
            [("t", 0, E.NONE), ("t", 1, E.TRANSACTION_ABORTABLE)],
            [("t", 0, E.INVALID_PRODUCER_ID_MAPPING)],
            [("t", 0, E.INVALID_REQUEST)],
            [("t", 0, E.PRODUCER_FENCED)],
            [("u", 0, E.NONE)],
            [("u", 0, E.OPERATION_NOT_ATTEMPTED), ("u", 7, E.UNKNOWN_TOPIC_OR_PARTITION)],
        ]

    play(scenario)


def test_a_transaction_that_is_being_completed_shows_what_waits_for_its_marker() -> None:
    async def scenario(site: Site) -> None:
        d = messages.describe_transactions_request
        left = {TopicPartition("t", 1), TopicPartition("u", 0)}
        site.parts.marker_sender.unwritten = lambda transactional_id: left if transactional_id == "id" else None

        async def shown() -> tuple[str, list[tuple[str, list[int]]]]:
            reply = await site.parts.ask(d.DescribeTransactionsRequest(transactional_ids=["id"]), 0)
            (state,) = reply.transaction_states
            return state.transaction_state, [(each.topic, each.partitions) for each in state.topics]

        await site.init()
        await site.add(("t", 0), ("t", 1), ("u", 0))
        assert await shown() == ("Ongoing", [("t", [0, 1]), ("u", [0])])
        await site.end()
        assert await shown() == ("PrepareCommit", [("t", [1]), ("u", [0])])
        left.discard(TopicPartition("u", 0))
        assert await shown() == ("PrepareCommit", [("t", [1])])

    play(scenario)


def test_administrators_see_what_ids_do() -> None:
    async def scenario(site: Site) -> None:
        d, m = messages.describe_transactions_request, messages.list_transactions_request
        await site.init()
        await site.init(transactional_id="other")
        began_ms = site.runtime.now().wall_ms
        await site.add(("t", 1), ("t", 0), ("u", 0))
        await asyncio.sleep(5)

        described = (
            await site.parts.ask(d.DescribeTransactionsRequest(transactional_ids=["id", "nobody", "", "id"]), 0)
        ).transaction_states
        assert [each.error_code for each in described] == [0, E.TRANSACTIONAL_ID_NOT_FOUND, E.INVALID_REQUEST]
        first = described[0]
        assert (first.transaction_state, first.transaction_start_time_ms) == ("Ongoing", began_ms)
        assert (first.producer_id, first.producer_epoch, first.transaction_timeout_ms) == (1, 0, 60_000)
        assert [(each.topic, each.partitions) for each in first.topics] == [("t", [0, 1]), ("u", [0])]

        async def listed(**filters: Any) -> tuple[list[tuple[str, int, str]], list[str]]:
            reply = await site.parts.ask(m.ListTransactionsRequest(**filters), 1)
            assert not reply.error_code
            found = [(e.transactional_id, e.producer_id, e.transaction_state) for e in reply.transaction_states]
            return found, reply.unknown_state_filters

        ongoing, empty = ("id", 1, "Ongoing"), ("other", 2, "Empty")
        assert await listed() == ([ongoing, empty], [])
        assert await listed(state_filters=["Ongoing", "Nonsense", "ongoing"]) == ([ongoing], ["Nonsense", "ongoing"])
        assert await listed(state_filters=["Nonsense"]) == ([], ["Nonsense"])
        assert await listed(producer_id_filters=[2]) == ([empty], [])
        assert await listed(duration_filter=4999, state_filters=["Ongoing"]) == ([ongoing], [])
        assert await listed(duration_filter=5000, state_filters=["Ongoing"]) == ([], [])

    play(scenario)


def test_a_coordinator_that_loads_lists_nothing() -> None:
    async def scenario(site: Site) -> None:
        site.runtime.on_resignation(0, 2)
        site.runtime.on_election(0, 3, FakeLog())
        reply = await site.parts.ask(messages.list_transactions_request.ListTransactionsRequest(), 1)
        assert reply.error_code == E.COORDINATOR_LOAD_IN_PROGRESS

    play(scenario)
