"""Full fetches of very many partitions, which are read in portions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafkalite.broker.fetch.partition_reader import PartitionReader
from kafkalite.errors import ErrorCode
from kafkalite.testing.simulation import virtual_time
from tests.unit.broker.fetch.test_unknown_topic_ids import A, B, Broker, make_fetches_large

NO = ErrorCode.NONE


@pytest.mark.parametrize(("epoch", "read_again"), [(0, ["a"]), (-1, ["a", "b", "a", "b"])])
def test_a_fetch_that_opens_a_session_reads_again_only_what_has_changed(
    monkeypatch: pytest.MonkeyPatch, epoch: int, read_again: list[str]
) -> None:
    """All partitions of a follower of thousands were read twice. Without a session, nobody watches them during the first read."""
    make_fetches_large(monkeypatch)
    reads: list[str] = []
    read = PartitionReader.read

    def noted(reader: PartitionReader, item: Any, *rest: Any) -> Any:
        reads.append(item.topic_partition.topic)
        return read(reader, item, *rest)

    monkeypatch.setattr(PartitionReader, "read", noted)

    async def scenario() -> None:
        broker = Broker()
        await broker.make("a", A)
        await broker.make("b", B)
        fetching = asyncio.ensure_future(broker.fetch({A: 0, B: 0}, wait_ms=500, session_epoch=epoch))
        await asyncio.sleep(0.1)
        broker.append("a")
        assert await fetching == {A: (NO, 1), B: (NO, 0)}
        assert asyncio.get_running_loop().time() < 0.2, "it waits for a change, not for the end of its time"
        assert reads == ["a", "b", *read_again]

    virtual_time.run(scenario())
