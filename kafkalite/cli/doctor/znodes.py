"""Finds znodes of the cluster that disagree, for `kafkalite doctor`, and repairs them for `--fix`.

A finding here is a thing that no controller is working at: it is there in two looks, some seconds apart. Repairs are of four kinds:
znodes that belong to nothing are deleted, each in a multi that checks the controller's epoch; reassignments that wait for a broker that is
gone are cancelled by the controller; where the controller ought to act and does not, another one is elected, which begins with all
that is there; and `/controller_epoch` is raised where a partition's state was written in a later epoch, because every controller leaves
such a partition alone. What would lose records, or is a matter of opinion, is named elsewhere and not done: lost brokers, unclean
elections, znodes that cannot be read. Nothing is done while a KRaft controller owns the cluster (KIP-866): it is no broker, and its
`/controller` is what keeps brokers from electing another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from kafkalite.cli.doctor.findings import Finding, join_first, ok, problem
from kafkalite.types import TopicPartition
from zk import paths
from zk.store import Check, Delete, NoNodeError, RolledBackError, StoreError, Write
from zk.znodes import MalformedZnodeError
from zk.znodes.controller import ControllerEpoch, ControllerSeat
from zk.znodes.topics import PartitionState, TopicAssignment

if TYPE_CHECKING:
    from zk.store import Store

T = TypeVar("T")

CHECK: Final = "znodes"
FIX: Final = "kafkalite doctor --fix"
_AGAIN_AFTER_S: Final = 3.0
_POLL_S: Final = 0.1
_LAST_EPOCH: Final = 2**30
"""Highest controller epoch that is taken for one that a controller had. Elections count up from it, and 2**31 cannot be written."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state in ZooKeeper. `topics` has None for an assignment that cannot be read, `states` for a missing or unreadable state."""

    epoch_version: int = -1
    epoch: int | None = None
    """The epoch of the last controller; None when `/controller_epoch` is missing or cannot be read."""
    controller: int | None = None
    has_kraft_controller: bool = False
    brokers: frozenset[int] = frozenset()
    topics: Mapping[str, TopicAssignment | None] = field(default_factory=dict)
    states: Mapping[TopicPartition, PartitionState | None] = field(default_factory=dict)
    configured: frozenset[str] = frozenset()
    marked: frozenset[str] = frozenset()
    """Topics that are queued for deletion."""
    has_reassignment: bool = False
    notices: frozenset[str] = frozenset()
    """Notifications for the controller, which deletes them after reading."""


@dataclass(frozen=True, slots=True)
class Repair:
    """A repair: `found` and `remedy` for a person, and the action: `deleted` znodes, `cancelled` moves, or a new controller, whose epoch is
    above `epoch_at_least`. Without an action it is left to the person.
    """

    found: str
    remedy: str
    deleted: tuple[str, ...] = ()
    cancelled: tuple[TopicPartition, ...] = ()
    elects: bool = False
    epoch_at_least: int = 0

    @property
    def has_action(self) -> bool:
        return bool(self.deleted or self.cancelled or self.elects)


def judge(snapshot: Snapshot) -> list[Repair]:
    """Return the inconsistencies, also those that a controller may be working at; none while a KRaft controller owns the cluster. Pure."""
    return [] if snapshot.has_kraft_controller else list(_find_repairs(snapshot))


def _find_repairs(seen: Snapshot) -> Iterator[Repair]:
    for topic in sorted(seen.marked - seen.topics.keys()):
        path = paths.delete_topic(topic)
        yield Repair(f"{topic} is to be deleted, and there is no such topic", f"delete {path}", deleted=(path,))
    for topic in sorted(seen.configured - seen.topics.keys() - seen.marked):
        path = paths.topic_config(topic)
        why = "a topic of that name would be made with them"
        yield Repair(f"settings of {topic}, which is no topic: {why}", f"delete {path}", deleted=(path,))
    yield from _strays(seen)
    if seen.brokers and seen.controller not in seen.brokers:
        who = "nobody" if seen.controller is None else f"broker {seen.controller}, which is not registered,"
        yield _another(f"{who} is the controller")
    yield from _later_epochs(seen)
    yield from _waiting(seen)
    yield from _moves(seen)
    if seen.notices:
        yield _another(f"{len(seen.notices)} notifications that the controller has not read")


def _another(found: str) -> Repair:
    return Repair(found, "have another controller elected", elects=True)


