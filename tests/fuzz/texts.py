"""What people and other programs write: znodes, properties files, command lines."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import Any

import click

from kafkalite.cli.main import main
from kafkalite.config.broker import BrokerConfig
from kafkalite.config.broker_keys import BROKER_KEYS
from kafkalite.config.environment import container_settings
from kafkalite.config.keys import ConfigError
from kafkalite.config.properties import parse_properties
from kafkalite.config.topic import TOPIC_KEYS, TopicConfig
from kafkalite.errors import KafkaError
from tests.fuzz.engine import declared
from zk.znodes import (
    BrokerRegistration,
    ClusterId,
    ConfigChange,
    ConfigEntity,
    ControllerEpoch,
    ControllerSeat,
    Feature,
    FeatureRange,
    IsrChange,
    LogDirEvent,
    MalformedZnodeError,
    PartitionName,
    PartitionState,
    PreferredElection,
    ProducerIdBlock,
    ReassignPartitions,
    RegisteredEndpoint,
    TopicAssignment,
)

_ZNODES: tuple[Any, ...] = (
    BrokerRegistration(
        (RegisteredEndpoint("PLAINTEXT", "h", 9092), RegisteredEndpoint("S", "::1", 1, "SSL")),
        timestamp_ms=1,
        rack="r",
        features={"f": FeatureRange(1, 2)},
    ),
    ControllerSeat(1, 1_700_000_000_000),
    ControllerEpoch(7),
    TopicAssignment({0: (1, 2), 1: (2, 1)}, "k1NfV0J9Q5u1pQe0a0n3Wg", {0: (3,)}, {0: (1,)}),
    PartitionState(leader=1, leader_epoch=5, isr=(1, 2), controller_epoch=3, recovering=True),
    ConfigEntity({"retention.ms": "1000", "cleanup.policy": "compact"}),
    ConfigChange("users/u/clients/c"),
    ReassignPartitions({PartitionName("t", 0): (1, 2)}),
    PreferredElection((PartitionName("t", 0),)),
    IsrChange((PartitionName("t", 0),)),
    LogDirEvent(1),
    ProducerIdBlock(1, 0, 999),
    Feature(features={"f": 3}),
    ClusterId("Xy3AAAAAAAAAAAAAAAAAAA"),
)


class Znodes:
    """The first byte of the input says which kind; the rest is its data."""

    name = "znodes"

    def seeds(self, rng: random.Random) -> Sequence[bytes]:
        return [bytes((number,)) + znode.encode() for number, znode in enumerate(_ZNODES)]

    def check(self, data: bytes) -> str:
        kind = type(_ZNODES[data[0] % len(_ZNODES)]) if data else ControllerEpoch
        try:
            znode = kind.decode(data[1:])
        except MalformedZnodeError as problem:
            assert len(str(problem)) < 1_000, "a line of the log as long as the znode"
            return f"{kind.__name__} {declared(problem)}"
        if znode is None:
            return f"{kind.__name__} none"
        assert kind.decode(znode.encode()).encode() == znode.encode(), "it means something else when it is read again"
        return kind.__name__


_PROPERTIES = (
    "broker.id=1\nzookeeper.connect=localhost:2181\nlog.dirs=/a,/b\nlisteners=PLAINTEXT://:9092,EXT://0.0.0.0:9093\n"
    "advertised.listeners=PLAINTEXT://h:9092,EXT://[::1]:9093\nlistener.security.protocol.map=PLAINTEXT:PLAINTEXT,EXT:PLAINTEXT\n",
    "# a comment\n! another\nkey\\ with\\:escapes : value \\\n   that goes on \\u00e4\\t\n\\=x\nzookeeper.connect=z/chroot\n",
    "log.retention.hours=168\nlog.segment.bytes=1073741824\ncompression.type=zstd\nmin.insync.replicas=2\nlog.roll.ms=1\n",
    "max.connections.per.ip.overrides=h:1,::1:2,1.2.3.4:3\nauto.create.topics.enable=true\nreplica.selector.class=x\n",
)


class Properties:
    """A properties file, its settings as those of a broker, of a topic, and as variables of a container."""

    name = "properties"

    def seeds(self, rng: random.Random) -> Sequence[bytes]:
        values = ("0", "-1", "1", "true", "x", "9" * 20, "1.5", "a,b", "")
        chosen = rng.sample(sorted(BROKER_KEYS), 120) + sorted(TOPIC_KEYS)
        lines = [f"zookeeper.connect=z\n{name}={rng.choice(values)}\n" for name in chosen]
        return [text.encode() for text in (*_PROPERTIES, *lines)]

    def check(self, data: bytes) -> str:
        told = []
        try:
            settings = parse_properties(data.decode("utf-8", "replace"))
        except ConfigError as problem:
            return declared(problem)
        for take in (self._broker, self._topic, self._container):
            try:
                take(settings)
            except (ConfigError, KafkaError, ValueError) as problem:
                assert type(problem) is not ValueError and not isinstance(problem, UnicodeError), repr(problem)
                told.append(declared(problem)[:40])
        return " / ".join(told)

    def _broker(self, settings: dict[str, str]) -> None:
        config = BrokerConfig.from_properties(settings)
        list(config.warnings())

    def _topic(self, settings: dict[str, str]) -> None:
        TopicConfig.from_overrides(TopicConfig(), settings)

    def _container(self, settings: dict[str, str]) -> None:
        container_settings({f"KAFKA_{name.upper().replace('.', '_')}": text for name, text in settings.items()}, "host")


_COMMAND_LINES = (
    ["topic", "create", "t", "--partitions", "3", "--config", "retention.ms=1"],
    ["topic", "describe", "--under-replicated"],
    ["produce", "t", "--key", "k", "-X", "acks=all"],
    ["consume", "t", "--from-beginning", "--group", "g", "--max-messages", "1"],
    ["group", "reset-offsets", "g", "--topic", "t", "--to-earliest"],
    ["partition", "reassign", "plan", "--brokers", "1,2", "--topic", "t"],
    ["config", "set", "topic", "t", "retention.ms=1"],
    ["zk", "tree", "/brokers", "--zookeeper", "z:1"],
    ["log", "dump", "/x", "--records"],
    ["record", "delete", "t-0=5"],
    ["cluster", "up", "--brokers", "3", "--data", "/x"],
    ["perf", "produce", "t", "--records", "100", "--size", "100"],
    ["broker", "--config", "/x", "-X", "a=b"],
    ["offset", "list", "t", "--time", "latest"],
    ["context", "use", "x"],
    ["completion", "bash"],
    ["doctor", "--timeout", "1"],
)


class CommandLines:
    """Command lines as far as click reads them: options, types and choices of every command; nothing is run."""

    name = "command-lines"

    def seeds(self, rng: random.Random) -> Sequence[bytes]:
        return [json.dumps(line).encode() for line in _COMMAND_LINES] + [
            "\0".join(line).encode() for line in _COMMAND_LINES
        ]

    def check(self, data: bytes) -> str:
        line = data.decode("utf-8", "surrogateescape").replace('", "', "\0").strip('[]"').split("\0")
        try:
            with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
                return self._parse(line)
        except SystemExit as ended:  # of a setting that an option names
            return f"exit {ended.code}"
        except (click.ClickException, click.exceptions.Exit, click.exceptions.Abort) as problem:
            return f"{type(problem).__name__} {declared(problem)[:50]}"

    def _parse(self, line: list[str]) -> str:
        context, command, names = main.make_context("kafkalite", list(line)), main, []
        while isinstance(command, click.Group):
            arguments = [*context._protected_args, *context.args]
            if not arguments:
                return " ".join(names)
            name, found, rest = command.resolve_command(context, arguments)
            if found is None or name is None:
                return " ".join(names)
            names.append(name)
            context, command = found.make_context(name, rest, parent=context), found  # type: ignore[assignment]
        return " ".join(names)
