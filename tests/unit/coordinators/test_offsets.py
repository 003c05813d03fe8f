"""Offsets are committed, seen once they are in the log, and deleted."""

from __future__ import annotations

import pytest

from kafkalite.coordinators.group.requests import (
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    ForgetPartitions,
    OffsetToCommit,
)
from kafkalite.coordinators.group.settings import GroupSettings
from kafkalite.errors import ErrorCode
from kafkalite.types import TopicPartition
from tests.unit.coordinators.scene import GROUP, Scene
from tests.unit.coordinators.test_membership import balanced


def test_a_member_commits() -> None:
    scene, (member,) = balanced(1)
    assert scene.commit_offsets(("t", 0, 7), ("t", 1, 8), member_id=member, generation=1).reply == [ErrorCode.NONE] * 2
    assert (scene.offset("t", 0), scene.offset("t", 1), scene.offset("t", 2)) == (7, 8, None)


def test_an_offset_is_seen_once_it_is_committed_in_the_log() -> None:
    scene = Scene(holding=True)
    call = scene.commit_offsets(("t", 0, 7))
    assert call.reply is None and scene.offset("t", 0) is None
    scene.commit()
    assert call.reply == [ErrorCode.NONE] and scene.offset("t", 0) == 7


def test_a_commit_of_many_partitions_is_one_batch() -> None:
    scene = Scene(holding=True)
    scene.commit_offsets(*(("t", partition, 1) for partition in range(500)))
    assert len(scene.held) == 1 and len(scene.held[0][0].records) == 500


@pytest.mark.parametrize(
    ("stored", "told"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
    ],
)
def test_a_commit_that_is_not_written(stored: ErrorCode, told: ErrorCode) -> None:
    scene = Scene(holding=True)
    call = scene.commit_offsets(("t", 0, 7))
    scene.refuse(stored)
    assert call.reply == [told] and scene.offset("t", 0) is None


def test_a_commit_that_took_too_long_counts_when_it_gets_there() -> None:
    """Its successor would find it in the log, so this coordinator must not forget it either."""
    scene = Scene(holding=True)
    call = scene.commit_offsets(("t", 0, 7))
    scene.time_out()
    assert call.reply == [ErrorCode.COORDINATOR_NOT_AVAILABLE] and scene.offset("t", 0) is None
    scene.commit_late()
    assert scene.offset("t", 0) == 7 == scene.fail_over().offset("t", 0)


def test_an_old_client_says_when_an_offset_was_committed() -> None:
    scene = Scene()
    wanted = [OffsetToCommit("t", 0, 7, timestamp_ms=1234), OffsetToCommit("t", 1, 8)]
    assert scene.ask(CommitOffsets(GROUP, -1, "", None, wanted)).reply == [ErrorCode.NONE] * 2
    committed = scene.machine.offsets_of(GROUP)["t"]
    assert committed[0].commit_timestamp == 1234
    assert committed[1].commit_timestamp > 1234


def test_who_may_commit() -> None:
    scene = Scene()
    assert scene.commit_offsets(("t", 0, 1), generation=3, member_id="m").reply == [ErrorCode.ILLEGAL_GENERATION]
    assert scene.commit_offsets(("t", 0, 1)).reply == [ErrorCode.NONE], "an administrator, to a group without members"
    scene, (member,) = balanced(1)
    assert scene.commit_offsets(("t", 0, 1)).reply == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert scene.commit_offsets(("t", 0, 1), member_id="m", generation=1).reply == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert scene.commit_offsets(("t", 0, 1), member_id=member, generation=2).reply == [ErrorCode.ILLEGAL_GENERATION]


def test_members_commit_before_they_rejoin_but_not_before_they_sync() -> None:
    scene, (member,) = balanced(1)
    scene.enter()
    assert scene.commit_offsets(("t", 0, 1), member_id=member, generation=1).reply == [ErrorCode.NONE]
    scene.join(member)
    reply = scene.commit_offsets(("t", 0, 2), member_id=member, generation=2).reply
    assert reply == [ErrorCode.REBALANCE_IN_PROGRESS]


def test_a_commit_keeps_the_session_alive() -> None:
    scene, (member,) = balanced(1, session_ms=10_000)
    for offset in range(5):
        scene.advance(9000)
        assert scene.commit_offsets(("t", 0, offset), member_id=member, generation=1).reply == [ErrorCode.NONE]


