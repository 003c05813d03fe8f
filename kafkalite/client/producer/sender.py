"""The task that takes batches from the accumulator to the leaders and brings their fate back.

Order within a partition is kept: idempotently, up to five requests travel at once and the broker refuses what arrives out of sequence
(KIP-98, KIP-679); otherwise one batch of a partition at a time. A batch that fails in a way that may pass is sent again with the same
sequence, so that the broker recognises it, until `delivery_timeout_ms` after its creation.

Where a partition has another leader, an idempotent producer does not wait for what the former one still has to answer: it may be cut off,
and a broker knows a producer's last five batches only, so whatever had overtaken these would make them out of order. They go to the new
leader, before all later ones. (Java's producer waits for request.timeout.ms, while later batches go on.)

A batch that the broker finds too large is sent again in halves; only a record that is too large alone fails.

What is done when a sequence number is refused (OUT_OF_ORDER_SEQUENCE_NUMBER): with an earlier batch still undelivered, wait for it;
else the broker has lost the producer's state or a batch was given up, and the partition starts afresh under another producer id, once
nothing of it is in flight. A batch that may have been written by an earlier attempt fails instead, since another producer id would write it
twice: after a restart a broker may know a producer's last batch only, and refuse those before it. In a transaction either costs the
transaction, which is to be aborted (`transactions`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from kafkalite.client.cluster.client import ClusterClient, version_for
from kafkalite.client.cluster.retry import is_retriable_code, is_stale_metadata
from kafkalite.client.cluster.view import BrokerNode
from kafkalite.client.errors import (
    ClientClosedError,
    ClientError,
    ClientTimeoutError,
    TransactionAbortedError,
    error_of,
)
from kafkalite.client.producer.accumulator import Accumulator, Batch, BatchState
from kafkalite.client.producer.options import ProducerOptions
from kafkalite.client.producer.sequence_numbers import ProducerIdAndEpoch, SequenceNumbers
from kafkalite.client.producer.transaction_requests import identity_in, init_producer_id
from kafkalite.client.record_codec import with_producer_state
from kafkalite.errors import ErrorCode
from kafkalite.lifecycle import end_tasks
from kafkalite.net.connection import Connection
from kafkalite.protocol import messages
from kafkalite.types import NO_BROKER, TopicPartition

if TYPE_CHECKING:
    from kafkalite.client.producer.transactions import TransactionManager

log = logging.getLogger(__name__)

_SEQUENCE_LOST = frozenset(
    {ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING}
)
_REFUSED_UNWRITTEN = _SEQUENCE_LOST | {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.NOT_ENOUGH_REPLICAS}
"""What says for sure that this attempt wrote nothing, and that another may be made; all else may have come behind the append."""
_OLDEST_PRODUCE_VERSION_WITH_ZSTD = 7
_ZSTD = 4


class Sender:
    """Sends batches from the accumulator to the leaders and completes them. `wake()` after every change; `run()` is the task's
    body; `on_progress` is called when memory becomes free.

    `refusal` says why no record is taken: the producer broke, or is not in a transaction. `flush` waits until no batch is unfinished.
    """

    def __init__(
        self,
        cluster: ClusterClient,
        accumulator: Accumulator,
        options: ProducerOptions,
        sequences: SequenceNumbers | None,
        on_progress: Callable[[], None],
        flush: Callable[[], Awaitable[None]],
    ) -> None:
        self._cluster = cluster
        self._accumulator = accumulator
        self._options = options
        self._acks, self._codec = options.required_acks, options.codec
        self._sequences = sequences
        self._on_progress = on_progress
        self._wake = asyncio.Event()
        self._in_flight: defaultdict[int, int] = defaultdict(int)
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._identity_task: asyncio.Task[None] | None = None
        self._restarting: set[TopicPartition] = set()
        self._draining: set[Connection] = set()
        self.failed_records = 0
        self.delivered_records = 0
        self.requests = 0
        self.refusal: ClientError | None = None
        self.transactions: TransactionManager | None = None
        if sequences is not None and options.transactional_id is not None:
            from kafkalite.client.producer.transactions import TransactionManager

            self.transactions = TransactionManager(cluster, options, sequences, flush, self._transaction_changed)
            self._transaction_changed()
        self._known_view = cluster.view
        cluster.add_listener(self.wake)

    def wake(self) -> None:
        """Look again at what can be sent."""
        self._wake.set()

    def _transaction_changed(self) -> None:
        if self.transactions is not None:
            self.refusal = self.transactions.refusal
        self.wake()

    def _now_ms(self) -> float:
        return asyncio.get_running_loop().time() * 1000

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            self._wake.clear()
            now_ms = self._now_ms()
            try:
                for batch in self._accumulator.expired_batches(now_ms, self._options.delivery_timeout_ms):
                    self._give_up(batch, self._timeout_error(batch))
                if self.transactions is not None:
                    self._give_up_aborted(self.transactions)
                self._follow_leaders()
                self._send_ready(now_ms)
            except Exception as problem:
                self._fail_all(problem)
            next_ms = self._accumulator.next_event_ms(now_ms, self._options.delivery_timeout_ms)
            try:
                async with asyncio.timeout(None if next_ms is None else max(next_ms - now_ms, 0.5) / 1000):
                    await self._wake.wait()
            except TimeoutError:
                pass

    async def stop(self, reason: ClientError) -> None:
        """End all requests; whatever is not delivered fails with `reason`."""
        if self.transactions is not None:
            await self.transactions.close()
        await end_tasks([*self._tasks, *([self._identity_task] if self._identity_task else [])])
        for batch in list(self._accumulator.batches()):
            self._give_up(batch, reason)

    # sending

    def _send_ready(self, now_ms: float) -> None:
        """A request takes one batch of a partition; complete ones behind it go at once too, an open one may grow until the answer."""
        sent = self._send_round(self._accumulator.ready_partitions(now_ms))
        while behind := self._accumulator.complete_among(sent, now_ms):
            sent = self._send_round(behind)

    def _follow_leaders(self) -> None:
        """Send to new leaders at once what waits for another attempt (KIP-951), and what former ones have not answered.

        The latter only where a broker recognises what it has already: the answers of those that lead no more do not count.
        """
        view = self._cluster.view
        if view is self._known_view:
            return
        self._known_view = view
        for batch in list(self._accumulator.batches()):
            leader = view.leader_of(batch.topic_partition)
            if leader in (batch.sent_to, NO_BROKER):
                continue
            if batch.state is BatchState.IN_FLIGHT and self._sequences is not None:
                text = f"broker {leader} leads now, and {batch.sent_to} had not answered"
                self._retry(batch, error_of(ErrorCode.NOT_LEADER_OR_FOLLOWER, str(batch.topic_partition), text))
            batch.not_before_ms = 0.0

    def _send_round(self, ready: list[TopicPartition]) -> list[TopicPartition]:
        """Send the first batch of each where a connection takes it; whose batch was sent."""
        view = self._cluster.view
        by_leader: dict[int, list[TopicPartition]] = {}
        sent: list[TopicPartition] = []
        for topic_partition in ready:
            leader = view.leader_of(topic_partition)
            if leader not in view.brokers:
                self._cluster.request_refresh()
            elif self._may_be_numbered(topic_partition):
                by_leader.setdefault(leader, []).append(topic_partition)
            else:
                self._cluster.open_connection(leader)  # so that it is there when the number is
        for leader, partitions in by_leader.items():
            while partitions and self._in_flight[leader] < self._options.max_in_flight_requests_per_connection:
                connection = self._cluster.open_connection(leader)
                if connection is None:
                    break
                if connection.writing_paused:
                    self._send_after_draining(connection)
                    break
                self._send_request(leader, connection, partitions, sent)
        return sent

    def _send_after_draining(self, connection: Connection) -> None:
        """The broker takes requests too slowly: batches wait in the accumulator, whose bound holds the program back."""
        if connection not in self._draining:

            async def wait_until_drained() -> None:
                try:
                    await connection.wait_drained()
                finally:
                    self._draining.discard(connection)
                    self.wake()

            self._draining.add(connection)
            task = asyncio.get_running_loop().create_task(wait_until_drained())
            self._tasks[task] = None
            task.add_done_callback(self._tasks.pop)

    def _may_be_numbered(self, topic_partition: TopicPartition) -> bool:
        """Without idempotence always; in a transaction once the coordinator knows of the partition; else once there is a producer id.

        The first batch of a sequence is alone in flight until it is acknowledged.
        """
        if self._sequences is None:
            return True
        if not self._sequences.is_acknowledged(topic_partition):
            if self._accumulator.in_flight(topic_partition):
                return False
            self._restarting.discard(topic_partition)
        if self.transactions is not None:
            return self.transactions.admits(topic_partition)
        if self._sequences.has_identity(topic_partition):
            return True
        if self._identity_task is None:
            self._identity_task = asyncio.get_running_loop().create_task(self._acquire_identity())
        return False

    def _send_request(
        self, leader: int, connection: Connection, partitions: list[TopicPartition], sent: list[TopicPartition]
    ) -> None:
        """One request with the first batch of as many partitions as it may carry: these are `sent` and no more among `partitions`."""
        batches: list[Batch] = []
        size = 0
        while partitions:
            first = self._accumulator.first_batch(partitions[0])
            if batches and size + first.size_bytes > self._options.max_request_size:
                break
            topic_partition = partitions.pop(0)
            sent.append(topic_partition)
            batch = self._accumulator.take_batch(topic_partition)
            batches.append(batch)
            size += batch.size_bytes
            self._encode(batch)
        try:
            self._send(leader, connection, batches)
        except ClientError as problem:
            for batch in batches:
                self._give_up(batch, problem)
        except ConnectionError as problem:
            for batch in batches:
                self._retry(batch, problem)

    def _encode(self, batch: Batch) -> None:
        if self._sequences is not None and batch.base_sequence < 0:
            identity, batch.base_sequence = self._sequences.number(batch.topic_partition, batch.record_count)
            batch.producer_id, batch.producer_epoch = identity.producer_id, identity.producer_epoch
            if batch.encoded is not None:
                batch.encoded = with_producer_state(
                    batch.encoded, batch.producer_id, batch.producer_epoch, batch.base_sequence
                )
        if batch.encoded is None:
            batch.encoded = batch.writer.build(
                self._codec, batch.producer_id, batch.producer_epoch, batch.base_sequence
            )

    def _send(self, leader: int, connection: Connection, batches: list[Batch]) -> None:
        message = self._message(batches)
        version = version_for(connection, message)
        if self._codec == _ZSTD and version < _OLDEST_PRODUCE_VERSION_WITH_ZSTD:
            raise ClientError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"broker {leader} does not know zstd yet")
        self.requests += 1
        if self._acks == 0:
            connection.send_without_answer(message, version)
            for batch in batches:
                self._finish_delivered(batch, -1, -1)
            self.wake()  # no answer will: the next batch of the partition may go
            return
        future = connection.send(message, version)
        self._in_flight[leader] += 1
        sent: list[tuple[Batch, int]] = []
        for batch in batches:
            batch.sent_to = leader
            sent.append((batch, batch.attempts))
        task = asyncio.get_running_loop().create_task(self._await_response(leader, connection, future, sent))
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    def _message(self, batches: list[Batch]) -> messages.produce_request.ProduceRequest:
        m = messages.produce_request
        topics: dict[str, list[messages.produce_request.PartitionProduceData]] = {}
        for batch in batches:
            name, index = batch.topic_partition
            topics.setdefault(name, []).append(m.PartitionProduceData(index=index, records=batch.encoded))
        return m.ProduceRequest(
            transactional_id=self._options.transactional_id,
            acks=self._acks,
            timeout_ms=self._options.request_timeout_ms,
            topic_data=[m.TopicProduceData(name=name, partition_data=data) for name, data in topics.items()],
        )

    # what came back

    async def _await_response(
        self,
        leader: int,
        connection: Connection,
        future: asyncio.Future[messages.produce_response.ProduceResponse],
        sent: list[tuple[Batch, int]],
    ) -> None:
        """`sent` has the batches, and which attempt of each this is."""
        timeout_s = self._options.request_timeout_ms / 1000
        try:
            async with asyncio.timeout(timeout_s):
                response = await future
        except TimeoutError:
            connection.close()
            problem = ClientTimeoutError(f"broker {leader} did not answer Produce within {timeout_s:g} s")
            self._retry_all(_still_in_flight(sent), problem)
        except ConnectionError as problem:
            self._retry_all(_still_in_flight(sent), problem)
        else:
            try:
                self._handle_response(response, _still_in_flight(sent))
            except Exception as problem:
                self._fail_all(problem)
        finally:
            self._in_flight[leader] -= 1
            self.wake()

    def _fail_all(self, problem: Exception) -> None:
        """Fail all records after an unexpected error: they, and their callers, would wait for ever otherwise."""
        log.error("sending failed", exc_info=problem)
        broken = ClientError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the producer broke: {problem!r}")
        if self.transactions is not None:
            self.transactions.fail_producer(broken)
        self.refusal = broken
        for batch in list(self._accumulator.batches()):
            self._give_up(batch, broken)

    def _retry_all(self, batches: list[Batch], problem: Exception) -> None:
        self._cluster.request_refresh()
        for batch in batches:
            self._retry(batch, problem)

    def _handle_response(self, response: messages.produce_response.ProduceResponse, batches: list[Batch]) -> None:
        answers = {
            TopicPartition(topic.name, each.index): each
            for topic in response.responses
            for each in topic.partition_responses
        }
        if response.node_endpoints:
            nodes = [BrokerNode(n.node_id, n.host, n.port, n.rack) for n in response.node_endpoints]
            self._cluster.view = self._cluster.view.with_brokers(nodes)
        for batch in batches:
            answer = answers.get(batch.topic_partition)
            if answer is None:
                self._give_up(batch, error_of(-1, f"producing to {batch.topic_partition}", "the answer lacks it"))
            else:
                self._handle_partition(batch, answer)

    def _handle_partition(self, batch: Batch, answer: messages.produce_response.PartitionProduceResponse) -> None:
        code = answer.error_code
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._finish_delivered(batch, answer.base_offset if code == 0 else -1, answer.log_append_time_ms)
            return
        problem = error_of(code, f"producing to {batch.topic_partition}", answer.error_message)
        if is_stale_metadata(code):
            self._learn_leader(batch.topic_partition, answer.current_leader)
            self._cluster.request_refresh()
        if self._sequences is not None and code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            if self._accumulator.has_earlier(batch):
                self._retry(batch, problem)
            elif self.transactions is not None:
                self._give_up(batch, problem)
            else:
                self._restart_sequence(batch, problem)
        elif self._sequences is not None and self.transactions is None and code in _SEQUENCE_LOST:
            self._restart_sequence(batch, problem)
        elif code == ErrorCode.MESSAGE_TOO_LARGE and batch.record_count > 1:
            log.info("%s: splitting a batch of %d records", problem, batch.record_count)
            self._accumulator.split(batch)
        elif is_retriable_code(code):
            self._retry(batch, problem)
        else:
            self._give_up(batch, problem)

    def _learn_leader(self, topic_partition: TopicPartition, current_leader: Any) -> None:
        """Newer brokers name the new leader in the same answer (KIP-951)."""
        if current_leader is not None:
            view = self._cluster.view
            self._cluster.view = view.with_leader(
                topic_partition, current_leader.leader_id, current_leader.leader_epoch
            )

    def _restart_sequence(self, refused: Batch, problem: ClientError) -> None:
        """The partition's batches go on under a fresh producer id, but for those that may be written already."""
        topic_partition = refused.topic_partition
        if refused.may_be_written:
            unknown = f"{problem}; whether an earlier attempt wrote it is not known"
            self._give_up(refused, error_of(problem.code, f"producing to {topic_partition}", unknown))
            return
        if self._sequences is not None and topic_partition not in self._restarting:
            log.info("the sequence of %s is lost; it goes on under a fresh producer id", topic_partition)
            self._sequences.reset(topic_partition)
            self._restarting.add(topic_partition)
            for batch in self._accumulator.waiting(topic_partition):
                self._renumber(batch)
        self._retry(refused, problem)

    def _renumber(self, batch: Batch) -> None:
        if not batch.may_be_written:
            batch.base_sequence = -1

    def _retry(self, batch: Batch, problem: Exception) -> None:
        """Send the batch once more after a backoff, unless its time or its retries are over."""
        now_ms = self._now_ms()
        if batch.attempts > self._options.retries:
            self._give_up(batch, problem)
            return
        delay_ms = self._cluster.retry.delay_ms(batch.attempts, self._cluster.chance())
        if now_ms + delay_ms >= batch.created_ms + self._options.delivery_timeout_ms:
            self._give_up(batch, self._timeout_error(batch, problem))
            return
        batch.error = problem
        if not (isinstance(problem, ClientError) and problem.code in _REFUSED_UNWRITTEN):
            batch.may_be_written = True
        self._accumulator.requeue(batch, now_ms + delay_ms)
        if batch.topic_partition in self._restarting:
            self._renumber(batch)

    def _timeout_error(self, batch: Batch, problem: Exception | None = None) -> ClientTimeoutError:
        problem = problem or batch.error
        why = str(problem) if problem else self._why_not_sent(batch.topic_partition)
        return ClientTimeoutError(
            f"{batch.topic_partition}: {batch.record_count} records were not delivered within "
            f"{self._options.delivery_timeout_ms} ms: {why}"
        )

    def _why_not_sent(self, topic_partition: TopicPartition) -> str:
        leader = self._cluster.view.leader_of(topic_partition)
        if leader < 0:
            return "the partition has no leader"
        return self._cluster.problem_of(leader) or f"broker {leader} takes records too slowly"

    def _finish_delivered(self, batch: Batch, base_offset: int, log_append_time: int) -> None:
        self.delivered_records += batch.record_count
        if self._sequences is not None:
            self._sequences.acknowledge(batch.topic_partition, batch.producer_id, batch.producer_epoch)
        self._accumulator.finish(batch, None, base_offset, log_append_time)
        self._on_progress()

    def _give_up(self, batch: Batch, problem: Exception) -> None:
        self.failed_records += batch.record_count
        if not isinstance(problem, ClientClosedError | TransactionAbortedError):
            log.warning("%d records were not delivered: %s", batch.record_count, problem)
        if self.transactions is not None:
            self.transactions.fail_batch(problem, numbered=batch.base_sequence >= 0)
        self._accumulator.finish(batch, problem)
        self._on_progress()

    def _give_up_aborted(self, transactions: TransactionManager) -> None:
        if transactions.reason_to_give_up(numbered=False) is not None:
            for batch in self._accumulator.batches():
                reason = transactions.reason_to_give_up(numbered=batch.base_sequence >= 0)
                if reason is not None and batch.state is not BatchState.IN_FLIGHT:
                    self._give_up(batch, reason)

    # identity

    async def _acquire_identity(self) -> None:
        """Ask any broker for a producer id until one gives it; a refusal for good fails all that waits."""
        what = "asking for a producer id"

        async def attempt() -> ProducerIdAndEpoch:
            return identity_in(await self._cluster.request_any(init_producer_id(None, 2**31 - 1, None)), what)

        try:
            identity = await self._cluster.retrying(attempt, what, self._options.delivery_timeout_ms / 1000)
            if self._sequences is not None:
                self._sequences.identity = identity
        except ClientTimeoutError as problem:
            log.warning("%s", problem)
        except ClientError as problem:
            self.refusal = problem
            for batch in list(self._accumulator.batches()):
                if batch.state is not BatchState.IN_FLIGHT:
                    self._give_up(batch, problem)
        finally:
            self._identity_task = None
            self.wake()


def _still_in_flight(sent: list[tuple[Batch, int]]) -> list[Batch]:
    """Return those that were not taken back meanwhile."""
    return [batch for batch, attempt in sent if batch.attempts == attempt and batch.state is BatchState.IN_FLIGHT]
