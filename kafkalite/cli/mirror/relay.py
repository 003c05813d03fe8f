"""What the mirror gives to the target's followers: the batches of the source as they are, asked for when a follower asks.

Nothing is kept here. A follower's fetch becomes fetches of the source's leaders, and their batches go on unread but for their headers, so
that offsets, timestamps, leader epochs, gaps, compression and markers of transactions stay; the source's log start and high watermark
become the follower's. Where the source has cut its log, its answer (KIP-595) cuts the follower's.

A follower takes no batch of a leader epoch above that of its own leader (KAFKA-18723), so a partition waits until its epoch in the target
is no lower than the source's (`plan.count_fencings`). It is compared with what the follower itself says, and the source is asked in the
epoch that was compared: it refuses when it has a newer one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kafkalite.cli.mirror.batch_headers import read_headers
from kafkalite.cli.mirror.positions import Positions
from kafkalite.client.errors import ClientError
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.client.cluster.client import ClusterClient
    from kafkalite.net.connection import Connection

log = logging.getLogger("kafkalite.mirror")

_ANSWER_S: Final = 30.0
_SHARED_WAIT_MS: Final = 100
"""How long a leader of the source waits for records where others are asked beside it: the slowest decides when the follower is answered."""
_EARLIEST_LOCAL: Final = -4
_EARLIEST: Final = -2
_RETRY: Final = ErrorCode.NOT_LEADER_OR_FOLLOWER
"""A follower that gets this asks again after replica.fetch.backoff.ms."""
_OLD_FORMAT: Final = "has messages of a format before 0.11, which the mirror does not give to Kafka 4"

_Key: TypeAlias = tuple[str, int]


class SourceLinks:
    """Connections to the source for one follower's connection: a broker answers one fetch of a connection after the other."""

    def __init__(self, source: ClusterClient) -> None:
        self._source = source
        self._connections: dict[tuple[str, int], Connection] = {}

    async def open(self, broker: int) -> Connection:
        """Return a connection to a broker. Raises OSError, TimeoutError, KeyError for a broker that is not known."""
        node = self._source.view.brokers[broker]
        address = node.host, node.port
        found = self._connections.get(address)
        if found is None or found.closed:
            found = self._connections[address] = await self._source.open_separate(*address)
        return found

    def close(self) -> None:
        """Close all."""
        for each in self._connections.values():
            each.close()


