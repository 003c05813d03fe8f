"""Static members (KIP-345) come back under a new id without disturbing the others."""

from __future__ import annotations

import pytest

from kafkalite.config.broker import BrokerConfig
from kafkalite.coordinators.group.group import GroupState
from kafkalite.coordinators.group.requests import CommitOffsets, Heartbeat, JoinReply, OffsetToCommit, Sync, SyncReply
from kafkalite.coordinators.group.settings import GroupSettings
from kafkalite.errors import ErrorCode
from tests.unit.coordinators.scene import GROUP, Call, Scene


def static_group(**settings: int) -> tuple[Scene, list[str]]:
    """A stable group of instances "one" (the leader) and "two"."""
    scene = Scene(**settings)  # type: ignore[arg-type]
    calls = [scene.enter(instance=name) for name in ("one", "two")]
    scene.advance(0)
    scene.balance(*calls)
    return scene, [call.reply.member_id for _, call in calls]


def test_a_static_member_gets_in_without_being_sent_away_for_an_id() -> None:
    scene = Scene()
    call = scene.join(instance="one")
    scene.advance(0)
    assert call.reply.member_id == "one-1" and call.reply.generation == 1


@pytest.mark.parametrize("version", [5, 9])
def test_a_follower_that_comes_back_changes_nothing(version: int) -> None:
    scene, (leader, old) = static_group()
    reply = scene.join(instance="two", version=version).reply
    assert (reply.error, reply.generation, reply.leader) == (ErrorCode.NONE, 1, leader)
    assert reply.member_id not in (old, "") and not reply.members and not reply.skip_assignment
    assert scene.heartbeat(leader) is ErrorCode.NONE
    assert scene.sync(reply.member_id).reply.assignment == old.encode()


def test_a_leader_that_comes_back_is_told_not_to_assign() -> None:
    scene, (old, _) = static_group()
    reply = scene.join(instance="one").reply
    assert reply.leader == reply.member_id and len(reply.members) == 2 and reply.skip_assignment
    assert scene.sync(reply.member_id).reply.assignment == old.encode()


def test_an_old_client_that_led_is_told_of_the_leader_it_was() -> None:
    scene, (old, _) = static_group()
    reply = scene.join(instance="one", version=8).reply
    assert reply.leader == old and not reply.members and not reply.skip_assignment


def test_the_older_holder_of_an_instance_is_fenced() -> None:
    scene, (_, old) = static_group()
    new = scene.join(instance="two").reply.member_id
    assert scene.heartbeat(old, instance="two") is ErrorCode.FENCED_INSTANCE_ID
    assert scene.leave(old, "two") is ErrorCode.FENCED_INSTANCE_ID
    assert scene.join(old, instance="two").reply.error is ErrorCode.FENCED_INSTANCE_ID
    assert scene.ask(Sync(GROUP, 1, old, "two")).reply.error is ErrorCode.FENCED_INSTANCE_ID
    assert scene.heartbeat(new, instance="two") is ErrorCode.NONE


def test_the_older_holder_is_fenced_while_it_waits() -> None:
    scene, (one, two) = static_group()
    waiting = scene.join(one, instance="one")
    assert waiting.reply is None
    new = scene.join(instance="one")
    assert waiting.reply.error is ErrorCode.FENCED_INSTANCE_ID
    scene.join(two, instance="two")
    assert new.reply.generation == 2 and new.reply.leader == new.reply.member_id


def test_the_new_id_is_known_after_a_takeover() -> None:
    scene, _ = static_group()
    new = scene.join(instance="two").reply.member_id
    assert scene.fail_over().heartbeat(new) is ErrorCode.NONE


