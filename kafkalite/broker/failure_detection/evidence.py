"""What brokers tell each other in a PeerHeartbeat: sessions, accusations with their evidence, and whom they hear."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from kafkalite.types import BrokerId

NO_SESSION: Final = -1
"""In a heartbeat that says nothing of a session, because it was sent beside those that do."""


class Evidence(IntEnum):
    """Why a broker is believed to be dead; the numbers are those of the wire."""

    REFUSED = 1
    """Established connections broke, and every registered listener refuses new ones."""
    SILENT = 2
    """Its heartbeats have been unanswered for too long."""
    CERTAIN = 3
    """A process of its own machine saw its end. Never sent to peers, as it is acted on at once."""


@dataclass(frozen=True, slots=True)
class Accusation:
    """A broker that the sender believes to be dead, in its registration of this epoch."""

    broker_id: BrokerId
    broker_epoch: int
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Sighting:
    """A broker that the sender watches, in its registration of this epoch, and whether it hears it."""

    broker_id: BrokerId
    broker_epoch: int
    is_heard: bool


@dataclass(frozen=True, slots=True)
class PeerHeartbeat:
    """One heartbeat of another broker. `incarnation` is 16 random bytes of its process; a broker that stops names session 0.

    The password is None while it is the one that was given last. Whoever has it can end the session, so no representation shows it.
    """

    broker_id: BrokerId
    broker_epoch: int
    incarnation: bytes
    session_id: int
    session_password: bytes | None = field(repr=False)
    accusations: tuple[Accusation, ...] = ()
    sightings: tuple[Sighting, ...] = ()
