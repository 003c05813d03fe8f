"""What a client of the museum is seen doing. What it writes is read by confluent-kafka, what it reads was written by it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Final

from kazoo.client import KazooClient

from tests.museum.members import Flow
from tests.museum.stage import COUNT, TIMEOUT_S, Visit, values_of


def _produce(visit: Visit, codec: str) -> None:
    topic = visit.topic()
    visit.program.step("produce", topic, codec, COUNT)
    found = visit.stage.read(topic, COUNT)
    assert found == sorted((f"key-{number}", f"value-{number}") for number in range(COUNT)), found


def _consume(visit: Visit, codec: str) -> None:
    found = visit.program.step("read", visit.filled(codec), COUNT)
    assert sorted(found) == values_of(range(COUNT)), found


def _group(visit: Visit, step: str = "group") -> tuple[str, str]:
    """What was committed is not read again."""
    topic = visit.filled()
    group = f"group-{topic}"
    found = visit.program.step(step, topic, group, COUNT)
    assert sorted(found) == values_of(range(COUNT)), found
    more = range(COUNT, COUNT + 4)
    visit.stage.write(topic, more)
    found = visit.program.step(step, topic, group, len(more))
    assert sorted(found) == values_of(more), found
    return topic, group


def _kept_in_zookeeper(visit: Visit, step: str) -> None:
    topic, group = _group(visit, step)
    client = KazooClient(visit.stage.zookeeper)
    client.start(TIMEOUT_S)
    try:
        for partition in (0, 1):
            text, _ = client.get(f"/consumers/{group}/offsets/{topic}/{partition}")
            assert text == b"%d" % ((COUNT + 4) // 2), text
    finally:
        client.stop()
        client.close()


def _dual_commit(visit: Visit) -> None:
    _kept_in_zookeeper(visit, "dual")


def _zookeeper_offsets(visit: Visit) -> None:
    _kept_in_zookeeper(visit, "group")


def _seek(visit: Visit) -> None:
    found = visit.program.step("seek", visit.filled(), 7)
    assert found == ["value-14"], found


def _offsets(visit: Visit) -> None:
    found = visit.program.step("offsets", visit.filled())
    assert found == ["0", str(COUNT // 2)], found


def _create_topic(visit: Visit) -> None:
    topic = f"made-by-{visit.exhibit.name}-{uuid.uuid4().hex[:8]}"
    visit.program.step("create", topic)
    assert _partitions(visit, topic, 3) == 3


def _delete_topic(visit: Visit) -> None:
    topic = visit.topic()
    visit.program.step("delete", topic)
    assert _partitions(visit, topic, 0) == 0


def _partitions(visit: Visit, topic: str, wanted: int) -> int:
    admin = visit.stage.admin
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        known = admin.list_topics(timeout=TIMEOUT_S).topics
        found = len(known[topic].partitions) if topic in known else 0
        if found == wanted or time.monotonic() > deadline:
            return found


def _transactions(visit: Visit) -> None:
    topic = visit.topic()
    visit.program.step("transact", topic, f"id-{topic}")
    assert visit.stage.read(topic, 1) == [("key", "committed")]


def _rebalance(visit: Visit) -> None:
    """Two members share the partitions; when one leaves, the other has all."""
    with closing(Flow(visit)) as flow:
        first, second = flow.members
        flow.until_shared()
        first.program.close()
        flow.until_alone(second)


COMMITTED: Final = {0: 3, 1: 5}
"""Offsets by partition, of the group that tools look at."""


def _with_commits(visit: Visit) -> tuple[str, str]:
    topic = visit.filled()
    group = f"group-{topic}"
    visit.stage.commit(topic, group, COMMITTED)
    return topic, group


def _describe(visit: Visit) -> None:
    found = visit.program.step("describe", visit.filled())
    assert found == ["2"], found


def _lag(visit: Visit) -> None:
    found = visit.program.step("lag", *_with_commits(visit))
    assert found == [str(COUNT - sum(COMMITTED.values()))], found


def _committed(visit: Visit) -> None:
    found = visit.program.step("committed", *_with_commits(visit))
    assert found == [str(each) for each in COMMITTED.values()], found


def _set_offsets(visit: Visit) -> None:
    topic, group = _with_commits(visit)
    visit.program.step("set_offsets", topic, group)
    assert visit.stage.committed(topic, group) == {0: 5, 1: 6}


def _zookeeper_committed(visit: Visit) -> None:
    """What an OffsetCommit of version 0 put into ZooKeeper."""
    topic = visit.filled()
    group = f"group-{topic}"
    visit.stage.commit_to_zookeeper(topic, group, COMMITTED)
    found = visit.program.step("znode_offsets", topic, group)
    assert found == [str(each) for each in COMMITTED.values()], found


CODECS: Final = ("gzip", "snappy", "lz4", "zstd")

FEATURES: Final[Mapping[str, Callable[[Visit], object]]] = {
    "produce": lambda visit: _produce(visit, "none"),
    **{f"produce-{codec}": lambda visit, codec=codec: _produce(visit, codec) for codec in CODECS},  # type: ignore[misc]
    "consume": lambda visit: _consume(visit, "none"),
    **{f"consume-{codec}": lambda visit, codec=codec: _consume(visit, codec) for codec in CODECS},  # type: ignore[misc]
    "group": _group,
    "rebalance": _rebalance,
    "zookeeper-offsets": _zookeeper_offsets,
    "dual-commit": _dual_commit,
    "seek": _seek,
    "offsets": _offsets,
    "create": _create_topic,
    "delete": _delete_topic,
    "transactions": _transactions,
    "describe": _describe,
    "lag": _lag,
    "committed": _committed,
    "set-offsets": _set_offsets,
    "zookeeper-committed": _zookeeper_committed,
}
"""By name, in the order of the table. Each raises AssertionError or StepFailed when the client does not get along."""

ON_ZOOKEEPER: Final = frozenset({"zookeeper-offsets", "dual-commit", "zookeeper-committed"})
"""Those that look into ZooKeeper."""
