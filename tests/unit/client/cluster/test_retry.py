"""What is worth another try."""

from __future__ import annotations

import pytest

from kafkalite.client.cluster.retry import is_retriable, is_retriable_code, is_stale_metadata
from kafkalite.client.errors import ClientError, ClientTimeoutError, NoBrokersAvailableError, error_of
from kafkalite.errors import ErrorCode


@pytest.mark.parametrize(
    ("problem", "retriable"),
    [
        (ConnectionError("gone"), True),
        (TimeoutError("late"), True),
        (ClientTimeoutError("late"), True),
        (NoBrokersAvailableError({}), True),
        (ClientError(ErrorCode.NOT_LEADER_OR_FOLLOWER), True),
        (ClientError(ErrorCode.TOPIC_AUTHORIZATION_FAILED), False),
        (ValueError("ours"), False),
    ],
)
def test_what_is_retriable(problem: Exception, retriable: bool) -> None:
    assert is_retriable(problem) is retriable


def test_codes() -> None:
    assert is_retriable_code(6) and not is_retriable_code(10) and not is_retriable_code(9999)
    assert is_stale_metadata(ErrorCode.FENCED_LEADER_EPOCH) and not is_stale_metadata(ErrorCode.REQUEST_TIMED_OUT)


def test_an_error_says_name_code_context_and_whether_a_retry_helps() -> None:
    error = error_of(6, "producing to t-0")
    assert (error.name, error.code, error.retriable) == ("NOT_LEADER_OR_FOLLOWER", 6, True)
    assert "producing to t-0" in str(error)
    assert error_of(9999, "x").code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_unreachable_brokers_are_named_with_reasons() -> None:
    error = NoBrokersAvailableError({"a:1": "refused", "b:2": "no answer"})
    assert "a:1: refused" in str(error) and "b:2: no answer" in str(error)
