"""What a transactional producer asks its coordinator, rightly and wrongly, in one conversation that any broker can be put through."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from kafkalite.errors import ErrorCode
from kafkalite.net.connection import Connection
from kafkalite.protocol import messages

TIMEOUT_S: Final = 60
ID: Final = "conversation"
TOPIC: Final = "conversation"
_LATER: Final = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.LEADER_NOT_AVAILABLE,
)
_A = messages.add_partitions_to_txn_request


class Conversation:
    """`answers` are those to all questions, by what was asked; `shown` makes plain data of a message."""

    def __init__(self, connection: Connection, shown: Callable[[Any], Any]) -> None:
        self._connection, self._shown = connection, shown
        self.answers: list[tuple[str, Any]] = []
        self.producer_id = -1

    async def ask(self, what: str, request: Any, version: int) -> Any:
        reply = await self._connection.request(request, version, TIMEOUT_S)
        shown = repr(self._shown(reply)).replace(f"'producer_id': {self.producer_id},", "'producer_id': ours,")
        self.answers.append((f"{len(self.answers)} {what} version {version}", shown))
        return reply

    async def init(self, what: str, version: int = 5, **fields: Any) -> Any:
        fields = {"transactional_id": ID, "transaction_timeout_ms": 60_000, **fields}
        request = messages.init_producer_id_request.InitProducerIdRequest(**fields)
        return await self.ask(f"init {what}", request, version)

    async def add(
        self, what: str, epoch: int, *partitions: tuple[str, int], version: int = 3, name: str = ID, other: int = 0
    ) -> None:
        request = _A.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=self.producer_id + other,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=_topics(partitions),
        )
        await self.ask(f"add {what}", request, version)

    async def verify(self, what: str, epoch: int, *partitions: tuple[str, int], name: str = ID, other: int = 0) -> None:
        asked = _A.AddPartitionsToTxnTransaction(
            transactional_id=name,
            producer_id=self.producer_id + other,
            producer_epoch=epoch,
            verify_only=True,
            topics=_topics(partitions),
        )
        for version in (4, 5):
            await self.ask(f"verify {what}", _A.AddPartitionsToTxnRequest(transactions=[asked]), version)

    async def end(self, what: str, epoch: int, commit: bool, version: int = 3, name: str = ID, other: int = 0) -> None:
        request = messages.end_txn_request.EndTxnRequest(
            transactional_id=name, producer_id=self.producer_id + other, producer_epoch=epoch, committed=commit
        )
        await self.ask(f"{'commit' if commit else 'abort'} {what}", request, version)

    async def offsets(self, what: str, epoch: int, version: int = 3, name: str = ID) -> None:
        request = messages.add_offsets_to_txn_request.AddOffsetsToTxnRequest(
            transactional_id=name, producer_id=self.producer_id, producer_epoch=epoch, group_id="g"
        )
        await self.ask(f"offsets {what}", request, version)

    async def state(self, wanted: str) -> None:
        """Until the id is in this state."""
        request = messages.describe_transactions_request.DescribeTransactionsRequest(transactional_ids=[ID])
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                (found,) = (await self._connection.request(request, 0, TIMEOUT_S)).transaction_states
                if found.transaction_state == wanted:
                    return
                await asyncio.sleep(0.02)


def _topics(partitions: tuple[tuple[str, int], ...]) -> list[Any]:
    by_topic: dict[str, list[int]] = {}
    for name, index in partitions:
        by_topic.setdefault(name, []).append(index)
    return [_A.AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in by_topic.items()]


async def coordinator(server: str) -> Connection:
    """Of the id, once it coordinates."""
    host, port = server.split(":")
    first = await Connection.open(host, int(port))
    request = messages.find_coordinator_request.FindCoordinatorRequest(key_type=1, coordinator_keys=[ID])
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            (found,) = (await first.request(request, 4, TIMEOUT_S)).coordinators
            if not found.error_code:
                break
            assert found.error_code in _LATER, found
            await asyncio.sleep(0.1)
    first.close()
    return await Connection.open(found.host, found.port)


async def answers(server: str, shown: Callable[[Any], Any]) -> list[tuple[str, Any]]:
    """To a whole conversation; what is the cluster's own affair (ids, times) is left out."""
    connection = await coordinator(server)
    c = messages.create_topics_request
    topic = c.CreatableTopic(
        name=TOPIC,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            c.CreatableReplicaAssignment(partition_index=index, broker_ids=[await _id_of(connection)])
            for index in (0, 1)
        ],
    )
    await _by_the_controller(connection, c.CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
    talk = Conversation(connection, shown)
    try:
        await _know(connection)
        await _talk(talk)
    finally:
        connection.close()
    return talk.answers


async def _metadata(connection: Connection, *names: str) -> Any:
    m = messages.metadata_request
    asked = m.MetadataRequest(topics=[m.MetadataRequestTopic(name=name) for name in names])
    return await connection.request(asked, 9, TIMEOUT_S)


async def _id_of(connection: Connection) -> int:
    known = await _metadata(connection)
    (me,) = [each.node_id for each in known.brokers if each.port == connection.port]
    return int(me)


async def _by_the_controller(connection: Connection, request: Any) -> None:
    known = await _metadata(connection)
    (at,) = [each for each in known.brokers if each.node_id == known.controller_id]
    controller = await Connection.open(at.host, at.port)
    await controller.request(request, 5, TIMEOUT_S)
    controller.close()


async def _know(connection: Connection) -> None:
    """Until the coordinator knows both partitions, and an id can be initialized."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            (found,) = (await _metadata(connection, TOPIC)).topics
            if sum(each.leader_id >= 0 for each in found.partitions) == 2:
                break
            await asyncio.sleep(0.05)
        probe = messages.init_producer_id_request.InitProducerIdRequest(
            transactional_id=ID, transaction_timeout_ms=1000, producer_id=1, producer_epoch=-1
        )
        probe.producer_id = -1
        while True:
            reply = await connection.request(probe, 5, TIMEOUT_S)
            if reply.error_code not in (*_LATER, ErrorCode.CONCURRENT_TRANSACTIONS):
                break
            await asyncio.sleep(0.05)


async def _talk(talk: Conversation) -> None:
    first, second = (TOPIC, 0), (TOPIC, 1)
    # What cannot be asked
    for timeout_ms in (0, -1, 900_001):
        await talk.init(f"with a timeout of {timeout_ms}", transaction_timeout_ms=timeout_ms)
    await talk.init("without a name", transactional_id="")
    await talk.init("with a producer id alone", producer_id=5)
    await talk.init("with an epoch alone", producer_epoch=5)
    for version in (1, 3):
        await talk.add("to an unknown id", 0, first, version=version, name="nobody")
        await talk.end("of an unknown id", 0, True, version, "nobody")
        await talk.offsets("of an unknown id", 0, version, "nobody")
        await talk.add("without a name", 0, first, version=version, name="")
        await talk.end("without a name", 0, True, version, "")
        await talk.offsets("without a name", 0, version, "")
    await talk.verify("an unknown id", 0, first, name="nobody")
    await talk.verify("no name", 0, first, name="")
    # An id at rest; it was initialized once before
    talk.producer_id = (
        await talk._connection.request(
            messages.init_producer_id_request.InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000),
            5,
        )
    ).producer_id
    for commit in (True, False):
        await talk.end("of nothing", 1, commit)
    for version in (0, 1, 2, 3):
        await talk.add("by a zombie", 0, first, version=version)
        await talk.add("by a stranger", 1, first, version=version, other=7)
        await talk.end("by a zombie", 0, True, version)
        await talk.end("by a stranger", 1, False, version, other=7)
        await talk.offsets("by a zombie", 0, version)
        await talk.add(
            "what is not there", 1, first, (TOPIC, 9), ("nowhere", 0), ("__consumer_offsets", 0), version=version
        )
    await talk.verify("at rest", 1, first)
    # A transaction
    for version in (0, 1, 2, 3):
        await talk.add("a partition", 1, first, version=version)
    await talk.verify("half of it", 1, first, second)
    await talk.verify("what is not there", 1, first, ("nowhere", 0))
    await talk.verify("a zombie", 0, first)
    await talk.verify("a stranger", 1, first, other=7)
    listed = messages.list_transactions_request.ListTransactionsRequest
    await talk.ask("list", listed(state_filters=["Ongoing"]), 1)
    await talk.ask("list others", listed(state_filters=["CompleteCommit"]), 1)
    await talk.ask("list by producer", listed(producer_id_filters=[talk.producer_id + 99]), 1)
    for version in (3, 4):
        await talk.init("by a stranger", version, producer_id=talk.producer_id + 7, producer_epoch=1)
    await talk.offsets("of a group", 1)
    await talk.end("it", 1, True)
    await talk.state("CompleteCommit")
    await talk.end("it again", 1, True)
    await talk.end("it after all", 1, False)
    # An abort, and fencing
    await talk.add("to the next one", 1, second)
    await talk.end("it", 1, False)
    await talk.state("CompleteAbort")
    await talk.end("it again", 1, False)
    await talk.end("it after all", 1, True)
    await talk.add("to one that nobody ends", 1, first)
    await talk.init("while it is ongoing")
    await talk.state("CompleteAbort")
    await talk.end("by who was fenced", 1, True)
    # Producers that go on
    mine = {"producer_id": talk.producer_id}
    await talk.init("as nobody")
    await talk.init("as the one before", producer_epoch=2, **mine)
    await talk.init("to go on", producer_epoch=3, **mine)
    await talk.init("to go on, repeated", producer_epoch=3, **mine)
    await talk.init("as somebody new")
    await talk.init("to go on, too late", producer_epoch=3, **mine)
    await talk.init("as a stranger with all epochs used", producer_id=talk.producer_id + 1, producer_epoch=32_766)
