"""What a client raises: `KafkaError` with Kafka's code, and whether trying again can help.

A broker's answer becomes a `ClientError` with the broker's code. What the client itself finds wrong has a class of its own below,
with the code that Kafka's Java client would use for the same thing, so that `error.code` is there in every case.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from kafkalite.errors import AuthenticationError, ErrorCode, KafkaError
from kafkalite.types import TopicPartition


class ClientError(KafkaError):
    """An error of a client call; `.code`, `.name` and `.retriable` say what it is and whether a retry can help.

    `.broker_message` is the broker's own text, None when it gave none.
    """

    broker_message: str | None = None

    @property
    def name(self) -> str:
        """Return Kafka's name of the error."""
        return self.code.name

    @property
    def retriable(self) -> bool:
        """True if the same call may succeed later, without a change by the caller."""
        return self.code.retriable


class UnknownOptionError(ValueError, TypeError):
    """Raised when a client is given a keyword argument that is none of its options; the message names the nearest one.

    A ValueError as for all options, and a TypeError as Python raises it for functions.
    """


class NoBrokersAvailableError(ClientError):
    """No bootstrap server or broker could be reached; `reasons` says per address what went wrong."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        self.reasons = dict(reasons)
        listed = "; ".join(f"{address}: {reason}" for address, reason in self.reasons.items())
        super().__init__(ErrorCode.BROKER_NOT_AVAILABLE, f"no broker can be reached ({listed or 'no address given'})")

    @property
    def retriable(self) -> bool:
        return True


class AuthenticationFailedError(NoBrokersAvailableError):
    """A broker does not take the client's credentials, or did not prove who it is; to try again is of no use before something changes."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        super().__init__(reasons)
        self.code = ErrorCode.SASL_AUTHENTICATION_FAILED

    @property
    def retriable(self) -> bool:
        return False


def unreachable(problems: Mapping[str, str | Exception]) -> NoBrokersAvailableError:
    """Return one error for the problems of all addresses."""
    is_refused = any(isinstance(each, AuthenticationError) for each in problems.values())
    reasons = {address: str(each) for address, each in problems.items()}
    return AuthenticationFailedError(reasons) if is_refused else NoBrokersAvailableError(reasons)


class ClientTimeoutError(ClientError, TimeoutError):
    """A call did not finish in its time; the message says what it waited for."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.REQUEST_TIMED_OUT, message)


class AdminError(ClientError):
    """Some items of a call failed; `failures` has the error of each by its name, the rest was done.

    `done` has what the broker told of the others, by name, for calls that give a result for each item.
    """

    def __init__(self, failures: Mapping[str, ClientError], done: Mapping[str, Any] | None = None) -> None:
        self.failures, self.done = dict(failures), dict(done or {})
        first = next(iter(self.failures.values()))
        super().__init__(first.code, "; ".join(str(each) for each in self.failures.values()))


class BufferFullError(ClientTimeoutError):
    """The producer's memory stayed full for `max_block_ms`: records come in faster than brokers take them."""


class ClientClosedError(ClientError):
    """The client was closed, or never connected."""

    def __init__(self, what: str) -> None:
        super().__init__(ErrorCode.UNKNOWN_SERVER_ERROR, f"{what} is closed")


class SerializationError(ClientError):
    """A key or value could not be turned into bytes."""

    def __init__(self, topic: str, part: str, problem: Exception) -> None:
        super().__init__(ErrorCode.INVALID_RECORD, f"cannot serialize the {part} of a record for {topic}: {problem}")


class RecordDeserializationError(ClientError):
    """A record's key or value could not be decoded; `seek(error.topic_partition, error.offset + 1)` goes past it."""

    def __init__(self, topic_partition: TopicPartition, offset: int, part: str, problem: Exception) -> None:
        self.topic_partition, self.offset = topic_partition, offset
        super().__init__(
            ErrorCode.INVALID_RECORD, f"cannot decode the {part} of {topic_partition} at offset {offset}: {problem}"
        )


class NoOffsetForPartitionError(ClientError):
    """A partition has no position, or one that is out of range, and `auto_offset_reset` is "none"."""

    def __init__(self, topic_partition: TopicPartition, offset: int | None) -> None:
        self.topic_partition, self.offset = topic_partition, offset
        where = "no position" if offset is None else f"position {offset}, which is out of range,"
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE, f"{topic_partition} has {where} and auto_offset_reset is 'none'; seek first"
        )


