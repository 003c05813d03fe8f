"""Settings that change while a process runs, and the one way by which its parts get them.

All parts hold one `Live` object and read `current` at the moment of use, so a change needs no list of those whom it concerns. The few that
must act on a change (bind a listener, start a worker) subscribe. What is read is immutable: a part that needs several settings that belong
together takes `current` once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

_Settings = TypeVar("_Settings")
_Settings_co = TypeVar("_Settings_co", covariant=True)


class Current(Protocol[_Settings_co]):
    """The port of a part that only reads: a view of those settings that it names in a protocol of its own."""

    @property
    def current(self) -> _Settings_co: ...


class Live(Generic[_Settings]):
    """The settings in force, shared by all parts of a process. `current` is replaced as a whole, by `replace` only."""

    __slots__ = ("_subscribers", "current")

    def __init__(self, settings: _Settings) -> None:
        self.current = settings
        self._subscribers: list[Callable[[_Settings, _Settings], None]] = []

    def subscribe(self, changed: Callable[[_Settings, _Settings], None]) -> None:
        """Call `changed(before, after)` after each replacement, in the order of subscription."""
        self._subscribers.append(changed)

    def replace(self, settings: _Settings) -> None:
        """Replace the settings, and call the subscribers."""
        before, self.current = self.current, settings
        for changed in self._subscribers:
            changed(before, settings)
