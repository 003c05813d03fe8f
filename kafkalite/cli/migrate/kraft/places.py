"""How far a move to KRaft is, and which way leads back from there. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

from kafkalite.cli.migrate.kraft.forms import Form, Role
from kafkalite.cli.migrate.kraft.survey import KraftSurvey, Server

LEVEL_OF_3_9: Final = 21
"""metadata.version 3.9-IV0 as a number."""


class Place(StrEnum):
    """How far the move is, in its order."""

    BEFORE = "nothing is begun"
    CONTROLLERS = "controllers wait for the brokers"
    ENABLING = "brokers are restarted in migration mode"
    COPIED = "metadata is copied, and written to ZooKeeper too"
    BROKERS = "brokers are restarted on KRaft"
    UNKNOWN = "unknown: brokers are on KRaft, and a controller does not say whether it has left migration mode"
    FINALIZED = "finalized: ZooKeeper is not written any more"
    UPGRADING = "servers become Apache Kafka 4"
    RAISED = "metadata.version is above 3.9"


_ROLLBACK: Final = "kafkalite migrate kraft rollback"
_RELEASE: Final = "kafkalite migrate kraft release"

WAYS_BACK: Final[Mapping[Place, str]] = {
    Place.BEFORE: "nothing is to be taken back; to kafkalite's brokers: kafkalite migrate rollback",
    Place.CONTROLLERS: f"stop the controllers, then {_RELEASE}: brokers notice nothing",
    Place.ENABLING: f"{_ROLLBACK} for each broker in migration mode (one restart), then stop the controllers, then {_RELEASE}",
    Place.COPIED: f"stop the controllers and at once {_RELEASE} (no controller meanwhile), then {_ROLLBACK} for each broker (one restart)",
    Place.BROKERS: f"{_ROLLBACK} for each broker on KRaft (first restart), then as from migration mode (second restart)",
    Place.UNKNOWN: "unknown: start the controllers, and look again",
    Place.FINALIZED: "none to ZooKeeper: what is written from now on is not in it",
    Place.UPGRADING: f"none to ZooKeeper; to 3.9 {_ROLLBACK}, one server after the other, until metadata.version is raised",
    Place.RAISED: "none: metadata.version is not lowered once it has new records",
}


def find_place(survey: KraftSurvey) -> Place:
    """Return how far the move is, by what servers and znodes say; what cannot be asked counts for nothing."""
    controllers = {each.form for each in survey.controllers if each.form is not None}
    brokers = {each.form for each in survey.brokers if each.form is not None}
    if any(each.metadata_level > LEVEL_OF_3_9 for each in survey.servers):
        return Place.RAISED
    if Form.KAFKA_4 in controllers | brokers:
        return Place.UPGRADING
    if Form.KRAFT in controllers:
        return Place.FINALIZED
    if Form.KRAFT in brokers:
        return Place.UNKNOWN if any(each.form is None for each in survey.controllers) else Place.BROKERS
    if survey.zookeeper is not None and survey.zookeeper.seat is not None and survey.zookeeper.seat.is_of_kraft:
        return Place.COPIED
    if Form.MIGRATION in brokers:
        return Place.ENABLING
    return Place.CONTROLLERS if controllers else Place.BEFORE


def find_closed_ways(servers: Sequence[Server], form: Form) -> Iterator[str]:
    """Yield why no server may go back to a form, by what the servers of the plan say of themselves, whatever the journal has."""
    level = max((each.metadata_level for each in servers), default=0)
    if form is Form.KRAFT and level > LEVEL_OF_3_9:
        yield f"metadata.version is at level {level}, above 3.9: there is no way back"
    elif form is Form.KRAFT and level == 0:
        yield "no server says at which level metadata.version is: start one, there is no way back from above 3.9"
    if form.place > Form.MIGRATION.place:
        return
    for each in servers:
        if each.role is Role.CONTROLLER and each.form in (Form.KRAFT, Form.KAFKA_4):
            yield f"{each.name} has left migration mode: there is no way back to ZooKeeper. Go on"
        elif each.role is Role.CONTROLLER and each.form is None and form is Form.MIGRATION:
            yield (
                f"the controller at {each.address} does not say whether it has left migration mode: {each.problem}. "
                "Start it: a broker in migration mode needs the quorum"
            )
