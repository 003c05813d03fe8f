"""The Python part of the container image: its configuration, and `cub`, the waiting of old compose files.

    python -m kafkalite.cli.image configure | zk-ready CONNECT TIMEOUT_S | kafka-ready -b SERVERS MIN TIMEOUT_S

`image_health` is its health check.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from kafkalite.cli.image_health import check_zookeeper
from kafkalite.config.environment import container_settings
from kafkalite.config.keys import ConfigError
from kafkalite.config.listeners import DEFAULT_PROTOCOL_MAP, WILDCARD_HOSTS, parse_listeners, parse_protocol_map
from kafkalite.standard_streams import standard_streams
from kafkalite.types import Endpoint
from zk.servers.java_properties import properties_text

_TIMEOUT_S: Final = 3.0
_POLL_S: Final = 0.2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code: 0, or 1 with a line on stderr."""
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except (ConfigError, OSError, TimeoutError) as problem:
        print(f"Error: {problem}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="kafkalite.cli.image")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    configure = commands.add_parser("configure")
    configure.add_argument("--directory", type=Path, default=Path("/etc/kafka"))
    configure.set_defaults(run=_configure)
    zookeeper = commands.add_parser("zk-ready")
    zookeeper.add_argument("connect")
    zookeeper.add_argument("timeout_s", type=float)
    zookeeper.set_defaults(run=_zookeeper_ready)
    kafka = commands.add_parser("kafka-ready")
    kafka.add_argument("min_brokers", type=int)
    kafka.add_argument("timeout_s", type=float)
    kafka.add_argument("-b", "--bootstrap-servers", required=True)
    kafka.add_argument("-c", "--config", help="of the client; has no effect")
    kafka.set_defaults(run=_kafka_ready)
    return parser


def _configure(options: argparse.Namespace) -> None:
    settings = container_settings(os.environ, socket.gethostname())
    broker_options = "" if settings.broker is None else options_of_broker(settings.broker)
    for name, properties in (("kafka", settings.broker), ("zookeeper", settings.zookeeper)):
        path = options.directory / f"{name}.properties"
        if properties is None:
            path.unlink(missing_ok=True)
        else:
            path.write_text(properties_text(dict(sorted(properties.items()))))
    (options.directory / "broker-options").write_text(broker_options)
    (options.directory / "health").write_text(health_lines(settings.broker, settings.zookeeper))
    if settings.broker is not None:
        for log_dir in settings.broker["log.dirs"].split(","):
            make_writable(Path(log_dir.strip()))
    if settings.zookeeper is not None:
        data = Path(settings.zookeeper["dataDir"])
        make_writable(data)
        make_writable(Path(settings.zookeeper["dataLogDir"]))
        if settings.zookeeper_id is not None:
            data.joinpath("myid").write_text(f"{settings.zookeeper_id}\n")


def options_of_broker(properties: Mapping[str, str]) -> str:
    """Return the options of `kafkalite broker` that follow from its settings.

    Raises ConfigError for invalid ones, as the broker would, but before the log of a ZooKeeper server in this container hides it.
    """
    from kafkalite.config.broker import BROKER_KEYS, BrokerConfig

    config = BrokerConfig.from_properties({name: text for name, text in properties.items() if name in BROKER_KEYS})
    return "" if config.kafkalite_failover_detection == "session" else "--guard"


def make_writable(folder: Path) -> None:
    """Make the folder unless it is there. Raises ConfigError when this user cannot write to it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK | os.X_OK)
    except OSError:
        writable = False
    if not writable:
        raise ConfigError(f"User {os.getuid()} cannot write to {folder}; give it the volume with: chown {os.getuid()}")


def health_lines(broker: Mapping[str, str] | None, zookeeper: Mapping[str, str] | None) -> str:
    """Return the lines of the health check's file, as `image_health` reads it."""
    lines = ""
    if zookeeper is not None:
        lines += f"zookeeper 127.0.0.1 {zookeeper['clientPort']}\n"
    if broker is not None:
        endpoint = health_endpoint(broker)
        lines += f"broker {endpoint.host} {endpoint.port} {endpoint.security_protocol}\n"
    return lines


def health_endpoint(properties: Mapping[str, str]) -> Endpoint:
    """Return the listener to check: one without TLS if there is one, at the loopback address when it binds all interfaces."""
    text = properties.get("listener.security.protocol.map")
    endpoints = parse_listeners(properties["listeners"], parse_protocol_map(text) if text else DEFAULT_PROTOCOL_MAP)
    chosen = min(endpoints, key=lambda endpoint: endpoint.security_protocol.endswith("SSL"))
    return chosen._replace(host="127.0.0.1") if not chosen.host or chosen.host in WILDCARD_HOSTS else chosen


def _zookeeper_ready(options: argparse.Namespace) -> None:
    servers = [server.rpartition(":") for server in options.connect.partition("/")[0].split(",")]
    pairs = [((host or port).strip("[]"), int(port) if host else 2181) for host, _, port in servers]
    for host, port in pairs:
        wait_for(partial(check_zookeeper, host, port), options.timeout_s)


def _kafka_ready(options: argparse.Namespace) -> None:
    import asyncio

    def check() -> None:
        found = asyncio.run(_count_brokers(options.bootstrap_servers))
        if found < options.min_brokers:
            raise OSError(f"{found} of {options.min_brokers} brokers are there")

    wait_for(check, options.timeout_s)


async def _count_brokers(bootstrap_servers: str) -> int:
    from kafkalite.client import Admin
    from kafkalite.client.errors import ClientError

    try:
        async with Admin(bootstrap_servers=bootstrap_servers, default_api_timeout_ms=int(_TIMEOUT_S * 1000)) as admin:
            return len((await admin.describe_cluster()).brokers)
    except ClientError as problem:
        raise OSError(str(problem)) from problem


def wait_for(check: Callable[[], object], timeout_s: float) -> None:
    """Wait until `check()` raises no OSError. Raises TimeoutError with its last reason."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        try:
            check()
            return
        except OSError as problem:
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"not within {timeout_s:g} s: {problem}") from None
        time.sleep(_POLL_S)


if __name__ == "__main__":
    with standard_streams():
        sys.exit(main())
