"""Standing watches, rearmed after every change and with every new session, and waiting for one change."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from zk.listeners import notify, report
from zk.session import Session
from zk.store import NoNodeError, SessionExpiredError, Stat, Store, StoreClosedError, WatchEvent
from zk.subtree import read_or_watch

_RETRY_S = 1.0


async def wait_for_change(store: Store, path: str, timeout_s: float) -> bool:
    """Wait for the next change of a znode; True at once if it is absent, False after `timeout_s`."""
    changed = asyncio.Event()

    def on_event(_: WatchEvent) -> None:
        changed.set()

    if await store.exists(path, on_event) is None:
        return True
    try:
        async with asyncio.timeout(timeout_s):
            await changed.wait()
    except TimeoutError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class ChildrenChanged:
    """Names below `path`, sorted; `added` and `removed` since the report before."""

    path: str
    names: tuple[str, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DataChanged:
    """New data and stat of a znode; both None when it is absent."""

    path: str
    data: bytes | None
    stat: Stat | None


class _StandingWatch(ABC):
    """A watch that is armed by the read whose result is reported, so no change is missed.

    Changes faster than the reads are reported as one. The listener is called on the event loop and must not block.
    """

    def __init__(self, session: Session, path: str) -> None:
        self.path = path
        self._session = session
        self._store = session.store
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Arm the watch and report what is there; the listener has been called when this returns.

        Raises StoreError without a session.
        """
        self._session.add_watch(self._on_new_session)
        try:
            await self._read_and_report()
        except BaseException:
            self._session.remove_watch(self._on_new_session)
            raise
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"watch {self.path}")

    async def stop(self) -> None:
        """Report nothing any more."""
        self._session.remove_watch(self._on_new_session)
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            try:
                await self._read_and_report()
            except SessionExpiredError:
                # The new session sets _wake; if it was here before this error, it is set already.
                continue
            except StoreClosedError:
                return
            except Exception as problem:
                report(f"{self.path} could not be read for its watch; it is tried again in {_RETRY_S:g} s", problem)
                asyncio.get_running_loop().call_later(_RETRY_S, self._wake.set)

    async def _read_and_report(self) -> None:
        self._wake.clear()
        await self._read()

    def _on_event(self, event: WatchEvent) -> None:
        self._wake.set()

    def _on_new_session(self, _: None) -> None:
        self._wake.set()

    @abstractmethod
    async def _read(self) -> None:
        """Read with a watch and report."""


class ChildWatch(_StandingWatch):
    """Reports the children of a znode; an absent znode has none, and is waited for."""

    def __init__(self, session: Session, path: str, listener: Callable[[ChildrenChanged], object]) -> None:
        super().__init__(session, path)
        self._listener = listener
        self._names: tuple[str, ...] | None = None

    async def _read(self) -> None:
        names: tuple[str, ...] = ()
        while True:
            try:
                names = tuple(await self._store.children(self.path, self._on_event))
                break
            except NoNodeError:
                if await self._store.exists(self.path, self._on_event) is None:
                    break
        known = self._names
        if names != known:
            self._names = names
            before, after = set(known or ()), set(names)
            added = tuple(name for name in names if name not in before)
            removed = tuple(name for name in known or () if name not in after)
            notify([self._listener], ChildrenChanged(self.path, names, added, removed))


class DataWatch(_StandingWatch):
    """Reports the data of a znode, and that it is absent."""

    def __init__(self, session: Session, path: str, listener: Callable[[DataChanged], object]) -> None:
        super().__init__(session, path)
        self._listener = listener
        self._seen: tuple[int, int] | None = None
        self._reported = False

    async def _read(self) -> None:
        data, stat = await read_or_watch(self._store, self.path, self._on_event) or (None, None)
        seen = None if stat is None else (stat.czxid, stat.mzxid)
        if seen != self._seen or not self._reported:
            self._seen, self._reported = seen, True
            notify([self._listener], DataChanged(self.path, data, stat))
