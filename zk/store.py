"""The port to ZooKeeper.

`zk.kazoo_adapter.kazoo_store.KazooStore` and `zk.native.native_store.NativeStore` are the real ones, `zk.memory.memory_store` the twin
for tests and simulation; all are held to `tests/contract`. All methods run on the event loop. A request is repeated after a lost
connection (as by Kafka's ZooKeeper client), so `NodeExistsError` or `BadVersionError` of a write may mean that an earlier attempt
succeeded. A request whose session ends raises `SessionExpiredError`.

Watches are one-shot, as ZooKeeper's: pass `watcher` to a read, and it is called once, on the event loop, at the next
matching change. `zk.watches` re-arms them. Watches die with the session; `zk.session` tells when.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias

ANY_VERSION = -1


@dataclass(slots=True)
class Stat:
    """ZooKeeper's metadata of a znode; `ephemeral_owner` is 0 for a persistent one.

    Made by the hundred thousand, as `Write` is, so it is not frozen, which takes four times as long; nothing changes one.
    """

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
    """The changes that fire watches."""

    CREATED = "created"
    DELETED = "deleted"
    CHANGED = "changed"
    CHILDREN = "children"


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """A one-shot notification without the new state."""

    type: EventType
    path: str


Watcher: TypeAlias = Callable[[WatchEvent], None]


class SessionState(Enum):
    """CONNECTED serves requests; SUSPENDED waits for a connection, the session may live; EXPIRED ended, ephemerals are gone."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    EXPIRED = "expired"
    CLOSED = "closed"


class SessionEnding(Enum):
    """Outcome of ending another session. REFUSED: it was over already, or the password is wrong; servers do not say which."""

    ENDED = "ended"
    REFUSED = "refused"


SessionListener: TypeAlias = Callable[[SessionState], None]


class StoreError(Exception):
    """Raised when ZooKeeper refused a request, or could not be reached."""

    def __init__(self, path: str, message: str = "") -> None:
        super().__init__(f"{path}: {message}" if message else path)
        self.path = path


class NoNodeError(StoreError):
    """Raised when the znode, or the parent of one to be created, is absent."""


class NodeExistsError(StoreError):
    """Raised when a znode to be created exists."""


class BadVersionError(StoreError):
    """Raised when a conditional write or a check meets another version."""


class NotEmptyError(StoreError):
    """Raised when a znode to be deleted has children."""


class NoChildrenForEphemeralsError(StoreError):
    """Raised when the parent of a znode to be created is ephemeral."""


class RolledBackError(StoreError):
    """The result of an operation in a multi in which another one failed."""


class NoAuthError(StoreError):
    """Raised when the znode's ACL does not permit the operation."""


class AuthFailedError(StoreError):
    """Raised when the authentication of this client or of the server failed."""


class SessionExpiredError(StoreError):
    """Raised when the session ended before the reply; the request may have been carried out."""


class StoreClosedError(StoreError):
    """Raised when the store is closed, or was never started."""


@dataclass(frozen=True, slots=True)
class Create:
    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequence: bool = False


@dataclass(slots=True)
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
    """A ZooKeeper session. Every method may also raise SessionExpiredError or StoreClosedError."""

    @property
    def state(self) -> SessionState: ...

    @property
    def session_id(self) -> int:
        """The id that ephemeral znodes of this session carry as `ephemeral_owner`; 0 before the first connection."""

    @property
    def session_password(self) -> bytes:
        """The password with which this session may be ended, changes with `session_id`; empty before the first connection."""

    def add_session_listener(self, listener: SessionListener) -> None:
        """Call `listener(state)` on the event loop at every change of state, in order."""

    async def start(self, timeout_s: float) -> None:
        """Connect; TimeoutError with the servers' names when there is no session in time, AuthFailedError for refused credentials."""

    async def close(self) -> None:
        """End the session at once; its ephemeral znodes vanish."""

    async def read(self, path: str, watcher: Watcher | None = None) -> tuple[bytes, Stat]:
        """Return data and stat. Raises NoNodeError when absent (no watch is left then)."""

    async def read_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        """Return data and stat of each znode, None for an absent one, at a fraction of the cost of single reads; no watches are armed.

        As with single reads the znodes may be read at different moments. Raises NoAuthError when one of them may not be read.
        """

    async def exists(self, path: str, watcher: Watcher | None = None) -> Stat | None:
        """Return the stat or None; the watch also fires on creation."""

    async def children(self, path: str, watcher: Watcher | None = None) -> list[str]:
        """Return the names (not paths) of the children, sorted. Raises NoNodeError when absent."""

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False, parents: bool = False
    ) -> str:
        """Create a znode and return its path, with ten digits appended when `sequence`. Raises NodeExistsError, NoNodeError (no parent)."""

    async def write(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """Replace the data if the version matches. Raises NoNodeError, BadVersionError."""

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete a znode if the version matches. Raises NoNodeError, BadVersionError, NotEmptyError."""

    async def multi(self, operations: Sequence[Operation]) -> list[Result]:
        """Carry out all operations or none. Refusals are not raised but in the results, one for each operation."""

    async def sync(self, path: str = "/") -> None:
        """Wait until this client sees everything that was committed before the call."""

    async def end_session(self, session_id: int, password: bytes, timeout_s: float) -> SessionEnding:
        """End another session; its ephemeral znodes vanish, and a client that has it finds it expired.

        The end is committed on return, but the server of this client may not have seen it yet. Raises StoreError without a connection
        of its own, or when no server has answered in time, where the session may have ended nevertheless; it may be asked again.
        """
