"""What something cost on a cluster with many partitions, and how that grows: pure, figures in and figures out."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, NamedTuple

ZOOKEEPER_COUNTS: Final = {
    "packets received": "zk_packets_received",
    "packets sent": "zk_packets_sent",
    "reads": "zk_cnt_readlatency",
    "writes": "zk_cnt_updatelatency",
    "bytes received": "zk_bytes_received_count",
    "bytes of responses": "zk_response_bytes",
    "znodes": "zk_znode_count",
}
"""Names of `mntr` (3.6 and later; earlier servers have some of them) by what they are called here."""

_SOCKET_OWNER: Final = re.compile(r'"[^"]*",pid=(\d+)')
_SENT: Final = re.compile(r"\bbytes_sent:(\d+)")


class Flow(NamedTuple):
    """A TCP connection, seen from one of its processes."""

    pid: int
    local: str
    peer: str


@dataclass(frozen=True)
class Costs:
    """What one step cost. A process that did not live through it is counted from its start, or not at all."""

    seconds: float
    stages: Mapping[str, float] = field(default_factory=dict)
    """Seconds of its parts."""

    processor_s: Mapping[int, float] = field(default_factory=dict)
    """Processor time by broker."""

    controller: int = -1
    """The controller at the end of the step."""

    sent_bytes: int = 0
    """From the controller to the other brokers: requests, and what its fetchers and heartbeats sent meanwhile."""

    zookeeper: Mapping[str, int] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"processor_s": {str(broker): spent for broker, spent in self.processor_s.items()}}

    @property
    def controller_processor_s(self) -> float:
        return self.processor_s.get(self.controller, 0.0)

    @property
    def brokers_processor_s(self) -> float:
        return sum(self.processor_s.values())


def zookeeper_counts(answers: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Return the counts of an ensemble, of the answers of each server to `mntr` and `srvr`.

    Packets are summed over the servers; znodes and transactions (the counter in the latest zxid) are those of the server with most.
    """
    counts = dict.fromkeys([*ZOOKEEPER_COUNTS, "transactions"], 0)
    for mntr, srvr in answers:
        known = dict(line.split("\t", 1) for line in mntr.splitlines() if "\t" in line)
        for name, key in ZOOKEEPER_COUNTS.items():
            value = int(float(known.get(key, "0")))
            counts[name] = max(counts[name], value) if name == "znodes" else counts[name] + value
        if zxid := re.search(r"^Zxid: 0x([0-9a-f]+)", srvr, re.MULTILINE):
            counts["transactions"] = max(counts["transactions"], int(zxid[1], 16) & 0xFFFF_FFFF)
    return counts


def difference(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """Return by how much each count grew."""
    return {name: value - before.get(name, 0) for name, value in after.items()}


def bytes_sent(listing: str, ports: Iterable[int]) -> dict[Flow, int]:
    """Return the bytes that went out on connections to one of the ports, of what `ss -tinpOH` lists."""
    wanted = {str(port) for port in ports}
    found = {}
    for line in listing.splitlines():
        columns = line.split(None, 5)
        if len(columns) < 6 or columns[0] != "ESTAB" or columns[4].rpartition(":")[2] not in wanted:
            continue
        owner, sent = _SOCKET_OWNER.search(columns[5]), _SENT.search(columns[5])
        if owner is not None:
            found[Flow(int(owner[1]), columns[3], columns[4])] = int(sent[1]) if sent is not None else 0
    return found


def sent_between(before: Mapping[Flow, int], after: Mapping[Flow, int], pid: int, own_port: int) -> int:
    """Return what a process sent on the connections that it has afterwards, but for those to itself."""
    return sum(
        sent - before.get(flow, 0)
        for flow, sent in after.items()
        if flow.pid == pid and flow.peer.rpartition(":")[2] != str(own_port)
    )


class View(NamedTuple):
    """What a broker tells of the idle partitions: how many there are, and of how many each is true."""

    partitions: int = 0
    led: int = 0
    """Their leader lives."""

    preferred: int = 0
    """They are led by their first replica."""

    in_sync: int = 0
    """Every replica is in sync."""

    held: int = 0
    """A dead broker leads them, or is in sync while another one is too."""

    lost: int = 0
    """A dead broker leads them."""


def view_of(partitions: Iterable[tuple[int, Sequence[int], Sequence[int]]], alive: Iterable[int]) -> View:
    """Count partitions, given as leader, replicas and ISR."""
    living = frozenset(alive)
    count = led = preferred = in_sync = held = lost = 0
    for leader, replicas, isr in partitions:
        count += 1
        led += leader in living
        preferred += leader == replicas[0]
        in_sync += len(isr) == len(replicas)
        is_lost = leader >= 0 and leader not in living
        lost += is_lost
        held += is_lost or (len(isr) > 1 and not living.issuperset(isr))
    return View(count, led, preferred, in_sync, held, lost)


def sample_of(names: Sequence[str], most: int = 4) -> list[str]:
    """Return some names, evenly spaced: the last one among them, and the last one in order, of which a controller tells last."""
    step = max(1, math.ceil(len(names) / most))
    sample = list(names[::-1][::step])
    last = max(names, default="")
    return sample if last in sample or not names else [*sample, last]


LED: Final = "led"
"""Stage of a death or takeover: until brokers tell of a living leader of each partition of a sample."""


def figures_of(step: str, costs: Costs) -> dict[str, float]:
    """Return the figures of a step that can be expected to grow with the number of partitions, by name."""
    found = {
        f"{step}, s": costs.seconds,
        f"{step}, processor of all brokers, s": costs.brokers_processor_s,
        f"{step}, processor of the controller, s": costs.controller_processor_s,
        f"{step}, sent by the controller, MB": costs.sent_bytes / 1e6,
        f"{step}, ZooKeeper packets": float(costs.zookeeper.get("packets received", 0)),
        f"{step}, ZooKeeper transactions": float(costs.zookeeper.get("transactions", 0)),
    }
    if LED in costs.stages:
        found[f"{step} until all are led, s"] = costs.stages[LED]
    return {name: value for name, value in found.items() if value}


def for_one(figures: Mapping[int, Mapping[str, float]]) -> dict[str, dict[int, float]]:
    """Return what one partition costs, by figure and size, of the figures by size."""
    found: dict[str, dict[int, float]] = {}
    for size, by_name in sorted(figures.items()):
        for name, value in by_name.items():
            found.setdefault(name, {})[size] = value / size
    return found