class Relay:
    """Answers the requests of followers from the source."""

    def __init__(self, source: ClusterClient, positions: Positions, is_broker: Callable[[int], bool]) -> None:
        """`is_broker` says of a replica id whether a broker of the target has it: nothing is noted or given out for others."""
        self._source, self._positions, self._is_broker = source, positions, is_broker
        self.names: Mapping[bytes, str] = {}
        """Mirrored topics by their ids in the target."""
        self.strays: Mapping[bytes, str] = {}
        """Topics of others that the target has placed at the mirror: their partitions have no records where it leads them."""
        self.is_frozen = False
        """True while nothing new is given out, so that the followers' positions are those that were compared."""

    async def answer_fetch(self, links: SourceLinks, request: messages.FetchRequest) -> messages.FetchResponse:
        """Return batches for a follower."""
        m = messages.fetch_response
        who = request.replica_state
        if who is None or who.replica_id < 0 or not self._is_broker(who.replica_id):
            return _refuse_all(request)  # a consumer is told that it is not the mirror that leads
        answers: dict[_Key, Any] = {}
        asked: dict[int, dict[_Key, Any]] = {}
        for topic in request.topics:
            name = self._name(topic.topic_id)
            for each in topic.partitions if name else ():
                place = TopicPartition(name, each.partition)
                if topic.topic_id in self.strays or self._source.view.partition(place) is not None:
                    self._positions.note_follower(place, who.replica_id, who.replica_epoch, each.fetch_offset)
                if topic.topic_id in self.strays:
                    answers[place] = _make_empty(each.partition, 0, 0)
                elif self.is_frozen:
                    answers[place] = self._repeat_bounds(place)
                elif (leader := self._find_leader(place, each.current_leader_epoch)) >= 0:
                    asked.setdefault(leader, {})[place] = each
        if asked:
            await self._ask_leaders(links, request, asked, answers)
        elif request.topics:
            await asyncio.sleep(request.max_wait_ms / 1000)
        return messages.FetchResponse(
            responses=[
                m.FetchableTopicResponse(
                    topic_id=topic.topic_id,
                    partitions=[
                        answers.get((self._name(topic.topic_id), each.partition)) or _refuse(each.partition)
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _name(self, topic_id: bytes) -> str:
        """Return the name of a topic that the mirror may lead, empty for others."""
        return self.names.get(topic_id) or self.strays.get(topic_id, "")

    def _find_leader(self, place: TopicPartition, epoch: int) -> int:
        """Return the source's leader, -1 where there is none, or where its records are of an epoch that the follower would not take."""
        known = self._source.view.partition(place)
        if known is None or known.leader < 0:
            self._source.request_refresh()
            return -1
        if known.leader_epoch > epoch:
            return -1
        return known.leader

    async def _ask_leaders(
        self,
        links: SourceLinks,
        request: messages.FetchRequest,
        asked: Mapping[int, Mapping[_Key, Any]],
        answers: dict[_Key, Any],
    ) -> None:
        wait_ms = request.max_wait_ms if len(asked) == 1 else min(request.max_wait_ms, _SHARED_WAIT_MS)
        max_bytes = request.max_bytes // len(asked)
        calls = (self._ask_leader(links, leader, some, wait_ms, max_bytes) for leader, some in asked.items())
        for found in await asyncio.gather(*calls):
            answers.update(found)

    async def _ask_leader(
        self, links: SourceLinks, leader: int, asked: Mapping[_Key, Any], wait_ms: int, max_bytes: int
    ) -> dict[_Key, Any]:
        """Return what a leader of the source has; nothing of partitions that it does not lead any more."""
        view = self._source.view
        m = messages.fetch_request
        topics: dict[str, list[Any]] = {}
        for (name, number), each in asked.items():
            known = view.partition(TopicPartition(name, number))
            topics.setdefault(name, []).append(
                m.FetchPartition(
                    partition=number,
                    current_leader_epoch=-1 if known is None else known.leader_epoch,
                    fetch_offset=each.fetch_offset,
                    last_fetched_epoch=each.last_fetched_epoch,
                    partition_max_bytes=each.partition_max_bytes,
                )
            )
        fetch = m.FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            session_epoch=-1,
            topics=[
                m.FetchTopic(topic=name, topic_id=view.topics[name].topic_id, partitions=some)
                for name, some in topics.items()
            ],
        )
        names = {view.topics[name].topic_id: name for name in topics}
        try:
            connection = await links.open(leader)
            version = connection.version_of(ApiKey.FETCH)
            response = await connection.request(fetch, version, wait_ms / 1000 + _ANSWER_S)
        except (OSError, TimeoutError, KeyError, ValueError) as problem:
            log.warning("broker %d of the source did not answer: %s", leader, problem)
            self._source.request_refresh()
            return {}
        found: dict[_Key, Any] = {}
        for topic in response.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for each in topic.partitions:
                if (answer := self._judge(TopicPartition(name, each.partition_index), each)) is not None:
                    found[name, each.partition_index] = answer
        return found

    def _judge(self, place: TopicPartition, each: Any) -> Any:
        """Return an answer of the source as the follower gets it, None for one that is not for followers."""
        if each.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return each
        if each.error_code:
            self._source.request_refresh()
            return None
        if each.records:
            is_old, producer_id = read_headers(each.records)
            if is_old:
                self._positions.refused[place] = _OLD_FORMAT
                return None
            self._positions.highest_producer_id = max(self._positions.highest_producer_id, producer_id)
        self._positions.note_source(place, each.log_start_offset, each.high_watermark)
        each.aborted_transactions, each.preferred_read_replica = None, -1
        return each

    def _repeat_bounds(self, place: TopicPartition) -> Any:
        """Return an answer without records, with the bounds that the source told last: others would lower the follower's."""
        bounds = self._positions.bounds_of(place)
        return None if bounds is None else _make_empty(place.partition, *bounds)

    async def answer_offsets(self, request: messages.ListOffsetsRequest) -> messages.ListOffsetsResponse:
        """Return offsets of the source; its earliest is what a follower begins with (its latest is the high watermark)."""
        m = messages.list_offsets_request
        for topic in request.topics:
            for each in topic.partitions:
                each.current_leader_epoch = -1
                if each.timestamp == _EARLIEST_LOCAL:
                    each.timestamp = _EARLIEST
        a = messages.list_offsets_response
        topics = []
        for topic in request.topics:
            found = []
            for each in topic.partitions:
                part = m.ListOffsetsTopic(name=topic.name, partitions=[each])
                response = await self._ask(
                    TopicPartition(topic.name, each.partition_index), m.ListOffsetsRequest(topics=[part])
                )
                failed = a.ListOffsetsPartitionResponse(partition_index=each.partition_index, error_code=_RETRY)
                found.append(failed if response is None else response.topics[0].partitions[0])
            topics.append(a.ListOffsetsTopicResponse(name=topic.name, partitions=found))
        return messages.ListOffsetsResponse(topics=topics)

    async def answer_epochs(
        self, request: messages.OffsetForLeaderEpochRequest
    ) -> messages.OffsetForLeaderEpochResponse:
        """Return where leader epochs end in the source."""
        m, a = messages.offset_for_leader_epoch_request, messages.offset_for_leader_epoch_response
        topics = []
        for topic in request.topics:
            found = []
            for each in topic.partitions:
                each.current_leader_epoch = -1
                part = m.OffsetForLeaderTopic(topic=topic.topic, partitions=[each])
                asked = m.OffsetForLeaderEpochRequest(replica_id=-1, topics=[part])
                response = await self._ask(TopicPartition(topic.topic, each.partition), asked)
                failed = a.EpochEndOffset(partition=each.partition, error_code=_RETRY)
                found.append(failed if response is None else response.topics[0].partitions[0])
            topics.append(a.OffsetForLeaderTopicResult(topic=topic.topic, partitions=found))
        return messages.OffsetForLeaderEpochResponse(topics=topics)

    async def _ask(self, place: TopicPartition, request: Any) -> Any:
        """Return the response of a partition's leader in the source, None when it has none now."""
        try:
            return await self._source.request(self._source.view.leader_of(place), request)
        except (OSError, ClientError) as problem:
            log.warning("the source did not answer for %s: %s", place, problem)
            self._source.request_refresh()
            return None


def _make_empty(partition: int, log_start: int, high_watermark: int) -> Any:
    return messages.fetch_response.PartitionData(
        partition_index=partition,
        log_start_offset=log_start,
        high_watermark=high_watermark,
        last_stable_offset=high_watermark,
        records=b"",
    )


def _refuse(partition: int) -> Any:
    return messages.fetch_response.PartitionData(
        partition_index=partition, error_code=_RETRY, high_watermark=-1, log_start_offset=-1, records=b""
    )


def _refuse_all(request: messages.FetchRequest) -> messages.FetchResponse:
    """Return an answer that sends a client to look for the leaders again."""
    m = messages.fetch_response
    return messages.FetchResponse(
        responses=[
            m.FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[_refuse(each.partition) for each in topic.partitions],
            )
            for topic in request.topics
        ]
    )
