"""Requests to a simulated broker that are done late, lost, done without an answer, or refused, each time with some probability."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kafkalite.broker.requests.fault_control import FaultControl
from kafkalite.broker.requests.request_faults import RequestFaults, Rule, TopicName
from kafkalite.errors import ErrorCode
from kafkalite.protocol.apis import ApiKey
from kafkalite.protocol.messages import Message

if TYPE_CHECKING:
    from kafkalite.broker.produce.fast_path import FastPath
    from kafkalite.broker.requests.served_api import ServedApi

_ACTIONS: Final = {"late": "delay", "lost": "drop", "mute": "drop-answer", "refused": "fail"}
_DELAYS_MS: Final = (20, 300, 3_000)


class ChanceFaults(RequestFaults):
    """`odds` of each of `late`, `lost`, `mute` and `refused`; nothing happens while there are none.

    Requests that repeat each other are served together (`broker/produce/fast_path`) as long as nothing may happen to one of them.
    """

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self._chance = chance
        self._odds: Mapping[str, float] = {}
        self._fast_paths: list[FastPath] = []
        """Those of the broker's present process."""

    @property
    def odds(self) -> Mapping[str, float]:
        return self._odds

    @odds.setter
    def odds(self, odds: Mapping[str, float]) -> None:
        self._odds = odds
        self._arm_fast_paths()

    def add(self, rule: Rule) -> int:
        """Add a rule and return its number."""
        number = super().add(rule)
        self._arm_fast_paths()
        return number

    def around(self, served: Iterable[ServedApi[Any]], topic_name: TopicName) -> list[ServedApi[Any]]:
        """Return the APIs of a new process, with the rules and odds of this moment and later before them."""
        self._fast_paths = []
        apis = list(served)
        return [
            replace(behind, fast_path=None if each.fast_path is None else partial(self._make_fast_path, each.fast_path))
            for each, behind in zip(apis, super().around(apis, topic_name), strict=True)
        ]

    def _make_fast_path(self, make: Callable[..., FastPath], *parts: Any) -> FastPath:
        fast_path = make(*parts)
        self._fast_paths.append(fast_path)
        self._arm_fast_paths()
        return fast_path

    def _arm_fast_paths(self) -> None:
        for fast_path in self._fast_paths:
            fast_path.is_off = bool(self._odds or self.rules)

    def decide(self, key: ApiKey, request: Message, client_id: str | None, topic_name: TopicName) -> Rule | None:
        """Return what happens to a request: by chance, whatever is asked, else as rules say."""
        for name, odds in self._odds.items():
            if odds and self._chance.random() < odds and (name != "refused" or key is ApiKey.PRODUCE):
                return Rule(key, _ACTIONS[name], ErrorCode.NOT_ENOUGH_REPLICAS, self._chance.choice(_DELAYS_MS))
        return super().decide(key, request, client_id, topic_name)


class MisbehavingBroker(FaultControl):
    """Stands before the handlers of one process of a broker; `faults` outlive it."""

    def __init__(self, faults: ChanceFaults) -> None:
        super().__init__({})
        self.faults = faults

    async def start(self) -> None:
        """Start nothing: there is nobody to obey but the simulation."""
