"""The errors for clients when records of their group or transaction cannot be appended, as in Kafka's coordinators."""

from __future__ import annotations

from typing import Final

from kafkalite.errors import ErrorCode

_UNAVAILABLE: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
)
_MOVED: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR)
_TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)

_TRANSACTION: Final = {
    **dict.fromkeys(_UNAVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    **dict.fromkeys(_MOVED, ErrorCode.NOT_COORDINATOR),
    **dict.fromkeys(_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
_GROUP: Final = {
    **_TRANSACTION,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REBALANCE_IN_PROGRESS,
}
_OFFSETS: Final = {
    **_TRANSACTION,
    **dict.fromkeys((*_TOO_LARGE, ErrorCode.INVALID_FETCH_SIZE), ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}


def transaction_store_error(code: ErrorCode) -> ErrorCode:
    """Return the error for InitProducerId, AddPartitionsToTxn and EndTxn."""
    return _TRANSACTION.get(code, code)


def group_store_error(code: ErrorCode) -> ErrorCode:
    """Return the error for JoinGroup and SyncGroup."""
    return _GROUP.get(code, code)


def offset_store_error(code: ErrorCode) -> ErrorCode:
    """Return the error for OffsetCommit, OffsetDelete and DeleteGroups."""
    return _OFFSETS.get(code, code)
