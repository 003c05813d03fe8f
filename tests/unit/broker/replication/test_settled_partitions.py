"""A partition that says that it is settled needs nobody to look at its ISR and high watermark until something happens to it."""

from __future__ import annotations

from random import Random

import pytest

from kafkalite.broker.replication.follower_state import NeverFetched
from kafkalite.broker.replication.partition import Partition
from tests.unit.broker.fake_log import LAG_MAX_MS, assignment, make_partition

FAR_MS = 1e12


def act(partition: Partition, alive: set[int], rng: Random, now_ms: float) -> None:
    """Something that happens to a leader."""
    end = partition.log.log_end_offset
    match rng.randrange(8):
        case 0:
            partition.append(bytearray(rng.randint(1, 3)), 1, now_ms, 0, 9)
        case 1 | 2 | 3:
            offset = end if rng.random() < 0.7 else rng.randint(0, end)
            partition.follower_fetched(rng.choice((2, 3)), offset, 0, now_ms, NeverFetched(now_ms))
        case 4:
            if (change := partition.pending_change) is not None:
                partition.isr_committed(change, change.isr, change.leader_epoch, change.partition_epoch + 1, now_ms)
        case 5:
            if (change := partition.pending_change) is not None:
                partition.isr_refused(change)
        case 6:
            alive.symmetric_difference_update({rng.choice((2, 3))})
        case 7:
            epoch = partition.leader_epoch + rng.randint(0, 1)
            isr = rng.choice(((1,), (1, 2), (1, 2, 3)))
            state = assignment(
                leader_epoch=epoch, isr=isr, replicas=(1, 2, 3), partition_epoch=partition.partition_epoch + 1
            )
            partition.become_leader(state, now_ms)


@pytest.mark.parametrize("seed", range(40))
def test_nothing_is_due_in_a_settled_partition(seed: int) -> None:
    rng, alive = Random(seed), {1, 2, 3}
    partition = make_partition(alive=alive)
    unsettled = partition._host.unsettled
    settled = 0
    for step in range(60):
        now_ms = step * LAG_MAX_MS / rng.randint(1, 20)
        act(partition, alive, rng, now_ms)
        if rng.random() < 0.5:  # the upkeep comes
            if partition.settle():
                unsettled.clear()
            else:
                partition.stop_waiting(now_ms)
                partition.shrink(now_ms)
        if not unsettled:
            settled += 1
            before = partition.log.high_watermark
            partition.stop_waiting(FAR_MS)
            assert partition.log.high_watermark == before
            assert partition.shrink(FAR_MS) is None
    assert settled
