"""When to try again: exponential backoff as a pure function (KIP-580), and which failures are worth another try."""

from __future__ import annotations

from dataclasses import dataclass

from kafkalite.errors import ErrorCode, KafkaError


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """`retry.backoff.ms` and `retry.backoff.max.ms`; `jitter` spreads clients by that share to either side."""

    backoff_ms: float = 100.0
    backoff_max_ms: float = 1000.0
    jitter: float = 0.2

    def delay_ms(self, failures: int, chance: float) -> float:
        """How long to wait after `failures` failures in a row (from 1); `chance` is uniform in [0, 1)."""
        if failures <= 0:
            return 0.0
        exponential = self.backoff_ms * 2.0 ** min(failures - 1, 30)
        spread = 1.0 + self.jitter * (2.0 * chance - 1.0)
        return min(exponential, self.backoff_max_ms) * spread


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
    """Does this answer mean that the client's view of the cluster is old?"""
    return code in _STALE_METADATA


def is_retriable_code(code: int) -> bool:
    """May the same request succeed later? Codes that this client does not know are final."""
    try:
        return ErrorCode(code).retriable
    except ValueError:
        return False


def is_retriable(problem: BaseException) -> bool:
    """May the same request succeed later? Lost connections and timeouts count, an answer counts by its code."""
    if isinstance(problem, KafkaError):
        return bool(getattr(problem, "retriable", problem.code.retriable))
    return isinstance(problem, ConnectionError | TimeoutError | OSError)