def _strays(seen: Snapshot) -> Iterator[Repair]:
    for topic, assignment in sorted(seen.topics.items()):
        if assignment is None:
            continue
        there = [place.partition for place in seen.states if place.topic == topic]
        for partition in sorted(set(there) - assignment.partitions.keys()):
            deleted = (paths.partition_state(topic, partition), paths.partition(topic, partition))
            yield Repair(
                f"a state of {topic}-{partition}, which {topic} does not have", f"delete {deleted[1]}", deleted=deleted
            )


def _later_epochs(seen: Snapshot) -> Iterator[Repair]:
    """Return partitions whose state was written in an epoch above `/controller_epoch`, by a KRaft controller before a rollback to ZooKeeper
    (KAFKA-20488): no controller elects a leader for them or changes their ISR.
    """
    if seen.epoch is None:
        return
    epochs = {place: state.controller_epoch for place, state in seen.states.items() if state is not None}
    later = {place: epoch for place, epoch in epochs.items() if seen.epoch < epoch}
    absurd = sorted(str(place) for place, epoch in later.items() if epoch > _LAST_EPOCH)
    names = sorted(str(place) for place, epoch in later.items() if epoch <= _LAST_EPOCH)
    if absurd:
        what = f"{join_first(absurd)} have a controller_epoch above {_LAST_EPOCH}, after which epochs would soon be used up"
        yield Repair(what, "write a smaller controller_epoch into /brokers/topics/TOPIC/partitions/PARTITION/state")
    if names:
        highest = max(epoch for epoch in later.values() if epoch <= _LAST_EPOCH)
        found = f"{join_first(names)} were written in controller epochs up to {highest}, above {paths.CONTROLLER_EPOCH} ({seen.epoch})"
        remedy = f"raise {paths.CONTROLLER_EPOCH} to {highest} and have another controller elected"
        yield Repair(found, remedy, elects=True, epoch_at_least=highest)


def _waiting(seen: Snapshot) -> Iterator[Repair]:
    """Return the work that a controller would have done as soon as it could."""
    headless, leaderless, undeleted = [], [], []
    for topic, assignment in sorted(seen.topics.items()):
        if assignment is None:
            continue
        replicas = {broker for some in assignment.partitions.values() for broker in some}
        if topic in seen.marked:
            moving = bool(assignment.adding or assignment.removing)
            if replicas <= seen.brokers and not moving:
                undeleted.append(topic)
            continue
        for partition, some in sorted(assignment.partitions.items()):
            place = TopicPartition(topic, partition)
            state = seen.states.get(place)
            if place not in seen.states:
                if seen.brokers.intersection(some):
                    headless.append(str(place))
            elif state is not None and state.leader not in seen.brokers and seen.brokers.intersection(state.isr):
                leaderless.append(str(place))
    for names, what in (
        (headless, "have replicas on live brokers and no state"),
        (leaderless, "have no live leader, and an in-sync replica that lives"),
        (undeleted, "are to be deleted, all their brokers live, and they are still there"),
    ):
        if names:
            yield _another(f"{join_first(names)} {what}")


def _moves(seen: Snapshot) -> Iterator[Repair]:
    hanging: dict[int, list[TopicPartition]] = {}
    done = []
    moving = False
    for topic, assignment in sorted(seen.topics.items()):
        if assignment is None or topic in seen.marked:
            continue
        for partition in sorted(assignment.adding.keys() | assignment.removing.keys()):
            moving = True
            place = TopicPartition(topic, partition)
            adding = assignment.adding.get(partition, ())
            lost = [broker for broker in adding if broker not in seen.brokers]
            state = seen.states.get(place)
            if lost:
                hanging.setdefault(lost[0], []).append(place)
            elif state is not None and set(adding) <= set(state.isr):
                done.append(str(place))
    for broker, places in sorted(hanging.items()):
        found = f"{join_first(list(map(str, places)))} move to broker {broker}, which is not registered"
        yield Repair(found, "cancel these moves (or start that broker)", cancelled=tuple(places))
    if done:
        yield _another(f"{join_first(done)} have all replicas of their move in sync, and the move does not end")
    if seen.has_reassignment and not moving:
        yield _another(f"{paths.REASSIGN_PARTITIONS} is there, and nothing moves")


async def find_inconsistencies(store: Store, chroot: str = "") -> tuple[Snapshot, list[Repair]]:
    """Return the inconsistencies that remain after some seconds. Raises StoreError, OSError."""
    before = judge(await snapshot(store, chroot))
    if not before:
        return Snapshot(), []
    await asyncio.sleep(_AGAIN_AFTER_S)
    seen = await snapshot(store, chroot)
    return seen, [each for each in judge(seen) if each in before]


