"""Which failures are worth another try."""

from __future__ import annotations

from kafkalite.errors import ErrorCode, KafkaError

_STALE_METADATA = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.NOT_CONTROLLER,
    }
)


def is_stale_metadata(code: int) -> bool:
    """True if this error code means that the client's metadata is stale."""
    return code in _STALE_METADATA


def is_retriable_code(code: int) -> bool:
    """True if the same request may succeed later. Codes that this client does not know are final."""
    try:
        return ErrorCode(code).retriable
    except ValueError:
        return False


def is_retriable(problem: BaseException) -> bool:
    """True if the same request may succeed later: after lost connections, timeouts, and error codes that are retriable."""
    if isinstance(problem, KafkaError):
        return bool(getattr(problem, "retriable", problem.code.retriable))
    return isinstance(problem, ConnectionError | TimeoutError | OSError)
