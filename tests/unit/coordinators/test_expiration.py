"""Offsets that nobody needs go after offsets.retention.minutes, and groups with them (KIP-186, KIP-211)."""

from __future__ import annotations

from kafkalite.coordinators.contract import LogRecord
from kafkalite.coordinators.group import group_record
from kafkalite.coordinators.group.group_record import NO_TIMESTAMP, StoredGroup
from kafkalite.coordinators.group.settings import GroupSettings
from kafkalite.errors import ErrorCode
from tests.unit.coordinators.scene import GROUP, Scene
from tests.unit.coordinators.test_membership import balanced

CHECK_MS, RETENTION_MS = 1000, 100_000
SETTINGS = GroupSettings(
    initial_rebalance_delay_ms=0, offsets_retention_ms=RETENTION_MS, offsets_retention_check_interval_ms=CHECK_MS
)


def live(scene: Scene, member: str, ms: int) -> None:
    """Let time pass in which the member sends heartbeats."""
    for _ in range(ms // 1000):
        scene.advance(1000)
        assert scene.heartbeat(member) is ErrorCode.NONE


def test_a_consumer_that_assigns_itself_loses_each_offset_by_its_own_age() -> None:
    scene = Scene(SETTINGS)
    scene.commit_offsets(("t", 0, 1))
    scene.advance(RETENTION_MS // 2)
    scene.commit_offsets(("t", 1, 1))
    scene.advance(RETENTION_MS // 2)
    assert (scene.offset("t", 0), scene.offset("t", 1)) == (None, 1)
    scene.advance(RETENTION_MS // 2)
    assert not scene.machine.groups and not scene.fail_over().machine.groups


def test_an_empty_group_loses_all_when_it_has_been_empty_long_enough() -> None:
    scene, (member,) = balanced(1, Scene(SETTINGS))
    scene.commit_offsets(("t", 0, 1), member_id=member, generation=1)
    live(scene, member, 2 * RETENTION_MS)
    scene.leave(member)
    scene.advance(RETENTION_MS - CHECK_MS)
    assert scene.offset("t", 0) == 1
    scene.advance(CHECK_MS)
    assert not scene.machine.groups


def test_the_time_of_becoming_empty_survives_a_takeover() -> None:
    scene, (member,) = balanced(1, Scene(SETTINGS))
    scene.commit_offsets(("t", 0, 1), member_id=member, generation=1)
    scene.leave(member)
    scene.advance(RETENTION_MS // 2)
    successor = scene.fail_over()
    successor.advance(RETENTION_MS // 2)
    assert not successor.machine.groups


def test_a_group_stored_by_an_old_broker_has_no_such_time() -> None:
    scene = Scene(SETTINGS)
    stored = StoredGroup("consumer", 4, None, None, NO_TIMESTAMP, ())
    value = group_record.encode_value(stored, 1)
    scene.machine.apply(LogRecord(0, group_record.encode_key(GROUP), value))
    scene.commit_offsets(("t", 0, 1))
    scene.group().restore()
    scene.advance(RETENTION_MS - 1)
    assert scene.offset("t", 0) == 1
    scene.advance(CHECK_MS)
    assert not scene.machine.groups


def test_members_keep_the_offsets_of_what_they_are_subscribed_to() -> None:
    scene, (member,) = balanced(1, Scene(SETTINGS), metadata=b"\0\0\0\0\0\1\0\1t")
    scene.commit_offsets(("t", 0, 1), ("left", 0, 1), member_id=member, generation=1)
    live(scene, member, RETENTION_MS + CHECK_MS)
    assert (scene.offset("t", 0), scene.offset("left", 0)) == (1, None)


def test_a_group_of_another_kind_keeps_all_while_it_has_members() -> None:
    scene, (member,) = balanced(1, Scene(SETTINGS), protocol_type="connect")
    scene.commit_offsets(("t", 0, 1), member_id=member, generation=1)
    live(scene, member, RETENTION_MS + CHECK_MS)
    assert scene.offset("t", 0) == 1


def test_an_offset_may_have_its_own_expiry() -> None:
    scene, (member,) = balanced(1, Scene(SETTINGS), metadata=b"\0\0\0\0\0\1\0\1x")
    scene.commit_offsets(("t", 0, 1), member_id=member, generation=1, retention_ms=5000)
    live(scene, member, 4000)
    assert scene.offset("t", 0) == 1
    live(scene, member, 2000)
    assert scene.offset("t", 0) is None


def test_what_is_being_committed_does_not_expire() -> None:
    scene = Scene(SETTINGS)
    scene.commit_offsets(("t", 0, 1))
    scene.advance(RETENTION_MS - CHECK_MS)
    scene.holding = True
    scene.commit_offsets(("t", 0, 2))
    scene.advance(5 * CHECK_MS)
    scene.commit()
    assert scene.offset("t", 0) == 2 and not scene.held


def test_tombstones_that_fail_are_tried_again() -> None:
    scene = Scene(SETTINGS)
    scene.commit_offsets(("t", 0, 1))
    scene.holding = True
    scene.advance(RETENTION_MS)
    scene.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert scene.offset("t", 0) == 1
    scene.holding = False
    scene.advance(CHECK_MS)
    assert not scene.machine.groups
