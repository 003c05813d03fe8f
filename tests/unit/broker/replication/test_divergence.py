"""Two replicas that led in turn always agree again: real logs, random histories of leaderships, the follower's own rule of truncation."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from kafkalite.broker.replication.follower_truncation import truncation_offset
from kafkalite.storage.log.partition_log import PartitionLog
from tests.unit.storage.logs import NOW_MS, all_bytes, append, new_log

ROUNDS_MAX = 20


def diverging(leader: PartitionLog, last_fetched_epoch: int, fetch_offset: int) -> tuple[int, int] | None:
    """What the leader answers to a fetch (KIP-595)."""
    epoch, end = leader.end_offset_for_epoch(last_fetched_epoch)
    return (epoch, end) if epoch < last_fetched_epoch or end < fetch_offset else None


def catch_up(leader: PartitionLog, follower: PartitionLog) -> int:
    """Fetch until the follower has all; the number of fetches."""
    for fetches in range(ROUNDS_MAX):
        offset, epoch = follower.log_end_offset, follower.latest_epoch
        found = None if epoch is None else diverging(leader, epoch, offset)
        if found is not None:
            follower.truncate_to(truncation_offset(follower.end_offset_for_epoch, *found, offset, 0))
        elif offset == leader.log_end_offset:
            return fetches
        else:
            read = leader.read(offset, 1 << 20, upper_bound=leader.log_end_offset, min_one_batch=True)
            follower.append_as_follower(bytearray(read.records), now_ms=NOW_MS)
    raise AssertionError(f"no agreement: leader {leader.epochs.entries()}, follower {follower.epochs.entries()}")


def test_an_epoch_in_which_nothing_was_written_does_not_keep_replicas_apart(tmp_path: Path) -> None:
    old, new = new_log(tmp_path / "a"), new_log(tmp_path / "b")
    old.assign_epoch(1)
    append(old, epoch=1)
    catch_up(old, new)
    old.assign_epoch(2)  # it led in epoch 2, and nobody wrote
    new.assign_epoch(3)
    append(new, epoch=3)
    catch_up(new, old)
    assert all_bytes(old) == all_bytes(new)


@pytest.mark.parametrize("seed", range(60))
def test_replicas_that_led_in_turn_agree_again(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    logs = [new_log(tmp_path / "a"), new_log(tmp_path / "b"), new_log(tmp_path / "c")]
    epoch = 0
    for _ in range(rng.randrange(2, 12)):
        epoch += rng.randrange(1, 3)
        leader = rng.choice(logs)
        leader.assign_epoch(epoch)
        for _ in range(rng.randrange(3)):
            append(leader, epoch=epoch)
        for follower in logs:
            if follower is not leader and rng.random() < 0.6:
                catch_up(leader, follower)
    epoch += 1
    leader = rng.choice(logs)
    leader.assign_epoch(epoch)
    append(leader, epoch=epoch)
    for follower in logs:
        if follower is not leader:
            catch_up(leader, follower)
            assert all_bytes(follower) == all_bytes(leader)
            assert follower.epochs.entries() == leader.epochs.entries()
