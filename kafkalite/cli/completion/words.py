"""The kind of name that an argument or option takes, and the names of that kind.

The kind follows from the parameter's name, because all commands name the same thing alike; so a new command completes without being
registered here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from kafkalite.cli.calls import DEFAULT_SERVER, given_on_command_line
from kafkalite.cli.context.settings import (
    BOOTSTRAP_SERVERS,
    CLIENTS,
    gather,
    load_contexts,
    setting_names,
    working_directory,
)
from kafkalite.server_addresses import address_text, parse_servers

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalite.cli.completion.query import Access, Deadline, Names, Server
    from kafkalite.cli.context.given import Given

BUDGET_VARIABLE: Final = "KAFKALITE_COMPLETION_BUDGET_MS"
_BUDGET_MS: Final = 300
_SECURITY_PROTOCOL: Final = "security.protocol"

_KINDS: Final = {
    "topic": "topics",
    "topics": "topics",
    "group": "groups",
    "groups": "groups",
    "group_id": "groups",
    "broker": "brokers",
    "brokers": "brokers",
    "bootstrap_server": "servers",
    "context": "contexts",
    "overrides": "settings",
    "partitions": "partitions",
    "moves": "assignments",
    "offsets": "assignments",
}
_KINDS_IN: Final = {
    ("topic", "names"): "topics",
    ("transaction", "partition"): "partitions",
    ("context", "name"): "contexts",
    ("context", "settings"): "settings",
    ("topic", "configs"): "topic keys",
    ("config", "settings"): "config keys",
    ("config", "set_"): "config keys",
    ("config", "append"): "config keys",
    ("config", "subtract"): "config keys",
    ("config", "names"): "config names",
    ("config", "delete"): "config names",
}
_NO_NAMES_YET: Final = {("topic", "create", "names")}
"""Parameters that take names of things that do not exist yet."""


def kind_of(ctx: click.Context, parameter: click.Parameter) -> str | None:
    """Return the kind of name that a parameter of a command takes; None for other values, such as numbers."""
    path = tuple(ctx.command_path.split()[1:])
    name = parameter.name or ""
    if (*path, name) in _NO_NAMES_YET or isinstance(parameter.type, click.IntRange | click.Path | click.Choice):
        return None
    kind = _KINDS_IN.get((path[0] if path else "", name)) or _KINDS.get(name)
    if kind == "partitions" and parameter.type is click.INT:
        return "partition numbers"
    if parameter.type is click.INT and kind != "brokers":
        return None
    return kind


def words_of(kind: str, ctx: click.Context) -> list[str]:
    """Return the names of a kind in the cluster of the command line, the environment and the contexts."""
    match kind:
        case "contexts":
            return load_contexts(os.environ, working_directory()).names()
        case "settings":
            names = {name for client in CLIENTS for name in setting_names(client)}
            return [f"{each}=" for each in sorted(names)]
        case "topic keys" | "config keys":
            return [f"{each}=" for each in _config_names(ctx)]
        case "config names":
            return _config_names(ctx)
        case "groups":
            from kafkalite.cli.completion.query import groups_of

            return groups_of(*_cluster(ctx))
        case _:
            from kafkalite.cli.completion.query import names_of

            # Behind an option without its value click gives arguments up, and leaves them in `args`.
            topic = ctx.params.get("topic") or (ctx.args[0] if ctx.args else None)
            return list(_words_in(names_of(*_cluster(ctx)), kind, topic))


def _words_in(names: Names, kind: str, topic: str | None) -> Iterable[str]:
    match kind:
        case "brokers":
            return [str(each.id) for each in names.brokers]
        case "servers":
            return [address_text(each.host, each.port) for each in names.brokers]
        case "partition numbers":
            return map(str, range(names.topics.get(topic or "", 0)))
        case "partitions" | "assignments":
            end = "=" if kind == "assignments" else ""
            return [f"{name}-{number}{end}" for name in sorted(names.topics) for number in range(names.topics[name])]
        case _:
            return sorted(names.topics)


def _config_names(ctx: click.Context) -> list[str]:
    if ctx.params.get("brokers"):
        from kafkalite.config.broker_keys import BROKER_KEYS

        return sorted(BROKER_KEYS)
    from kafkalite.config.topic import TOPIC_KEYS

    return sorted(TOPIC_KEYS)


def _cluster(ctx: click.Context) -> tuple[list[Server], Deadline, Callable[[], Access]]:
    """Return the servers, the deadline and the login for the request."""
    from kafkalite.cli.completion.query import OPEN, Deadline, Server

    line = given_on_command_line(ctx)
    given = line, os.environ, working_directory()
    settings = gather(*given, [BOOTSTRAP_SERVERS, _SECURITY_PROTOCOL])
    named = settings.get(BOOTSTRAP_SERVERS)
    text = line.bootstrap_server or (named.value if named else DEFAULT_SERVER)
    try:
        servers = [Server(host, port) for host, port in parse_servers(text)]
    except ValueError:
        servers = []
    protocol = settings.get(_SECURITY_PROTOCOL)
    budget_s = float(os.environ.get(BUDGET_VARIABLE, _BUDGET_MS)) / 1000
    # The start of Python counts, too; its processor time is what is known of it.
    deadline = Deadline(budget_s - time.process_time(), time.monotonic)
    is_open = protocol is None or protocol.value == "PLAINTEXT"
    return servers, deadline, (lambda: OPEN) if is_open else partial(_access, *given)


def _access(given: Given, environment: Mapping[str, str], directory: Path) -> Access:
    """Return the login by the security settings. Raises ValueError or OSError for settings that cannot be used."""
    from dataclasses import fields

    from kafkalite.cli.completion.query import Access
    from kafkalite.client.security import SecurityOptions, credentials_of, tls_context_of

    names = {
        each.name.replace("_", "."): each.name for each in fields(SecurityOptions) if isinstance(each.default, str)
    }
    found = gather(given, environment, directory, names)
    texts: dict[str, Any] = {names[key]: found[key].value for key in names if key in found}
    security = SecurityOptions(**texts)
    return Access(tls_context_of(security), credentials_of(security))