def test_if_the_new_id_cannot_be_stored_the_old_one_stays() -> None:
    scene, (_, old) = static_group()
    scene.holding = True
    call = scene.join(instance="two")
    scene.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert (call.reply.error, call.reply.member_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
    assert scene.heartbeat(old) is ErrorCode.NONE


def test_a_rebalance_while_the_new_id_is_stored_answers_the_join() -> None:
    scene, (one, _) = static_group()
    scene.holding = True
    back = scene.join(instance="two")
    scene.join(one, instance="one")
    scene.commit()
    assert back.reply.generation == 2 and scene.group().state is GroupState.COMPLETING


def test_a_static_member_with_another_protocol_starts_a_rebalance() -> None:
    scene = Scene()
    calls = [scene.enter(instance=name, protocols=("range", "sticky")) for name in ("one", "two")]
    scene.advance(0)
    scene.balance(*calls)
    back = scene.join(instance="two", protocols=("sticky",))
    assert back.reply is None and scene.group().state is GroupState.PREPARING


def test_a_static_member_keeps_its_place_through_a_rebalance_it_misses() -> None:
    scene, (leader, silent) = static_group()
    call = scene.join(leader, instance="one", rebalance_ms=5000)
    scene.group().members[silent].rebalance_timeout_ms = 5000
    scene.timers.set(scene.group().rebalance_timer, scene.now_ms + 5000)
    scene.advance(5000)
    assert len(call.reply.members) == 2
    scene.ask(Sync(GROUP, 2, leader, "one", assignments={silent: b"kept"}))
    assert silent in scene.group().members
    scene.advance(10_000)
    assert silent not in scene.group().members, "its session ends all the same"


def test_another_member_leads_when_a_static_leader_is_silent() -> None:
    scene, (leader, follower) = static_group()
    scene.group().members[leader].rebalance_timeout_ms = 5000
    call = scene.join(follower, instance="two", rebalance_ms=5000, metadata=b"\0\0\0\0\0\1\0\1n")
    scene.advance(5000)
    assert call.reply.leader == follower and len(call.reply.members) == 2


def test_a_rebalance_waits_while_only_silent_static_members_are_left() -> None:
    scene, (leader, follower) = static_group()
    for member in scene.group().members.values():
        member.rebalance_timeout_ms = 5000
    scene.leave(follower, "two")
    scene.advance(5000)
    assert scene.group().state is GroupState.PREPARING and list(scene.group().members) == [leader]
    scene.advance(5000)
    assert scene.group().state is GroupState.EMPTY


def test_an_administrator_removes_a_static_member_by_its_instance() -> None:
    scene, (one, two) = static_group()
    assert scene.leave(instance="two") is ErrorCode.NONE
    assert list(scene.group().members) == [one] and two not in scene.group().members
    assert scene.leave(instance="two") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_replaces_another_before_it_synced_may_sync() -> None:
    scene = Scene()
    (_, one), (_, two) = scene.enter(instance="one"), scene.enter(instance="two")
    scene.advance(0)
    leader = one.reply.member_id
    scene.ask(Sync(GROUP, 1, leader, "one", assignments={two.reply.member_id: b"x"}))
    new: Call = scene.join(instance="two")
    assert scene.sync(new.reply.member_id).reply.assignment == b"x"
    assert not scene.group().pending_syncs


@pytest.mark.parametrize(("protocol", "is_refused"), [("2.2", True), ("2.3-IV0", False)])
def test_older_coordinators_of_the_cluster_would_lose_the_instance_id(protocol: str, is_refused: bool) -> None:
    """As KafkaApis below an inter.broker.protocol.version of 2.3."""
    config = BrokerConfig.from_properties({"zookeeper.connect": "z", "inter.broker.protocol.version": protocol})
    scene = Scene(settings=GroupSettings.from_config(config))
    offsets = [OffsetToCommit("t", 0, 5, 5, "")]
    replies = (
        scene.join(instance="one").reply,
        scene.ask(Sync(GROUP, 1, "m", "one")).reply,
        scene.ask(Heartbeat(GROUP, 1, "m", "one")).reply,
        scene.ask(CommitOffsets(GROUP, 1, "m", "one", offsets)).reply,
    )
    refused = ErrorCode.UNSUPPORTED_VERSION
    assert (replies == (JoinReply(refused), SyncReply(refused), refused, [refused])) is is_refused
    assert scene.join().reply.error is ErrorCode.MEMBER_ID_REQUIRED
