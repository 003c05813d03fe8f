"""Three brokers of Apache Kafka are replaced by ours, one by one, by `kafkalite migrate`, and back, while clients are served.

The clients are Java's: producers with acks=all, idempotent and with transactions, a group that reads committed records, and Kafka Streams
with exactly once. With each mix of brokers either side is the controller, and both lead; the tool is killed in between.
Nothing may be lost, doubled or reordered, and no error may reach a client's program.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from kafkalite.cli.migrate.sequence import Act
from kafkalite.local.cluster import LocalCluster
from tests.peers import apache_kafka, old_brokers
from tests.peers.swap_ledger import COUNTS, IDEMPOTENT, find_problems
from tests.peers.swapping import APACHE, BROKERS, TOPICS, Load, Swap

pytestmark = [pytest.mark.peer, pytest.mark.timeout(3600)]

RELEASES: Final = (apache_kafka.VERSION, old_brokers.WITH_TOPIC_IDS, old_brokers.WITH_SESSIONS)


@contextmanager
def swapping(directory: Path, version: str) -> Iterator[tuple[Swap, Load]]:
    """The cluster of Apache Kafka that clients are served by, with a plan."""
    with LocalCluster(brokers=0, directory=directory) as cluster:
        swap = Swap(directory, cluster, version)
        try:
            swap.start()
            load = Load(directory / "load", version, swap.servers)
            try:
                load.await_progress()
                swap.make_plan()
                yield swap, load
            finally:
                load.close()
        finally:
            swap.close()


def dwell(swap: Swap, load: Load) -> None:
    """Let clients be served with a controller of each side that there is."""
    swap.await_in_sync()
    assert swap.leading_sides() == set(swap.sides.values())
    first = swap.sides[swap.facts.controller()]
    for side in sorted(set(swap.sides.values()), key=lambda each: each != first):
        if side != first:
            swap.move_controller(side)
        load.await_progress()
        swap.await_in_sync()


def judge(swap: Swap, load: Load) -> list[str]:
    ledger = load.end_producers()
    deadline_s = time.monotonic() + 60
    while True:
        found = swap.read_committed(TOPICS)
        counts: dict[str, list[int]] = {}
        for place, records in sorted(found.items()):
            if place.topic == COUNTS:
                for key, (_, value) in records:
                    counts.setdefault(key, []).append(int(value))
        if sum(map(len, counts.values())) >= ledger.count_acked(IDEMPOTENT) or time.monotonic() > deadline_s:
            content = {
                place: [each for _, each in records] for place, records in found.items() if place.topic != COUNTS
            }
            return find_problems(load.read_ledger(), content, counts)


@pytest.mark.parametrize("version", RELEASES)
def test_clients_do_not_notice_that_brokers_are_replaced(tmp_path: Path, version: str) -> None:
    """The tool is killed at each act of each replacement."""
    replace_and_take_back(tmp_path, version, len(BROKERS), tuple(Act))


def replace_and_take_back(directory: Path, version: str, count: int, kills: Sequence[Act]) -> None:
    """Replace so many brokers, and take them back in the opposite order; kill the tool at these acts of each."""
    with swapping(directory, version) as (swap, load):
        replaced = []
        for verb in ("step",) * count + ("rollback",) * count:
            replaced.append(swap.replace(verb, kills))
            dwell(swap, load)
        assert swap.sides == dict.fromkeys(BROKERS, APACHE) and replaced[count:] == replaced[:count][::-1]
        assert judge(swap, load) == []
