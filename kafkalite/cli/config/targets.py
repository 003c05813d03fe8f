"""The resources and entities of `kafkalite config`: its options `--topic`, `--broker`, `--user` and the others, named as Kafka's tool
names them.

Topics and brokers have settings; users, clients, users with clients, and addresses have quotas.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from kafkalite.client import ConfigResource, QuotaEntity

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Targets:
    """The names from the options. `users`, `clients` and `ips` may hold None, the default of that kind."""

    topics: tuple[str, ...] = ()
    brokers: tuple[str, ...] = ()
    broker_defaults: bool = False
    users: tuple[str | None, ...] = ()
    clients: tuple[str | None, ...] = ()
    ips: tuple[str | None, ...] = ()

    @property
    def has_resources(self) -> bool:
        return bool(self.topics or self.brokers or self.broker_defaults)

    @property
    def has_entities(self) -> bool:
        return bool(self.users or self.clients or self.ips)

    def resources(self) -> list[ConfigResource]:
        """Return the topics and brokers."""
        from kafkalite.client import ConfigResource

        found = [ConfigResource("topic", name) for name in self.topics]
        found += [ConfigResource("broker", number) for number in self.brokers]
        return [*found, ConfigResource("broker", "")] if self.broker_defaults else found

    def entities(self) -> list[QuotaEntity]:
        """Return the entities with quotas: each user with each client when both are named."""
        from kafkalite.client import QuotaEntity

        users: list[tuple[tuple[str, str | None], ...]] = [(("user", name),) for name in self.users]
        clients: list[tuple[tuple[str, str | None], ...]] = [(("client-id", name),) for name in self.clients]
        if users and clients:
            named = [user + client for user in users for client in clients]
        else:
            named = users + clients
        return [QuotaEntity(parts) for parts in [*named, *((("ip", name),) for name in self.ips)]]


def target_options(function: Decorated) -> Decorated:
    """Add the options, passed as `topics`, `brokers` and so on; `targets_of` reads them."""
    for option in (
        _flag("--ip-defaults", "The default of addresses: quotas."),
        _name_option("--ip", "ips", "ADDRESS", "An address: quotas."),
        _flag("--client-defaults", "The default of clients: quotas."),
        _name_option("--client", "clients", "ID", "A client's id, of the user when both are named: quotas."),
        _flag("--user-defaults", "The default of users: quotas."),
        _name_option("--user", "users", "NAME", "A user: quotas."),
        _flag("--broker-defaults", "The default of all brokers."),
        _name_option("--broker", "brokers", "ID", "A broker."),
        _name_option("--topic", "topics", "NAME", "A topic; this and the others may be repeated."),
    ):
        function = option(function)
    return function


def _name_option(option: str, name: str, metavar: str, text: str) -> Callable[[Decorated], Decorated]:
    return click.option(option, name, multiple=True, metavar=metavar, help=text)


def _flag(option: str, text: str) -> Callable[[Decorated], Decorated]:
    return click.option(option, is_flag=True, help=text)


def targets_of(
    *,
    topics: tuple[str, ...],
    brokers: tuple[str, ...],
    broker_defaults: bool,
    users: tuple[str, ...],
    user_defaults: bool,
    clients: tuple[str, ...],
    client_defaults: bool,
    ips: tuple[str, ...],
    ip_defaults: bool,
) -> Targets:
    """Return the targets of the options. Raises UsageError when they name settings and quotas at once, and BadParameter."""
    for number in brokers:
        if not number.isdecimal():
            raise click.BadParameter(f"{number!r} is no broker id", param_hint="--broker")
    found = Targets(
        topics,
        brokers,
        broker_defaults,
        (*users, None) if user_defaults else users,
        (*clients, None) if client_defaults else clients,
        (*ips, None) if ip_defaults else ips,
    )
    if found.has_resources and found.has_entities:
        raise click.UsageError(
            "settings of topics and brokers, and quotas of users, clients and addresses: one at a time"
        )
    return found
