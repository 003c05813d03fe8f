"""Procedures: decisions that need I/O on the way, written as generators which do none themselves.

A procedure yields an `Effect`, is sent its answer, and returns its result. The driver (`loop.ControllerTerm`) performs effects;
when one fails for good (the seat is lost, the session ended) the procedure is closed where it stands. So each
procedure must leave ZooKeeper in a state from which the next controller can go on.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from kafkalite.portions import Work
from kafkalite.types import BrokerId, TopicPartition
from zk.store import Operation, Result, Stat

if TYPE_CHECKING:
    from kafkalite.controller.cluster_state import RegisteredBroker
    from kafkalite.controller.control_requests import Command

T = TypeVar("T")

_PIECE = 300
"""Partitions, replicas, topics, znodes."""

Znode: TypeAlias = tuple[bytes, Stat]


@dataclass(frozen=True, slots=True)
class Read:
    """Data and stat of each znode, None for an absent one. `watch` arms the data watch of those that are there."""

    paths: Sequence[str]
    watch: bool = False


@dataclass(frozen=True, slots=True)
class Exists:
    """Is the znode there? Arms its watch, for creation too."""

    path: str


@dataclass(frozen=True, slots=True)
class ListChildren:
    """For each path the names of its children, none for an absent parent."""

    paths: Sequence[str]
    watch: bool = False


@dataclass(frozen=True, slots=True)
class Write:
    """Independent writes, each only if this controller still holds its seat; one result for each."""

    operations: Sequence[Operation]


@dataclass(frozen=True, slots=True)
class Publish:
    """Queue requests for brokers, in this order for each broker."""

    commands: Sequence[Command]


@dataclass(frozen=True, slots=True)
class Connect:
    """Begin to send requests to this incarnation of a broker."""

    broker: RegisteredBroker


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Send no more to a broker, not even what waits for it."""

    broker_id: BrokerId


@dataclass(frozen=True, slots=True)
class DrawTopicIds:
    """So many new random topic ids."""

    count: int


@dataclass(frozen=True, slots=True)
class Pause:
    """Let the event loop, which serves clients too, have its turn."""


Effect: TypeAlias = Pause | Read | Exists | ListChildren | Write | Publish | Connect | Disconnect | DrawTopicIds
Steps: TypeAlias = Generator[Effect, Any, T]


def read(paths: Sequence[str], *, watch: bool = False) -> Steps[list[Znode | None]]:
    """See `Read`; nothing is asked for no paths."""
    znodes: list[Znode | None] = []
    for some in pieces(paths):
        znodes += yield Read(some, watch)
    return znodes


def exists(path: str) -> Steps[bool]:
    """See `Exists`."""
    there: bool = yield Exists(path)
    return there


def list_children(path: str, *, watch: bool = False) -> Steps[list[str]]:
    """Names of the children, none for an absent parent."""
    names: list[list[str]] = yield ListChildren((path,), watch)
    return names[0]


def list_children_of_each(paths: Sequence[str]) -> Steps[list[list[str]]]:
    """See `ListChildren`; nothing is asked for no paths."""
    names: list[list[str]] = []
    for some in pieces(paths):
        names += yield ListChildren(some)
    return names


def write(operations: Sequence[Operation]) -> Steps[list[Result]]:
    """See `Write`; nothing is asked for no operations."""
    results: list[Result] = []
    for some in pieces(operations):
        results += yield Write(some)
    return results


def publish(commands: Sequence[Command]) -> Steps[None]:
    """See `Publish`."""
    if commands:
        yield Publish(commands)


def pieces(items: Iterable[T]) -> Iterator[list[T]]:
    """As much at a time as takes some 10 ms, to be followed by a `pause`."""
    remaining = iter(items)
    while some := list(islice(remaining, _PIECE)):
        yield some


def pause() -> Steps[None]:
    """See `Pause`."""
    yield Pause()


def paced(work: Work[T]) -> Steps[T]:
    """The result of work that may be much, with a `pause` after each piece of it."""
    try:
        while True:
            for _ in range(_PIECE):
                next(work)
            yield Pause()
    except StopIteration as end:
        result: T = end.value
        return result


def connect(broker: RegisteredBroker) -> Steps[None]:
    """See `Connect`."""
    yield Connect(broker)


def disconnect(broker_id: BrokerId) -> Steps[None]:
    """See `Disconnect`."""
    yield Disconnect(broker_id)


def draw_topic_ids(count: int) -> Steps[list[bytes]]:
    """See `DrawTopicIds`."""
    if not count:
        return []
    topic_ids: list[bytes] = yield DrawTopicIds(count)
    return topic_ids


def partition_list(partitions: Sequence[TopicPartition], shown: int = 20) -> str:
    """The partitions for a log line, cut after `shown`."""
    text = ", ".join(str(partition) for partition in partitions[:shown])
    return text if len(partitions) <= shown else f"{text} and {len(partitions) - shown} more"
