"""The ZooKeeper sessions of the other brokers, as they have handed them over."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import cached_property
from random import Random

from kafkalite.broker.failure_detection.evidence import NO_SESSION, PeerHeartbeat
from kafkalite.types import BrokerId

_INCARNATION_BYTES = 16


@dataclass(frozen=True, slots=True)
class PeerSession:
    """The latest session of a broker. The password is None if it was not handed over."""

    broker_epoch: int
    incarnation: bytes
    session_id: int
    password: bytes | None = field(repr=False)


class PeerSessions:
    """Keeps the latest session of each peer; of no more brokers than `known_brokers` has. The owner's own epoch is `read_broker_epoch`."""

    def __init__(
        self, known_brokers: Callable[[], Collection[BrokerId]], read_broker_epoch: Callable[[], int], rng: Random
    ) -> None:
        self._known_brokers, self._read_broker_epoch, self._rng = known_brokers, read_broker_epoch, rng
        self._sessions: dict[BrokerId, PeerSession] = {}

    @property
    def broker_epoch(self) -> int:
        """Epoch of this broker's registration."""
        return self._read_broker_epoch()

    @cached_property
    def incarnation(self) -> bytes:
        """16 random bytes that tell this process from its predecessors; drawn when they are first asked for."""
        return self._rng.randbytes(_INCARNATION_BYTES)

    def find(self, broker_id: BrokerId) -> PeerSession | None:
        """Return the session that a broker handed over last, None if there is none."""
        return self._sessions.get(broker_id)

    def note_heartbeat(self, heartbeat: PeerHeartbeat) -> None:
        """Keep the session that a heartbeat names, unless that is of an earlier registration, or of a broker that is not known."""
        if heartbeat.session_id == NO_SESSION:
            return
        known_brokers, broker_id = self._known_brokers(), heartbeat.broker_id
        before = self._sessions.get(broker_id)
        if broker_id not in known_brokers or (before is not None and heartbeat.broker_epoch < before.broker_epoch):
            return
        password = heartbeat.session_password
        if password is None and before is not None and before.session_id == heartbeat.session_id:
            password = before.password
        self._sessions[broker_id] = PeerSession(
            heartbeat.broker_epoch, heartbeat.incarnation, heartbeat.session_id, password
        )
        # Only now: a broker that metadata lacks for a moment does not give its password again.
        if len(self._sessions) > len(known_brokers):
            self._sessions = {each: kept for each, kept in self._sessions.items() if each in known_brokers}
