"""PeerHeartbeat (20000): a broker tells a peer that it lives, by which ZooKeeper session, and which other brokers it believes to be dead.

Private to kafkalite brokers (`Api.is_private`): served on the inter-broker listener only, and named by ApiVersions to no client.

- INVALID_REQUEST for a heartbeat in this broker's own name, and for a password that is longer than ZooKeeper's can be.
- BROKER_ID_NOT_REGISTERED for a broker that metadata does not have, or not yet. Its password is not kept, so it has to be given again.
- Accusations and sightings of brokers that metadata does not have, and evidence of an unknown kind, are left out.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

from kafkalite.broker.failure_detection.evidence import Accusation, Evidence, PeerHeartbeat, Sighting
from kafkalite.broker.identity.authorizer import CLUSTER_ACTION
from kafkalite.broker.parts import HasBrokerId, HasMetadata
from kafkalite.broker.requests.request_context import RequestContext
from kafkalite.broker.requests.served_api import serve_api
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey

if TYPE_CHECKING:
    from kafkalite.types import BrokerId

_PASSWORD_BYTES_MAX: Final = 64
"""Four times the length of ZooKeeper's."""
_ACCUSATIONS_MAX: Final = 1000
"""More brokers than a cluster with ZooKeeper has."""
_SIGHTINGS_MAX: Final = 100
"""More brokers than anybody watches."""
_SENT_EVIDENCE: Final = {int(each): each for each in (Evidence.REFUSED, Evidence.SILENT)}


class FailureDetection(Protocol):
    """The receiver of heartbeats, as this handler uses it."""

    @property
    def broker_epoch(self) -> int: ...

    @property
    def incarnation(self) -> bytes: ...

    @property
    def sightings(self) -> tuple[Sighting, ...]: ...

    def note_heartbeat(self, heartbeat: PeerHeartbeat) -> None: ...


class Parts(HasBrokerId, HasMetadata, Protocol):
    """The parts of the broker that this handler uses."""

    @property
    def failure_detection(self) -> FailureDetection: ...


def peer_heartbeat(
    parts: Parts, request: messages.PeerHeartbeatRequest, context: RequestContext
) -> messages.PeerHeartbeatResponse:
    """Pass on a heartbeat; return this broker's epoch and incarnation, and whom it hears. Raises KafkaError for one that cannot be true."""
    password, known_brokers = request.session_password, parts.metadata.brokers
    if request.broker_id == parts.broker_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"broker {request.broker_id} is the one that received this heartbeat"
        )
    if password is not None and len(password) > _PASSWORD_BYTES_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"a session password has at most {_PASSWORD_BYTES_MAX} bytes")
    if request.broker_id not in known_brokers:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED)
    parts.failure_detection.note_heartbeat(
        PeerHeartbeat(
            request.broker_id,
            request.broker_epoch,
            bytes(request.incarnation),
            request.session_id,
            None if password is None else bytes(password),
            tuple(_read_accusations(islice(request.accusations, _ACCUSATIONS_MAX), known_brokers)),
            tuple(
                Sighting(each.broker_id, each.broker_epoch, each.is_heard)
                for each in islice(request.neighbours, _SIGHTINGS_MAX)
                if each.broker_id in known_brokers
            ),
        )
    )
    detection, m = parts.failure_detection, messages.peer_heartbeat_response
    return m.PeerHeartbeatResponse(
        broker_epoch=detection.broker_epoch,
        incarnation=detection.incarnation,
        neighbours=[
            m.Neighbour(broker_id=each.broker_id, broker_epoch=each.broker_epoch, is_heard=each.is_heard)
            for each in detection.sightings
        ],
    )


def _read_accusations(
    accusations: Iterable[messages.peer_heartbeat_request.Accusation], known_brokers: Container[BrokerId]
) -> Iterator[Accusation]:
    for each in accusations:
        evidence = _SENT_EVIDENCE.get(each.evidence)
        if evidence is not None and each.broker_id in known_brokers:
            yield Accusation(each.broker_id, each.broker_epoch, evidence)


APIS: Final = (serve_api(ApiKey.PEER_HEARTBEAT, 0, 0, peer_heartbeat, CLUSTER_ACTION),)