def test_metadata_that_is_too_long_is_refused_alone() -> None:
    scene = Scene(GroupSettings(offset_metadata_max_bytes=3))
    assert scene.commit_offsets(("t", 0, 1), metadata="four").reply == [ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert not scene.machine.groups or scene.offset("t", 0) is None


# Deletion


def test_offsets_of_a_group_without_members_are_deleted() -> None:
    scene = Scene()
    scene.commit_offsets(("t", 0, 1), ("t", 1, 2))
    reply = scene.ask(DeleteOffsets(GROUP, [TopicPartition("t", 0), TopicPartition("never", 3)])).reply
    assert reply.partition_errors == [ErrorCode.NONE] * 2
    assert scene.offset("t", 0) is None and scene.offset("t", 1) == 2


def test_an_empty_group_goes_with_its_last_offset() -> None:
    scene, (member,) = balanced(1)
    scene.commit_offsets(("t", 0, 1), member_id=member, generation=1)
    scene.leave(member)
    reply = scene.ask(DeleteOffsets(GROUP, [TopicPartition("t", 0)])).reply
    assert reply.partition_errors == [ErrorCode.NONE]
    assert not scene.machine.groups and not scene.fail_over().machine.groups


def test_offsets_of_subscribed_topics_stay() -> None:
    scene, (member,) = balanced(1, metadata=b"\0\0\0\0\0\1\0\1t")
    scene.commit_offsets(("t", 0, 1), ("other", 0, 2), member_id=member, generation=1)
    reply = scene.ask(DeleteOffsets(GROUP, [TopicPartition("t", 0), TopicPartition("other", 0)])).reply
    assert reply.partition_errors == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE]
    assert (scene.offset("t", 0), scene.offset("other", 0)) == (1, None)


def test_a_group_of_another_kind_keeps_its_offsets_while_it_has_members() -> None:
    scene, _ = balanced(1, protocol_type="connect")
    assert scene.ask(DeleteOffsets(GROUP, [TopicPartition("t", 0)])).reply.error is ErrorCode.NON_EMPTY_GROUP
    assert scene.ask(DeleteOffsets("none", [])).reply.error is ErrorCode.GROUP_ID_NOT_FOUND


def test_an_empty_group_is_deleted() -> None:
    scene, (member,) = balanced(1)
    assert scene.ask(DeleteGroup(GROUP)).reply is ErrorCode.NON_EMPTY_GROUP
    scene.commit_offsets(("t", 0, 1), member_id=member, generation=1)
    scene.leave(member)
    assert scene.ask(DeleteGroup(GROUP)).reply is ErrorCode.NONE
    assert not scene.machine.groups and not scene.fail_over().machine.groups
    assert scene.ask(DeleteGroup(GROUP)).reply is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_deletion_is_answered_when_it_is_committed() -> None:
    scene = Scene()
    scene.commit_offsets(("t", 0, 1))
    scene.holding = True
    call = scene.ask(DeleteGroup(GROUP))
    assert call.reply is None
    assert scene.join().reply.error is ErrorCode.COORDINATOR_NOT_AVAILABLE, "whoever comes now comes too early"
    scene.commit()
    assert call.reply is ErrorCode.NONE and not scene.machine.groups


def test_a_deletion_that_fails_leaves_the_group_as_it_was() -> None:
    scene = Scene()
    scene.commit_offsets(("t", 0, 1))
    scene.holding = True
    call = scene.ask(DeleteGroup(GROUP))
    scene.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert call.reply is ErrorCode.COORDINATOR_NOT_AVAILABLE and scene.offset("t", 0) == 1


def test_a_deletion_takes_commits_with_it_that_are_on_their_way() -> None:
    scene = Scene(holding=True)
    scene.commit_offsets(("t", 0, 1))
    scene.ask(DeleteGroup(GROUP))
    scene.commit()
    scene.commit()
    assert not scene.machine.groups and not scene.fail_over().machine.groups


def test_a_large_group_is_deleted_in_batches_that_fit() -> None:
    scene = Scene()
    scene.commit_offsets(*(("t", partition, 1) for partition in range(2500)))
    scene.holding = True
    call = scene.ask(DeleteGroup(GROUP))
    assert [len(append.records) for append, _ in scene.held] == [1000, 1000, 500]
    scene.commit(), scene.commit()
    assert call.reply is None
    scene.commit()
    assert call.reply is ErrorCode.NONE and not scene.machine.groups


def test_offsets_of_deleted_partitions_go_in_all_groups() -> None:
    scene = Scene()
    scene.commit_offsets(("t", 0, 1), ("u", 0, 1), group_id="a")
    scene.commit_offsets(("t", 0, 1), group_id="b")
    scene.ask(ForgetPartitions([TopicPartition("t", 0), TopicPartition("t", 1)]))
    assert (scene.offset("t", 0, "a"), scene.offset("u", 0, "a")) == (None, 1)
    assert "b" not in scene.machine.groups, "nothing of it is left"


# Transactions


def test_an_offset_of_a_transaction_counts_when_that_is_committed() -> None:
    from kafkalite.coordinators.contract import LogRecord
    from kafkalite.coordinators.group.offset_record import CommittedOffset, encode_key, encode_value

    scene = Scene()

    def pending(partition: int, offset: int) -> LogRecord:
        value = encode_value(CommittedOffset(offset, -1, "", 0), 3)
        return LogRecord(0, encode_key(GROUP, "t", partition), value, producer_id=9)

    scene.machine.apply(pending(0, 5))
    scene.machine.apply(pending(1, 6))
    assert scene.offset("t", 0) is None and scene.machine.is_unstable(GROUP, "t", 0)
    scene.commit_offsets(("t", 1, 60))
    scene.machine.apply_marker(9, True)
    assert (scene.offset("t", 0), scene.offset("t", 1)) == (5, 60), "what comes later in the log wins"
    scene.machine.apply(pending(0, 50))
    scene.machine.apply_marker(9, False)
    assert scene.offset("t", 0) == 5 and not scene.machine.is_unstable(GROUP, "t", 0)
