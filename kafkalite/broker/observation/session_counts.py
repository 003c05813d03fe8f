"""The number of changes of the ZooKeeper session's state."""

from __future__ import annotations

from collections import Counter

from zk.store import SessionState, Store


class SessionCounts:
    """Counts the changes of a store's session from now on."""

    def __init__(self, store: Store) -> None:
        self.entered: Counter[SessionState] = Counter({store.state: 1})
        store.add_session_listener(self._count_state)

    def _count_state(self, state: SessionState) -> None:
        self.entered[state] += 1
