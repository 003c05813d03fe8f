"""Requests to a simulated broker that are done late, lost, done without an answer, or refused, each time with some probability."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Final

from kafkalite.broker.fault_control import FaultControl
from kafkalite.broker.request_faults import RequestFaults, Rule, TopicName
from kafkalite.errors import ErrorCode
from kafkalite.protocol.apis import ApiKey
from kafkalite.protocol.messages import Message

_ACTIONS: Final = {"late": "delay", "lost": "drop", "mute": "drop-answer", "refused": "fail"}
_DELAYS_MS: Final = (20, 300, 3_000)


class ChanceFaults(RequestFaults):
    """`odds` of each of `late`, `lost`, `mute` and `refused`; nothing happens while there are none."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self.odds: Mapping[str, float] = {}
        self._chance = chance

    def decide(self, key: ApiKey, request: Message, client_id: str | None, topic_name: TopicName) -> Rule | None:
        """By chance, whatever is asked; else as rules say."""
        for name, odds in self.odds.items():
            if odds and self._chance.random() < odds and (name != "refused" or key is ApiKey.PRODUCE):
                return Rule(key, _ACTIONS[name], ErrorCode.NOT_ENOUGH_REPLICAS, self._chance.choice(_DELAYS_MS))
        return super().decide(key, request, client_id, topic_name)


class MisbehavingBroker(FaultControl):
    """Stands before the handlers of one life of a broker; `faults` outlive it."""

    def __init__(self, faults: ChanceFaults) -> None:
        super().__init__({})
        self.faults = faults

    async def start(self) -> None:
        """There is nobody to obey but the simulation."""
