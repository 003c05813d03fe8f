"""Who talks to whom: clients, three brokers with the partitions of a topic, and ZooKeeper with the znodes that they meet at.

Replicas are where the placement of new topics puts them, and paths are those of `zk.paths`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from deploy.docs.drawings.svg import WIDTH, arrow, color, document, line, rect, text
from zk import paths
from zk.placement import assign

BROKERS: Final = (1, 2, 3)
CONTROLLER: Final = 1
PARTITIONS: Final = 3
TOPIC: Final = "orders"
CLIENTS: Final = (
    ("Kafka clients", "any language"),
    ("Python client", "asyncio, Spark"),
    ("Commands", "and the console"),
)
_BOX: Final = 140
_LEFTS: Final = (18, 170, 322)
_CLUSTER_TOP, _CLUSTER_BOTTOM = 108, 338
_ZOOKEEPER_TOP, _ZOOKEEPER_BOTTOM = 392, 552
_HEIGHT: Final = 560


def draw() -> str:
    return document(
        _HEIGHT,
        [*_clients(), *_cluster(), *_zookeeper()],
        title="Architecture of a kafkalite cluster",
        description=(
            "Clients speak Kafka's protocol with three brokers. Each partition has a leader on one broker and followers on the others, "
            "which fetch from it. One broker is the controller. Each broker has a session with ZooKeeper, which has their "
            "registrations, the controller's seat and the state of every partition."
        ),
    )


def _clients() -> Iterator[str]:
    for left, (name, kind) in zip(_LEFTS, CLIENTS, strict=True):
        middle = left + _BOX / 2
        yield rect(left, 12, _BOX, 50, stroke="line")
        yield text(middle, 33, name, anchor="middle", bold=True)
        yield text(middle, 51, kind, anchor="middle", fill="soft", size=12)
        yield arrow(middle, 64, middle, _CLUSTER_TOP - 2, both=True)
    yield text(_LEFTS[0] + _BOX + 6, 90, "Kafka's protocol", fill="soft", anchor="middle", size=12)
    yield text(_LEFTS[1] + _BOX + 6, 90, "produce, fetch, …", fill="soft", anchor="middle", size=12)


def _cluster() -> Iterator[str]:
    yield rect(6, _CLUSTER_TOP, WIDTH - 12, _CLUSTER_BOTTOM - _CLUSTER_TOP, stroke="ours", radius=8)
    yield text(18, _CLUSTER_TOP + 21, f"kafkalite: brokers with the topic “{TOPIC}”", bold=True, fill="ours")
    assignment = assign(BROKERS, PARTITIONS, len(BROKERS), start=0, shift=0)
    for left, broker in zip(_LEFTS, BROKERS, strict=True):
        top = _CLUSTER_TOP + 32
        yield rect(left, top, _BOX, 164, fill="paper", stroke="line")
        yield text(left + 10, top + 21, f"broker {broker}", bold=True)
        for partition, replicas in assignment.items():
            yield _replica(left + 10, top + 32 + 28 * partition, partition, is_leader=replicas[0] == broker)
        yield text(left + 10, top + 135, "Kafka's log files", fill="soft", size=12)
        if broker == CONTROLLER:
            yield text(left + 10, top + 153, "the controller", fill="zookeeper", size=12, bold=True)
    bottom = _CLUSTER_BOTTOM - 25
    for right, left in ((_LEFTS[0] + _BOX, _LEFTS[1]), (_LEFTS[1] + _BOX, _LEFTS[2])):
        for partition in range(PARTITIONS):
            y = _CLUSTER_TOP + 75 + 28 * partition
            yield line(right - 10, y, left + 10, y, stroke="ours", dashed=True)
    yield text(
        WIDTH / 2,
        bottom + 14,
        "followers fetch from leaders; brokers exchange heartbeats",
        anchor="middle",
        fill="soft",
        size=12,
    )


def _replica(left: float, top: float, partition: int, *, is_leader: bool) -> str:
    box = rect(left, top, _BOX - 20, 22, fill="ours" if is_leader else "pale", radius=4)
    name = f"{TOPIC}-{partition}" + (": leader" if is_leader else "")
    return box + text(left + 8, top + 15.5, name, fill="on-ours" if is_leader else "ink", size=12, bold=is_leader)


def _zookeeper() -> Iterator[str]:
    for left, broker in zip(_LEFTS, BROKERS, strict=True):
        middle = left + _BOX / 2
        yield arrow(middle, _CLUSTER_BOTTOM + 2, middle, _ZOOKEEPER_TOP - 2, stroke="zookeeper", both=True)
        told = "session, elections" if broker == CONTROLLER else "session"
        yield text(middle + 10, _ZOOKEEPER_TOP - 23, told, fill="soft", size=12)
    yield (
        f'<rect x="6" y="{_ZOOKEEPER_TOP}" width="{WIDTH - 12}" height="{_ZOOKEEPER_BOTTOM - _ZOOKEEPER_TOP}" rx="8" '
        f'fill="{color("box")}" stroke="{color("zookeeper")}" stroke-width="1.5"/>'
    )
    yield text(18, _ZOOKEEPER_TOP + 22, "ZooKeeper: who lives, who decides, who leads", bold=True, fill="zookeeper")
    state = paths.partition_state(TOPIC, 0)
    known = (
        (paths.broker(BROKERS[0]), f"broker {BROKERS[0]} lives; ephemeral, so it goes with its session"),
        (paths.CONTROLLER, f"broker {CONTROLLER} decides; ephemeral, too"),
        (state, "who leads, which replicas are in sync (ISR), leader epoch"),
    )
    for number, (path, meaning) in enumerate(known):
        y = _ZOOKEEPER_TOP + 48 + 41 * number
        yield text(18, y, path, mono=True, size=12.5)
        yield text(18, y + 17, meaning, fill="soft", size=12)
