"""A partition's rules: roles, ISR, high watermark, acknowledgements (KIP-101, KIP-497, min.insync.replicas)."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import pytest

from kafkalite.broker.replication.effects import IsrChange
from kafkalite.broker.replication.partition import Partition
from kafkalite.config.topic import TopicConfig
from kafkalite.errors import InvariantBroken
from tests.unit.broker.fake_log import LAG_MAX_MS, FakeLog, assignment, make_partition


@dataclass
class Clock:
    """When a follower fetched last."""

    last_fetch_ms: float = 0.0


@dataclass(eq=False)
class Recorder:
    """A watcher that notes what it is told."""

    seen: list[str] = field(default_factory=list)

    def on_append(self, partition: Partition) -> None:
        self.seen.append("appended")

    def on_leader_epoch(self, partition: Partition) -> None:
        self.seen.append("leads")

    def on_high_watermark(self, partition: Partition) -> None:
        self.seen.append("high watermark")

    def on_isr_exit(self, partition: Partition) -> None:
        self.seen.append("left the ISR")


def lead(
    isr: tuple[int, ...] = (1, 2, 3), min_isr: int = 1, end: int = 0, alive: set[int] | None = None, now_ms: float = 0.0
) -> Partition:
    """A leader in epoch 0, with replicas 1, 2, 3."""
    config = replace(TopicConfig(), min_insync_replicas=min_isr)
    partition = make_partition(FakeLog(config=config, log_end_offset=end), alive)
    assert partition.become_leader(assignment(isr=isr), now_ms)
    return partition


def append(partition: Partition, count: int, now_ms: float = 0.0, acks: int = 1) -> int:
    """The log end offset afterwards."""
    partition.append(bytearray(count), acks, now_ms, 0, 9)
    return partition.log.log_end_offset


def fetch(partition: Partition, broker: int, offset: int, now_ms: float = 0.0) -> IsrChange | None:
    return partition.follower_fetched(broker, offset, 0, now_ms, Clock(now_ms))


def refused(partition: Partition, change: IsrChange | None) -> None:
    """Without a change in flight only what is committed is in the ISR."""
    assert change is not None
    partition.isr_refused(change)


# The high watermark


def test_the_high_watermark_is_what_all_of_the_isr_have() -> None:
    partition = lead()
    append(partition, 10)
    assert partition.high_watermark == 0
    fetch(partition, 2, 10)
    assert partition.high_watermark == 0
    fetch(partition, 3, 4)
    assert partition.high_watermark == 4
    fetch(partition, 3, 10)
    assert partition.high_watermark == 10


def test_a_leader_alone_in_the_isr_commits_at_once() -> None:
    partition = lead(isr=(1,), now_ms=LAG_MAX_MS * 2)
    append(partition, 3, LAG_MAX_MS * 2)
    assert partition.high_watermark == 3


def test_a_follower_that_is_catching_up_is_waited_for() -> None:
    """Otherwise it could never join the ISR of a partition that is written to all the time."""
    partition = lead(isr=(1, 2))
    append(partition, 10)
    refused(partition, fetch(partition, 3, 10, now_ms=5))  # caught up, but not in the ISR yet
    append(partition, 10, now_ms=6)
    fetch(partition, 2, 20, now_ms=7)
    assert partition.high_watermark == 10
    refused(partition, fetch(partition, 3, 20, now_ms=8))
    assert partition.high_watermark == 20


def test_one_that_is_not_alive_is_not_waited_for() -> None:
    partition = lead(isr=(1, 2), alive={1, 2})
    append(partition, 10)
    fetch(partition, 3, 10, now_ms=5)
    append(partition, 10, now_ms=6)
    fetch(partition, 2, 20, now_ms=7)
    assert partition.high_watermark == 20


def test_one_that_fell_behind_for_too_long_is_not_waited_for() -> None:
    partition = lead(isr=(1, 2))
    append(partition, 10)
    refused(partition, fetch(partition, 3, 10, now_ms=5))
    append(partition, 10, now_ms=6)
    fetch(partition, 2, 20, now_ms=5 + LAG_MAX_MS)
    assert partition.high_watermark == 10
    fetch(partition, 2, 19, now_ms=6 + LAG_MAX_MS)
    fetch(partition, 2, 20, now_ms=6 + LAG_MAX_MS)
    assert partition.high_watermark == 20


@pytest.mark.parametrize("event", ["death", "time"])
def test_a_wait_ends_when_the_last_one_waited_for_is_gone(event: str) -> None:
    """1. A broker that is about to stop fetches once more. 2. It is gone. 3. Nothing is appended and nobody else moves."""
    alive = {1, 2, 3}
    partition = lead(isr=(1, 2), alive=alive)
    append(partition, 10)
    refused(partition, fetch(partition, 3, 10))
    append(partition, 10)
    fetch(partition, 2, 20)
    partition.stop_waiting(1)
    assert partition.high_watermark == 10
    if event == "death":
        alive.discard(3)
    partition.stop_waiting(2 if event == "death" else LAG_MAX_MS + 1)
    assert partition.high_watermark == 20


def test_a_follower_that_never_fetched_is_not_caught_up_even_at_time_zero() -> None:
    partition = lead(isr=(1, 2), now_ms=0.0)
    append(partition, 10)
    fetch(partition, 2, 10, now_ms=0.0)
    assert partition.high_watermark == 10


def test_the_high_watermark_waits_while_the_isr_is_smaller_than_the_minimum() -> None:
    partition = lead(isr=(1,), min_isr=2)
    append(partition, 5)
    assert partition.high_watermark == 0
    change = fetch(partition, 2, 5)
    assert change is not None
    assert partition.high_watermark == 0
    partition.isr_committed(change, (1, 2), 0, 1, 0.0)
    assert partition.high_watermark == 5


def test_the_minimum_is_never_more_than_the_replicas() -> None:
    partition = make_partition(FakeLog(config=replace(TopicConfig(), min_insync_replicas=5)))
    partition.become_leader(assignment(isr=(1,), replicas=(1,)), 0.0)
    assert partition.effective_min_isr == 1
    append(partition, 2, acks=-1)
    assert partition.high_watermark == 2


def test_the_high_watermark_never_goes_back() -> None:
    rng = random.Random(7)
    partition = lead()
    offsets = {2: 0, 3: 0}
    highest = 0
    change: IsrChange | None = None
    for step in range(2000):
        now_ms = step * 997.0
        match rng.randrange(5):
            case 0:
                append(partition, rng.randrange(1, 5), now_ms)
            case 1 | 2:
                broker = rng.choice((2, 3))
                # A follower that lost its disk or was truncated may ask for less than before.
                back = 3 if rng.random() < 0.1 else 0
                offsets[broker] = max(0, rng.randint(offsets[broker], partition.log.log_end_offset) - back)
                change = fetch(partition, broker, offsets[broker], now_ms) or change
            case 3:
                change = partition.shrink(now_ms) or change
            case 4 if change is not None:
                if rng.random() < 0.5:
                    partition.isr_committed(change, change.isr, 0, partition.partition_epoch + 1, now_ms)
                else:
                    partition.isr_refused(change)
                change = None
        assert partition.high_watermark >= highest
        assert partition.high_watermark <= partition.log.log_end_offset
        highest = partition.high_watermark
    assert highest > 0


# The ISR grows


def test_a_follower_that_reached_the_high_watermark_joins() -> None:
    partition = lead(isr=(1, 2), end=10)
    fetch(partition, 2, 10)
    assert partition.high_watermark == 10
    assert fetch(partition, 3, 9) is None
    change = fetch(partition, 3, 10)
    assert change is not None
    assert change.isr == (1, 2, 3)
    assert (change.leader_epoch, change.partition_epoch, change.controller_epoch) == (0, 0, 1)
    assert change.topic_id == partition.topic_id


def test_nobody_joins_before_it_has_what_this_leader_began_with() -> None:
    """Below the start of the leader's epoch a log may still have to be cut."""
    partition = lead(isr=(1, 2), end=10)
    assert partition.high_watermark == 0
    assert fetch(partition, 3, 9) is None
    assert fetch(partition, 3, 10) is not None


