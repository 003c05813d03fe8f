"""Replication quotas of a follower (KIP-73)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafkalite.config.topic import TopicConfig
from tests.unit.broker.fake_log import FakeLog
from tests.unit.broker.replication.scripted_leader import Following, partition_answer, run


def test_a_replica_in_sync_is_not_throttled_at_the_beginning_of_a_leader_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step of a reassignment makes a new epoch; replicas in sync were held back, and acks=all with them."""
    log = FakeLog(epochs=[(0, 0)], config=TopicConfig(follower_replication_throttled_replicas=("*",)))

    async def act(following: Following) -> None:
        following.throttled_bytes_per_s = 1
        following.throttled_rate.add(1000, 0)
        following.follow(log)
        await asyncio.sleep(0.1)

    assert run(monkeypatch, lambda request: None, act).leader.requests


def throttled_fetches(monkeypatch: pytest.MonkeyPatch, entries: tuple[str, ...], high_watermark: int) -> int:
    """How many bytes a replica fetches within ten seconds, at a bound of 100 a second, from a leader with endless records."""
    log = FakeLog(epochs=[(0, 0)], config=TopicConfig(follower_replication_throttled_replicas=entries))

    def answer(request: Any) -> Any:
        return partition_answer(records=bytes(50), high_watermark=high_watermark) if request.topics else None

    async def act(following: Following) -> None:
        following.throttled_bytes_per_s = 100
        following.follow(log)
        await asyncio.sleep(10)

    run(monkeypatch, answer, act)
    return log.log_end_offset


def test_a_throttled_replica_fetches_at_the_rate_that_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 900 <= throttled_fetches(monkeypatch, ("0:1",), high_watermark=10**9) <= 1200


def test_replicas_of_others_are_not_throttled(monkeypatch: pytest.MonkeyPatch) -> None:
    assert throttled_fetches(monkeypatch, ("0:2", "1:1"), high_watermark=10**9) > 10_000


def test_a_throttled_replica_that_is_in_sync_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    assert throttled_fetches(monkeypatch, ("*",), high_watermark=0) > 10_000
