"""Which brokers are there and who is the controller, as ZooKeeper and each broker for itself tell it. Pure; times are monotonic, in ms.

ZooKeeper decides while it answers: a broker is there as long as its ephemeral znode is. Without it the brokers are compared, because one
that is cut off from ZooKeeper or was paused tells what was true before. Whether a broker answers is another question: one that is killed
stays registered until its session ends, and one that is registered may be slow.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kafkalite.client import BrokerNode, TopicDescription

ANSWER_MS: Final = 1_000
"""A broker that takes longer for its list of brokers is slow, or does not answer."""
RECENT_MS: Final = 2_000
"""Age up to which an answer decides: less than `LATE_MS`, so that another source takes over before what is shown is late."""
LATE_MS: Final = 3_000
"""Age from which the state of the cluster is shown as late."""

UP, SLOW, SILENT, UNKNOWN = "up", "slow", "silent", "unknown"
UNTOLD_CONTROLLER: Final = -2
"""The controller of a cluster with KRaft, whose brokers name any of themselves to clients."""


@dataclass(frozen=True, slots=True)
class Told:
    """The brokers, the controller and the topics (None where they were not requested) as one broker told them."""

    cluster_id: str | None
    controller_id: int
    brokers: Mapping[int, BrokerNode]
    topics: Mapping[str, TopicDescription] | None = None


@dataclass(frozen=True, slots=True)
class Registration:
    """A broker's znode: its first address, its zxid, which is the broker's epoch, and when it was created (ms since 1970)."""

    node: BrokerNode
    epoch: int
    since_ms: int


@dataclass(frozen=True, slots=True)
class Registered:
    """Brokers and controller as ZooKeeper had them when it was asked, at `at_ms`; `controller_id` is NO_BROKER without a controller."""

    brokers: Mapping[int, Registration]
    controller_id: int
    at_ms: float
    controller_since_ms: int | None = None
    controller_zxid: int | None = None


@dataclass(slots=True)
class Contact:
    """What is known of one broker by asking it. Times are None for what has not happened."""

    node: BrokerNode
    asked_ms: float | None = None
    """When the request that is not answered yet was sent."""
    told: Told | None = None
    told_ms: float = 0.0
    """When that was asked for: it may have changed before the answer came."""
    took_ms: float = 0.0
    problem: str | None = None
    """Why the last request failed; None when it was answered."""
    silent_since_ms: int | None = None
    """Wall time of the first failure after the last answer."""
    slow_topics_until_ms: float = field(default=0.0, repr=False)
    """Until then other brokers are asked for the topics first."""

    def state(self, now_ms: float) -> str:
        """Return "up", "slow" (its last answer took too long), "silent", or "unknown" before the first answer is due."""
        is_overdue = self.asked_ms is not None and now_ms - self.asked_ms > ANSWER_MS
        if self.problem is not None or is_overdue:
            return SILENT
        if self.told is None:
            return UNKNOWN
        return SLOW if self.took_ms > ANSWER_MS else UP

    def why_silent(self, now_ms: float) -> str | None:
        """Return what is wrong with a broker that does not answer."""
        if self.problem is None and self.asked_ms is not None and now_ms - self.asked_ms > ANSWER_MS:
            return f"no answer for {(now_ms - self.asked_ms) / 1000:.0f} s"
        return self.problem


@dataclass(frozen=True, slots=True)
class Members:
    """The brokers that are there, by whom it was told, and when."""

    cluster_id: str | None
    controller_id: int
    brokers: Mapping[int, BrokerNode]
    at_ms: float
    source: str


def choose_members(registered: Registered | None, contacts: Collection[Contact], since_ms: float) -> Members | None:
    """Return the members as ZooKeeper has them, or where it has not answered since `since_ms` as the brokers have; None when nobody has.

    Addresses are those that brokers tell clients; a broker that nobody has named yet has the first one of its registration.
    """
    recent = [each for each in contacts if each.told is not None and each.told_ms >= since_ms]
    told = _majority(recent)
    if registered is not None and registered.at_ms >= since_ms:
        named = {each.node.id: each.node for each in contacts}
        named |= {node.id: node for each in recent if each.told for node in each.told.brokers.values()}
        cluster_id = told.told.cluster_id if told is not None and told.told is not None else None
        there = {broker: named.get(broker, each.node) for broker, each in sorted(registered.brokers.items())}
        return Members(cluster_id, registered.controller_id, there, registered.at_ms, "ZooKeeper")
    if told is None or told.told is None:
        return None
    answer = told.told
    return Members(answer.cluster_id, answer.controller_id, answer.brokers, told.told_ms, f"broker {told.node.id}")


def _majority(contacts: Collection[Contact]) -> Contact | None:
    """Return the newest of those that tell the same as most do; where as many tell otherwise, of those whose controller says so itself."""
    groups: dict[tuple[frozenset[int], int], list[Contact]] = {}
    for each in contacts:
        if each.told is not None:
            groups.setdefault((frozenset(each.told.brokers), each.told.controller_id), []).append(each)
    if not groups:
        return None
    alike = max(
        groups.items(),
        key=lambda item: (
            len(item[1]),
            any(each.node.id == item[0][1] for each in item[1]),
            max(each.told_ms for each in item[1]),
        ),
    )[1]
    return max(alike, key=lambda each: each.told_ms)


def agrees(told: Told, members: Members) -> bool:
    """True if the broker that told this knows the same brokers and the same controller."""
    return set(told.brokers) == set(members.brokers) and told.controller_id == members.controller_id


def order_for_topics(contacts: Iterable[Contact], controller_id: int, now_ms: float) -> list[Contact]:
    """Return the brokers in the order in which they are asked for all topics: the controller, which knows first, then the fastest;
    brokers that are slow or do not answer last.
    """

    def reluctance(each: Contact) -> tuple[bool, bool, bool, float]:
        is_slow = each.state(now_ms) != UP or now_ms < each.slow_topics_until_ms
        return each.state(now_ms) == SILENT, is_slow, each.node.id != controller_id, each.took_ms

    return sorted(contacts, key=reluctance)
