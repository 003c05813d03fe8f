"""Ask transaction coordinators whether partitions are in a transaction, before the first append of each (KIP-890, AddPartitionsToTxn 4).

The coordinator on this broker is asked at once; others in one request at a time for each broker, with all that came together meanwhile.
What is asked twice for one transaction at the same time is one question (Kafka: the first one fails). A coordinator that is older than the
question is not asked; then nothing is verified, as in Kafka.

Producers come again every 100 ms while they are refused. A coordinator that did not answer is therefore left alone for a while, which
doubles with each failure in a row; who asks meanwhile is refused at once, and the log has a line when it falls silent and when it is back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

from kafkalite.backoff import Backoff
from kafkalite.broker.replication.leader_offsets import code_of
from kafkalite.errors import ErrorCode, KafkaError, ProtocolViolation
from kafkalite.lifecycle import report
from kafkalite.net.connection import Connection, OpenToBroker, open_unauthenticated
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import TRANSACTIONS_TOPIC, BrokerId, TopicPartition, group_by_topic

if TYPE_CHECKING:
    from kafkalite.broker.metadata_cache import MetadataCache
    from kafkalite.config.broker import LiveConfig
    from kafkalite.coordinators.runtime import CoordinatorRuntime
    from kafkalite.coordinators.transaction.machine import TransactionMachine

logger = logging.getLogger("kafkalite.broker.coordination.transaction_verification")

_VERIFIES_FROM: Final = 4
_TOGETHER: Final = 1000
"""Partitions in one request, but at least one transaction."""

_QUIET_PERIOD: Final = Backoff(50, 1000)
"""Time without requests after failures in a row, like reconnect.backoff.ms and its maximum of Kafka's clients."""

Refusals: TypeAlias = dict[TopicPartition, ErrorCode]
"""Of the partitions that were asked about those that may not be written; the others may."""


