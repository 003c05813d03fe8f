"""The member's state machine, without tasks and brokers: what it asks, what it orders, what it does about errors."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.client.consumer.options import ConsumerOptions
from kafkalite.client.errors import ClientError
from kafkalite.client.group.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kafkalite.client.group.member_states import PREDECESSORS, MemberState
from kafkalite.client.group.membership import Membership
from kafkalite.client.group.membership_requests import MembershipSettings
from kafkalite.client.group.membership_steps import Assign, Lead, Lose, Revoke, Send
from kafkalite.errors import ErrorCode, InvariantBroken
from kafkalite.protocol import messages
from kafkalite.types import TopicPartition

JOIN = messages.join_group_response.JoinGroupResponse
SYNC = messages.sync_group_response.SyncGroupResponse
BEAT = messages.heartbeat_response.HeartbeatResponse
T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


def member(strategy: str = "range", **settings: Any) -> Membership:
    options = ConsumerOptions(group_id="g", partition_assignment_strategy=strategy, **settings)
    made = Membership(MembershipSettings.of(options))
    made.subscribe(["t"], 0)
    return made


def sent(target: Membership, now_ms: float = 0) -> Any:
    step = target.next_step(now_ms)
    assert isinstance(step, Send), step
    assert target.next_step(now_ms) is None, "one step at a time"
    return step.message


def join(target: Membership, generation: int = 1, now_ms: float = 0, **facts: Any) -> Any:
    """Let it join and sync as a follower; the SyncGroup request is left to be answered."""
    request = sent(target, now_ms)
    facts = {"member_id": "m1", "leader": "other", "protocol_name": request.protocols[0].name, **facts}
    target.handle_response(JOIN(generation_id=generation, **facts), now_ms)
    return request


def assigned(target: Membership, *partitions: TopicPartition, generation: int = 1, now_ms: float = 0) -> None:
    join(target, generation, now_ms)
    sent(target, now_ms)
    target.handle_response(SYNC(assignment=encode_assignment(Assignment(partitions))), now_ms)
    while isinstance(step := target.next_step(now_ms), Revoke | Assign):
        if isinstance(step, Revoke):
            target.complete_revocation()
    assert step is None and set(target.partitions.owned) == set(partitions)


def test_a_member_gets_an_id_joins_and_is_assigned() -> None:
    target = member()
    first = sent(target)
    assert (first.member_id, first.group_id, first.protocol_type) == ("", "g", "consumer")
    target.handle_response(JOIN(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="m1"), 0)
    assert join(target).member_id == "m1"
    sync = sent(target)
    assert (sync.generation_id, sync.member_id, sync.assignments) == (1, "m1", [])
    target.handle_response(SYNC(assignment=encode_assignment(Assignment((T0, T1)))), 0)
    assert target.next_step(0) == Assign((T0, T1))
    assert target.next_step(0) is None and target.is_stable and target.partitions.owned == (T0, T1)


def test_the_leader_assigns_for_all() -> None:
    target = member()
    request = sent(target)
    mine = request.protocols[0].metadata
    other = encode_subscription(Subscription(("t", "u")))
    m = messages.join_group_response.JoinGroupResponseMember
    members = [m(member_id="m1", metadata=mine), m(member_id="m0", metadata=other)]
    target.handle_response(
        JOIN(generation_id=1, member_id="m1", leader="m1", protocol_name="range", members=members), 0
    )
    assert target.next_step(0) == Lead(frozenset({"t", "u"}))
    target.lead({"t": 3, "u": 1, "unrelated": 9})
    given = {each.member_id: decode_assignment(each.assignment).partitions for each in sent(target).assignments}
    assert given == {"m0": (T0, T1, TopicPartition("u", 0)), "m1": (T2,)}


def test_a_static_leader_that_comes_back_assigns_nothing() -> None:
    """The coordinator keeps what is assigned (KIP-814), and does not hand out what such a leader sends."""
    target = member(group_instance_id="i")
    request = sent(target)
    metadata = request.protocols[0].metadata
    members = [messages.join_group_response.JoinGroupResponseMember(member_id="m1", metadata=metadata)]
    facts = {"generation_id": 1, "member_id": "m1", "leader": "m1", "protocol_name": "range", "members": members}
    target.handle_response(JOIN(**facts, skip_assignment=True), 0)
    assert target.next_step(0) == Lead(frozenset({"t"}), skips_assignment=True)
    target.lead({"t": 3})
    assert sent(target).assignments == []


def test_eager_members_give_up_everything_before_they_join_again() -> None:
    target = member("range")
    assigned(target, T0, T1)
    beat = target.next_heartbeat(4000)
    target.handle_heartbeat(beat, BEAT(error_code=ErrorCode.REBALANCE_IN_PROGRESS), 4000)
    assert target.next_step(4000) == Revoke((T0, T1))
    assert target.next_step(4000) is None and target.next_heartbeat(8000) is not None, "it still beats while it commits"
    target.complete_revocation()
    request = sent(target, 4000)
    assert decode_subscription(request.protocols[0].metadata).owned_partitions == ()


def test_cooperative_members_keep_what_they_own_and_join_again_after_giving_up() -> None:
    target = member("cooperative-sticky")
    assigned(target, T0, T1)
    target.rejoin("test")
    request = join(target, generation=2)
    owned = decode_subscription(request.protocols[0].metadata)
    assert (owned.owned_partitions, owned.generation_id) == ((T0, T1), 1)
    sent(target)
    target.handle_response(SYNC(assignment=encode_assignment(Assignment((T1,)))), 0)
    assert target.next_step(0) == Revoke((T0,))
    target.complete_revocation()
    assert target.partitions.owned == (T1,)
    assert target.next_step(0) == Assign(())
    again = sent(target)
    assert decode_subscription(again.protocols[0].metadata).owned_partitions == (T1,)


def test_a_partition_that_was_lost_and_came_back_is_another_tenure() -> None:
    target = member()
    assigned(target, T0, T1)
    before = target.partitions.tenures
    assert target.partitions.still_in(before, [T0, T1])
    target.handle_heartbeat(target.next_heartbeat(4000), BEAT(error_code=ErrorCode.ILLEGAL_GENERATION), 4000)
    assert target.next_step(4000) == Lose((T0, T1))
    target.complete_loss()
    assert not target.partitions.still_in(before, [T0])
    assigned(target, T0, generation=3, now_ms=4000)
    assert target.partitions.owned == (T0,)
    assert not target.partitions.still_in(before, [T0]), "somebody else may have had it meanwhile"
    assert not target.partitions.still_in(before, [T1])
    assert target.partitions.still_in(before, [T2]), "what it never read is the program's own affair"
    assert target.partitions.still_in(target.partitions.tenures, [T0])


def test_what_a_cooperative_member_keeps_is_the_same_tenure() -> None:
    target = member("cooperative-sticky")
    assigned(target, T0, T1)
    before = target.partitions.tenures
    target.rejoin("test")
    assigned(target, T0, T1, T2, generation=2)
    assert target.partitions.still_in(before, [T0, T1])


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_a_member_that_the_group_forgot_loses_its_partitions_and_joins_again(code: ErrorCode) -> None:
    target = member()
    assigned(target, T0)
    target.handle_heartbeat(target.next_heartbeat(4000), BEAT(error_code=code), 4000)
    assert not target.is_member and target.next_step(4000) == Lose((T0,))
    target.complete_loss()
    assert target.partitions.owned == ()
    assert sent(target, 4000).member_id == ("" if code is ErrorCode.UNKNOWN_MEMBER_ID else "m1")


def test_a_generation_that_the_members_own_join_ended_is_no_loss() -> None:
    """The answers to a heartbeat and to a commit overtake the answer to the JoinGroup: they come by another connection."""
    target = member("cooperative-sticky")
    assigned(target, T0, T1)
    assert not target.may_have_left(1)
    beat = target.next_heartbeat(4000)
    target.rejoin("test")
    sent(target, 4000)
    target.handle_heartbeat(beat, BEAT(error_code=ErrorCode.ILLEGAL_GENERATION), 4001)
    assert target.may_have_left(1)
    assert target.is_member and target.partitions.owned == (T0, T1)
    assert target.next_step(4001) is None, "the answer to the JoinGroup is still awaited"


def test_a_generation_that_an_unanswered_join_may_have_ended_is_no_loss() -> None:
    """The JoinGroup reached the coordinator, its answer was lost with the connection."""
    target = member("cooperative-sticky")
    assigned(target, T0, T1)
    beat = target.next_heartbeat(4000)
    target.rejoin("test")
    sent(target, 4000)
    target.handle_no_response(4001)
    assert target.may_have_left(1)
    target.handle_heartbeat(beat, BEAT(error_code=ErrorCode.ILLEGAL_GENERATION), 4002)
    assert target.is_member and target.partitions.to_lose == ()
    assigned(target, T0, T1, generation=3, now_ms=5000)
    assert not target.may_have_left(3), "the answer that came settles it"


@pytest.mark.parametrize("generation", [1, 49, 52])
def test_partitions_are_lost_when_the_group_had_a_generation_without_the_member(generation: int) -> None:
    """It had generation 50. Another member may have had them meanwhile, and committed."""
    target = member("cooperative-sticky")
    assigned(target, T0, T1, generation=50)
    before = target.partitions.tenures
    target.rejoin("test")
    join(target, generation)
    assert target.next_step(0) == Lose((T0, T1))
    assert target.is_member and target.partitions.owned == () and not target.partitions.still_in(before, [T0])
    target.complete_loss()
    sent(target)
    target.handle_response(SYNC(assignment=encode_assignment(Assignment((T1,)))), 0)
    assert target.next_step(0) == Assign((T1,)), "nothing is left to be revoked"


@pytest.mark.parametrize("generation", [50, 51])
def test_partitions_are_kept_in_the_same_and_in_the_next_generation(generation: int) -> None:
    """A coordinator answers with the present generation when the JoinGroup changes nothing."""
    target = member("cooperative-sticky")
    assigned(target, T0, T1, generation=50)
    target.rejoin("test")
    join(target, generation)
    assert isinstance(target.next_step(0), Send) and target.partitions.owned == (T0, T1)


@pytest.mark.parametrize("facts", [{"generation": -1}, {"member_id": ""}])
def test_a_join_answer_without_a_generation_or_a_member_id_is_no_success(facts: dict[str, Any]) -> None:
    target = member()
    join(target, **facts)
    assert target.state is MemberState.OUT and not target.is_member
    assert target.take_coordinator_loss() and target.next_step(50) is None
    assert isinstance(sent(target, 200), messages.join_group_request.JoinGroupRequest)


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.REQUEST_TIMED_OUT])
def test_a_heartbeat_that_failed_for_the_moment_is_sent_again(code: ErrorCode) -> None:
    target = member()
    assigned(target, T0)
    target.handle_heartbeat(target.next_heartbeat(4000), BEAT(error_code=code), 4000)
    assert target.failure is None and target.partitions.owned == (T0,)
    assert target.next_heartbeat(4050) is None and target.next_heartbeat(4100) is not None


def test_a_member_that_was_forgotten_while_it_joins_loses_its_partitions() -> None:
    target = member("cooperative-sticky")
    assigned(target, T0)
    beat = target.next_heartbeat(4000)
    target.rejoin("test")
    sent(target, 4000)
    target.handle_heartbeat(beat, BEAT(error_code=ErrorCode.UNKNOWN_MEMBER_ID), 4001)
    assert not target.is_member and not target.may_have_left(1)


def test_a_fenced_instance_stops_for_good() -> None:
    target = member(group_instance_id="i")
    assigned(target, T0)
    beat = target.next_heartbeat(4000)
    assert beat.group_instance_id == "i"
    target.handle_heartbeat(beat, BEAT(error_code=ErrorCode.FENCED_INSTANCE_ID), 4000)
    assert target.next_step(4000) == Lose((T0,))
    target.complete_loss()
    assert target.next_step(9000) is None and target.next_heartbeat(9000) is None
    assert target.failure is not None and target.failure.code is ErrorCode.FENCED_INSTANCE_ID


def test_static_members_do_not_leave_and_dynamic_ones_do() -> None:
    static, dynamic = member(group_instance_id="i"), member()
    for each in (static, dynamic):
        assigned(each, T0)
    assert static.leave_request("bye") is None
    assert dynamic.leave_request("bye").members[0].member_id == "m1"


def test_a_program_that_does_not_poll_loses_its_place() -> None:
    target = member(max_poll_interval_ms=10_000)
    assigned(target, T0)
    target.note_poll(5_000)
    target.handle_heartbeat(target.next_heartbeat(14_000), BEAT(), 14_000)
    leaving = target.next_heartbeat(15_001)
    assert isinstance(leaving, messages.leave_group_request.LeaveGroupRequest) and target.stalled
    assert target.next_step(15_001) == Lose((T0,))
    target.complete_loss()
    assert target.next_step(20_000) is None, "it stays out while the program is away"
    target.note_poll(30_000)
    assert sent(target, 30_000).member_id == ""


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_the_coordinator_is_looked_for_again(code: ErrorCode) -> None:
    target = member()
    sent(target)
    target.handle_response(JOIN(error_code=code), 0)
    assert target.take_coordinator_loss() and target.next_step(50) is None
    assert target.next_event_ms() == 100
    sent(target, 100)
    target.handle_no_response(100)
    assert target.take_coordinator_loss()
    sent(target, 200)


def test_a_silent_coordinator_is_given_up_after_the_session() -> None:
    target = member(session_timeout_ms=10_000)
    assigned(target, T0)
    beat = target.next_heartbeat(3_000)
    target.handle_heartbeat(beat, None, 9_000)
    assert target.take_coordinator_loss() and target.next_heartbeat(9_050) is None
    assert target.next_heartbeat(9_100) is not None


@pytest.mark.parametrize("code", [ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.INCONSISTENT_GROUP_PROTOCOL])
def test_refusals_end_the_membership(code: ErrorCode) -> None:
    target = member()
    sent(target)
    target.handle_response(JOIN(error_code=code), 0)
    assert target.failure is not None and target.failure.code is code and target.next_step(99_999) is None


def test_sync_in_the_middle_of_another_rebalance_joins_again() -> None:
    target = member()
    join(target)
    sent(target)
    target.handle_response(SYNC(error_code=ErrorCode.REBALANCE_IN_PROGRESS), 0)
    assert isinstance(sent(target), messages.join_group_request.JoinGroupRequest)


def test_unsubscribing_gives_up_and_leaves() -> None:
    target = member()
    assigned(target, T0)
    target.subscribe([], 0)
    assert target.next_step(0) == Revoke((T0,))
    target.complete_revocation()
    assert sent(target).members[0].member_id == "m1"
    target.handle_response(None, 0)
    assert target.next_step(0) is None and target.state is MemberState.OUT


def test_answers_of_another_life_change_nothing() -> None:
    target = member("cooperative-sticky")
    assigned(target, T0)
    target.rejoin("test")
    sent(target)
    target.handle_commit_error(ErrorCode.UNKNOWN_MEMBER_ID, 1, "m1")
    assert target.state is MemberState.OUT
    target.handle_response(JOIN(generation_id=7, member_id="m1", leader="x", protocol_name="cooperative-sticky"), 0)
    assert target.state is MemberState.OUT and target.generation == -1
    assert target.next_step(0) == Lose((T0,))


def test_states_follow_the_table() -> None:
    """A member that is out cannot be stable at once; whatever it was, it can always be out."""
    target = member()
    with pytest.raises(InvariantBroken, match="from out to stable"):
        target._move_to(MemberState.STABLE)
    assert target.state is MemberState.OUT and PREDECESSORS[MemberState.OUT] == set(MemberState)
    assert set(PREDECESSORS) == set(MemberState)


def test_a_request_that_cannot_be_sent_ends_the_membership() -> None:
    target = member()
    sent(target)
    target.fail_request(ClientError(ErrorCode.UNSUPPORTED_VERSION, "JoinGroup"), 0)
    assert target.failure is not None and target.state is MemberState.OUT and target.next_step(10_000) is None


def test_the_loss_of_the_coordinator_is_told_once() -> None:
    target = member()
    sent(target)
    target.handle_no_response(0)
    assert target.take_coordinator_loss() and not target.take_coordinator_loss()
