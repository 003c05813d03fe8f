"""Members come, get their share, and go."""

from __future__ import annotations

import pytest

from kafkalite.coordinators.group.group import GroupState
from kafkalite.coordinators.group.requests import Sync
from kafkalite.coordinators.group.settings import GroupSettings
from kafkalite.errors import ErrorCode
from tests.unit.coordinators.scene import GROUP, QUICK, Scene


def balanced(count: int, scene: Scene | None = None, **settings: object) -> tuple[Scene, list[str]]:
    """A stable group of `count` dynamic members."""
    scene = scene or Scene()
    entered = [scene.enter(**settings) for _ in range(count)]
    scene.advance(0)
    scene.advance(scene.settings.initial_rebalance_delay_ms)
    scene.balance(*entered)
    assert scene.group().state is GroupState.STABLE
    return scene, [member_id for member_id, _ in entered]


def test_a_newcomer_is_given_an_id_first() -> None:
    scene = Scene()
    reply = scene.join(client="app").reply
    assert (reply.error, reply.member_id, reply.generation) == (ErrorCode.MEMBER_ID_REQUIRED, "app-1", -1)


def test_an_old_client_joins_without_an_id() -> None:
    scene = Scene()
    call = scene.join(version=3)
    scene.advance(0)
    assert call.reply.generation == 1 and call.reply.member_id == "c-1"


def test_a_group_waits_for_more_members_before_its_first_generation() -> None:
    scene = Scene(GroupSettings(initial_rebalance_delay_ms=3000))
    first = scene.enter()
    scene.advance(2000)
    second = scene.enter()
    scene.advance(1000)
    assert first[1].reply is None, "a member came during the delay, so it is prolonged"
    scene.advance(3000)
    assert first[1].reply.generation == second[1].reply.generation == 1
    assert len(first[1].reply.members) == 2 and not second[1].reply.members, "only the leader gets the members"


def test_the_initial_delay_is_bounded_by_the_rebalance_timeout() -> None:
    scene = Scene(GroupSettings(initial_rebalance_delay_ms=3000))
    calls = [scene.enter(rebalance_ms=7000)]
    for _ in range(6):
        scene.advance(1000)
        calls.append(scene.enter(rebalance_ms=7000))
    scene.advance(4000)
    assert all(call.reply is not None for _, call in calls)


def test_everybody_gets_what_the_leader_assigned() -> None:
    scene = Scene()
    members = [scene.enter() for _ in range(3)]
    scene.advance(0)
    assert scene.balance(*members) == {member_id: member_id.encode() for member_id, _ in members}


def test_followers_wait_for_the_leaders_assignment_to_be_committed() -> None:
    scene = Scene(holding=True)
    (leader, first), (follower, second) = scene.enter(), scene.enter()
    scene.advance(0)
    assert first.reply.leader == leader
    waiting = scene.sync(follower)
    leading = scene.ask(Sync(GROUP, 1, leader, assignments={follower: b"F", leader: b"L"}))
    assert waiting.reply is None and leading.reply is None
    assert second.reply.generation == 1
    scene.commit()
    assert (waiting.reply.assignment, leading.reply.assignment) == (b"F", b"L")