class Producer(NamedTuple):
    """The producer that appends."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class _Question:
    """The partitions of one transaction, and the futures that wait for the answer."""

    __slots__ = ("partitions", "producer", "waiting")

    def __init__(self, producer: Producer) -> None:
        self.producer = producer
        self.partitions: dict[TopicPartition, None] = {}
        self.waiting: list[asyncio.Future[Refusals]] = []

    def answer(self, refusals: Refusals) -> None:
        for future in self.waiting:
            if not future.done():
                future.set_result(refusals)

    def answer_all(self, code: ErrorCode) -> None:
        self.answer(dict.fromkeys(self.partitions, code))


class _Coordinator:
    """Another broker, with the questions queued for it."""

    def __init__(self) -> None:
        self.questions: dict[str, _Question] = {}
        self.task: asyncio.Task[None] | None = None
        self.connection: Connection | None = None
        self.failures = 0
        """In a row."""
        self.quiet_until_s = 0.0

    def next_batch(self) -> list[_Question]:
        """Remove and return what goes into one request."""
        together: list[_Question] = []
        room = _TOGETHER
        for transactional_id, question in tuple(self.questions.items()):
            if together and len(question.partitions) > room:
                break
            together.append(self.questions.pop(transactional_id))
            room -= len(question.partitions)
        return together


class TransactionVerifier:
    """The questions in flight to each coordinator. `spawn(coroutine, name)` runs a task under supervision."""

    def __init__(
        self,
        broker_id: BrokerId,
        live: LiveConfig,
        metadata: MetadataCache,
        transactions: CoordinatorRuntime[TransactionMachine],
        spawn: Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]],
        connect: OpenToBroker = open_unauthenticated,
    ) -> None:
        self._broker_id, self._live, self._metadata = broker_id, live, metadata
        self._transactions, self._spawn, self._connect = transactions, spawn, connect
        self._coordinators: dict[BrokerId, _Coordinator] = {}

    @property
    def is_enabled(self) -> bool:
        """Return the setting transaction.partition.verification.enable."""
        return self._live.current.transaction_partition_verification_enable

    def verify(self, producer: Producer, partitions: Iterable[TopicPartition]) -> Refusals | asyncio.Future[Refusals]:
        """Return the partitions that are not in the producer's transaction, or could not be verified, each with its error."""
        if not producer.transactional_id:
            return dict.fromkeys(partitions, ErrorCode.INVALID_REQUEST)
        partition = self._transactions.partition_for(producer.transactional_id)
        known = self._metadata.partition(TopicPartition(TRANSACTIONS_TOPIC, partition))
        if known is None:
            return dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if known.leader == self._broker_id:
            return self._verify_here(producer, partitions)
        if self._metadata.endpoint(known.leader, self._live.current.inter_broker_listener_name) is None:
            return dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return self._ask_later(known.leader, producer, partitions)

    def _verify_here(self, producer: Producer, partitions: Iterable[TopicPartition]) -> Refusals:
        asked = {topic: frozenset(indexes) for topic, indexes in group_by_topic(partitions).items()}
        try:
            found = self._transactions.machine_for(producer.transactional_id).verify(*producer, asked)
        except KafkaError as problem:
            found = problem.code
        code = ErrorCode.TRANSACTION_ABORTABLE
        verified: Mapping[str, frozenset[int]] = {}
        if isinstance(found, ErrorCode):
            code = _for_producers(found)
        else:
            verified = found
        return {
            TopicPartition(topic, index): code
            for topic, indexes in asked.items()
            for index in indexes
            if index not in verified.get(topic, ())
        }

    # Others

    def _ask_later(
        self, leader: BrokerId, producer: Producer, partitions: Iterable[TopicPartition]
    ) -> asyncio.Future[Refusals]:
        future: asyncio.Future[Refusals] = asyncio.get_running_loop().create_future()
        coordinator = self._coordinators.setdefault(leader, _Coordinator())
        if asyncio.get_running_loop().time() < coordinator.quiet_until_s:
            future.set_result(dict.fromkeys(partitions, ErrorCode.NETWORK_EXCEPTION))
            return future
        transactional_id = producer.transactional_id
        question = coordinator.questions.get(transactional_id)
        if question is not None and question.producer != producer:
            if producer.producer_epoch < question.producer.producer_epoch:
                future.set_result(dict.fromkeys(partitions, ErrorCode.INVALID_PRODUCER_EPOCH))
                return future
            question.answer_all(ErrorCode.INVALID_PRODUCER_EPOCH)
            question = None
        if question is None:
            question = coordinator.questions[transactional_id] = _Question(producer)
        question.partitions.update(dict.fromkeys(partitions))
        question.waiting.append(future)
        if coordinator.task is None or coordinator.task.done():
            coordinator.task = self._spawn(self._ask(leader, coordinator), f"verify transactions at broker {leader}")
        return future

    async def _ask(self, leader: BrokerId, coordinator: _Coordinator) -> None:
        """Send requests to one broker, one after the other, until none is queued."""
        while coordinator.questions:
            together = coordinator.next_batch()
            try:
                connection = await self._connect_to(leader, coordinator)
                version = connection.version_of(ApiKey.ADD_PARTITIONS_TO_TXN)
                if version < _VERIFIES_FROM:
                    raise ValueError(f"broker {leader} is too old to verify transactions")
                response = await connection.request(_request(together), version, self._timeout_s)
                _note_success(leader, coordinator)
                _answer_questions(together, response)
            except ValueError as problem:
                logger.warning("%s: they are not verified", problem)
                for question in together:
                    question.answer({})
            except (OSError, TimeoutError, ProtocolViolation) as problem:
                _note_failure(leader, coordinator, problem)
                for question in [*together, *coordinator.questions.values()]:
                    question.answer_all(ErrorCode.NETWORK_EXCEPTION)
                coordinator.questions.clear()
            except Exception as problem:
                report(f"verifying transactions at broker {leader} failed", problem)
                for question in together:
                    question.answer_all(ErrorCode.UNKNOWN_SERVER_ERROR)

    @property
    def _timeout_s(self) -> float:
        return self._live.current.request_timeout_ms / 1000

    async def _connect_to(self, leader: BrokerId, coordinator: _Coordinator) -> Connection:
        endpoint = self._metadata.endpoint(leader, self._live.current.inter_broker_listener_name)
        if endpoint is None:
            raise ConnectionError(f"broker {leader} is not alive as far as metadata knows")
        connection = coordinator.connection
        if connection is not None and not connection.closed:
            if (connection.host, connection.port) == (endpoint.host, endpoint.port):
                return connection
            connection.close()
        connection = await self._connect(endpoint, f"broker-{self._broker_id}-transactions", self._timeout_s)
        try:
            await connection.negotiate(self._timeout_s)
        except BaseException:
            connection.close()
            raise
        coordinator.connection = connection
        return connection

    def close(self) -> None:
        """Close the connections, at shutdown; the supervisor ends the tasks."""
        for coordinator in self._coordinators.values():
            if coordinator.connection is not None:
                coordinator.connection.close()


