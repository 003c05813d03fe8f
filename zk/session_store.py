"""The parts of a store that its implementations share: session state, listeners, creation with parents."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from zk.listeners import notify
from zk.paths import check
from zk.store import (
    Create,
    NoNodeError,
    Operation,
    Result,
    SessionExpiredError,
    SessionListener,
    SessionState,
    Stat,
    Store,
    StoreClosedError,
    StoreError,
)
from zk.subtree import create_ancestors


class SessionStore(Store, ABC):
    """A store with one session at a time; subclasses send the requests."""

    def __init__(self) -> None:
        self._state = SessionState.CLOSED
        self._session_id = 0
        self._session_password = b""
        self._listeners: list[SessionListener] = []

    @property
    def state(self) -> SessionState:
        return self._state

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def session_password(self) -> bytes:
        return self._session_password

    def add_session_listener(self, listener: SessionListener) -> None:
        self._listeners.append(listener)

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False, parents: bool = False
    ) -> str:
        operation = Create(path, data, ephemeral, sequence)
        try:
            return await self._create(operation)
        except NoNodeError:
            if not parents:
                raise
        await create_ancestors(self, path)
        return await self._create(operation)

    async def multi(self, operations: Sequence[Operation]) -> list[Result]:
        for operation in operations:
            check(operation.path)
        return await self._multi(list(operations)) if operations else []

    async def read_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        for path in paths:
            check(path)
        return await self._read_many(list(paths)) if paths else []

    @abstractmethod
    async def _read_many(self, paths: list[str]) -> list[tuple[bytes, Stat] | None]:
        """Read the znodes, of which there is at least one."""

    @abstractmethod
    async def _create(self, operation: Create) -> str:
        """Send one Create and return the path made."""

    @abstractmethod
    async def _multi(self, operations: list[Operation]) -> list[Result]:
        """Send the operations, of which there is at least one, as one transaction."""

    def _ensure_session(self, path: str) -> None:
        if self._state is SessionState.CLOSED:
            raise StoreClosedError(path, "the store is closed")
        if self._state is SessionState.EXPIRED:
            raise SessionExpiredError(path, "the session has expired")

    def _ensure_connected(self, path: str) -> None:
        self._ensure_session(path)
        if self._state is not SessionState.CONNECTED:
            raise StoreError(path, "there is no connection to ZooKeeper")

    def _set_state(self, state: SessionState) -> None:
        if state is not self._state:
            self._state = state
            notify(self._listeners, state)
