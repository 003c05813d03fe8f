"""What a broker keeps for its clients, in numbers that are asked for: connections, group members, producers, fetch sessions, topics.

A load is made for one broker, and `grow` adds to it until there are as many as it is told. Clients are frames of Kafka's protocol over
sockets, so that a hundred thousand of them fit one process.
"""

from __future__ import annotations

import asyncio
import socket
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

from kafkalite.client.group.consumer_protocol import (
    PROTOCOL_TYPE,
    Assignment,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from kafkalite.errors import ErrorCode
from kafkalite.local.broker_process import BrokerProcess, wait_until
from kafkalite.net.connection import Connection
from kafkalite.net.frames import request_frame
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import APIS, ApiKey
from kafkalite.protocol.record_batches.records import NewRecord, build_batch
from kafkalite.types import TopicPartition
from tests.bench.cells import exchange
from tests.bench.idle_topics import SET_UP_TIMEOUT_S, PatientAdmin, Shape, assignments, is_spread, requests_for

TOPIC: Final = "memory"
PARTITIONS: Final = 100
"""Of the topic that producers and sessions are spread over."""

MEMBERS_OF_GROUP: Final = 50
BATCHES_OF_PRODUCER: Final = 5
"""As many as a broker remembers of each producer."""

_GROUPS_AT_ONCE: Final = 10
_CONNECTIONS_OF_ADDRESS: Final = 20_000
"""Fewer than there are ports for one address."""

_REQUESTS_AT_ONCE: Final = 100
_TIMEOUT_S: Final = 600.0
_SESSION_MS: Final = 6 * 3600 * 1000
_HEARTBEAT_S: Final = 0.5
_PAUSE_S: Final = 0.2
_API_VERSIONS, _METADATA = 3, 9


class Load(Protocol):
    """Something that a broker keeps in memory."""

    def grow(self, count: int) -> None:
        """Add to it until there are `count`. Raises RuntimeError when the broker refuses, OSError, TimeoutError."""

    def close(self) -> None: ...


def create_topic(admin: PatientAdmin) -> None:
    """Create the topic that loads use, and wait until it is led."""
    admin.create(NewTopic(TOPIC, PARTITIONS, 1))
    wait_until(lambda: _is_led(admin), f"leaders of {TOPIC}", SET_UP_TIMEOUT_S)


def _is_led(admin: PatientAdmin) -> bool:
    known = admin.partitions_of(TOPIC)[TOPIC]
    return len(known) == PARTITIONS and all(each.leader >= 0 for each in known.values())


def check_codes(what: str, codes: Iterable[int]) -> None:
    """Raise RuntimeError that names the request and the first error of its response."""
    for code in codes:
        if code:
            raise RuntimeError(f"{what} was refused with {ErrorCode(code).name}")


def portions(numbers: range, size: int) -> Iterator[range]:
    """Return the numbers in portions of `size`, the last of which may be shorter."""
    for begin in range(numbers.start, numbers.stop, size):
        yield range(begin, min(begin + size, numbers.stop))


def local_address(number: int) -> str:
    """Return the loopback address of the `number`th connection: each address has ports for some of them only."""
    return f"127.0.0.{2 + number // _CONNECTIONS_OF_ADDRESS}"


class Connections:
    """Connections that asked for versions and metadata, as clients do first, and are idle since."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._address = (broker.host, broker.port)
        self._open: list[socket.socket] = []
        versions = messages.api_versions_request.ApiVersionsRequest(
            client_software_name="bench", client_software_version="1"
        )
        topics = [messages.metadata_request.MetadataRequestTopic(name=TOPIC)]
        metadata = messages.metadata_request.MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        self._frames = [
            _frame(ApiKey.API_VERSIONS, _API_VERSIONS, versions),
            _frame(ApiKey.METADATA, _METADATA, metadata),
        ]

    def grow(self, count: int) -> None:
        for number in range(len(self._open), count):
            source = (local_address(number), 0)
            peer = socket.create_connection(self._address, _TIMEOUT_S, source_address=source)
            self._open.append(peer)
            for frame in self._frames:
                exchange(peer, frame)

    def close(self) -> None:
        for each in self._open:
            each.close()


def _frame(api_key: ApiKey, version: int, message: Any) -> bytes:
    return b"".join(request_frame(APIS[api_key], version, 1, "bench", codec.encode_request(message, version)))


class _Asked(ABC):
    """A load of asyncio connections, in a loop that runs while it grows."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker = broker
        self._runner = asyncio.Runner()
        self._opened: list[Connection] = []
        self._count = 0

    def grow(self, count: int) -> None:
        self._runner.run(self._grow(range(self._count, count)))
        self._count = count

    def close(self) -> None:
        self._runner.run(self._close())
        self._runner.close()

    @abstractmethod
    async def _grow(self, numbers: range) -> None: ...

    async def _close(self) -> None:
        for each in self._opened:
            each.close()

    async def _open(self, client_id: str) -> Connection:
        broker = self._broker
        connection = await Connection.open(broker.host, broker.port, client_id=client_id, timeout_s=_TIMEOUT_S)
        self._opened.append(connection)
        await connection.negotiate(_TIMEOUT_S)
        return connection

    async def _only_connection(self) -> Connection:
        return self._opened[0] if self._opened else await self._open("bench")


async def ask(connection: Connection, api_key: ApiKey, message: Any) -> Any:
    """Return the response to a request in the newest version that both sides speak."""
    return await connection.request(message, connection.version_of(api_key), _TIMEOUT_S)


async def ask_all(connection: Connection, api_key: ApiKey, asked: Sequence[Any]) -> list[Any]:
    """Return the responses to requests that are sent together."""
    version = connection.version_of(api_key)
    sent: list[Awaitable[Any]] = [connection.send(each, version) for each in asked]
    async with asyncio.timeout(_TIMEOUT_S):
        return await asyncio.gather(*sent)


class Members(_Asked):
    """Members of groups of `MEMBERS_OF_GROUP` that are balanced: each has a subscription for two assignors, and one partition.

    A member's session outlasts the measurement, so that its connection may serve a member of another group next.
    """

    async def _grow(self, numbers: range) -> None:
        if numbers.start % MEMBERS_OF_GROUP or numbers.stop % MEMBERS_OF_GROUP:
            raise ValueError(f"{numbers.stop} members: groups have {MEMBERS_OF_GROUP}, so take a multiple of that")
        while len(self._opened) < _GROUPS_AT_ONCE * MEMBERS_OF_GROUP:
            await self._open(f"consumer-bench-{len(self._opened) + 1}")
        await self._find_coordinator()
        groups = iter([f"bench-{each.start // MEMBERS_OF_GROUP}" for each in portions(numbers, MEMBERS_OF_GROUP)])

        async def form_groups(lane: range) -> None:
            for group_id in groups:
                await Group(group_id).form([self._opened[each] for each in lane])

        lanes = portions(range(len(self._opened)), MEMBERS_OF_GROUP)
        await asyncio.gather(*map(form_groups, lanes))

    async def _find_coordinator(self) -> None:
        """Have the topic of group offsets made, and wait until it has a leader. Raises TimeoutError."""
        m = messages.find_coordinator_request
        async with asyncio.timeout(_TIMEOUT_S):
            while True:
                request = m.FindCoordinatorRequest(coordinator_keys=["bench-0"])
                (found,) = (await ask(self._opened[0], ApiKey.FIND_COORDINATOR, request)).coordinators
                if not found.error_code:
                    return
                await asyncio.sleep(_PAUSE_S)


class Group:
    """A group while its members join it, each on a connection of its own."""

    def __init__(self, group_id: str) -> None:
        self._id = group_id
        self._wanted = 0
        self._sizes: dict[int, int] = {}
        """Members of each generation, as its leader was told."""

    async def form(self, connections: Sequence[Connection]) -> None:
        """Return when one generation has a member for each connection."""
        self._wanted = len(connections)
        async with asyncio.timeout(_TIMEOUT_S):
            await asyncio.gather(*map(self._join, connections))

    async def _join(self, connection: Connection) -> None:
        member_id = ""
        while True:
            joined = await ask(connection, ApiKey.JOIN_GROUP, self._join_request(member_id))
            member_id = joined.member_id or member_id
            if joined.error_code in (ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.REBALANCE_IN_PROGRESS):
                continue
            if joined.error_code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
                await asyncio.sleep(_PAUSE_S)
                continue
            check_codes("JoinGroup", [joined.error_code])
            if joined.leader == member_id:
                self._sizes[joined.generation_id] = len(joined.members)
            synced = await ask(connection, ApiKey.SYNC_GROUP, self._sync_request(joined, member_id))
            if synced.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
                continue
            check_codes("SyncGroup", [synced.error_code])
            if await self._is_complete(connection, joined.generation_id, member_id):
                return

    async def _is_complete(self, connection: Connection, generation: int, member_id: str) -> bool:
        """Return True when the generation has all members, False when another one begins."""
        while self._sizes.get(generation, 0) < self._wanted:
            await asyncio.sleep(_HEARTBEAT_S)
            m = messages.heartbeat_request
            request = m.HeartbeatRequest(group_id=self._id, generation_id=generation, member_id=member_id)
            beat = await ask(connection, ApiKey.HEARTBEAT, request)
            if beat.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
                return False
            check_codes("Heartbeat", [beat.error_code])
        return True

    def _join_request(self, member_id: str) -> Any:
        m = messages.join_group_request
        subscription = encode_subscription(Subscription((TOPIC,)))
        return m.JoinGroupRequest(
            group_id=self._id,
            session_timeout_ms=_SESSION_MS,
            rebalance_timeout_ms=300_000,
            member_id=member_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[
                m.JoinGroupRequestProtocol(name=name, metadata=subscription) for name in ("range", "cooperative-sticky")
            ],
        )

    def _sync_request(self, joined: Any, member_id: str) -> Any:
        m = messages.sync_group_request
        members = joined.members if joined.leader == member_id else []
        return m.SyncGroupRequest(
            group_id=self._id,
            generation_id=joined.generation_id,
            member_id=member_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=[
                m.SyncGroupRequestAssignment(
                    member_id=each.member_id,
                    assignment=encode_assignment(Assignment((TopicPartition(TOPIC, place),))),
                )
                for place, each in enumerate(members)
            ],
        )


class Producers(_Asked):
    """Idempotent producers, each with as many batches in one partition as the broker remembers."""

    async def _grow(self, numbers: range) -> None:
        connection = await self._only_connection()
        for some in portions(numbers, PARTITIONS):
            producer_ids = await self._ask_producer_ids(connection, len(some))
            requests = [produce_request(producer_ids, sequence) for sequence in range(BATCHES_OF_PRODUCER)]
            for response in await ask_all(connection, ApiKey.PRODUCE, requests):
                check_codes(
                    "Produce", [each.error_code for topic in response.responses for each in topic.partition_responses]
                )

    async def _ask_producer_ids(self, connection: Connection, count: int) -> list[int]:
        """Return new producer ids; asks again while the broker fetches a block of them."""
        m = messages.init_producer_id_request
        found: list[int] = []
        async with asyncio.timeout(_TIMEOUT_S):
            while len(found) < count:
                asked = [m.InitProducerIdRequest(transaction_timeout_ms=60_000) for _ in range(count - len(found))]
                given = await ask_all(connection, ApiKey.INIT_PRODUCER_ID, asked)
                late = [each for each in given if each.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
                check_codes("InitProducerId", [each.error_code for each in given if each not in late])
                found += [each.producer_id for each in given if each not in late]
                await asyncio.sleep(_PAUSE_S if late else 0)
        return found


def produce_request(producer_ids: Sequence[int], sequence: int) -> Any:
    """Return a request with a batch of one record by each producer, to a partition of its own."""
    m = messages.produce_request
    batches = [
        build_batch(
            [NewRecord(None, b"v", 1_700_000_000_000)],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
        )
        for producer_id in producer_ids
    ]
    data = [m.PartitionProduceData(index=index, records=batch) for index, batch in enumerate(batches)]
    topics = [m.TopicProduceData(name=TOPIC, partition_data=data)]
    return m.ProduceRequest(acks=1, timeout_ms=60_000, topic_data=topics)


class FetchSessions(_Asked):
    """Incremental fetch sessions of one partition each, whose client has fetched once more since it was made."""

    _topic_id: bytes | None = None

    async def _grow(self, numbers: range) -> None:
        connection = await self._only_connection()
        if self._topic_id is None:
            m = messages.metadata_request
            request = m.MetadataRequest(topics=[m.MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False)
            (topic,) = (await ask(connection, ApiKey.METADATA, request)).topics
            self._topic_id = topic.topic_id
        for some in portions(numbers, _REQUESTS_AT_ONCE):
            opened = await ask_all(connection, ApiKey.FETCH, [self._first_fetch(each) for each in some])
            check_codes("Fetch", [each.error_code for each in opened])
            ids = [each.session_id for each in opened]
            if 0 in ids:
                raise RuntimeError("a fetch session was not kept; raise max.incremental.fetch.session.cache.slots")
            m = messages.fetch_request
            asked = [m.FetchRequest(max_wait_ms=0, session_id=each, session_epoch=1, topics=[]) for each in ids]
            check_codes("Fetch", [each.error_code for each in await ask_all(connection, ApiKey.FETCH, asked)])

    def _first_fetch(self, number: int) -> Any:
        m = messages.fetch_request
        place = m.FetchPartition(partition=number % PARTITIONS, fetch_offset=0, partition_max_bytes=1 << 20)
        topics = [m.FetchTopic(topic=TOPIC, topic_id=self._topic_id, partitions=[place])]
        return m.FetchRequest(max_wait_ms=0, session_id=0, session_epoch=0, topics=topics)


class Topics:
    """Topics of one partition, which nobody uses."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker_id = broker.id
        self._admin = PatientAdmin(broker.address)
        self._count = 0

    def grow(self, count: int) -> None:
        wanted = assignments(Shape(count, factor=1, per_topic=1), [self._broker_id])
        for number in range(self._count):
            del wanted[f"idle-{number}"]
        for topics in requests_for(wanted):
            self._admin.create(*topics)
        wait_until(lambda: is_spread(self._admin, count), f"{count} idle topics", SET_UP_TIMEOUT_S)
        self._count = count

    def close(self) -> None: ...