def test_only_the_living_join() -> None:
    partition = lead(isr=(1, 2), alive={1, 2})
    assert fetch(partition, 3, 0) is None


def test_a_stranger_is_no_follower() -> None:
    partition = lead()
    assert fetch(partition, 9, 0) is None
    assert 9 not in partition.followers


def test_one_change_at_a_time() -> None:
    partition = lead(isr=(1,))
    first = fetch(partition, 2, 0)
    assert first is not None
    assert fetch(partition, 3, 0) is None
    assert partition.isr_committed(first, (1, 2), 0, 1, 0.0)
    second = fetch(partition, 3, 0)
    assert second is not None
    assert (second.isr, second.partition_epoch) == ((1, 2, 3), 1)


def test_who_may_be_in_the_isr_is_waited_for() -> None:
    partition = lead(isr=(1, 2))
    change = fetch(partition, 3, 0)
    assert change is not None
    assert partition.maximal_isr == (1, 2, 3)
    append(partition, 5, LAG_MAX_MS * 3)
    fetch(partition, 2, 5, LAG_MAX_MS * 3)
    assert partition.high_watermark == 0, "3 may be in the ISR, and has not got the records"
    partition.isr_refused(change)
    assert partition.maximal_isr == (1, 2)
    fetch(partition, 2, 4, LAG_MAX_MS * 3)
    fetch(partition, 2, 5, LAG_MAX_MS * 3)
    assert partition.high_watermark == 5


# The ISR shrinks


