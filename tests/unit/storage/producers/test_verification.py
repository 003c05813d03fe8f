"""Who may begin a transaction in a partition (KIP-890): with the guard of the question that its coordinator answered, and nobody else."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol.record_batches.records import TRANSACTIONAL, BatchHeader, Marker
from kafkalite.storage.producers.producer_state import ProducerState
from kafkalite.storage.producers.verification import NO_TRANSACTION, NOT_VERIFIED, UNGUARDED, VerificationGuard
from tests.unit.storage.logs import produced

PRODUCER = 7


def data(sequence: int = 0, offset: int = 0, attributes: int = TRANSACTIONAL, **fields: Any) -> BatchHeader:
    return BatchHeader.read(produced(PRODUCER, sequence, base_offset=offset, attributes=attributes, **fields))


def end(state: ProducerState, offset: int, epoch: int = 0) -> None:
    header = BatchHeader.read(produced(PRODUCER, 0, base_offset=offset, epoch=epoch, attributes=TRANSACTIONAL | 0x20))
    state.apply(header, Marker(0, 1))


def refusal(state: ProducerState, header: BatchHeader, guard: VerificationGuard) -> ErrorCode:
    try:
        state.check(header, guard)
    except KafkaError as problem:
        return problem.code
    return ErrorCode.NONE


def begun(state: ProducerState, sequence: int = 0, epoch: int = 0, now_ms: int = 0) -> VerificationGuard:
    return state.begin_verification(PRODUCER, epoch, sequence, now_ms)


@pytest.mark.parametrize("is_known", [False, True])
def test_a_transaction_begins_with_its_guard_and_goes_on_without(is_known: bool) -> None:
    state = ProducerState()
    if is_known:
        state.apply(data(0, attributes=0), None)
    first = 1 if is_known else 0
    assert refusal(state, data(first), NOT_VERIFIED) is ErrorCode.INVALID_TXN_STATE
    guard = begun(state, first)
    assert begun(state, first) is guard, "who asks at the same time has the same guard"
    assert refusal(state, data(first), VerificationGuard()) is ErrorCode.INVALID_TXN_STATE
    assert refusal(state, data(first), guard) is ErrorCode.NONE
    state.apply(data(first, offset=1), None)
    assert begun(state, first + 1) is NOT_VERIFIED
    assert refusal(state, data(first + 1), NOT_VERIFIED) is ErrorCode.NONE


def test_a_marker_takes_the_guard_away() -> None:
    """An answer that comes after the abort must not begin a transaction that no coordinator knows."""
    state = ProducerState()
    guard = begun(state)
    end(state, 0)
    assert refusal(state, data(), guard) is ErrorCode.INVALID_TXN_STATE
    newer = begun(state)
    assert newer is not guard and refusal(state, data(), guard) is ErrorCode.INVALID_TXN_STATE
    assert refusal(state, data(), newer) is ErrorCode.NONE


def test_the_batch_that_asked_first_comes_first() -> None:
    state = ProducerState()
    guard = begun(state, sequence=5)
    assert begun(state, sequence=8) is guard
    assert refusal(state, data(8), guard) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(state, data(5), guard) is ErrorCode.NONE
    begun(state, sequence=3)
    assert refusal(state, data(5), guard) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    begun(state, sequence=9, epoch=1)
    assert refusal(state, data(9, epoch=1), guard) is ErrorCode.NONE, "a new epoch has a lowest number of its own"


def test_without_verification_everybody_may_begin_and_without_a_transaction_nobody() -> None:
    state = ProducerState()
    assert refusal(state, data(), UNGUARDED) is ErrorCode.NONE
    assert refusal(state, data(), NO_TRANSACTION) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert refusal(state, data(attributes=0), NO_TRANSACTION) is ErrorCode.NONE
    assert refusal(state, data(attributes=0), NOT_VERIFIED) is ErrorCode.NONE, "plain records may come with an id"


def test_a_batch_that_was_appended_before_needs_no_guard() -> None:
    state = ProducerState()
    state.apply(data(), None)
    state.complete(BatchHeader.read(produced(PRODUCER, -1, base_offset=1, attributes=0x30)), Marker(1, 1))
    assert state.check(data(), NOT_VERIFIED) is not None


def test_coordinators_of_this_broker_need_a_guard_too() -> None:
    state = ProducerState()
    offsets = data(0)
    with pytest.raises(KafkaError, match="not part of an ongoing transaction"):
        state.check_own(offsets, NOT_VERIFIED)
    guard = state.begin_verification(PRODUCER, 0, -1, 0)
    state.check_own(offsets, guard)
    state.apply(offsets, None)
    state.check_own(data(1), NOT_VERIFIED)
    state.check_own(data(1, attributes=0), NOT_VERIFIED)


def test_who_never_comes_back_is_forgotten() -> None:
    state = ProducerState()
    guard = begun(state, now_ms=1000)
    state.expire(1999, 1000)
    assert refusal(state, data(), guard) is ErrorCode.NONE
    state.expire(2000, 1000)
    assert refusal(state, data(), guard) is ErrorCode.INVALID_TXN_STATE
