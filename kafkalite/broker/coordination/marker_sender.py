"""Sends the markers of decided transactions to the leaders of their partitions until all are written (WriteTxnMarkers, KIP-98).

Markers for one broker go together in one request at a time, those for partitions that are led here without the network. What a broker
refuses or does not answer is sent again, to whoever leads the partition then: it may have been written, which does no harm as long as
the transaction is not completed. A partition that nobody knows is looked for in ZooKeeper, because metadata may be behind: the marker is
done without when it was deleted.

Whoever does not coordinate the transaction any more sends no more: the next coordinator finds it decided, and sends all markers again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kafkalite.backoff import Backoff
from kafkalite.broker.coordination.transaction_markers import TransactionMarker
from kafkalite.broker.metadata_cache import MetadataCache
from kafkalite.coordinators.transaction.requests import WriteMarkers
from kafkalite.errors import ErrorCode, InvariantBroken, ProtocolViolation
from kafkalite.lifecycle import report
from kafkalite.protocol import messages
from kafkalite.types import BrokerId, Endpoint, TopicPartition, group_by_topic

if TYPE_CHECKING:
    from kafkalite.controller.channel_manager import Channel, OpenChannel

logger = logging.getLogger("kafkalite.broker.coordination.marker_sender")

_PARTITIONS_TOGETHER: Final = 1000
"""Partitions in one request, which has at least one transaction."""
_RETRIES: Final = Backoff(20, 1000)
_DONE: Final = frozenset({ErrorCode.NONE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION})
"""The last two: nothing of a transaction can be in such a partition."""
_FENCED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
"""Another coordinator is in charge."""

Outcomes: TypeAlias = dict[TopicPartition, ErrorCode]


class _Transaction:
    """A decided transaction and the partitions whose markers are not known to be written, in the order in which these are sent."""

    __slots__ = ("coordinator", "failures", "left", "marker")

    def __init__(self, coordinator: int, marker: WriteMarkers) -> None:
        self.coordinator, self.marker = coordinator, marker
        self.left = {
            TopicPartition(topic, partition): None
            for topic, partitions in marker.partitions.items()
            for partition in partitions
        }
        self.failures = 0


_Queue: TypeAlias = dict[_Transaction, dict[TopicPartition, None]]


class _Destination:
    """One broker, with the markers queued for it."""

    def __init__(self) -> None:
        self.queue: _Queue = {}
        self.task: asyncio.Task[None] | None = None
        self.channel: Channel | None = None
        self.endpoint: Endpoint | None = None

    def add(self, transaction: _Transaction, partitions: Iterable[TopicPartition]) -> None:
        self.queue.setdefault(transaction, {}).update(dict.fromkeys(partitions))

    def next_batch(self) -> _Queue:
        """Remove and return what goes into one request."""
        together: _Queue = {}
        room = _PARTITIONS_TOGETHER
        for transaction in tuple(islice(self.queue, _PARTITIONS_TOGETHER)):
            if together and len(self.queue[transaction]) > room:
                break
            together[transaction] = self.queue.pop(transaction)
            room -= len(together[transaction])
        return together


class MarkerSender:
    """The transactions of this broker's coordinators whose markers are not all written.

    `coordinator_epoch(partition)` is None where this broker does not coordinate; `written(transactional id, producer id, producer epoch)`
    is called when all markers of a transaction are there; `write_here(markers)` writes those of partitions that this broker leads;
    `partition_count(topic)` reads ZooKeeper; `spawn(coroutine, name)` runs a task under supervision.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        listener: str,
        version: int,
        metadata: MetadataCache,
        coordinator_epoch: Callable[[int], int | None],
        written: Callable[[str, int, int], None],
        write_here: Callable[[Sequence[TransactionMarker]], Awaitable[list[Outcomes]]],
        open_channel: OpenChannel,
        partition_count: Callable[[str], Awaitable[int]],
        spawn: Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]],
    ) -> None:
        self._broker_id, self._listener, self._version = broker_id, listener, version
        self._metadata, self._coordinator_epoch, self._written = metadata, coordinator_epoch, written
        self._write_here, self._open_channel, self._partition_count = write_here, open_channel, partition_count
        self._spawn = spawn
        self._current: dict[str, _Transaction] = {}
        self._destinations: dict[BrokerId, _Destination] = {}

    def send(self, coordinator: int, marker: WriteMarkers) -> None:
        """Send the markers of a transaction that the coordinator of this partition of `__transaction_state` has decided."""
        transaction = self._current[marker.transactional_id] = _Transaction(coordinator, marker)
        if transaction.left:
            self._route(transaction, transaction.left)
        else:
            asyncio.get_running_loop().call_soon(self._finish, transaction)

    def unwritten(self, transactional_id: str) -> Collection[TopicPartition] | None:
        """Return the partitions whose marker is not written yet; None for a transaction that is not being completed here."""
        transaction = self._current.get(transactional_id)
        return None if transaction is None else transaction.left.keys()

    def close(self) -> None:
        """Stop sending, at shutdown; the supervisor ends the tasks."""
        self._current.clear()
        for destination in self._destinations.values():
            if destination.channel is not None:
                destination.channel.close()

    def statistics(self) -> dict[str, int]:
        """Return counts for metrics and tests."""
        return {
            "transactions": len(self._current),
            "partitions": sum(len(each.left) for each in self._current.values()),
        }

    def _is_current(self, transaction: _Transaction) -> bool:
        """True if this broker still coordinates the transaction; if not, forget it."""
        transactional_id = transaction.marker.transactional_id
        if self._current.get(transactional_id) is not transaction:
            return False
        if self._coordinator_epoch(transaction.coordinator) is None:
            del self._current[transactional_id]
            return False
        return True

    # Where to

    def _route(self, transaction: _Transaction, partitions: Iterable[TopicPartition]) -> None:
        """Queue each partition for the broker that leads it now; those without a live leader later."""
        if not self._is_current(transaction):
            return
        unknown: list[TopicPartition] = []
        later: list[TopicPartition] = []
        by_leader: dict[BrokerId, list[TopicPartition]] = {}
        for each in partitions:
            known = self._metadata.partition(each)
            if known is None:
                unknown.append(each)
            elif known.leader != self._broker_id and self._metadata.endpoint(known.leader, self._listener) is None:
                later.append(each)
            else:
                by_leader.setdefault(known.leader, []).append(each)
        for leader, led in by_leader.items():
            if leader == self._broker_id:
                self._spawn(self._send_here(transaction, led), "write markers")
                continue
            destination = self._destinations.setdefault(leader, _Destination())
            destination.add(transaction, led)
            if destination.task is None or destination.task.done():
                destination.task = self._spawn(
                    self._send_queued(leader, destination), f"send markers to broker {leader}"
                )
        if unknown:
            self._spawn(self._find_deleted(transaction, unknown), "look for partitions without a marker")
        if later:
            self._route_later(transaction, later)

    def _route_later(self, transaction: _Transaction, partitions: Iterable[TopicPartition]) -> None:
        transaction.failures += 1
        delay_s = _RETRIES.delay_ms(transaction.failures) / 1000
        asyncio.get_running_loop().call_later(delay_s, self._route, transaction, tuple(partitions))

    async def _find_deleted(self, transaction: _Transaction, partitions: list[TopicPartition]) -> None:
        """Find out which partitions were deleted, which need no marker; route the others later."""
        later: list[TopicPartition] = []
        counts: dict[str, int] = {}
        try:
            for each in partitions:
                if each.topic not in counts:
                    counts[each.topic] = await self._partition_count(each.topic)
                if each.partition < counts[each.topic]:
                    later.append(each)
                else:
                    logger.info("%s: was deleted, and gets no marker of %s", each, transaction.marker.transactional_id)
                    transaction.left.pop(each, None)
        except Exception as problem:
            logger.info("%s: looking for it failed: %r; trying again", partitions[0], problem)
            later = [each for each in partitions if each in transaction.left]
        if later:
            self._route_later(transaction, later)
        self._finish(transaction)

    # Sending

    async def _send_here(self, transaction: _Transaction, partitions: list[TopicPartition]) -> None:
        epoch = self._coordinator_epoch(transaction.coordinator)
        outcomes: Outcomes = {}
        if epoch is not None:
            try:
                (outcomes,) = await self._write_here([_marker(transaction, epoch, partitions)])
            except InvariantBroken:
                raise
            except Exception as problem:
                report("writing markers failed; it is tried again", problem)
        self._handle_outcomes(transaction, partitions, outcomes, epoch)

    async def _send_queued(self, leader: BrokerId, destination: _Destination) -> None:
        """Send requests to one broker, one after the other, until its queue is empty."""
        while destination.queue:
            epochs: dict[_Transaction, int] = {}
            together: _Queue = {}
            for transaction, partitions in destination.next_batch().items():
                epoch = self._coordinator_epoch(transaction.coordinator)
                if epoch is not None and self._is_current(transaction):
                    together[transaction], epochs[transaction] = partitions, epoch
            if not together:
                continue
            by_producer: dict[int, Outcomes] = {}
            try:
                by_producer = await self._ask(
                    leader, destination, [_marker(each, epochs[each], parts) for each, parts in together.items()]
                )
            except (OSError, TimeoutError, ProtocolViolation) as problem:
                logger.info("broker %d did not answer for markers: %s; they are sent again", leader, problem)
            except InvariantBroken:
                raise
            except Exception as problem:
                report(f"sending markers to broker {leader} failed; it is tried again", problem)
            for transaction, partitions in together.items():
                outcomes = by_producer.get(transaction.marker.producer_id, {})
                self._handle_outcomes(transaction, partitions, outcomes, epochs[transaction])

    async def _ask(
        self, leader: BrokerId, destination: _Destination, markers: list[TransactionMarker]
    ) -> dict[int, Outcomes]:
        """Send markers; return the outcomes by producer id. Raises OSError, TimeoutError, ProtocolViolation."""
        endpoint = self._metadata.endpoint(leader, self._listener)
        if endpoint is None:
            raise ConnectionError("it is not registered")
        channel = destination.channel
        if channel is None or endpoint != destination.endpoint:
            if channel is not None:
                channel.close()
            channel = destination.channel = self._open_channel(endpoint)
            destination.endpoint = endpoint
        try:
            reply = await channel.request(_request(markers), self._version)
        except BaseException:
            channel.close()
            raise
        return {
            marker.producer_id: {
                TopicPartition(topic.name, each.partition_index): ErrorCode(each.error_code)
                for topic in marker.topics
                for each in topic.partitions
            }
            for marker in reply.markers
        }

    # What came of it

    def _handle_outcomes(
        self, transaction: _Transaction, partitions: Iterable[TopicPartition], outcomes: Outcomes, epoch: int | None
    ) -> None:
        """Settle the outcomes of markers that were sent in this coordinator `epoch`."""
        if not self._is_current(transaction):
            return
        again: list[TopicPartition] = []
        for each in partitions:
            code = outcomes.get(each, ErrorCode.NETWORK_EXCEPTION)
            if code in _DONE:
                transaction.left.pop(each, None)
            elif code in _FENCED and epoch == self._coordinator_epoch(transaction.coordinator):
                logger.warning(
                    "%s: refuses the marker of %s with %s; another coordinator is in charge",
                    each,
                    transaction.marker.transactional_id,
                    code.name,
                )
                del self._current[transaction.marker.transactional_id]
                return
            else:
                again.append(each)
        if again:
            self._route_later(transaction, again)
        self._finish(transaction)

    def _finish(self, transaction: _Transaction) -> None:
        if not transaction.left and self._is_current(transaction):
            marker = transaction.marker
            del self._current[marker.transactional_id]
            self._written(marker.transactional_id, marker.producer_id, marker.producer_epoch)


def _marker(transaction: _Transaction, epoch: int, partitions: Iterable[TopicPartition]) -> TransactionMarker:
    marker = transaction.marker
    return TransactionMarker(marker.producer_id, marker.producer_epoch, epoch, marker.commit, tuple(sorted(partitions)))


def _request(markers: list[TransactionMarker]) -> messages.WriteTxnMarkersRequest:
    m = messages.write_txn_markers_request
    return m.WriteTxnMarkersRequest(
        markers=[
            m.WritableTxnMarker(
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                transaction_result=marker.committed,
                topics=[
                    m.WritableTxnMarkerTopic(name=name, partition_indexes=partitions)
                    for name, partitions in group_by_topic(marker.partitions).items()
                ],
                coordinator_epoch=marker.coordinator_epoch,
            )
            for marker in markers
        ]
    )
