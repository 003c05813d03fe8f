"""A scripted cluster for client tests: brokers as objects, connections without sockets, logs as lists of batches.

Every request and response goes through the real codec, so that a field that does not fit shows. Answers can be replaced: what is put
into `script[ApiKey]` is used before the normal answer; a callable gets (broker id, request) and returns a response, an exception, or
None for the normal answer.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import APIS, ApiKey
from kafkalite.protocol.record_batches.records import BatchHeader, iter_batches, set_offset_and_epoch_in_place
from kafkalite.types import NO_TOPIC_ID, TopicPartition

TOPIC_ID = bytes(15) + b"\1"
Answer = Any


class FakeConnection:
    """What the client sees as `kafkalite.net.connection.Connection`."""

    def __init__(self, cluster: FakeCluster, broker_id: int, host: str = "fake", port: int = 0) -> None:
        self.cluster, self.broker_id = cluster, broker_id
        self.host, self.port = host, port
        self.closed = False
        self.writing_paused = False
        self.taken = asyncio.Event()
        self.waiting: list[asyncio.Future[Any]] = []

    @property
    def in_flight(self) -> int:
        return sum(not each.done() for each in self.waiting)

    async def wait_drained(self) -> None:
        await self.taken.wait()

    def version_of(self, api_key: int, *, with_dropped: bool = False) -> int:
        return min(APIS[api_key].max_version, self.cluster.max_versions.get(api_key, 99))

    def send(self, message: Any, version: int) -> asyncio.Future[Any]:
        if self.closed:
            raise ConnectionError("closed")
        request = codec.decode_request(message.API.key, version, b"".join(codec.encode_request(message, version)))
        self.cluster.requests.append((self.broker_id, request))
        future = asyncio.get_running_loop().create_future()
        self.waiting.append(future)
        answer = self.cluster.answer(self.broker_id, request)
        asyncio.get_running_loop().call_soon(self._settle, future, answer, version)
        return future

    def _settle(self, future: asyncio.Future[Any], answer: Any, version: int) -> None:
        if future.done() or answer is HANG:
            return
        if isinstance(answer, asyncio.Future):
            answer.add_done_callback(lambda done: self._settle(future, done.result(), version))
        elif isinstance(answer, Exception):
            future.set_exception(answer)
            self.close()
        else:
            body = b"".join(codec.encode_response(answer, version))
            future.set_result(codec.decode_response(answer.API.key, version, body))

    def send_without_answer(self, message: Any, version: int) -> None:
        self.send(message, version).cancel()

    async def answer_to(self, message: Any, future: asyncio.Future[Any], timeout_s: float = 30.0) -> Any:
        async with asyncio.timeout(timeout_s):
            return await future

    async def request(self, message: Any, version: int, timeout_s: float = 30.0) -> Any:
        return await self.answer_to(message, self.send(message, version), timeout_s)

    def close(self) -> None:
        self.closed = True
        for each in self.waiting:
            if not each.done():
                each.set_exception(ConnectionError("the connection was closed"))
                each.exception()  # retrieved, as by a real connection


HANG = object()
"""An answer that never comes."""


class FakeCluster:
    """Brokers 1 to `brokers`; partition p of a topic is led by broker p % brokers + 1. `in_sync` has ISRs that lack somebody."""

    def __init__(self, topics: dict[str, int], brokers: int = 2) -> None:
        self.brokers = {number: ("fake", 9000 + number) for number in range(1, brokers + 1)}
        self.leaders = {
            TopicPartition(name, p): p % brokers + 1 for name, count in topics.items() for p in range(count)
        }
        self.epochs: defaultdict[TopicPartition, int] = defaultdict(int)
        self.in_sync: dict[TopicPartition, list[int]] = {}
        self.nearest: dict[TopicPartition, int] = {}
        """The replica that the leader names to who says where it is (KIP-392); it has the records up to `replica_ends`."""
        self.replica_ends: dict[TopicPartition, int] = {}
        self.aborted: defaultdict[TopicPartition, list[tuple[int, int]]] = defaultdict(list)
        """Aborted transactions: producer id and first offset."""
        self.last_stable: dict[TopicPartition, int] = {}
        """Last stable offsets of partitions in which a transaction is open."""
        self.topics = dict(topics)
        self.topic_id = TOPIC_ID
        self.logs: defaultdict[TopicPartition, list[bytearray]] = defaultdict(list)
        self.log_starts: defaultdict[TopicPartition, int] = defaultdict(int)
        self.script: defaultdict[int, deque[Answer]] = defaultdict(deque)
        self.requests: list[tuple[int, Any]] = []
        self.max_versions: dict[int, int] = {}
        self.controller_id = 1
        self.next_producer_id = 1000
        self.unreachable: set[int] = set()
        self.connections: list[FakeConnection] = []

    async def open(self, host: str, port: int) -> FakeConnection:
        broker_id = port - 9000
        if broker_id in self.unreachable or broker_id not in self.brokers:
            raise ConnectionError(f"no connection to {host}:{port}: Connection refused")
        connection = FakeConnection(self, broker_id, host, port)
        self.connections.append(connection)
        return connection

    def requests_of(self, api_key: ApiKey) -> list[Any]:
        return [request for _, request in self.requests if request.API.key == api_key]

    def answer(self, broker_id: int, request: Any) -> Answer:
        key = request.API.key
        script = self.script[key]
        if script:
            scripted = script.popleft()
            if callable(scripted):
                scripted = scripted(broker_id, request)
            if scripted is not None:
                return scripted
        return _ANSWERS[key](self, broker_id, request)

    def move_leader(self, topic_partition: TopicPartition, broker_id: int) -> None:
        self.leaders[topic_partition] = broker_id
        self.epochs[topic_partition] += 1

    def append(self, topic_partition: TopicPartition, batch: Any) -> int:
        """Put a batch at the end of a log; its base offset."""
        log = self.logs[topic_partition]
        base = BatchHeader.read(log[-1]).next_offset if log else self.log_starts[topic_partition]
        stored = bytearray(batch)
        set_offset_and_epoch_in_place(stored, 0, base, self.epochs[topic_partition])
        log.append(stored)
        return base

    def end(self, topic_partition: TopicPartition) -> int:
        log = self.logs[topic_partition]
        return BatchHeader.read(log[-1]).next_offset if log else self.log_starts[topic_partition]

    # normal answers

    def _metadata(self, _: int, request: Any) -> Any:
        m = messages.metadata_response
        names = list(self.topics) if request.topics is None else [topic.name for topic in request.topics]
        return m.MetadataResponse(
            cluster_id="fake",
            controller_id=self.controller_id,
            brokers=[
                m.MetadataResponseBroker(node_id=number, host=host, port=port)
                for number, (host, port) in self.brokers.items()
            ],
            topics=[self._metadata_topic(name) for name in names],
        )

    def _metadata_topic(self, name: str) -> Any:
        m = messages.metadata_response
        if name not in self.topics:
            return m.MetadataResponseTopic(name=name, error_code=3)
        partitions = []
        for number in range(self.topics[name]):
            tp = TopicPartition(name, number)
            partitions.append(
                m.MetadataResponsePartition(
                    partition_index=number,
                    leader_id=self.leaders[tp],
                    leader_epoch=self.epochs[tp],
                    replica_nodes=list(self.brokers),
                    isr_nodes=self.in_sync.get(tp, list(self.brokers)),
                    offline_replicas=[each for each in self.brokers if each in self.unreachable],
                )
            )
        return m.MetadataResponseTopic(name=name, topic_id=self.topic_id, partitions=partitions)

    def _produce(self, broker_id: int, request: Any) -> Any:
        m = messages.produce_response
        return m.ProduceResponse(
            responses=[
                m.TopicProduceResponse(
                    name=topic.name,
                    partition_responses=[self._produced(broker_id, topic.name, each) for each in topic.partition_data],
                )
                for topic in request.topic_data
            ]
        )

    def _produced(self, broker_id: int, name: str, data: Any) -> Any:
        m = messages.produce_response
        tp = TopicPartition(name, data.index)
        if self.leaders.get(tp) != broker_id:
            return m.PartitionProduceResponse(index=data.index, error_code=6, base_offset=-1)
        header = BatchHeader.read(data.records)
        for known in self.logs[tp]:
            old = BatchHeader.read(known)
            same = _sequence_of(old) == _sequence_of(header)
            if header.producer_id >= 0 and same:
                return m.PartitionProduceResponse(index=data.index, base_offset=old.base_offset)
        return m.PartitionProduceResponse(index=data.index, base_offset=self.append(tp, data.records))

    def _init_producer_id(self, _: int, __: Any) -> Any:
        self.next_producer_id += 1
        return messages.init_producer_id_response.InitProducerIdResponse(producer_id=self.next_producer_id)

    def _list_offsets(self, broker_id: int, request: Any) -> Any:
        m = messages.list_offsets_response
        return m.ListOffsetsResponse(
            topics=[
                m.ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        self._offset(broker_id, topic.name, each, request.isolation_level) for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _offset(self, broker_id: int, name: str, question: Any, isolation_level: int) -> Any:
        m = messages.list_offsets_response
        tp = TopicPartition(name, question.partition_index)
        if self.leaders.get(tp) != broker_id:
            return m.ListOffsetsPartitionResponse(partition_index=tp.partition, error_code=6)
        end = self.last_stable.get(tp, self.end(tp)) if isolation_level else self.end(tp)
        offset = {-1: end, -2: self.log_starts[tp]}.get(question.timestamp)
        if offset is None:
            found = (BatchHeader.read(batch) for batch in self.logs[tp])
            offset = next((h.base_offset for h in found if h.max_timestamp >= question.timestamp), -1)
        return m.ListOffsetsPartitionResponse(partition_index=tp.partition, offset=offset, timestamp=question.timestamp)

    def _offset_for_leader_epoch(self, _: int, request: Any) -> Any:
        """Nothing was truncated."""
        m = messages.offset_for_leader_epoch_response
        return m.OffsetForLeaderEpochResponse(
            topics=[
                m.OffsetForLeaderTopicResult(
                    topic=topic.topic,
                    partitions=[
                        m.EpochEndOffset(
                            partition=each.partition,
                            leader_epoch=each.leader_epoch,
                            end_offset=self.end(TopicPartition(topic.topic, each.partition)),
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _fetch(self, broker_id: int, request: Any) -> Any:
        m = messages.fetch_response
        answers = []
        anything = False
        for topic in request.topics:
            name = topic.topic or next(iter(self.topics))
            partitions = (
                [self._fetched(broker_id, name, each, request) for each in topic.partitions]
                if topic.topic_id in (NO_TOPIC_ID, self.topic_id)
                else [m.PartitionData(partition_index=each.partition, error_code=100) for each in topic.partitions]
            )
            anything = anything or any(
                each.records or each.error_code or each.preferred_read_replica >= 0 for each in partitions
            )
            answers.append(m.FetchableTopicResponse(topic=name, topic_id=topic.topic_id, partitions=partitions))
        response = m.FetchResponse(responses=answers)
        if anything:
            return response
        later = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(request.max_wait_ms / 1000, _set, later, response)
        return later

    def _fetched(self, broker_id: int, name: str, question: Any, request: Any) -> Any:
        m = messages.fetch_response
        tp, rack = TopicPartition(name, question.partition), request.rack_id
        stable = self.last_stable.get(tp, self.end(tp))
        nearest, end = self.nearest.get(tp), self.end(tp)
        if nearest == broker_id:
            end = self.replica_ends.get(tp, end)
        elif self.leaders.get(tp) != broker_id:
            return m.PartitionData(partition_index=tp.partition, error_code=6)
        elif rack and nearest is not None:
            return m.PartitionData(partition_index=tp.partition, preferred_read_replica=nearest, records=b"")
        if not self.log_starts[tp] <= question.fetch_offset <= end:
            return m.PartitionData(partition_index=tp.partition, error_code=1)
        data = bytearray()
        for batch in self.logs[tp]:
            header = BatchHeader.read(batch)
            if request.isolation_level and header.base_offset >= stable:
                break
            if header.next_offset > question.fetch_offset and (nearest != broker_id or header.next_offset <= end):
                if data and len(data) + len(batch) > question.partition_max_bytes:
                    break
                data += batch
        return m.PartitionData(
            partition_index=tp.partition,
            high_watermark=end,
            last_stable_offset=stable,
            log_start_offset=self.log_starts[tp],
            aborted_transactions=[
                m.AbortedTransaction(producer_id=producer, first_offset=first) for producer, first in self.aborted[tp]
            ]
            if request.isolation_level
            else None,
            records=bytes(data),
        )


def _sequence_of(header: BatchHeader) -> tuple[int, int, int]:
    return header.producer_id, header.producer_epoch, header.base_sequence


def _set(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)


_ANSWERS: dict[int, Callable[[FakeCluster, int, Any], Any]] = {
    ApiKey.METADATA: FakeCluster._metadata,
    ApiKey.PRODUCE: FakeCluster._produce,
    ApiKey.INIT_PRODUCER_ID: FakeCluster._init_producer_id,
    ApiKey.LIST_OFFSETS: FakeCluster._list_offsets,
    ApiKey.FETCH: FakeCluster._fetch,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: FakeCluster._offset_for_leader_epoch,
}


def values_in(cluster: FakeCluster, topic_partition: TopicPartition) -> list[bytes | None]:
    """The values of all records in a log, in order."""
    from kafkalite.client.record_reader import read_records

    return [
        record.value
        for batch in cluster.logs[topic_partition]
        for header in iter_batches(batch)
        for record in read_records(batch, header, *topic_partition, 0)
    ]
