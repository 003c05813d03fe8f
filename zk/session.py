"""Hooks on the states of a ZooKeeper session, as in Kafka's ZooKeeperClient and KafkaController.

- SUSPENDED: no hooks; requests wait, watches are kept, leaders go on serving. The session may still be alive.
- EXPIRED: `on_ended` hooks at once, before anything can be written under the next session; ephemerals and watches are gone.
- CONNECTED after EXPIRED: `on_renewed` hooks in a fixed order: register the broker, elect the controller, arm watches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from zk.listeners import notify, report
from zk.store import SessionExpiredError, SessionState, Store, StoreClosedError

_FIRST_RETRY_S, _LAST_RETRY_S = 0.5, 30.0


class Session:
    """The hooks of a store's session, shared by all users of the store; to be made before the store is started."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._on_ended: dict[Callable[[None], object], None] = {}
        self._on_renewed: list[Callable[[], Awaitable[object]]] = []
        self._rearm: dict[Callable[[None], object], None] = {}
        self._connected = asyncio.Event()
        self._closed = False
        self._has_ended = False
        self._renewal: asyncio.Task[None] | None = None
        store.add_session_listener(self._on_state)

    def on_ended(self, hook: Callable[[], object]) -> None:
        """Call `hook`, which must not block, as soon as the session is known to have expired."""
        self._on_ended[lambda _: hook()] = None

    def on_renewed(self, hook: Callable[[], Awaitable[object]]) -> None:
        """Await `hook` in every new session, after the hooks added before it.

        When the session ends meanwhile, all hooks run again in the next one. Any other error is reported, the hooks after
        it run, and those that failed are retried as long as the session lasts.
        """
        self._on_renewed.append(hook)

    def add_watch(self, rearm: Callable[[None], object]) -> None:
        """Call `rearm` when a new session begins; for `zk.watches`, whose watches come and go."""
        self._rearm[rearm] = None

    def remove_watch(self, rearm: Callable[[None], object]) -> None:
        self._rearm.pop(rearm, None)

    async def wait_connected(self) -> None:
        """Wait until there is a session with a connection. Raises StoreClosedError."""
        self._ensure_open()
        await self._connected.wait()
        self._ensure_open()

    def _ensure_open(self) -> None:
        if self._closed:
            raise StoreClosedError("/", "the store is closed")

    def _on_state(self, state: SessionState) -> None:
        self._closed = state is SessionState.CLOSED
        if state in (SessionState.CONNECTED, SessionState.CLOSED):
            self._connected.set()
        else:
            self._connected.clear()
        if state in (SessionState.EXPIRED, SessionState.CLOSED) and self._renewal is not None:
            self._renewal.cancel()
            self._renewal = None
        if state is SessionState.EXPIRED:
            self._has_ended = True
            notify(self._on_ended, None)
        elif state is SessionState.CONNECTED and self._has_ended:
            self._has_ended = False
            self._renewal = asyncio.get_running_loop().create_task(self._renew())
            notify(self._rearm, None)

    async def _renew(self) -> None:
        hooks, pause_s = self._on_renewed, _FIRST_RETRY_S
        while True:
            failed: list[Callable[[], Awaitable[object]]] = []
            for hook in tuple(hooks):
                try:
                    await hook()
                except (SessionExpiredError, StoreClosedError):
                    return
                except Exception as problem:
                    report("renewing the ZooKeeper session failed and will be retried", problem)
                    failed.append(hook)
            if not failed:
                return
            await asyncio.sleep(pause_s)
            hooks, pause_s = failed, min(2 * pause_s, _LAST_RETRY_S)
