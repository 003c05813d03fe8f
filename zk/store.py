"""The port through which everything reads and writes ZooKeeper.

`zk.kazoo_adapter.kazoo_store.KazooStore` is the real one, `zk.memory.memory_store` the twin for tests and simulation; both are held to
`tests/contract`. All methods run on the event loop. A request that meets a lost connection is sent again once the
connection is back (as Kafka's ZooKeeper client does), so a caller of a write that is not idempotent must ask "did my
earlier attempt succeed?" when it sees `NodeExistsError` or `BadVersionError`. A request that meets the end of the
session raises `SessionExpiredError`.

Watches are one-shot, as ZooKeeper's: pass `watcher` to a read, and it is called once, on the event loop, at the next
matching change. `zk.watches` re-arms them. Watches die with the session; `zk.session` tells when.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias

ANY_VERSION = -1


@dataclass(frozen=True, slots=True)
class Stat:
    """ZooKeeper's facts about a znode; `ephemeral_owner` is 0 for a persistent one."""

    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    version: int
    cversion: int
    ephemeral_owner: int
    data_length: int
    children_count: int


class EventType(Enum):
    """What a watch saw."""

    CREATED = "created"
    DELETED = "deleted"
    CHANGED = "changed"
    CHILDREN = "children"


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """A one-shot notification; read again to learn the new state."""

    type: EventType
    path: str


Watcher: TypeAlias = Callable[[WatchEvent], None]


class SessionState(Enum):
    """CONNECTED serves requests; SUSPENDED waits for a connection, the session may live; EXPIRED ended, ephemerals are gone."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    EXPIRED = "expired"
    CLOSED = "closed"


SessionListener: TypeAlias = Callable[[SessionState], None]


class StoreError(Exception):
    """A request that ZooKeeper refused, or could not be asked."""

    def __init__(self, path: str, message: str = "") -> None:
        super().__init__(f"{path}: {message}" if message else path)
        self.path = path


class NoNodeError(StoreError):
    """The znode, or the parent of one to be created, is absent."""


class NodeExistsError(StoreError):
    """A znode to be created is there already."""


class BadVersionError(StoreError):
    """A conditional write or a check met another version."""


class NotEmptyError(StoreError):
    """A znode to be deleted has children."""


class NoChildrenForEphemeralsError(StoreError):
    """A child was to be created below an ephemeral znode."""


class RolledBackError(StoreError):
    """In the results of a multi: this operation was not tried because another one failed."""


class NoAuthError(StoreError):
    """The znode's ACL does not let this client do it."""


class AuthFailedError(StoreError):
    """The server refused who this client says it is, or did not prove who it is itself."""


class SessionExpiredError(StoreError):
    """The session ended before the request was answered; the request may or may not have been carried out."""


class StoreClosedError(StoreError):
    """The store was closed, or never started."""


@dataclass(frozen=True, slots=True)
class Create:
    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequence: bool = False


@dataclass(frozen=True, slots=True)
class Write:
    path: str
    data: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Check:
    path: str
    version: int


Operation: TypeAlias = Create | Write | Delete | Check
Result: TypeAlias = str | Stat | StoreError | None
"""Of a Create its path, of a Write its Stat, of a Delete or Check None; a StoreError where the multi failed."""


class Store(Protocol):
    """A ZooKeeper session. Every method may raise SessionExpiredError or StoreClosedError besides those named."""

    @property
    def state(self) -> SessionState: ...

    @property
    def session_id(self) -> int:
        """The id that ephemeral znodes of this session carry as `ephemeral_owner`; 0 before the first connection."""

    def add_session_listener(self, listener: SessionListener) -> None:
        """Call `listener(state)` on the event loop at every change of state, in order."""

    async def start(self, timeout_s: float) -> None:
        """Connect; TimeoutError with the servers' names when there is no session in time, AuthFailedError for refused credentials."""

    async def close(self) -> None:
        """End the session at once; its ephemeral znodes vanish."""

    async def read(self, path: str, watcher: Watcher | None = None) -> tuple[bytes, Stat]:
        """Data and stat. NoNodeError when absent (no watch is left then)."""

    async def exists(self, path: str, watcher: Watcher | None = None) -> Stat | None:
        """The stat or None; the watch also fires on creation."""

    async def children(self, path: str, watcher: Watcher | None = None) -> list[str]:
        """Names (not paths) of the children, sorted. NoNodeError when absent."""

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False, parents: bool = False
    ) -> str:
        """The path made, with ten digits appended when `sequence`. NodeExistsError, NoNodeError (no parent)."""

    async def write(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """Replace the data if the version matches. NoNodeError, BadVersionError."""

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """NoNodeError, BadVersionError, NotEmptyError."""

    async def multi(self, operations: Sequence[Operation]) -> list[Result]:
        """All or nothing. Never raises for a refused operation: look at the results, one for each operation."""

    async def sync(self, path: str = "/") -> None:
        """Until this client sees what was committed before the call."""
