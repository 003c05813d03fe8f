"""The listener at which controllers reach the brokers that are still on ZooKeeper (KAFKA-15670), and authentication at their own. Pure.

A quorum in migration mode sends LeaderAndIsr, UpdateMetadata and StopReplica to them, as a controller on ZooKeeper does. It takes the
listener by its own `inter.broker.listener.name`, or `security.inter.broker.protocol`, and not by the brokers'.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from kafkalite.cli.migrate.kraft.forms import Form
from kafkalite.cli.migrate.kraft.survey import KraftSurvey, Server

LISTENER_NAME: Final = "inter.broker.listener.name"
PROTOCOL_MAP: Final = "listener.security.protocol.map"
_PROTOCOL: Final = "security.inter.broker.protocol"
_PLAINTEXT: Final = "PLAINTEXT"
_CONTROLLER_LISTENERS: Final = "controller.listener.names"
_USUAL_LISTENER: Final = "CONTROLLER"
_MECHANISM: Final = "sasl.mechanism.controller.protocol"


class BrokerListener(NamedTuple):
    """A listener for requests between servers: its name and security protocol."""

    name: str
    protocol: str

    def __str__(self) -> str:
        return f"{self.name} ({self.protocol})"


def find_listener(server: Server) -> BrokerListener:
    """Return the listener at which a server reaches brokers, by its own settings and Kafka's defaults."""
    name = server.value_of(LISTENER_NAME) or server.value_of(_PROTOCOL) or _PLAINTEXT
    return BrokerListener(name, _find_protocol(server, name))


def _find_protocol(server: Server, listener: str) -> str:
    pairs = dict(each.strip().partition(":")[::2] for each in server.value_of(PROTOCOL_MAP).split(",") if each)
    return pairs.get(listener, listener)


def find_brokers_listener(brokers: Iterable[Server]) -> BrokerListener:
    """Return the listener of the first broker that answers, Kafka's default when none does."""
    return next(
        (find_listener(each) for each in brokers if each.problem is None), BrokerListener(_PLAINTEXT, _PLAINTEXT)
    )


def find_unreached(survey: KraftSurvey) -> Iterator[tuple[str, str]]:
    """Yield remedy and problem of each controller in migration mode that looks for brokers at another listener than theirs."""
    needy = [each for each in survey.brokers if each.form in (Form.ZOOKEEPER, Form.MIGRATION)]
    for wanted in sorted({find_listener(each) for each in needy}):
        for each in survey.controllers:
            if each.form is Form.MIGRATION and (found := find_listener(each)) != wanted:
                remedy = (
                    f"set {LISTENER_NAME}={wanted.name}, {wanted.name}:{wanted.protocol} in its {PROTOCOL_MAP} and the "
                    "credentials for it, and restart it"
                )
                yield remedy, f"{each.name} looks for the brokers' listener {found}, theirs is {wanted}"


def find_scram(survey: KraftSurvey) -> Iterator[tuple[str, str]]:
    """Yield remedy and problem of each server that authenticates at controllers by SCRAM.

    The quorum has no credentials before it has copied those of ZooKeeper, and copies nothing before servers authenticate.
    """
    for each in survey.servers:
        listener = each.value_of(_CONTROLLER_LISTENERS).partition(",")[0].strip() or _USUAL_LISTENER
        mechanism = each.value_of(_MECHANISM)
        if mechanism.startswith("SCRAM-") and _find_protocol(each, listener).startswith("SASL_"):
            remedy = "set PLAIN on all servers: the quorum has no credentials of SCRAM before it has copied those of ZooKeeper"
            yield remedy, f"{each.name} has {_MECHANISM}={mechanism}"
