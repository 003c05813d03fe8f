"""Offsets are committed, seen once they are in the log, and deleted."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.coordinators.contract import Transaction
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
from tests.unit.coordinators.scene import GROUP, Call, Scene
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


def test_a_group_with_a_long_name_is_deleted_in_batches_that_fit() -> None:
    """A batch of many keys with the same 32 KiB would be above max.message.bytes, and the offsets would never go."""
    scene, name = Scene(), "g" * 32_000
    scene.commit_offsets(*(("t", partition, 1) for partition in range(20)), group_id=name)
    scene.holding = True
    call = scene.ask(DeleteGroup(name))
    sizes = [sum(len(record.key) for record in append.records) for append, _ in scene.held]
    assert len(sizes) > 1 and max(sizes) <= 256 * 1024
    while scene.held:
        scene.commit()
    assert call.reply is ErrorCode.NONE and not scene.machine.groups


def test_offsets_of_deleted_partitions_go_in_all_groups() -> None:
    scene = Scene()
    scene.commit_offsets(("t", 0, 1), ("u", 0, 1), group_id="a")
    scene.commit_offsets(("t", 0, 1), group_id="b")
    scene.ask(ForgetPartitions({"t": [TopicPartition("t", 0), TopicPartition("t", 1)]}))
    assert (scene.offset("t", 0, "a"), scene.offset("u", 0, "a")) == (None, 1)
    assert "b" not in scene.machine.groups, "nothing of it is left"


# Transactions


PRODUCER = 9


def commit_in_transaction(
    scene: Scene, offset: int, partition: int = 0, producer_id: int = PRODUCER, **who: Any
) -> Call:
    """Offset of topic t; `who` may have member_id, generation, instance_id."""
    return scene.ask(
        CommitOffsets(
            GROUP,
            who.get("generation", -1),
            who.get("member_id", ""),
            who.get("instance_id"),
            [OffsetToCommit("t", partition, offset)],
            transaction=Transaction(producer_id, 3),
        )
    )


def test_an_offset_of_a_transaction_counts_when_that_is_committed() -> None:
    scene = Scene()
    for partition, offset in ((0, 5), (1, 6)):
        assert commit_in_transaction(scene, offset, partition).reply == [ErrorCode.NONE]
    assert scene.offset("t", 0) is None and scene.machine.is_unstable(GROUP, "t", 0)
    scene.commit_offsets(("t", 1, 60))
    scene.machine.apply_marker(PRODUCER, True)
    assert (scene.offset("t", 0), scene.offset("t", 1)) == (5, 60), "what comes later in the log wins"
    commit_in_transaction(scene, 50)
    scene.machine.apply_marker(PRODUCER, False)
    assert scene.offset("t", 0) == 5 and not scene.machine.is_unstable(GROUP, "t", 0)


def test_of_two_transactions_the_later_commit_in_the_log_wins() -> None:
    scene = Scene()
    commit_in_transaction(scene, 5, producer_id=1)
    commit_in_transaction(scene, 6, producer_id=2)
    scene.machine.apply_marker(2, True)
    assert scene.machine.is_unstable(GROUP, "t", 0), "the first transaction has not ended"
    scene.machine.apply_marker(1, True)
    assert scene.offset("t", 0) == 6 and not scene.machine.is_unstable(GROUP, "t", 0)


def test_an_offset_is_unstable_from_the_moment_it_is_appended() -> None:
    """Or else whoever takes over the partition would go on from the old one while the new one is being committed (KIP-447)."""
    scene = Scene(holding=True)
    commit_in_transaction(scene, 5)
    assert scene.machine.is_unstable(GROUP, "t", 0)
    scene.commit()
    assert scene.machine.is_unstable(GROUP, "t", 0)
    scene.machine.apply_marker(PRODUCER, True)
    assert scene.offset("t", 0) == 5
    commit_in_transaction(scene, 6)
    scene.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert not scene.machine.is_unstable(GROUP, "t", 0), "it will never be in the log"
    scene.commit_offsets(("t", 0, 7))
    assert scene.machine.is_unstable(GROUP, "t", 0), "so is a plain commit on its way"
    scene.commit()
    assert scene.offset("t", 0) == 7 and not scene.machine.is_unstable(GROUP, "t", 0)


def test_an_append_that_timed_out_may_still_count() -> None:
    scene = Scene(holding=True)
    call = commit_in_transaction(scene, 5)
    scene.time_out()
    assert call.reply == [ErrorCode.COORDINATOR_NOT_AVAILABLE] and scene.machine.is_unstable(GROUP, "t", 0)
    scene.machine.apply_marker(PRODUCER, False)
    assert GROUP not in scene.machine.groups, "nothing is left of it"


def test_who_commits_in_a_transaction_is_fenced_by_member_and_generation() -> None:
    scene, (member,) = balanced(1)
    for who, code in (
        ({"member_id": member, "generation": 1}, ErrorCode.NONE),
        ({"member_id": member, "generation": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "gone", "generation": 1}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": member, "generation": 1, "instance_id": "other"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({}, ErrorCode.NONE),  # producers before 2.5 tell neither
    ):
        assert commit_in_transaction(scene, 5, **who).reply == [code]
    assert commit_in_transaction(Scene(), 5, member_id="m", generation=4).reply == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_a_rebalance_does_not_refuse_a_transaction() -> None:
    scene, (member,) = balanced(1)
    scene.enter()
    assert commit_in_transaction(scene, 5, member_id=member, generation=1).reply == [ErrorCode.NONE]


def test_a_group_with_pending_offsets_does_not_expire() -> None:
    settings = GroupSettings(
        initial_rebalance_delay_ms=0, offsets_retention_ms=1000, offsets_retention_check_interval_ms=500
    )
    scene = Scene(settings=settings)
    scene.commit_offsets(("t", 0, 1), ("t", 1, 1))
    commit_in_transaction(scene, 5)
    scene.advance(2000)
    assert (scene.offset("t", 0), scene.offset("t", 1)) == (1, None)
    scene.machine.apply_marker(PRODUCER, True)
    assert scene.offset("t", 0) == 5


def test_what_is_deleted_does_not_come_back_with_a_transaction() -> None:
    scene = Scene()
    commit_in_transaction(scene, 5)
    scene.ask(DeleteOffsets(GROUP, [TopicPartition("t", 0)]))
    scene.machine.apply_marker(PRODUCER, True)
    assert scene.offset("t", 0) is None
    commit_in_transaction(scene, 5)
    assert scene.ask(DeleteGroup(GROUP)).reply == ErrorCode.NONE
    scene.machine.apply_marker(PRODUCER, True)
    assert GROUP not in scene.machine.groups


def test_a_successor_knows_of_pending_offsets() -> None:
    scene = Scene()
    commit_in_transaction(scene, 5)
    successor = scene.fail_over().machine
    assert successor.is_unstable(GROUP, "t", 0)
    successor.apply_marker(PRODUCER, True)
    assert successor.offsets_of(GROUP)["t"][0].offset == 5
