"""A client that sends a leader many requests at once and waits for none of them: single records, fetches from the beginning, Metadata.

Its records are held to what any producer's are; each fetch reads a log from its beginning, and must find whole batches with nothing
missing between them. That answers come in the order of the requests `kafkalite.net.connection` checks: a connection on which they do not
is closed as one that does not speak Kafka's protocol, and that fails the run.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from kafkalite.client.consumer.options import ConsumerOptions
from kafkalite.client.security import credentials_of
from kafkalite.errors import ErrorCode
from kafkalite.net.connection import Connection
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.protocol.record_batches.records import (
    NewRecord,
    build_batch,
    decode_records,
    has_valid_crc,
    iter_batches,
)
from kafkalite.testing.history.events import ProducerStarted, SendAcknowledged, SendInvoked, SendUnknown, Value
from kafkalite.testing.simulation.cluster import PORT
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from tests.simulation.simulation_run import SimulationRun

NAME: Final = "pipeliner"
_TIMEOUT_S: Final = 5.0
_TIMEOUT_MS: Final = 4_000
_AGAIN_S: Final = 0.3
_ROUNDS_S: Final = 0.8
"""The usual time between two rounds."""
_FETCH_BYTES: Final = 64 * 1024
_LAST_VERSION_OF_NAMES: Final = 12
"""Of Fetch; later ones name topics by their ids."""
_NOT_KAFKA: Final = re.compile("does not speak Kafka's protocol|correlation id")


class Pipelining:
    """See the module. `topics` by the acks that their records are sent with."""

    def __init__(self, run: SimulationRun, topics: dict[str, int]) -> None:
        self._run = run
        self._topics = topics
        self._connections = 0
        self._counts: dict[tuple[str, TopicPartition], int] = defaultdict(int)
        self._chance = run.simulation.chance(NAME)

    async def run(self) -> None:
        """Rounds until faults are over, one of them behind that."""
        process, options = self._run.client(NAME)

        async def rounds() -> None:
            is_last = False
            while not is_last:
                is_last = self._run.faults_are_over
                try:
                    await self._connection(options)
                except (OSError, TimeoutError) as problem:
                    if _NOT_KAFKA.search(str(problem)):
                        raise AssertionError(str(problem)) from problem
                    self._run.simulation.trace.add(NAME, f"begins again: {problem!r}")
                    is_last = False
                await asyncio.sleep(_AGAIN_S)

        await self._run.within_process(process, rounds())

    async def _connection(self, options: dict[str, Any]) -> None:
        """What is done on one connection: a few rounds."""
        found = [each for each in self._run.cluster.partitions() if each.topic in self._topics]
        leaders = {each: state.leader for each in found if (state := self._run.cluster.partition_state(each))}
        leader = leaders.get(self._chance.choice(found), -1)
        if leader not in self._run.cluster.brokers:
            raise ConnectionError("nobody leads it")
        connection = await Connection.open(
            self._run.cluster.brokers[leader].name,
            PORT,
            client_id=NAME,
            timeout_s=_TIMEOUT_S,
            security_protocol=options.get("security_protocol", "PLAINTEXT"),
            credentials=credentials_of(ConsumerOptions(**options)),
        )
        self._connections += 1
        try:
            await connection.negotiate(_TIMEOUT_S)
            sender = f"{NAME}-{self._connections}"
            for acks in set(self._topics.values()):
                self._run.note(ProducerStarted(self._run.now_ns, f"{sender}/{acks}", acks, False, 0))
            led = [each for each, broker in leaders.items() if broker == leader]
            for number in range(self._chance.choice([1, 3])):
                await self._round(connection, sender, led, number)
                await asyncio.sleep(self._chance.expovariate(1 / _ROUNDS_S))
        finally:
            connection.close()

    async def _round(self, connection: Connection, sender: str, led: list[TopicPartition], number: int) -> None:
        kinds = ["produce"] * self._chance.choice([2, 6]) + ["fetch"] * self._chance.choice([0, 1, 2]) + ["metadata"]
        self._chance.shuffle(kinds)
        answers = []
        for place, kind in enumerate(kinds):
            partition = self._chance.choice(led)
            if kind == "produce":
                answers.append(self._produce(connection, sender, partition))
            elif kind == "fetch":
                answers.append(self._fetch(connection, f"{sender}/{number}/{place}", partition))
            else:
                request = messages.metadata_request.MetadataRequest(topics=[])
                version = connection.version_of(ApiKey.METADATA)
                answers.append(connection.answer_to(request, connection.send(request, version), _TIMEOUT_S))
        for outcome in await asyncio.gather(*answers, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    def _produce(self, connection: Connection, sender: str, partition: TopicPartition) -> Any:
        """Send one record now; what is to be awaited notes its fate."""
        m, run, acks = messages.produce_request, self._run, self._topics[partition.topic]
        who = f"{sender}/{acks}"
        value = Value(who, self._counts[who, partition])
        self._counts[who, partition] += 1
        run.note(SendInvoked(run.now_ns, *partition, *value))
        batch = build_batch(
            [NewRecord(None, value.to_bytes(self._chance.choice([40, 40, 200])), run.cluster.clock.now_ms())]
        )
        data = m.TopicProduceData(
            name=partition.topic,
            partition_data=[m.PartitionProduceData(index=partition.partition, records=bytes(batch))],
        )
        request = m.ProduceRequest(acks=acks, timeout_ms=_TIMEOUT_MS, topic_data=[data])
        sent = connection.send(request, connection.version_of(ApiKey.PRODUCE))

        async def fate() -> None:
            try:
                answer = await connection.answer_to(request, sent, _TIMEOUT_S)
            except (OSError, TimeoutError) as problem:
                run.note(SendUnknown(run.now_ns, *partition, *value, repr(problem)))
                raise
            told = answer.responses[0].partition_responses[0]
            if told.error_code:
                run.note(SendUnknown(run.now_ns, *partition, *value, ErrorCode(told.error_code).name))
            else:
                run.note(SendAcknowledged(run.now_ns, *partition, *value, told.base_offset))

        return fate()

    def _fetch(self, connection: Connection, reader: str, partition: TopicPartition) -> Any:
        """Ask for a log from its beginning now; what is to be awaited looks at what comes."""
        m = messages.fetch_request
        asked = m.FetchPartition(partition=partition.partition, fetch_offset=0, partition_max_bytes=_FETCH_BYTES)
        request = m.FetchRequest(
            max_wait_ms=self._chance.choice([0, 100]),
            min_bytes=1,
            max_bytes=_FETCH_BYTES,
            session_id=0,
            session_epoch=-1,
            topics=[m.FetchTopic(topic=partition.topic, partitions=[asked])],
        )
        version = min(connection.version_of(ApiKey.FETCH), _LAST_VERSION_OF_NAMES)
        sent = connection.send(request, version)

        async def check() -> None:
            answer = await connection.answer_to(request, sent, _TIMEOUT_S)
            told = answer.responses[0].partitions[0]
            if not told.error_code:
                self._read(reader, partition, told.records or b"")

        return check()

    def _read(self, reader: str, partition: TopicPartition, data: Any) -> None:
        expected = 0
        for header in iter_batches(data):
            assert has_valid_crc(data, header), (
                f"{reader} reads a batch of {partition} with a wrong CRC at {header.base_offset}"
            )
            assert header.base_offset == expected, (
                f"{reader} reads {partition} at {header.base_offset} behind {expected}"
            )
            expected = header.next_offset
            for record in decode_records(data, header):
                self._run.note_read_of(reader, partition, record.offset, record.value)
