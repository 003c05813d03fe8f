"""The phases of a move to KRaft, with the settings that each changes and its way back. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kafkalite import OWN_SETTINGS
from kafkalite.cli.migrate.kraft.checks import (
    AUTHORIZER,
    CONTROLLER_LISTENERS,
    KRAFT_AUTHORIZER,
    PROTOCOL_VERSION,
    QUORUM,
    RELEASE,
)
from kafkalite.cli.migrate.kraft.forms import MIGRATION_ENABLE, PROCESS_ROLES, Form, Role
from kafkalite.cli.migrate.kraft.listeners import LISTENER_NAME, PROTOCOL_MAP, BrokerListener, find_brokers_listener
from kafkalite.cli.migrate.kraft.places import WAYS_BACK, Place
from kafkalite.cli.migrate.kraft.survey import KraftSurvey, Server

_ZOOKEEPER_PREFIXES: Final = ("zookeeper.", OWN_SETTINGS)
_BROKER_ID: Final = "broker.id"
_NODE_ID: Final = "node.id"
_GONE_WITH_ZOOKEEPER: Final = (
    _BROKER_ID,
    PROTOCOL_VERSION,
    "log.message.format.version",
    "control.plane.listener.name",
)


class Voter(NamedTuple):
    """A member of the controllers' quorum, as `controller.quorum.voters` names it."""

    id: int
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.id}@{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class KraftStep:
    """The restart of one server, so that it takes a form."""

    server: int
    role: Role
    address: str
    form: Form


@dataclass(frozen=True, slots=True)
class Phase:
    """Steps that belong together. Without `steps` it is done by hand. `changed` and `removed` are settings, `way_back` is that of the time
    when the phase has begun.
    """

    name: str
    way_back: str
    actions: tuple[str, ...]
    changed: Mapping[str, str] = field(default_factory=dict)
    removed: tuple[str, ...] = ()
    steps: tuple[KraftStep, ...] = ()


def parse_voters(text: str) -> tuple[Voter, ...]:
    """Return the voters of ID@HOST:PORT,... Raises ValueError."""
    from kafkalite.server_addresses import parse_servers

    voters = []
    for each in filter(None, map(str.strip, text.split(","))):
        number, at, address = each.partition("@")
        if not at or not number.isdecimal():
            raise ValueError(f"{each!r} is not ID@HOST:PORT")
        ((host, port),) = parse_servers(address)
        voters.append(Voter(int(number), host, port))
    if len({each.id for each in voters}) < len(voters):
        raise ValueError("an id is there twice")
    if not voters:
        raise ValueError("no controller is named")
    return tuple(voters)


def list_phases(survey: KraftSurvey, voters: Sequence[Voter], listener: str) -> tuple[Phase, ...]:
    """Return the phases that are left. Brokers go in the order of their ids, the controller in ZooKeeper last; of the controllers the
    one last that leads the quorum now, which may be another when its turn comes: that costs one more election.
    """
    seat = survey.zookeeper.seat.broker_id if survey.zookeeper is not None and survey.zookeeper.seat is not None else -1
    brokers = sorted(survey.brokers, key=lambda each: (each.id == seat, each.id))
    leader = next((each.leader for each in survey.controllers if each.leader >= 0), -1)
    controllers = sorted(voters, key=lambda each: (each.id == leader, each.id))
    forms = {each.id: each.form for each in survey.servers if each.form is not None}
    to_migration = _broker_steps(brokers, Form.MIGRATION)
    to_kraft = _broker_steps(brokers, Form.KRAFT)
    finalizing = _controller_steps(controllers, Form.KRAFT, forms)
    upgrading = (*_controller_steps(controllers, Form.KAFKA_4, forms), *_broker_steps(brokers, Form.KAFKA_4))
    has_acls = any(each.value_of(AUTHORIZER) for each in survey.brokers)
    phases = [
        _provide_controllers(survey, voters, listener, has_acls),
        _enable_migration(to_migration, voters, listener),
        _leave_zookeeper(to_kraft, has_acls),
        _finalize(finalizing, leader),
        _upgrade(upgrading),
    ]
    is_begun = any(each.form is not None for each in survey.controllers)
    return (*(each for each in phases if each.steps or (each is phases[0] and not is_begun)), _raise_version())


def _broker_steps(brokers: Sequence[Server], form: Form) -> tuple[KraftStep, ...]:
    return tuple(
        KraftStep(each.id, Role.BROKER, each.address, form)
        for each in brokers
        if each.form is None or each.form.place < form.place
    )


def _controller_steps(voters: Sequence[Voter], form: Form, forms: Mapping[int, Form]) -> tuple[KraftStep, ...]:
    return tuple(
        KraftStep(each.id, Role.CONTROLLER, f"{each.host}:{each.port}", form)
        for each in voters
        if forms.get(each.id, Form.MIGRATION).place < form.place
    )


def _provide_controllers(survey: KraftSurvey, voters: Sequence[Voter], listener: str, has_acls: bool) -> Phase:
    protocol_map = next((each.value_of(PROTOCOL_MAP) for each in survey.brokers if each.value_of(PROTOCOL_MAP)), "")
    brokers = find_brokers_listener(survey.brokers)
    changed = {
        PROCESS_ROLES: "controller",
        QUORUM: ",".join(map(str, voters)),
        CONTROLLER_LISTENERS: listener,
        LISTENER_NAME: brokers.name,
        PROTOCOL_MAP: _add_listener(_add_listener(protocol_map, *brokers), listener),
        MIGRATION_ENABLE: "true",
    }
    if has_acls:
        changed[AUTHORIZER] = KRAFT_AUTHORIZER
    return Phase(
        "controllers",
        WAYS_BACK[Place.CONTROLLERS],
        (
            f"install Apache Kafka {RELEASE} on machines of their own: node.id and listeners={listener}://HOST:PORT as the voters say, "
            "an empty log.dirs",
            "give them the brokers' zookeeper.connect and zookeeper.* of TLS and SASL, super.users, default.replication.factor, "
            "min.insync.replicas and, with delegation tokens, delegation.token.secret.key",
            f"they send requests to the brokers' listener {brokers}: {_tell_credentials(brokers)}",
            f"format each: kafka-storage format --cluster-id={survey.cluster_id} --config controller.properties",
            f"start them, and look: kafkalite migrate kraft check --controllers {','.join(map(str, voters))}",
        ),
        changed,
    )


def _tell_credentials(listener: BrokerListener) -> str:
    """Return what controllers need as clients of the brokers' listener."""
    prefix, found = f"listener.name.{listener.name.lower()}.", []
    if listener.protocol.endswith("SSL"):
        found.append(f"the brokers' {prefix}ssl.* or ssl.*")
    if listener.protocol.startswith("SASL"):
        found.append(f"their sasl.mechanism.inter.broker.protocol and {prefix}*.sasl.jaas.config, or their JAAS file")
    return f"give them {' and '.join(found)}" if found else "it needs no credentials"


def _enable_migration(steps: tuple[KraftStep, ...], voters: Sequence[Voter], listener: str) -> Phase:
    return Phase(
        "migration mode",
        f"{WAYS_BACK[Place.ENABLING]}. After the last of them: {WAYS_BACK[Place.COPIED]}",
        (
            "restart each broker with these settings; listener.security.protocol.map, where it is set, has the controllers' listener too",
            "behind the last one the quorum takes /controller and copies all metadata; the last step waits for that",
        ),
        {MIGRATION_ENABLE: "true", QUORUM: ",".join(map(str, voters)), CONTROLLER_LISTENERS: listener},
        (),
        steps,
    )


def _leave_zookeeper(steps: tuple[KraftStep, ...], has_acls: bool) -> Phase:
    changed = {PROCESS_ROLES: "broker", _NODE_ID: "the broker.id that it has"}
    if has_acls:
        changed[AUTHORIZER] = KRAFT_AUTHORIZER
    return Phase(
        "brokers on KRaft",
        WAYS_BACK[Place.BROKERS],
        (
            "keep each server.properties as it is now beside the new one: the way back needs it",
            "restart each broker with these settings; the quorum writes to ZooKeeper what it writes to its log",
            "stay here for as long as the way back may be wanted",
        ),
        changed,
        ("zookeeper.*", *_GONE_WITH_ZOOKEEPER),
        steps,
    )


def _finalize(steps: tuple[KraftStep, ...], leader: int) -> Phase:
    order = (
        f"{leader}, which led the quorum when this was planned, is last"
        if leader >= 0
        else "in the order of their ids, since nobody led the quorum when this was planned"
    )
    return Phase(
        "finalization",
        WAYS_BACK[Place.FINALIZED],
        (
            "take evidence, and a copy of ZooKeeper's data, before: this is the last point with a way back",
            f"restart each controller without these settings; {order}",
            "then ZooKeeper may be stopped",
        ),
        {},
        ("zookeeper.*",),
        steps,
    )


def _upgrade(steps: tuple[KraftStep, ...]) -> Phase:
    return Phase(
        "Apache Kafka 4",
        WAYS_BACK[Place.UPGRADING],
        (
            "Java 17 on every machine; clients before 2.1 are refused from now on",
            "restart each server with Apache Kafka 4 on the same log.dirs, controllers first",
        ),
        {},
        (PROTOCOL_VERSION, "log.message.format.version"),
        steps,
    )


def _raise_version() -> Phase:
    return Phase(
        "metadata.version",
        WAYS_BACK[Place.RAISED],
        ("when 4 has proven itself: kafka-features --bootstrap-server HOST:PORT upgrade --release-version 4.1",),
    )


def _add_listener(protocol_map: str, listener: str, protocol: str = "PLAINTEXT") -> str:
    """Return a map of listeners' protocols with one more, which has this protocol unless it is there already."""
    pairs = [each for each in protocol_map.split(",") if each]
    if any(each.partition(":")[0] == listener for each in pairs):
        return protocol_map
    return ",".join([*pairs, f"{listener}:{protocol}"])


def convert_settings(settings: Mapping[str, str], form: Form, voters: Sequence[Voter], listener: str) -> dict[str, str]:
    """Return the settings of a broker's file for a form, from those that it has on ZooKeeper with Apache Kafka 3.9.

    Raises ValueError for a file without an id: neither migration mode nor KRaft generates one.
    """
    found = dict(settings)
    if form is Form.ZOOKEEPER:
        return found
    number = found.get(_BROKER_ID) or found.get(_NODE_ID, "")
    if not number.strip().isdecimal():
        raise ValueError(
            f"{_BROKER_ID} is not set: write the one that ZooKeeper gave this broker, which stands in meta.properties of its log.dirs"
        )
    found |= {QUORUM: ",".join(map(str, voters)), CONTROLLER_LISTENERS: listener}
    if PROTOCOL_MAP in found:
        found[PROTOCOL_MAP] = _add_listener(found[PROTOCOL_MAP], listener)
    else:
        found[PROTOCOL_MAP] = f"{listener}:PLAINTEXT," + ",".join(
            f"{each}:{each}" for each in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
        )
    if form is Form.MIGRATION:
        return {**found, MIGRATION_ENABLE: "true"}
    kept = {
        name: value
        for name, value in found.items()
        if not name.startswith(_ZOOKEEPER_PREFIXES) and name not in _GONE_WITH_ZOOKEEPER
    }
    if kept.get(AUTHORIZER):
        kept[AUTHORIZER] = KRAFT_AUTHORIZER
    return {PROCESS_ROLES: "broker", _NODE_ID: number, **kept}
