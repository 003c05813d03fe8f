"""One partition's acknowledgements, roles and epochs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafkalite.broker.replication.partition import Partition
from kafkalite.config.topic import TopicConfig
from kafkalite.errors import ErrorCode, KafkaError
from tests.unit.broker.fake_log import FakeLog, assignment, make_partition
from tests.unit.broker.replication.test_partition import Clock, Recorder, append, fetch, lead

# acks=all


def outcomes(partition: Partition, required: int) -> list[ErrorCode]:
    codes: list[ErrorCode] = []
    partition.when_committed(required, codes.append)
    return codes


def test_acks_all_is_refused_before_anything_is_written() -> None:
    partition = lead(isr=(1,), min_isr=2)
    with pytest.raises(KafkaError) as raised:
        append(partition, 3, acks=-1)
    assert raised.value.code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert partition.log.log_end_offset == 0
    append(partition, 3, acks=1)
    assert partition.log.log_end_offset == 3


def test_acks_all_is_answered_when_the_high_watermark_is_there() -> None:
    partition = lead()
    first, second = outcomes(partition, append(partition, 2)), outcomes(partition, append(partition, 2))
    fetch(partition, 2, 4)
    fetch(partition, 3, 3)
    assert (first, second) == ([ErrorCode.NONE], [])
    fetch(partition, 3, 4)
    assert second == [ErrorCode.NONE]
    assert outcomes(partition, 4) == [ErrorCode.NONE]


def test_too_few_replicas_after_the_append() -> None:
    partition = lead(isr=(1, 2), min_isr=2)
    codes = outcomes(partition, append(partition, 2, acks=-1))
    partition.become_leader(assignment(isr=(1,), leader_epoch=1, partition_epoch=1), 0.0)
    assert codes == []
    partition.log.config = replace(TopicConfig(), min_insync_replicas=1)
    change = fetch(partition, 2, 2)
    assert change is not None
    partition.log.config = replace(TopicConfig(), min_insync_replicas=3)
    partition.log.set_high_watermark(2)
    assert outcomes(partition, 2) == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]


def test_a_wait_that_timed_out_is_not_answered() -> None:
    partition = lead(isr=(1, 2))
    codes: list[ErrorCode] = []
    wait = partition.when_committed(append(partition, 1), codes.append)
    assert wait is not None
    partition.forget_wait(wait)
    partition.forget_wait(wait)
    fetch(partition, 2, 1)
    assert codes == []


@pytest.mark.parametrize("how", ["follow", "resign"])
def test_waits_end_when_leadership_ends(how: str) -> None:
    partition = lead()
    codes = outcomes(partition, append(partition, 1))
    if how == "follow":
        partition.become_follower(assignment(leader=2, leader_epoch=1, partition_epoch=1))
    else:
        partition.resign()
    assert codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_waits_go_on_when_the_same_broker_leads_in_a_new_epoch() -> None:
    """The controller takes a dead follower out of the ISR with a new epoch; the producer must not hear of an error."""
    partition = lead()
    codes = outcomes(partition, append(partition, 2))
    fetch(partition, 2, 2)
    partition.become_leader(assignment(isr=(1, 2), leader_epoch=1, partition_epoch=1), 0.0)
    assert codes == []
    fetch(partition, 2, 2)
    assert codes == [ErrorCode.NONE]


# Roles and epochs


def test_epochs_fence() -> None:
    partition = make_partition()
    partition.become_leader(assignment(leader_epoch=5), 0.0)
    partition.require_leader()
    partition.require_leader(5)
    for epoch, code in [(4, ErrorCode.FENCED_LEADER_EPOCH), (6, ErrorCode.UNKNOWN_LEADER_EPOCH)]:
        with pytest.raises(KafkaError) as raised:
            partition.require_leader(epoch)
        assert raised.value.code == code
    partition.become_follower(assignment(leader=2, leader_epoch=6))
    partition.require_epoch(6)
    with pytest.raises(KafkaError) as raised:
        partition.require_leader(6)
    assert raised.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_an_older_partition_epoch_changes_nothing() -> None:
    partition = make_partition()
    partition.become_leader(assignment(leader_epoch=5, partition_epoch=9), 0.0)
    assert not partition.become_leader(assignment(leader_epoch=5, partition_epoch=8, isr=(1,)), 0.0)
    assert not partition.become_follower(assignment(leader=2, leader_epoch=5, partition_epoch=8))
    assert (partition.leader, partition.isr) == (1, (1, 2, 3))


def test_a_new_leader_marks_where_its_epoch_begins_even_without_records() -> None:
    log = FakeLog(log_end_offset=12)
    partition = make_partition(log)
    partition.become_leader(assignment(leader_epoch=3), 0.0)
    assert log.epochs == [(3, 12)]
    assert partition.leader_epoch_start_offset == 12
    assert not partition.become_leader(assignment(leader_epoch=3, partition_epoch=1), 0.0)
    assert log.epochs == [(3, 12)]


def test_what_followers_had_in_an_older_epoch_is_forgotten() -> None:
    partition = lead()
    append(partition, 4)
    fetch(partition, 2, 4)
    partition.become_leader(assignment(leader_epoch=1, partition_epoch=1), 50.0)
    assert partition.followers[2].log_end_offset == -1
    assert partition.followers[2].last_caught_up_ms == 50.0
    assert partition.high_watermark == 0


def test_new_replicas_are_followers_and_removed_ones_are_not() -> None:
    partition = lead()
    append(partition, 2)
    fetch(partition, 2, 2)
    partition.become_leader(assignment(replicas=(1, 2, 4), isr=(1, 2), partition_epoch=1), 0.0)
    assert partition.followers.keys() == {2, 4}
    assert partition.followers[2].log_end_offset == 2


def test_watchers_hear_of_records_commits_and_changes_of_hands() -> None:
    partition = lead(isr=(1, 2))
    recorder = Recorder()
    partition.watchers = {recorder: None}
    append(partition, 2)
    fetch(partition, 2, 2)
    partition.become_leader(assignment(leader_epoch=1, partition_epoch=1), 0.0)
    partition.become_follower(assignment(leader=2, leader_epoch=2, partition_epoch=2))
    partition.follow_high_watermark(2)
    partition.resign()
    assert recorder.seen == ["appended", "high watermark", "leads", "appended", "appended"]


def test_a_follower_takes_the_high_watermark_as_far_as_it_has_records() -> None:
    partition = make_partition(FakeLog(log_end_offset=5))
    partition.become_follower(assignment(leader=2))
    recorder = Recorder()
    partition.watchers = {recorder: None}
    partition.follow_high_watermark(9)
    assert partition.high_watermark == 5
    partition.follow_high_watermark(3)
    assert partition.high_watermark == 5
    assert recorder.seen == ["high watermark"]


def test_records_were_deleted_before_a_live_follower_had_followed() -> None:
    """A follower that has not fetched in this leader epoch yet was left out.

    It is in the ISR, and elected when this leader stops: the records whose deletion was answered were back.
    """
    partition = lead(alive={1, 2, 3})
    append(partition, 20)
    partition.log.log_start_offset = 7
    assert partition.low_watermark == -1
    for broker in (2, 3):
        partition.follower_fetched(broker, 20, 7, 1.0, Clock())
    assert partition.low_watermark == 7
    partition.become_leader(assignment(leader_epoch=partition.leader_epoch + 1), 2.0)
    assert partition.low_watermark == -1


def test_a_replica_that_was_away_joined_before_it_knew_what_was_deleted() -> None:
    """It has all records, so its first fetch made it a member of the ISR; elected before the answer was there, it started where it had."""
    partition = lead(alive={1, 2, 3}, isr=(1,))
    append(partition, 20)
    partition.log.log_start_offset = 7
    assert partition.follower_fetched(2, 20, 3, 1.0, Clock()) is None
    assert partition.follower_fetched(2, 20, 7, 2.0, Clock()) is not None


def test_the_low_watermark_is_that_of_the_living() -> None:
    partition = lead(alive={1, 2})
    partition.log.log_start_offset = 7
    partition.follower_fetched(2, 0, 5, 0.0, Clock())
    partition.follower_fetched(3, 0, 1, 0.0, Clock())
    assert partition.low_watermark == 5
    partition.follower_fetched(2, 0, 9, 0.0, Clock())
    assert partition.low_watermark == 7


def test_health() -> None:
    partition = lead(isr=(1,), min_isr=2)
    assert partition.is_under_replicated
    assert partition.is_under_min_isr
    partition.become_follower(assignment(leader=2, leader_epoch=1))
    assert not partition.is_under_replicated
    assert not partition.is_under_min_isr
