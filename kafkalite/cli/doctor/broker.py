"""The checks of `kafkalite doctor --config` on the machine of one broker: settings, ports, log directories and open files."""

from __future__ import annotations

import resource
import shutil
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kafkalite.cli.doctor.findings import Finding, judge_space, ok, problem, skip_check, warning
from kafkalite.cli.doctor.host import are_loopback, is_writable, judge_open_files, nearest_existing

if TYPE_CHECKING:
    from kafkalite.config.broker import BrokerConfig
    from kafkalite.types import Endpoint

_FILES_OF_A_SEGMENT: Final = 3
_FILES_OF_A_BROKER: Final = 1024
"""Files for connections, checkpoints and Python itself."""


def check_machine(config: BrokerConfig, timeout_s: float) -> Iterator[Finding]:
    """Return the findings about the machine that depend on the broker's settings."""
    for text in config.warnings():
        yield warning("settings", text, "correct its name, or take it out")
    for endpoint in config.listeners:
        yield check_port(endpoint, timeout_s)
    for endpoint in config.advertised_listeners:
        yield from judge_advertised(endpoint, addresses_of(endpoint.host))
    for directory in map(Path, config.log_dirs):
        yield from check_log_dir(directory, config.broker_id)
    if config.kafkalite_http_listener is not None:
        yield from judge_health(
            ask_health(config.kafkalite_http_listener, timeout_s, has_tls=config.kafkalite_http_ssl_enable)
        )
    segments = sum(len(list(Path(each).glob("*/*.log"))) for each in config.log_dirs)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield judge_open_files(limits, segments * _FILES_OF_A_SEGMENT + _FILES_OF_A_BROKER)


def ask_health(listener: str, timeout_s: float, *, has_tls: bool = False) -> dict[str, Any] | None:
    """Return the broker's `/health` document, without a login; None when it does not run, or another program answers."""
    import json
    import ssl
    from urllib.request import urlopen

    from kafkalite.config.listeners import split_host_port

    host, port = split_host_port(listener)
    named = f"[{host}]" if ":" in host else host or "localhost"
    scheme, context = ("http", None)
    if has_tls:  # its certificate may be for other names than this address
        scheme, context = "https", ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with urlopen(f"{scheme}://{named}:{port}/health", timeout=timeout_s, context=context) as answer:
            found = json.load(answer)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def judge_health(health: Mapping[str, Any] | None) -> Iterator[Finding]:
    """Report logs that the running broker cannot compact or does not serve."""
    yield from _judge_logs(
        "compaction",
        health,
        "uncleanable_partitions",
        "{} cannot be compacted and grows: {}",
        "see what is wrong with the log: kafkalite log verify; the broker tries it again when it starts",
        "the log cleaner has set no log aside",
    )
    yield from _judge_logs(
        "topic ids",
        health,
        "topic_id_conflicts",
        "{} is not served: {}",
        "delete the topic, with this log, and make it again; or, to have the old records back, write the log's topic id into "
        "/brokers/topics/TOPIC and delete /controller",
        "every log belongs to the topic of its name",
    )


def _judge_logs(
    check: str, health: Mapping[str, Any] | None, key: str, what: str, remedy: str, good: str
) -> Iterator[Finding]:
    """Return a problem for each partition that `/health` lists under the key, with its reason."""
    if health is None:
        yield skip_check(check, "the broker does not run")
        return
    found = health.get(key)
    if found is None:
        yield skip_check(check, "the broker tells it only to those in kafkalite.http.users.file")
        return
    for partition, reason in found.items():
        yield problem(check, what.format(partition, reason), remedy)
    if not found:
        yield ok(check, good)


def check_port(endpoint: Endpoint, timeout_s: float) -> Finding:
    """Check that the port is free, or that a broker serves it."""
    from kafkalite.config.listeners import listener_text

    named = listener_text(endpoint)
    family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((endpoint.host, endpoint.port))
    except OSError as failed:
        return _judge_taken(endpoint, named, failed, timeout_s)
    return ok("ports", f"{named} is free for the broker")


def _judge_taken(endpoint: Endpoint, named: str, failed: OSError, timeout_s: float) -> Finding:
    import errno
    import time

    from kafkalite.cli.completion.query import Deadline, Server, names_of

    if failed.errno == errno.EADDRINUSE:
        server = Server(endpoint.host or "localhost", endpoint.port)
        if (
            endpoint.security_protocol == "PLAINTEXT"
            and names_of([server], Deadline(timeout_s, time.monotonic)).brokers
        ):
            return ok("ports", f"{named} is served by a broker")
        remedy = f"see who has it: ss -ltnp 'sport = :{endpoint.port}'; end it, or choose another port"
        if endpoint.security_protocol != "PLAINTEXT":
            return warning("ports", f"{named} is in use, by the broker or somebody else", remedy)
        return problem("ports", f"{named} is taken by a program that is no broker", remedy)
    if failed.errno == errno.EACCES:
        return problem("ports", f"{named}: ports below 1024 are not for this user", "choose a higher port")
    remedy = "listen on an address of this machine, or on all: PLAINTEXT://:9092"
    return problem("ports", f"{named}: {failed.strerror}", remedy)


def addresses_of(host: str) -> list[str]:
    """Return the addresses of a host name here, none for an unknown name."""
    if not host:
        return []
    try:
        return list(dict.fromkeys(str(each[4][0]) for each in socket.getaddrinfo(host, None)))
    except OSError:
        return []


def judge_advertised(endpoint: Endpoint, addresses: list[str]) -> Iterator[Finding]:
    """Check that clients elsewhere can use the advertised host. An empty host stands for this machine's name."""
    from kafkalite.config.listeners import listener_text

    check, named = "advertised listeners", listener_text(endpoint)
    remedy = f"advertise a name or address that clients reach: {endpoint.listener}://HOST:{endpoint.port}"
    if endpoint.host and not addresses:
        yield problem(check, f"{named}: this machine does not know {endpoint.host}", remedy)
    elif are_loopback(addresses):
        yield warning(check, f"{named}: only clients on this machine reach it", remedy)
    else:
        yield ok(check, named + (f" is {', '.join(addresses)}" if addresses else ""))


def check_log_dir(directory: Path, broker_id: int) -> Iterator[Finding]:
    """Check that a log directory has room, is writable, and belongs to this broker."""
    from kafkalite.storage.disk import OsDisk
    from kafkalite.storage.meta_properties import FILE_NAME, WrongDirectory, read_meta_properties

    existing = nearest_existing(directory)
    if not existing.is_dir() or not is_writable(existing):
        remedy = f"give it to the broker's user: install -d -o USER {directory}"
        yield problem("log directories", f"{directory}: this user may not write {existing}", remedy)
        return
    usage = shutil.disk_usage(existing)
    yield judge_space("log directories", str(directory), usage.free, usage.total)
    remedy = "name the right directory in log.dirs, or the right broker.id"
    try:
        owner = read_meta_properties(OsDisk(), str(directory / FILE_NAME))
    except (OSError, WrongDirectory) as failed:
        yield problem("log directories", str(failed), remedy)
        return
    if owner is not None and owner.broker_id is not None and broker_id >= 0 and owner.broker_id != broker_id:
        yield problem("log directories", f"{directory} belongs to broker {owner.broker_id}, not to {broker_id}", remedy)
