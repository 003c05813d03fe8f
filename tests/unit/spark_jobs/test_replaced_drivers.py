"""Drivers of one query that die anywhere, or go on after another one has taken their place: each batch is in the topic once.

What Spark and the brokers do is a model: a checkpoint into which one of two drivers writes a batch's number and the other one fails, and a
transactional id whose epoch each new producer raises. What the driver does with its transaction is `DriverTransactions` itself.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from kafkalite.client import ErrorCode, PreparedTransaction, ProducerFencedError
from kafkalite.client.records import OffsetAndMetadata
from spark_jobs.transactions import PLACE, DriverTransactions, StaleCheckpointError, Written

BATCHES = 6
QUERY = "6b1f"
SEEDS = 60


class DriverKilled(BaseException):
    """The end of a driver's process."""


class CheckpointTakenError(Exception):
    """Another driver has written down the batch: Spark ends the query."""


@dataclass
class World:
    """The checkpoint, and what the brokers have. Whatever is asked of them may be the last thing that a driver does, or take so long
    that another driver starts meanwhile."""

    chance: random.Random
    done: int = 0
    """Batches that are written down as done in the checkpoint."""
    epoch: int = -1
    open: int | None = None
    """The batch whose rows are in the open transaction."""
    topic: list[int] = field(default_factory=list)
    """The batches whose rows readers of committed records see."""
    place: OffsetAndMetadata | None = None
    drivers: int = 0
    seen: Counter[str] = field(default_factory=Counter)

    def interrupt(self) -> None:
        fate = self.chance.random()
        if fate < 0.1:
            raise DriverKilled
        if fate < 0.3 and self.drivers < 3:
            self.run_driver()

    def run_driver(self) -> None:
        """Run the query from its checkpoint on, until the driver dies or all batches are done."""
        self.drivers += 1
        try:
            for batch in range(self.done, BATCHES):
                self.interrupt()
                message = self.run_task(batch)
                self.interrupt()
                DriverTransactions({"bootstrap.servers": "b:1"}, "p", self).commit_batch([message], batch)  # type: ignore[arg-type]
                self.interrupt()
                self.write_down(batch)
        except (DriverKilled, CheckpointTakenError, ProducerFencedError, StaleCheckpointError) as problem:
            self.seen[type(problem).__name__] += 1
        finally:
            self.drivers -= 1

    def run_task(self, batch: int) -> Written:
        """Write the rows of a batch; the new producer aborts what was open, and fences the one before."""
        self.epoch += 1
        self.open = batch
        return Written(PreparedTransaction("p-0", 7, self.epoch), QUERY)

    def write_down(self, batch: int) -> None:
        if self.done > batch:
            raise CheckpointTakenError
        self.done = batch + 1

    # in place of SyncAdmin

    def __call__(self, **_: Any) -> World:
        return self

    def __enter__(self) -> World:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def list_group_offsets(self, *_: Any, **__: Any) -> dict[Any, Any]:
        self.interrupt()
        found = self.place
        self.interrupt()
        return {PLACE: found}

    def end_transaction(self, prepared: PreparedTransaction, *, commit: bool, offsets: Any = None, **_: Any) -> None:
        self.interrupt()
        if prepared.producer_epoch != self.epoch:
            raise ProducerFencedError(ErrorCode.PRODUCER_FENCED)
        if self.open is not None and commit:
            self.topic.append(self.open)
            self.place = OffsetAndMetadata(*offsets[PLACE])
        elif not commit:
            self.seen["aborted"] += 1
        self.open = None
        self.interrupt()


def test_each_batch_is_written_once_whichever_driver_writes_it() -> None:
    seen: Counter[str] = Counter()
    for seed in range(SEEDS):
        world = World(random.Random(seed))
        while world.done < BATCHES:
            world.run_driver()
        assert world.topic == list(range(BATCHES)), f"seed {seed}"
        seen += world.seen
    assert min(seen[each] for each in ("DriverKilled", "CheckpointTakenError", "ProducerFencedError", "aborted")) > 10
    assert seen["StaleCheckpointError"] > 0, "a driver that was replaced has not noticed before"


def test_the_model_finds_rows_that_are_written_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_jobs.transactions.is_committed", lambda *_: False)
    twice = 0
    for seed in range(SEEDS):
        world = World(random.Random(seed))
        while world.done < BATCHES:
            world.run_driver()
        twice += world.topic != list(range(BATCHES))
    assert twice > SEEDS // 4