class LogTruncationError(ClientError):
    """Records before the position are gone from the log of a new leader (an unclean election), and `auto_offset_reset` is "none".

    `end_offset` is where the logs part, -1 when that is not known; `seek` there to go on.
    """

    def __init__(self, topic_partition: TopicPartition, position: int | None, end_offset: int) -> None:
        self.topic_partition, self.position, self.end_offset = topic_partition, position, end_offset
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{topic_partition} was truncated: the position is {position}, the logs part at {end_offset}",
        )


class CommitFailedError(ClientError):
    """The group went on without this member, or rebalances: the partitions may be another member's, who will read on from what
    was committed before."""

    def __init__(self, code: ErrorCode, group_id: str) -> None:
        super().__init__(
            code, f"group {group_id}: offsets were not committed, because the group has rebalanced ({code.name})"
        )

    @property
    def retriable(self) -> bool:
        return False


class TransactionStateError(ClientError):
    """A call that a transactional producer's state does not allow, the program's mistake: `send` outside of a transaction, for example."""

    def __init__(self, asked: str, state: str, hint: str | None = None) -> None:
        super().__init__(
            ErrorCode.INVALID_TXN_STATE, f"{asked}: the producer is {state}" + (f"; {hint}" if hint else "")
        )


class TransactionError(ClientError):
    """The cluster refused something of a transaction; `.code` says what. One of the two classes below says what helps."""

    @classmethod
    def of(cls, problem: ClientError) -> Self:
        """Return the problem as an error of this class."""
        if isinstance(problem, cls):
            return problem
        error = cls(problem.code, problem.message)
        error.broker_message, error.__cause__ = problem.broker_message, problem
        return error

    @property
    def retriable(self) -> bool:
        return False


class AbortableTransactionError(TransactionError):
    """This transaction failed and cannot be committed any more: `abort_transaction`, and do its work again in another one."""


class FatalTransactionError(TransactionError):
    """The producer can do nothing more but be closed."""


class ProducerFencedError(FatalTransactionError):
    """Another producer with the same `transactional_id` came after this one, or the transaction took longer than its timeout."""


class TransactionAbortedError(ClientError):
    """The fate of a record that was not sent yet when its transaction was aborted."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.INVALID_TXN_STATE, "the transaction was aborted before the record was sent")


def error_of(code: int, context: str, message: str | None = None, *, explanation: str | None = None) -> ClientError:
    """Return the error for a broker's `code`; `context` says what was asked, `message` is the broker's own text, `explanation` ours."""
    try:
        known = ErrorCode(code)
    except ValueError:
        return ClientError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{context}: unknown error code {code}")
    error = ClientError(known, f"{context}: {message or explanation or _EXPLANATIONS.get(known, known.name)}")
    error.broker_message = message
    return error


def error_name(code: int) -> str:
    """Return Kafka's name of an error code; its number when this client does not know it."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


def error_in(answer: Any, context: str) -> ClientError | None:
    """Return the error of a broker's answer, with the broker's own text where it gives one; None for success."""
    return error_of(answer.error_code, context, getattr(answer, "error_message", None)) if answer.error_code else None


def raise_error(answer: Any, context: str) -> None:
    """Raise the error of a broker's answer, if it has one."""
    if (error := error_in(answer, context)) is not None:
        raise error


_EXPLANATIONS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "there is no such topic or partition",
    ErrorCode.LEADER_NOT_AVAILABLE: "the partition has no leader now",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "the broker is not the leader any more",
    ErrorCode.OFFSET_OUT_OF_RANGE: "the offset is out of range",
    ErrorCode.MESSAGE_TOO_LARGE: "the batch is larger than the topic's max.message.bytes",
    ErrorCode.NOT_ENOUGH_REPLICAS: "fewer replicas are in sync than min.insync.replicas asks for",
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "written, but to fewer replicas than min.insync.replicas asks for",
    ErrorCode.TOPIC_ALREADY_EXISTS: "the topic exists already",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "the topic's name is not valid",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "not authorized for the topic",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "not authorized for the cluster",
    ErrorCode.PRODUCER_FENCED: "another producer with this transactional id came later, or the transaction timed out",
    ErrorCode.INVALID_PRODUCER_EPOCH: "the producer's epoch is old: its transaction timed out, or another one has its id",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "not authorized for the transactional id",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "transaction_timeout_ms is larger than the broker's transaction.max.timeout.ms",
    ErrorCode.CONCURRENT_TRANSACTIONS: "the transaction before is still being ended",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "there is no such transactional id",
}