async def snapshot(store: Store, chroot: str = "") -> Snapshot:
    """Read all that is judged, without creating anything."""

    async def read(path: str) -> tuple[bytes, int] | None:
        try:
            data, stat = await store.read(chroot + path)
        except NoNodeError:
            return None
        return data, stat.version

    async def names(path: str) -> list[str]:
        try:
            return await store.children(chroot + path)
        except NoNodeError:
            return []

    topics, states = {}, {}
    seat = _decode_or_none(ControllerSeat.decode, await read(paths.CONTROLLER))
    for topic in await names(paths.TOPICS):
        topics[topic] = _decode_or_none(TopicAssignment.decode, await read(paths.topic(topic)))
        for name in await names(paths.partitions(topic)):
            if name.isdecimal():
                found = await read(paths.partition_state(topic, int(name)))
                if found is not None:
                    states[TopicPartition(topic, int(name))] = _decode_or_none(PartitionState.decode, found)
    epoch = await read(paths.CONTROLLER_EPOCH)
    last = _decode_or_none(ControllerEpoch.decode, epoch)
    notices = [
        f"{parent}/{name}" for parent in (paths.ISR_CHANGES, paths.LOG_DIR_EVENTS) for name in await names(parent)
    ]
    return Snapshot(
        -1 if epoch is None else epoch[1],
        None if last is None else last.epoch,
        None if seat is None else seat.broker_id,
        seat is not None and seat.is_of_kraft,
        frozenset(int(name) for name in await names(paths.BROKER_IDS) if name.isdecimal()),
        topics,
        states,
        frozenset(await names(paths.CONFIG_TOPICS)) - {paths.DEFAULT_ENTITY},
        frozenset(await names(paths.DELETE_TOPICS)),
        await read(paths.REASSIGN_PARTITIONS) is not None,
        frozenset(notices),
    )


def _decode_or_none(decode: Callable[[bytes], T], found: tuple[bytes, int] | None) -> T | None:
    try:
        return None if found is None else decode(found[0])
    except MalformedZnodeError:
        return None


def findings(repairs: Sequence[Repair]) -> list[Finding]:
    if not repairs:
        return [ok(CHECK, "those of topics, deletions and moves agree")]
    return [problem(CHECK, each.found, f"{each.remedy}: {FIX}" if each.has_action else each.remedy) for each in repairs]


async def delete(store: Store, seen: Snapshot, repair: Repair, chroot: str = "") -> None:
    """Delete what a repair names, unless the controller has changed since. StoreError."""
    for path in repair.deleted:
        await _fence_by_epoch(store, seen, Delete(chroot + path), chroot)


async def elect(store: Store, seen: Snapshot, chroot: str = "", epoch_at_least: int = 0) -> None:
    """Delete the controller's znode, so that brokers elect a controller, and raise `/controller_epoch` before if it is below
    `epoch_at_least`. Raises StoreError, for a raise also when another controller was elected since.
    """
    vacate = Delete(chroot + paths.CONTROLLER)
    if seen.epoch is None or epoch_at_least <= seen.epoch:
        await _fence_by_epoch(store, seen, vacate, chroot)
        return
    raised = Write(chroot + paths.CONTROLLER_EPOCH, ControllerEpoch(epoch_at_least).encode(), seen.epoch_version)
    results = await store.multi([raised, vacate])
    if isinstance(results[1], NoNodeError):  # nobody has the seat, so that nobody is to leave it
        results = await store.multi([raised])
    for result in results:
        if isinstance(result, StoreError) and not isinstance(result, RolledBackError):
            raise result


async def wait_for_controller(store: Store, timeout_s: float, chroot: str = "") -> bool:
    """Return True once `/controller` is there, False when it is not in time. A broker that is restarted without one may be left without
    leaders.
    """
    try:
        async with asyncio.timeout(timeout_s):
            while await store.exists(chroot + paths.CONTROLLER) is None:
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        return False
    return True


async def _fence_by_epoch(store: Store, seen: Snapshot, operation: Delete, chroot: str) -> None:
    check = Check(chroot + paths.CONTROLLER_EPOCH, seen.epoch_version)
    for result in await store.multi([check, operation]):
        if isinstance(result, StoreError) and not isinstance(result, NoNodeError | RolledBackError):
            raise result  # who was rolled back was refused because of the other
