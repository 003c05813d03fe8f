"""What one broker remembers of this consumer's fetches, so that a request names only what changed (KIP-227). Pure.

A full request (epoch 0) names all partitions; the broker may answer with a session. From then on a request, numbered by its epoch, names
partitions that are new, have another position or leader epoch, and those to be forgotten; the answer leaves out partitions without
news. Whenever the two sides may disagree (an error, a lost connection) the next request is a full one, which also ends the old session.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafkalite.types import TopicPartition

_FULL = 0
_LAST_EPOCH = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of one partition; the topic id is part of it, because a topic made anew is another one."""

    topic_id: bytes
    fetch_offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """The part of a Fetch request that depends on the session."""

    session_id: int
    session_epoch: int
    named: tuple[TopicPartition, ...]
    forgotten: Mapping[TopicPartition, Question]


class FetchSession:
    """See the module. `request` is followed by `accepted`, or by `reset` when anything went wrong."""

    def __init__(self) -> None:
        self.session_id = 0
        self.epoch = _FULL
        self._known: dict[TopicPartition, Question] = {}

    def request(self, wanted: Mapping[TopicPartition, Question]) -> SessionRequest:
        """What to send to have `wanted` fetched."""
        if self.epoch == _FULL:
            self._known = dict(wanted)
            return SessionRequest(self.session_id, _FULL, tuple(wanted), {})
        named = tuple(each for each, question in wanted.items() if self._known.get(each) != question)
        replaced = {
            each: known
            for each, known in self._known.items()
            if each not in wanted or wanted[each].topic_id != known.topic_id
        }
        self._known = dict(wanted)
        return SessionRequest(self.session_id, self.epoch, named, replaced)

    def accepted(self, session_id: int) -> None:
        """The request was answered; `session_id` is 0 when the broker keeps no session."""
        if session_id == 0:
            self.session_id, self.epoch = 0, _FULL
        else:
            self.epoch = self.epoch % _LAST_EPOCH + 1
            self.session_id = session_id

    def reset(self, *, forgotten: bool = False) -> None:
        """Begin anew with a full request; `forgotten`: the broker does not know the session any more."""
        self.epoch = _FULL
        if forgotten:
            self.session_id = 0
