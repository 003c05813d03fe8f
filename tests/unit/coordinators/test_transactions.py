"""The transaction machine: every request in every state, fencing, timeouts, expiry, takeover, and appends that fail or come late."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.coordinators.transaction.requests import (
    AddPartitions,
    EndTransaction,
    InitProducerId,
    InitProducerIdReply,
    MarkersWritten,
    WriteMarkers,
)
from kafkalite.coordinators.transaction.settings import TransactionSettings
from kafkalite.coordinators.transaction.transaction_record import TransactionState as S
from kafkalite.errors import ErrorCode
from tests.unit.coordinators.transaction_scene import ID, T0, TransactionScene, error

E = ErrorCode
OK, BUSY, BAD, FENCED = E.NONE, E.CONCURRENT_TRANSACTIONS, E.INVALID_TXN_STATE, E.PRODUCER_FENCED
ME, ZOMBIE, STRANGER = (1, 5), (1, 4), (2, 5)


# Each request in each state


@pytest.mark.parametrize(
    ("state", "init", "add", "commit", "abort"),
    [
        (S.EMPTY, OK, OK, BAD, BAD),
        (S.ONGOING, BUSY, OK, OK, OK),
        (S.PREPARE_COMMIT, BUSY, BUSY, BUSY, BAD),
        (S.PREPARE_ABORT, BUSY, BUSY, BAD, BUSY),
        (S.COMPLETE_COMMIT, OK, OK, OK, BAD),
        (S.COMPLETE_ABORT, OK, OK, BAD, OK),
    ],
)
def test_what_each_request_gets_in_each_state(
    state: S, init: ErrorCode, add: ErrorCode, commit: ErrorCode, abort: ErrorCode
) -> None:
    def scene() -> TransactionScene:
        made = TransactionScene()
        made.put(state, ME)
        return made

    assert error(scene().init()) is init
    assert scene().add(ME) is add
    assert (scene().end(ME, True), scene().end(ME, False)) == (commit, abort)
    for stranger, code in ((ZOMBIE, FENCED), (STRANGER, E.INVALID_PRODUCER_ID_MAPPING)):
        assert scene().add(stranger) is code
        assert scene().end(stranger, True) is scene().end(stranger, False) is code
        assert scene().machine.verify(ID, *stranger, T0) is code


@pytest.mark.parametrize("state", S)
def test_what_is_on_its_way_keeps_everybody_waiting(state: S) -> None:
    scene = TransactionScene()
    scene.put(S.ONGOING, ME)
    scene.machine.transactions[ID].pending = state
    assert error(scene.init()) is error(scene.init(ME)) is BUSY
    assert scene.add(ME) is scene.end(ME) is scene.end(ME, False) is BUSY
    assert scene.machine.verify(ID, *ME, T0) == T0, "verification looks at what is committed"


def test_an_id_that_nobody_knows() -> None:
    scene = TransactionScene()
    assert scene.add(ME) is scene.end(ME) is scene.machine.verify(ID, *ME, T0) is E.INVALID_PRODUCER_ID_MAPPING
    assert scene.machine.describe(ID) is None and not scene.machine.transactions


# A transaction from end to end


def test_a_transaction_is_committed_when_all_markers_are_written() -> None:
    scene = TransactionScene()
    me = scene.producer()
    assert me == (1, 0) and scene.state() == "Empty"
    assert scene.add(me) is OK and scene.state() == "Ongoing"
    assert scene.add(me, {"t": frozenset({1}), "u": frozenset({0})}) is OK
    scene.advance(5)
    assert scene.machine.statistics() == {"ids": 1, "ongoing": 1, "prepared": 0}
    assert scene.end(me) is OK and scene.state() == "PrepareCommit"
    assert scene.machine.statistics() == {"ids": 1, "ongoing": 0, "prepared": 1}
    everything = {"t": frozenset({0, 1}), "u": frozenset({0})}
    assert scene.mark() == WriteMarkers(ID, 1, 0, True, everything)
    assert scene.state() == "CompleteCommit" and not scene.sent
    assert scene.end(me) is OK, "a client that repeats its EndTxn hears that it is done"
    assert len(scene.log) == 5


def test_the_next_transaction_begins_with_nothing_of_the_one_before() -> None:
    scene = TransactionScene()
    me = scene.producer()
    scene.add(me)
    scene.end(me, False)
    assert not scene.mark().commit
    assert scene.state() == "CompleteAbort"
    scene.advance(1000)
    scene.add(me, {"u": frozenset({3})})
    described = scene.machine.describe(ID)
    assert described is not None and described.partitions == {"u": frozenset({3})}
    assert described.start_ms == scene.now().wall_ms
    assert scene.machine.verify(ID, *me, {"t": frozenset({0}), "u": frozenset({3})}) == {
        "t": frozenset(),
        "u": frozenset({3}),
    }


def test_partitions_that_are_in_the_transaction_are_not_written_again() -> None:
    scene = TransactionScene()
    me = scene.producer()
    scene.add(me, {"t": frozenset({0, 1})})
    before = len(scene.log)
    assert scene.add(me, {"t": frozenset({1})}) is OK and len(scene.log) == before


def test_a_transaction_has_five_thousand_topics_at_most() -> None:
    scene = TransactionScene()
    me = scene.producer()
    assert scene.add(me, {f"t{index}": frozenset({0}) for index in range(5000)}) is OK
    assert scene.add(me, {"t0": frozenset({1})}) is OK
    assert scene.add(me, {"one more": frozenset({0})}) is E.POLICY_VIOLATION
    assert scene.end(me) is OK and len(scene.mark().partitions) == 5000


def test_a_transaction_without_partitions_has_no_markers_and_ends() -> None:
    scene = TransactionScene()
    me = scene.producer()
    assert scene.add(me, {}) is OK and scene.state() == "Ongoing"
    assert scene.end(me) is OK
    assert scene.mark().partitions == {} and scene.state() == "CompleteCommit"


def test_markers_of_another_epoch_complete_nothing() -> None:
    scene = TransactionScene()
    me = scene.producer()
    scene.add(me)
    scene.end(me)
    scene.ask(MarkersWritten(ID, 1, 7))
    scene.ask(MarkersWritten("other", 1, 0))
    assert scene.state() == "PrepareCommit"


# Epochs and fencing


def test_each_initialization_bumps_the_epoch_and_fences_who_was_before() -> None:
    scene = TransactionScene()
    zombie, me = scene.producer(), scene.producer()
    assert (zombie, me) == ((1, 0), (1, 1))
    assert scene.add(zombie) is scene.end(zombie) is FENCED
    assert scene.add(me) is OK


def test_an_ongoing_transaction_is_aborted_before_its_id_is_initialized_again() -> None:
    scene = TransactionScene()
    zombie = scene.producer()
    scene.add(zombie)
    assert error(scene.init()) is BUSY and scene.state() == "PrepareAbort"
    assert scene.end(zombie) is FENCED, "its epoch is gone already"
    assert error(scene.init()) is BUSY
    assert scene.mark() == WriteMarkers(ID, 1, 1, False, T0)
    assert scene.init().reply == InitProducerIdReply(OK, 1, 2)


@pytest.mark.parametrize(
    ("expected", "reply"),
    [
        ((1, 5), InitProducerIdReply(OK, 1, 6)),
        ((1, 4), InitProducerIdReply(FENCED)),
        ((2, 5), InitProducerIdReply(FENCED)),
        ((2, 32_766), InitProducerIdReply(FENCED)),
        (None, InitProducerIdReply(OK, 1, 6)),
    ],
)
def test_who_goes_on_must_be_the_one_who_was_last(expected: tuple[int, int] | None, reply: InitProducerIdReply) -> None:
    scene = TransactionScene()
    scene.put(S.COMPLETE_ABORT, (1, 5))
    assert scene.init(expected).reply == reply


def test_a_bump_whose_answer_got_lost_may_be_repeated_until_somebody_else_comes() -> None:
    scene = TransactionScene()
    scene.producer()
    assert scene.init((1, 0)).reply == InitProducerIdReply(OK, 1, 1)
    assert scene.init((1, 0)).reply == InitProducerIdReply(OK, 1, 1)
    assert scene.producer() == (1, 2)
    assert error(scene.init((1, 0))) is error(scene.init((1, 1))) is FENCED
    assert error(scene.fail_over().init((1, 1))) is FENCED, "a successor does not know the epoch before"


def test_an_unknown_id_takes_whoever_goes_on() -> None:
    assert TransactionScene().init((77, 3)).reply == InitProducerIdReply(OK, 1, 0)


def test_a_producer_id_without_epochs_is_replaced() -> None:
    scene = TransactionScene()
    scene.put(S.COMPLETE_COMMIT, (50, 32_765))
    assert scene.init().reply == InitProducerIdReply(OK, 50, 32_766)
    assert scene.init((50, 32_766)).reply == InitProducerIdReply(OK, 1, 0)
    assert scene.init((50, 32_766)).reply == InitProducerIdReply(OK, 1, 0), "repeated, its answer got lost"
    assert error(scene.init((50, 32_765))) is FENCED


def test_the_last_epoch_serves_to_fence() -> None:
    scene = TransactionScene()
    scene.put(S.ONGOING, (50, 32_766))
    assert error(scene.init()) is BUSY
    assert scene.mark() == WriteMarkers(ID, 50, 32_767, False, T0)
    assert scene.init().reply == InitProducerIdReply(OK, 1, 0)


def test_the_caller_is_asked_for_a_producer_id_only_when_one_is_needed() -> None:
    scene = TransactionScene()
    assert scene.ask(InitProducerId(ID, 1000)).reply.needs_producer_id and not scene.log
    scene.put(S.COMPLETE_COMMIT, (50, 32_766))
    assert scene.ask(InitProducerId(ID, 1000)).reply.needs_producer_id
    scene.put(S.COMPLETE_COMMIT, (50, 7))
    assert scene.ask(InitProducerId(ID, 1000)).reply == InitProducerIdReply(OK, 50, 8)


# Time


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced() -> None:
    scene = TransactionScene()
    me = scene.producer()
    scene.add(me)
    scene.advance(60_000)
    assert scene.state() == "Ongoing"
    scene.advance(10_000)
    assert scene.state() == "PrepareAbort" and scene.end(me) is FENCED
    assert scene.mark().producer_epoch == 1 and scene.state() == "CompleteAbort"
    scene.advance(100_000)
    assert not scene.sent, "once"


def test_very_many_timed_out_transactions_are_aborted_some_at_a_time() -> None:
    scene = TransactionScene()
    for index in range(250):
        scene.put(S.ONGOING, name=f"id-{index}")
    scene.now_ms = 65_000
    counts = []
    while scene.timers.next_ms() is not None and len(scene.sent) < 250:
        for key in scene.timers.pop_due(100_000):
            scene._carry_out(scene.machine.on_timer(key, scene.now()))
            counts.append(len(scene.sent))
    assert counts[:3] == [100, 200, 250]


def test_an_id_that_is_not_used_is_removed() -> None:
    scene = TransactionScene(TransactionSettings(id_expiration_ms=7_200_000))
    scene.producer("old")
    me = scene.producer("ongoing")
    scene.add(me, name="ongoing")
    scene.machine._ongoing.clear()  # nobody aborts it
    scene.advance(3_600_000)
    young = scene.producer("young")
    scene.advance(3_600_000)
    assert set(scene.machine.transactions) == {"ongoing", "young"}
    assert scene.log[-1].value is None and set(scene.fail_over().machine.transactions) == {"ongoing", "young"}
    assert scene.add(young, name="young") is OK


def test_an_id_that_cannot_be_removed_stays_and_is_of_use() -> None:
    scene = TransactionScene(TransactionSettings(id_expiration_ms=1), holding=True)
    for index in range(3):
        scene.put(S.EMPTY, name="x" * 10_000 + str(index))
    scene.advance(3_600_000)
    assert len(scene.held) == 3, "no batch of very long ids"
    name = "x" * 10_000 + "0"
    assert scene.machine.describe(name) is None and error(scene.init(name=name)) is BUSY
    scene.refuse(E.NOT_ENOUGH_REPLICAS)
    assert scene.state(name) == "Empty"
    scene.commit()
    assert len(scene.machine.transactions) == 2


# Takeover


@pytest.mark.parametrize("commit", [True, False])
def test_a_successor_sends_the_markers_of_what_is_decided(commit: bool) -> None:
    scene = TransactionScene()
    me = scene.producer()
    scene.add(me)
    scene.end(me, commit)
    successor = scene.fail_over()
    assert successor.mark() == scene.sent[0]
    assert successor.state() == ("CompleteCommit" if commit else "CompleteAbort")
    assert not successor.fail_over().sent


def test_a_successor_aborts_what_nobody_ends() -> None:
    scene = TransactionScene()
    scene.add(scene.producer())
    successor = scene.fail_over()
    successor.advance(70_000)
    assert successor.state() == "PrepareAbort"


# The log


def held_scene(*steps: Any) -> TransactionScene:
    """These requests are served, whatever comes next is held."""
    scene = TransactionScene()
    scene.producer()
    for step in steps:
        assert scene.ask(step).reply is OK
    scene.holding = True
    return scene


ADD = AddPartitions(ID, 1, 0, T0)
COMMIT = EndTransaction(ID, 1, 0, True)


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        (E.NOT_ENOUGH_REPLICAS, E.COORDINATOR_NOT_AVAILABLE),
        (E.NOT_LEADER_OR_FOLLOWER, E.NOT_COORDINATOR),
        (E.KAFKA_STORAGE_ERROR, E.NOT_COORDINATOR),
        (E.MESSAGE_TOO_LARGE, E.UNKNOWN_SERVER_ERROR),
    ],
)
def test_what_cannot_be_written_changes_nothing(refusal: ErrorCode, told: ErrorCode) -> None:
    for request, before in ((ADD, ()), (COMMIT, (ADD,))):
        scene = held_scene(*before)
        state, call = scene.state(), scene.ask(request)
        scene.refuse(refusal)
        assert call.reply is told and scene.state() == state and not scene.sent
        scene.holding = False
        assert scene.ask(request).reply is OK


def test_an_id_whose_first_record_cannot_be_written_is_not_kept() -> None:
    scene = TransactionScene(holding=True)
    call = scene.init()
    scene.refuse(E.NOT_ENOUGH_REPLICAS)
    assert error(call) is E.COORDINATOR_NOT_AVAILABLE and not scene.machine.transactions


def test_a_fencing_that_cannot_be_written_leaves_the_epoch() -> None:
    scene = held_scene(ADD)
    call = scene.init()
    scene.refuse(E.NOT_ENOUGH_REPLICAS)
    assert error(call) is E.COORDINATOR_NOT_AVAILABLE and scene.state() == "Ongoing"
    scene.holding = False
    assert error(scene.init()) is BUSY and scene.mark().producer_epoch == 1


def test_nothing_else_is_decided_while_a_late_record_is_on_its_way() -> None:
    """
    1. A commit is appended, and takes too long.
    2. A second producer of the id comes to fence the first.
    3. The commit is committed.

    The second producer must not have aborted what was committed.
    """
    scene = held_scene(ADD)
    call = scene.ask(COMMIT)
    scene.time_out()
    assert call.reply is E.COORDINATOR_NOT_AVAILABLE
    assert error(scene.init()) is BUSY and len(scene.held) == 1
    scene.advance(2000)
    assert not scene.sent, "it is not committed"
    scene.holding = False
    scene.commit_late()
    scene.advance(1000)
    assert scene.mark().commit and scene.state() == "CompleteCommit"
    assert scene.end((1, 0)) is OK and scene.producer() == (1, 1)


def test_the_end_of_a_transaction_is_written_again_until_it_is() -> None:
    scene = held_scene(ADD)
    scene.ask(COMMIT)
    scene.commit()
    scene.mark()
    for _ in range(3):
        scene.refuse(E.NOT_ENOUGH_REPLICAS)
        assert scene.state() == "PrepareCommit" and not scene.sent
        scene.advance(200)
    scene.commit()
    assert scene.state() == "CompleteCommit"


def test_a_commit_that_too_few_replicas_have_is_one() -> None:
    scene = held_scene(ADD)
    call = scene.ask(COMMIT)
    append, first = scene.held.popleft()
    scene._apply(append, first)
    scene._call_continuation(append, E.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    assert call.reply is E.COORDINATOR_NOT_AVAILABLE and len(scene.sent) == 1
    scene.holding = False
    assert scene.end((1, 0)) is BUSY
    scene.mark()
    assert scene.end((1, 0)) is OK


def test_listing_tells_all_but_those_that_are_being_removed() -> None:
    scene = TransactionScene()
    scene.producer("a")
    scene.add(scene.producer("b"), name="b")
    scene.put(S.COMPLETE_ABORT, name="c")
    scene.machine.transactions["c"].pending = S.DEAD
    listed = [(each.transactional_id, each.producer_id, each.state) for each in scene.machine.list_transactions()]
    assert listed == [("a", 1, "Empty"), ("b", 2, "Ongoing")]
