"""What a consumer's next fetch from one broker must name, given what it asked for before (KIP-227). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafkalite.protocol.fetch_session_handler import FULL_FETCH_EPOCH, FetchSessionHandler
from kafkalite.types import TopicPartition


@dataclass(frozen=True, slots=True)
class FetchPosition:
    """What is asked of one partition; the topic id is part of it, because a topic made again is another one."""

    topic_id: bytes
    fetch_offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """The part of a Fetch request that depends on the session."""

    session_id: int
    session_epoch: int
    named: tuple[TopicPartition, ...]
    forgotten: Sequence[tuple[TopicPartition, bytes]]
    """With the ids of their topics."""


class ConsumerFetchSession:
    """The fetch session of a consumer with one broker (KIP-227). `request` is followed by `handler.answered`, or by
    `handler.reset` when anything went wrong."""

    def __init__(self) -> None:
        self.handler = FetchSessionHandler()
        self._known: Mapping[TopicPartition, FetchPosition] = {}

    def request(self, wanted: Mapping[TopicPartition, FetchPosition]) -> SessionRequest:
        """Return the session's part of the Fetch request for `wanted`."""
        handler = self.handler
        known = {} if handler.epoch == FULL_FETCH_EPOCH else self._known
        named = tuple(each for each, position in wanted.items() if known.get(each) != position)
        for each in known:
            if each not in wanted:
                handler.forget(each)
        for each in named:
            handler.send(each, wanted[each].topic_id)
        self._known = dict(wanted)
        return SessionRequest(handler.session_id, handler.epoch, named, handler.take_forgotten())