def test_a_follower_that_stays_behind_is_left_out() -> None:
    partition = lead()
    append(partition, 5)
    fetch(partition, 2, 5)
    fetch(partition, 3, 2)
    assert partition.shrink(LAG_MAX_MS) is None
    change = partition.shrink(LAG_MAX_MS + 1)
    assert change is not None
    assert change.isr == (1, 2)
    assert "3" in change.reason
    assert partition.maximal_isr == (1, 2, 3), "until it is written the old ISR counts"
    assert partition.high_watermark == 2
    assert partition.isr_committed(change, (1, 2), 0, 1, LAG_MAX_MS * 3)
    assert partition.isr == (1, 2)
    assert partition.high_watermark == 5


def test_an_idle_follower_that_has_everything_stays() -> None:
    partition = lead()
    append(partition, 5)
    fetch(partition, 2, 5, 10)
    fetch(partition, 3, 5, 10)
    assert partition.shrink(LAG_MAX_MS * 100) is None


def test_who_caught_up_while_its_shrink_was_in_flight_is_read_for_again() -> None:
    """In its session it fetches no idle partition by itself, whatever became of its process or its registration meanwhile."""
    partition, recorder = lead(isr=(1, 2, 3)), Recorder()
    append(partition, 5)
    partition.watchers = {recorder: None}
    fetch(partition, 2, 5, LAG_MAX_MS)
    shrink = partition.shrink(LAG_MAX_MS + 1)
    assert shrink is not None and shrink.isr == (1, 2)
    assert fetch(partition, 3, 5, LAG_MAX_MS + 2) is None, "one change at a time"
    assert "left the ISR" not in recorder.seen
    assert partition.isr_committed(shrink, (1, 2), 0, 1, LAG_MAX_MS + 3)
    assert recorder.seen[-1] == "left the ISR"
    expansion = fetch(partition, 3, 5, LAG_MAX_MS + 4)
    assert expansion is not None and expansion.isr == (1, 2, 3)


def test_who_the_controller_takes_out_of_the_isr_is_read_for_again() -> None:
    partition, recorder = lead(isr=(1, 2, 3)), Recorder()
    partition.watchers = {recorder: None}
    partition.become_leader(assignment(isr=(1, 2, 3), partition_epoch=1), 10.0)
    assert recorder.seen == []
    partition.become_leader(assignment(isr=(1, 2), partition_epoch=2), 20.0)
    assert recorder.seen == ["left the ISR"]


def test_after_idleness_a_follower_gets_its_whole_time() -> None:
    """In an incremental session an idle partition is not asked for; its follower's clock goes on all the same."""
    partition = lead()
    clock = Clock(0.0)
    for broker in (2, 3):
        partition.follower_fetched(broker, 0, 0, 0.0, clock)
    clock.last_fetch_ms = 1_000_000.0
    append(partition, 1, 1_000_001.0)
    assert partition.shrink(1_000_002.0) is None
    assert partition.shrink(1_000_000.0 + LAG_MAX_MS) is None
    change = partition.shrink(1_000_000.0 + LAG_MAX_MS + 1)
    assert change is not None
    assert change.isr == (1,)


def test_a_follower_that_always_reaches_the_end_of_its_last_fetch_keeps_up() -> None:
    partition = lead(isr=(1, 2))
    now_ms = 0.0
    for _ in range(50):
        now_ms += LAG_MAX_MS / 2
        before = append(partition, 3, now_ms) - 3
        fetch(partition, 2, before, now_ms + 1)
        assert partition.shrink(now_ms + 2) is None


def test_the_leader_itself_is_never_left_out() -> None:
    partition = lead()
    append(partition, 1)
    change = partition.shrink(LAG_MAX_MS * 2)
    assert change is not None
    assert change.isr == (1,)
    assert change.reason.startswith("replicas 2,3 ")


def test_a_follower_proposes_nothing() -> None:
    partition = make_partition()
    partition.become_follower(assignment(leader=2))
    assert partition.shrink(1e9) is None
    assert fetch(partition, 3, 0) is None


# The outcome of a change


def test_an_answer_about_another_time_is_ignored() -> None:
    partition = lead(isr=(1, 2))
    change = fetch(partition, 3, 0)
    assert change is not None
    assert not partition.isr_committed(change, (1, 2, 3), 1, 5, 0.0), "another leader epoch"
    assert partition.pending_change is change
    partition.become_leader(assignment(isr=(1, 2), leader_epoch=1, partition_epoch=4), 0.0)
    assert not partition.isr_committed(change, (1, 2, 3), 1, 5, 0.0), "a change of an older epoch"
    assert partition.isr == (1, 2)
    partition.isr_refused(change)
    newer = fetch(partition, 3, 0)
    assert newer is not None
    assert not partition.isr_committed(newer, (1, 2, 3), 1, 3, 0.0), "an older version of the state"
    assert partition.isr_committed(newer, (1, 2, 3), 1, 5, 0.0)


def test_a_written_isr_without_the_leader_breaks_an_invariant() -> None:
    partition = lead(isr=(1, 2))
    change = fetch(partition, 3, 0)
    assert change is not None
    with pytest.raises(InvariantBroken):
        partition.isr_committed(change, (2, 3), 0, 1, 0.0)
