"""Every setting of brokers, topics and clients, from the tables that the code reads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from deploy.docs.docstrings import cell, prose
from kafkalite.client import AdminOptions, ConsumerOptions, ProducerOptions, SecurityOptions
from kafkalite.client.options import ConnectionOptions
from kafkalite.config.broker_keys import BROKER_KEYS
from kafkalite.config.keys import Effect, Key
from kafkalite.config.security_keys import SECURITY_KEYS
from kafkalite.config.topic import TOPIC_KEYS

_EFFECTS = {
    Effect.AT_ONCE: "at once",
    Effect.AT_RESTART: "at restart",
    Effect.NONE: "without effect",
    Effect.REFUSED: "only the default",
}


def _table(keys: Iterable[Key]) -> str:
    lines = ["| Setting | Type | Default | Acts | What it does |", "|---|---|---|---|---|"]
    for key in keys:
        default = (
            ""
            if key.default is None
            else f"`{key.format_hidden(key.default)}`"
            if key.format_hidden(key.default)
            else "empty"
        )
        meaning = key.documentation + (f" ({key.reason})" if key.reason else "")
        lines.append(
            f"| `{key.name}` | {key.type.name.lower()} | {default} | {_EFFECTS[key.effect]} | {cell(meaning)} |"
        )
    return "\n".join(lines)


def broker_settings() -> str:
    ours = [key for key in BROKER_KEYS.values() if key.name.startswith("kafkalite.")]
    kafkas = [key for key in BROKER_KEYS.values() if not key.name.startswith("kafkalite.")]
    return f"""# Settings of a broker

Names and defaults are Apache Kafka's. "Acts" says when a value that is set has its effect: at once (also while the broker runs), at
restart, never (kept for Kafka's files; whoever sets it is warned), or that only the default is taken, because it would be
dangerous to go on without the effect. A file with them is read by `kafkalite broker --config`; `-X key=value` wins over it.

## Of Apache Kafka

{_table(sorted(kafkas, key=lambda key: key.name))}

## Of our own

{_table(sorted(ours, key=lambda key: key.name))}

## Of each listener

These are settings of all listeners; with `listener.name.<name>.` before it a setting is that of one listener.

{_table(SECURITY_KEYS.values())}
"""


def topic_settings() -> str:
    return f"""# Settings of a topic

Given when a topic is created (`kafkalite topic create -c key=value`), and changed at any time
(`kafkalite config set key=value --topic NAME`).
What a topic does not set it has from its broker.

{_table(TOPIC_KEYS.values())}
"""


def _options(options: type[Any], above: type[Any] | None) -> str:
    known = {each.name for each in fields(above)} if above is not None else set()
    lines = ["| Keyword | Dotted name | Type | Default |", "|---|---|---|---|"]
    for each in fields(options):
        if each.name not in known:
            name, dotted = each.name, each.name.replace("_", ".")
            lines.append(f"| `{name}` | `{dotted}` | {cell(f'`{each.type}`')} | {cell(f'`{each.default!r}`')} |")
    return f"## {options.__name__}\n\n{prose(options)}\n\n" + "\n".join(lines) + "\n"


def client_settings() -> str:
    parts = [
        _options(SecurityOptions, None),
        _options(ConnectionOptions, SecurityOptions),
        *(_options(each, ConnectionOptions) for each in (ProducerOptions, ConsumerOptions, AdminOptions)),
    ]
    return (
        "# Settings of a client\n\n"
        "The options of our Python clients, as keyword arguments or by the dotted names that Apache Kafka gives them (`from_config`, `-X`, "
        "contexts). What all clients have comes first.\n\n" + "\n".join(parts)
    )
