"""The states of a transactional producer: every event in every state."""

from __future__ import annotations

import pytest

from kafkalite.client.errors import (
    AbortableTransactionError,
    ClientError,
    FatalTransactionError,
    ProducerFencedError,
    TransactionStateError,
)
from kafkalite.client.producer.transaction_state import TRANSITIONS, Event, Lifecycle, State
from kafkalite.errors import ErrorCode

S = State
REFUSED = ClientError(ErrorCode.TRANSACTION_ABORTABLE)
ASKED = [Event.INIT, Event.BEGIN, Event.OFFSETS, Event.PREPARE, Event.COMMIT, Event.ABORT]
ALLOWED = {
    (S.UNINITIALIZED, Event.INIT): S.INITIALIZING,
    (S.READY, Event.BEGIN): S.IN_TRANSACTION,
    (S.IN_TRANSACTION, Event.OFFSETS): S.IN_TRANSACTION,
    (S.IN_TRANSACTION, Event.PREPARE): S.PREPARED,
    (S.IN_TRANSACTION, Event.COMMIT): S.COMMITTING,
    (S.PREPARED, Event.COMMIT): S.COMMITTING,
    (S.PREPARED, Event.ABORT): S.ABORTING,
    (S.IN_TRANSACTION, Event.ABORT): S.ABORTING,
    (S.ABORTABLE_ERROR, Event.ABORT): S.ABORTING,
}
"""What a program may ask for, as in Kafka's TransactionManager."""


def lifecycle(state: State) -> Lifecycle:
    """A producer that came into `state` in the usual way."""
    found = Lifecycle(state)
    if state in (S.ABORTABLE_ERROR, S.FATAL_ERROR):
        found.state = S.IN_TRANSACTION
        found.record_failure(REFUSED, fatal=state is S.FATAL_ERROR)
    return found


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("event", ASKED)
def test_what_a_program_may_ask_for(state: State, event: Event) -> None:
    subject = lifecycle(state)
    following = ALLOWED.get((state, event))
    if following is not None:
        subject.request_event(event)
        assert subject.state is following
        return
    expected = {S.ABORTABLE_ERROR: AbortableTransactionError, S.FATAL_ERROR: FatalTransactionError}
    with pytest.raises(expected.get(state, TransactionStateError)):
        subject.request_event(event)
    assert subject.state is state, "a mistake changes nothing"


@pytest.mark.parametrize("state", State)
def test_an_error_that_an_abort_mends(state: State) -> None:
    subject = lifecycle(state)
    subject.record_failure(REFUSED, fatal=False)
    in_doubt = state in (S.IN_TRANSACTION, S.PREPARED, S.COMMITTING, S.ABORTABLE_ERROR)
    assert subject.state is (S.ABORTABLE_ERROR if in_doubt else state)
    assert isinstance(subject.error, AbortableTransactionError) is in_doubt


@pytest.mark.parametrize("state", State)
def test_an_error_that_nothing_mends(state: State) -> None:
    subject = lifecycle(state)
    subject.record_failure(ProducerFencedError(ErrorCode.PRODUCER_FENCED), fatal=True)
    assert subject.state is S.FATAL_ERROR
    assert isinstance(subject.error, FatalTransactionError) and subject.error is subject.refusal
    for event in (Event.INITIALIZED, Event.ENDED):
        subject.complete_event(event)
        assert subject.state is S.FATAL_ERROR


@pytest.mark.parametrize("state", State)
def test_what_the_cluster_has_done(state: State) -> None:
    for event, before, after in [
        (Event.INITIALIZED, {S.INITIALIZING}, S.READY),
        (Event.ENDED, {S.COMMITTING, S.ABORTING}, S.READY),
    ]:
        subject = lifecycle(state)
        subject.complete_event(event)
        assert subject.state is (after if state in before else state)


@pytest.mark.parametrize("state", State)
def test_records_are_taken_in_a_transaction_only(state: State) -> None:
    refusal = lifecycle(state).refusal
    assert (refusal is None) is (state is S.IN_TRANSACTION)
    assert refusal is None or not refusal.retriable


def test_the_first_error_of_a_transaction_is_told_and_ends_with_it() -> None:
    subject = lifecycle(S.IN_TRANSACTION)
    subject.record_failure(ClientError(ErrorCode.MESSAGE_TOO_LARGE, "too large"), fatal=False)
    subject.record_failure(REFUSED, fatal=False)
    assert subject.error is not None and subject.error.code is ErrorCode.MESSAGE_TOO_LARGE
    subject.request_event(Event.ABORT)
    subject.record_failure(REFUSED, fatal=False)  # the abort is under way already
    subject.complete_event(Event.ENDED)
    assert subject.state is S.READY and subject.error is None


def test_every_event_has_its_row() -> None:
    assert set(TRANSITIONS) == set(Event)
    assert Lifecycle().refusal is not None and "init_transactions" in str(Lifecycle().refusal)