class HasTransactionVerifier(Protocol):
    @property
    def transaction_verifier(self) -> TransactionVerifier: ...


def _note_failure(leader: BrokerId, coordinator: _Coordinator, problem: Exception) -> None:
    coordinator.failures += 1
    delay_s = _QUIET_PERIOD.delay_ms(coordinator.failures) / 1000
    coordinator.quiet_until_s = asyncio.get_running_loop().time() + delay_s
    if coordinator.failures == 1:
        logger.info("broker %d does not verify transactions: %s; it is asked again and again", leader, problem)


def _note_success(leader: BrokerId, coordinator: _Coordinator) -> None:
    if coordinator.failures:
        logger.info("broker %d verifies transactions again, after %d failures", leader, coordinator.failures)
    coordinator.failures = 0


def _request(questions: list[_Question]) -> messages.AddPartitionsToTxnRequest:
    m = messages.add_partitions_to_txn_request
    return m.AddPartitionsToTxnRequest(
        transactions=[
            m.AddPartitionsToTxnTransaction(
                **question.producer._asdict(),
                verify_only=True,
                topics=[
                    m.AddPartitionsToTxnTopic(name=name, partitions=indexes)
                    for name, indexes in group_by_topic(question.partitions).items()
                ],
            )
            for question in questions
        ]
    )


def _answer_questions(questions: list[_Question], response: messages.AddPartitionsToTxnResponse) -> None:
    """Answer the questions with a response; partitions that it leaves out are refused."""
    if response.error_code:
        code = code_of(response.error_code)
        if code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:  # of this broker, which is no concern of the client
            code = ErrorCode.INVALID_TXN_STATE
        for question in questions:
            question.answer_all(code)
        return
    outcomes = {
        result.transactional_id: {
            TopicPartition(topic.name, each.partition_index): code_of(each.partition_error_code)
            for topic in result.topic_results
            for each in topic.results_by_partition
        }
        for result in response.results_by_transaction
    }
    for question in questions:
        known = outcomes.get(question.producer.transactional_id, {})
        codes = {each: known.get(each, ErrorCode.UNKNOWN_SERVER_ERROR) for each in question.partitions}
        question.answer({each: _for_producers(code) for each, code in codes.items() if code})


def _for_producers(code: ErrorCode) -> ErrorCode:
    """Return the error as producers get it from partition leaders."""
    return ErrorCode.INVALID_PRODUCER_EPOCH if code is ErrorCode.PRODUCER_FENCED else code


_RETRIABLE: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


def without_abortable(code: ErrorCode) -> ErrorCode:
    """Return the error for clients without TRANSACTION_ABORTABLE: before Produce 11 and TxnOffsetCommit 4."""
    return ErrorCode.INVALID_TXN_STATE if code is ErrorCode.TRANSACTION_ABORTABLE else code


def produce_refusal(code: ErrorCode, knows_abortable: bool) -> KafkaError:
    """Return the error for a producer: NOT_ENOUGH_REPLICAS if it should retry, because every producer does then."""
    if code in _RETRIABLE:
        message = f"Unable to verify the partition has been added to the transaction. Underlying error: {code.name}"
        return KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, message)
    code = code if knows_abortable else without_abortable(code)
    return KafkaError(
        code, "Partition was not added to the transaction" if code is ErrorCode.INVALID_TXN_STATE else None
    )