@pytest.mark.parametrize(
    ("stored", "told"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_an_assignment_that_cannot_be_stored_starts_over(stored: ErrorCode, told: ErrorCode) -> None:
    scene = Scene(holding=True)
    leader, _ = scene.enter()
    scene.advance(0)
    syncing = scene.sync(leader)
    scene.refuse(stored)
    assert syncing.reply.error is told and scene.group().state is GroupState.PREPARING


def test_an_assignment_that_is_stored_too_late_does_not_count() -> None:
    """A newcomer began the next generation meanwhile; its members must not get the shares of the one before."""
    scene = Scene(holding=True)
    first, _ = scene.enter()
    scene.advance(0)
    scene.ask(Sync(GROUP, 1, first, assignments={first: b"old"}))
    newcomer, _ = scene.enter()
    scene.join(first)
    waiting = scene.sync(newcomer)
    scene.commit()
    assert waiting.reply is None and scene.group().state is GroupState.COMPLETING
    scene.ask(Sync(GROUP, 2, first, assignments={newcomer: b"new"}))
    scene.commit()
    assert waiting.reply.assignment == b"new"


def test_who_waits_for_an_assignment_is_told_when_another_rebalance_begins() -> None:
    scene = Scene()
    (_, _), (follower, _) = scene.enter(), scene.enter()
    scene.advance(0)
    waiting = scene.sync(follower)
    scene.enter()
    assert waiting.reply.error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_that_comes_makes_the_others_rejoin() -> None:
    scene, (first,) = balanced(1)
    newcomer = scene.enter()
    assert scene.heartbeat(first) is ErrorCode.REBALANCE_IN_PROGRESS
    rejoined = scene.join(first)
    assert rejoined.reply.generation == newcomer[1].reply.generation == 2


def test_a_follower_that_rejoins_unchanged_gets_the_present_generation() -> None:
    scene, (_, follower) = balanced(2)
    reply = scene.join(follower).reply
    assert reply.generation == 1 and not reply.members and scene.group().state is GroupState.STABLE


def test_a_leader_that_rejoins_has_everybody_rejoin() -> None:
    scene, (leader, follower) = balanced(2)
    rejoined = scene.join(leader)
    assert scene.heartbeat(follower) is ErrorCode.REBALANCE_IN_PROGRESS
    scene.join(follower)
    assert rejoined.reply.generation == 2


def test_who_does_not_rejoin_in_time_is_dropped() -> None:
    scene, (first, second) = balanced(2, session_ms=100_000, rebalance_ms=5000)
    rejoined = scene.join(first, session_ms=100_000, rebalance_ms=5000)
    scene.advance(4999)
    assert rejoined.reply is None
    scene.advance(1)
    assert rejoined.reply.generation == 2 and len(rejoined.reply.members) == 1
    assert scene.heartbeat(second) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_silent_member_is_dropped_when_its_session_ends() -> None:
    scene, (first, second) = balanced(2, session_ms=10_000)
    for _ in range(9):
        scene.advance(1000)
        assert scene.heartbeat(second) is ErrorCode.NONE
    scene.advance(1000)
    assert scene.heartbeat(second) is ErrorCode.REBALANCE_IN_PROGRESS
    assert scene.heartbeat(first) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_session_does_not_end_while_we_owe_the_member_an_answer() -> None:
    scene, (first, second) = balanced(2, session_ms=10_000, rebalance_ms=60_000)
    rejoined = scene.join(first)
    for _ in range(50):
        scene.advance(1000)
        scene.heartbeat(second)
    assert rejoined.reply is None
    scene.join(second)
    assert rejoined.reply.generation == 2


def test_a_new_member_that_vanishes_while_it_waits_is_dropped_after_five_minutes() -> None:
    scene, (first,) = balanced(1, session_ms=600_000, rebalance_ms=3_000_000)
    scene.enter(rebalance_ms=3_000_000)
    scene.advance(299_999)
    assert len(scene.group().members) == 2
    scene.advance(1)
    assert list(scene.group().members) == [first]


def test_an_id_that_was_handed_out_and_not_used_is_forgotten() -> None:
    scene, (first,) = balanced(1)
    handed_out = scene.join().reply.member_id
    rejoined = scene.join(first)
    assert rejoined.reply is None, "somebody may be about to join"
    scene.advance(10_000)
    assert rejoined.reply.generation == 2
    assert scene.join(handed_out).reply.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_that_only_handed_out_an_id_leaves_nothing_behind() -> None:
    scene = Scene()
    scene.join()
    scene.advance(10_000)
    assert not scene.machine.groups and not scene.log


def test_members_that_never_sync_are_dropped() -> None:
    scene = Scene()
    (leader, first), (idle, _) = scene.enter(rebalance_ms=5000), scene.enter(rebalance_ms=5000)
    scene.advance(0)
    scene.ask(Sync(GROUP, first.reply.generation, leader, assignments={}))
    for _ in range(5):
        scene.advance(1000)
        if idle in scene.group().members:
            scene.heartbeat(idle)
    assert list(scene.group().members) == [leader] and scene.group().state is GroupState.PREPARING


def test_a_member_that_leaves_makes_room_at_once() -> None:
    scene, (first, second) = balanced(2)
    assert scene.leave(first) is ErrorCode.NONE
    assert scene.heartbeat(second) is ErrorCode.REBALANCE_IN_PROGRESS
    assert scene.join(second).reply.leader == second


def test_a_group_is_empty_when_the_last_member_leaves() -> None:
    scene, (only,) = balanced(1)
    scene.leave(only)
    group = scene.group()
    assert (group.state, group.generation, group.protocol, group.leader_id) == (GroupState.EMPTY, 2, None, None)


def test_who_is_no_member_is_told_so() -> None:
    scene, (first,) = balanced(1)
    assert scene.heartbeat("nobody") is ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.leave("nobody") is ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.join("nobody").reply.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.sync("nobody").reply.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.heartbeat(first, 7) is ErrorCode.ILLEGAL_GENERATION
    assert scene.sync(first, 7).reply.error is ErrorCode.ILLEGAL_GENERATION


def test_a_group_that_is_not_there() -> None:
    scene = Scene()
    assert scene.join("somebody").reply.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.sync("somebody").reply.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.heartbeat("somebody", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.leave("somebody") is ErrorCode.UNKNOWN_MEMBER_ID
    assert not scene.machine.groups


def test_sync_checks_the_protocol() -> None:
    scene, (first,) = balanced(1)
    wrong = Sync(GROUP, 1, first, protocol_type="consumer", protocol="roundrobin")
    assert scene.ask(wrong).reply.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    right = Sync(GROUP, 1, first, protocol_type="consumer", protocol="range")
    assert scene.ask(right).reply.error is ErrorCode.NONE


def test_session_timeouts_have_bounds() -> None:
    scene = Scene()
    for session_ms in (5999, 1_800_001):
        assert scene.join(session_ms=session_ms).reply.error is ErrorCode.INVALID_SESSION_TIMEOUT


def test_members_must_have_a_protocol_in_common() -> None:
    scene, _ = balanced(1, protocols=("range", "sticky"))
    assert scene.join(protocols=("roundrobin",)).reply.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert scene.join(protocol_type="connect").reply.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert scene.join(protocols=()).reply.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert scene.join(protocols=("sticky",)).reply.error is ErrorCode.MEMBER_ID_REQUIRED


def test_most_votes_choose_the_protocol() -> None:
    scene = Scene()
    calls = [
        scene.enter(protocols=names)
        for names in (("range", "sticky"), ("sticky", "range", "mine"), ("sticky", "range"))
    ]
    scene.advance(0)
    assert {call.reply.protocol for _, call in calls} == {"sticky"}


def test_a_group_may_be_full() -> None:
    scene, (first,) = balanced(1, Scene(GroupSettings(initial_rebalance_delay_ms=0, max_size=1)))
    reply = scene.join().reply
    assert reply.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert scene.heartbeat(first) is ErrorCode.NONE


def test_when_a_group_shrinks_the_last_to_rejoin_are_refused() -> None:
    scene, members = balanced(3)
    for group in scene.machine.groups.values():
        group.settings = GroupSettings(initial_rebalance_delay_ms=0, max_size=2)
    calls = [scene.join(member_id) for member_id in members]
    assert [call.reply and call.reply.error for call in calls] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
    ]


def test_a_join_that_is_sent_again_replaces_the_one_before() -> None:
    scene, (first, _) = balanced(2)
    older, newer = scene.join(first), scene.join(first)
    assert older.reply.error is ErrorCode.REBALANCE_IN_PROGRESS and newer.reply is None


def test_a_heartbeat_costs_the_same_in_a_large_group() -> None:
    """One timer is set, whatever the size; nothing is iterated."""
    scene, members = balanced(200, Scene(QUICK))
    from kafkalite.coordinators.group.requests import Heartbeat
    from tests.unit.coordinators.scene import Call

    decision = scene.machine.decide(Heartbeat(GROUP, 1, members[7]), Call(), scene.now())
    assert (len(decision.answers), len(decision.timers), len(decision.appends)) == (1, 1, 0)


def test_members_keep_once_what_they_have_in_common() -> None:
    scene, members = balanced(3, protocols=("range", "roundrobin"))
    first, second, third = (scene.group().members[each] for each in members)
    assert first.protocols is second.protocols is third.protocols and first.client_host is third.client_host
    scene.join(members[2], protocols=("range",), metadata=b"its own")
    assert third.protocols == [("range", b"its own")] and third.metadata("range") != first.metadata("range")
