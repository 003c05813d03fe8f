"""Fetches of committed records over real logs: what an open transaction keeps back is waited for, what was aborted is told once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from kafkalite.config.topic import TopicConfig
from kafkalite.protocol import messages
from kafkalite.protocol.record_batches.records import TRANSACTIONAL, build_marker, iter_batches
from kafkalite.storage.log.append_checks import AppendOrigin
from kafkalite.testing.simulation import virtual_time
from kafkalite.types import TopicPartition
from tests.unit.broker.fake_log import assignment, make_partition
from tests.unit.broker.memory_parts import MemoryParts
from tests.unit.storage.logs import NOW_MS, new_log, produced


class Site:
    """Partition t-0, in which producer 7 writes transactions, all of them replicated at once."""

    def __init__(self, path: Path, **config: Any) -> None:
        self.partition = make_partition(
            new_log(path, TopicConfig(**config)),  # type: ignore[arg-type]
            topic_partition=TopicPartition("t", 0),
        )
        self.partition.become_leader(assignment(leader_epoch=4, isr=(1,)), 0.0)
        self.parts = MemoryParts(self.partition)
        self.sequence = 0

    def write(self) -> None:
        batch = produced(7, self.sequence, attributes=TRANSACTIONAL)
        self.sequence += 1
        self.partition.append(batch, 1, 0.0, NOW_MS, 9)

    def end(self, *, commit: bool) -> None:
        marker = build_marker(commit=commit, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp=NOW_MS)
        self.partition.append(marker, 1, 0.0, NOW_MS, origin=AppendOrigin.COORDINATOR)

    async def fetch(self, offset: int, *, max_bytes: int = 1 << 20, session: tuple[int, int] = (0, -1)) -> Any:
        """`session` is its id and epoch; an incremental fetch names no partitions."""
        m = messages.fetch_request
        asked = m.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
        request = m.FetchRequest(
            replica_id=-1,
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=1,
            session_id=session[0],
            session_epoch=session[1],
            topics=[m.FetchTopic(topic="t", partitions=[asked])] if session[1] <= 0 else [],
        )
        return await self.parts.ask(request, 11)


def test_a_high_watermark_that_an_open_transaction_keeps_back_wakes_no_reader(tmp_path: Path) -> None:
    """Or a consumer would fetch every few milliseconds for as long as somebody writes in a transaction."""

    async def scenario() -> None:
        site = Site(tmp_path)
        loop = asyncio.get_running_loop()
        session = (await site.fetch(0, session=(0, 0))).session_id
        began_s = loop.time()
        site.write()
        waiting = asyncio.ensure_future(site.fetch(0, session=(session, 1)))
        for _ in range(3):
            await asyncio.sleep(0.1)
            site.write()
        assert not waiting.done()
        site.end(commit=True)
        (answer,) = (await waiting).responses[0].partitions
        assert len(list(iter_batches(answer.records))) == 5 and loop.time() - began_s < 0.4

    virtual_time.run(scenario())


def test_a_fetch_tells_the_aborted_transactions_of_what_it_brings(tmp_path: Path) -> None:
    """And some more, up to the next entry of the offset index; not all of them up to the log's end."""
    site = Site(tmp_path, index_interval_bytes=1000, segment_bytes=6000)
    for _ in range(100):
        site.write()
        site.end(commit=False)

    async def scenario() -> None:
        offset, seen = 0, 0
        while offset < 200:
            (answer,) = (await site.fetch(offset, max_bytes=500)).responses[0].partitions
            headers = list(iter_batches(answer.records))
            told = {each.first_offset for each in answer.aborted_transactions}
            wanted = {each.base_offset for each in headers if not each.is_control}
            assert wanted <= told and len(told) <= 25
            seen, offset = seen + len(wanted), headers[-1].next_offset
        assert seen == 100

    virtual_time.run(scenario())
