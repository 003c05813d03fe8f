"""Procedures as generators without I/O: each yields effects, is sent their results, and returns its own.

`ControllerTerm` performs the effects. When the seat is lost or the session ends, the procedure is closed where it stands, so each
must leave ZooKeeper in a state from which the next controller can continue.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from kafkalite.portions import Work, with_pauses
from kafkalite.types import BrokerId, TopicPartition
from zk.store import Operation, Result, Stat

if TYPE_CHECKING:
    from kafkalite.controller.cluster_state import RegisteredBroker
    from kafkalite.controller.control_requests import Command
    from kafkalite.controller.events import Event

T = TypeVar("T")

_PIECE = 300
"""Partitions, replicas, topics or znodes that are processed between pauses: some 10 ms."""

READ_PIECES: Final = 4
"""Pieces of znodes that are read together, so that ZooKeeper reads while the answers before are decoded."""

Znode: TypeAlias = tuple[bytes, Stat]


@dataclass(frozen=True, slots=True)
class Read:
    """Read data and stat of each znode, None for an absent one. `watch` arms the data watch of existing ones."""

    paths: Sequence[str]
    watch: bool = False


@dataclass(frozen=True, slots=True)
class Exists:
    """Check if a znode exists, and arm its watch, also for its creation."""

    path: str


@dataclass(frozen=True, slots=True)
class ListChildren:
    """List the names of each path's children, none for an absent parent."""

    paths: Sequence[str]
    watch: bool = False


@dataclass(frozen=True, slots=True)
class Write:
    """Carry out independent writes, each fenced by the controller epoch; one result for each."""

    operations: Sequence[Operation]


@dataclass(frozen=True, slots=True)
class Publish:
    """Queue requests for brokers, in this order for each broker."""

    commands: Sequence[Command]


@dataclass(frozen=True, slots=True)
class Connect:
    """Open a channel to this incarnation of a broker."""

    broker: RegisteredBroker


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Close the channel to a broker and drop its queued requests."""

    broker_id: BrokerId


@dataclass(frozen=True, slots=True)
class AwaitDigests:
    """Wait until all brokers that were asked for digests of their metadata have answered, or that long."""

    timeout_s: float


@dataclass(frozen=True, slots=True)
class QueueLater:
    """Queue an event after `delay_s`, unless the term has ended by then; one of the same type that is not due yet is dropped."""

    delay_s: float
    event: Event


@dataclass(frozen=True, slots=True)
class DrawTopicIds:
    """Draw `count` random topic ids."""

    count: int


@dataclass(frozen=True, slots=True)
class Pause:
    """Let the event loop run, which also serves clients."""


Effect: TypeAlias = (
    Pause
    | Read
    | Exists
    | ListChildren
    | Write
    | Publish
    | Connect
    | Disconnect
    | AwaitDigests
    | QueueLater
    | DrawTopicIds
)
Steps: TypeAlias = Generator[Effect, Any, T]


def read(paths: Sequence[str], *, watch: bool = False) -> Steps[list[Znode | None]]:
    """Yield `Read` for all paths, in pieces."""
    znodes: list[Znode | None] = []
    for some in pieces(paths, 1 if watch else READ_PIECES):
        znodes += yield Read(some, watch)
    return znodes


def exists(path: str) -> Steps[bool]:
    """Yield `Exists`."""
    is_there: bool = yield Exists(path)
    return is_there


def list_children(path: str, *, watch: bool = False) -> Steps[list[str]]:
    """Yield `ListChildren` for one path."""
    names: list[list[str]] = yield ListChildren((path,), watch)
    return names[0]


def list_children_of_each(paths: Sequence[str]) -> Steps[list[list[str]]]:
    """Yield `ListChildren` for all paths, in pieces."""
    names: list[list[str]] = []
    for some in pieces(paths):
        names += yield ListChildren(some)
    return names


def write(operations: Sequence[Operation]) -> Steps[list[Result]]:
    """Yield `Write` for all operations, if there are any."""
    if not operations:
        return []
    results: list[Result] = yield Write(operations)
    return results


def publish(commands: Sequence[Command]) -> Steps[None]:
    """Yield `Publish` if there are commands."""
    if commands:
        yield Publish(commands)


def pieces(items: Iterable[T], together: int = 1) -> Iterator[list[T]]:
    """Split items into pieces that take some 10 ms each, to be followed by a `Pause`; or so many pieces together."""
    remaining = iter(items)
    while some := list(islice(remaining, _PIECE * together)):
        yield some


def finish_with_pauses(work: Work[T]) -> Steps[T]:
    """Finish long work with a `Pause` after each piece, and return its result."""
    return (yield from with_pauses(work, _PIECE, Pause()))


def draw_topic_ids(count: int) -> Steps[list[bytes]]:
    """Yield `DrawTopicIds` unless `count` is 0."""
    if not count:
        return []
    topic_ids: list[bytes] = yield DrawTopicIds(count)
    return topic_ids


def partition_list(partitions: Sequence[TopicPartition], shown: int = 20) -> str:
    """Return the partitions as text for a log line, cut after `shown`."""
    text = ", ".join(str(partition) for partition in partitions[:shown])
    return text if len(partitions) <= shown else f"{text} and {len(partitions) - shown} more"
