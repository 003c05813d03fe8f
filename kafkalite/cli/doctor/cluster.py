"""The checks of `kafkalite doctor` on brokers: their advertised addresses, their disks, and the health of partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final

from kafkalite.cli.doctor.findings import Finding, Status, join_first, judge_space, ok, problem, skip_check
from kafkalite.cli.doctor.host import are_loopback
from kafkalite.server_addresses import address_text

if TYPE_CHECKING:
    from kafkalite.administration.cluster_health import Verdict
    from kafkalite.client import Admin
    from kafkalite.client.admin.log_dirs import LogDir
    from kafkalite.client.cluster.view import BrokerNode

_LISTENERS: Final = "advertised listeners"
_DISKS: Final = "brokers' disks"
_REMEDIES: Final = {
    "controller": "look into ZooKeeper's /controller and the brokers' logs: brokers elect one when ZooKeeper has a quorum",
    "brokers": "start it again, or move its replicas to other brokers: kafkalite partition reassign",
    "offline partitions": "start the brokers that hold replicas; if they are lost for good: kafkalite leader elect --unclean",
    "under-replicated partitions": "find the brokers that lag or are down: kafkalite topic describe --under-replicated",
    "partitions under min.insync.replicas": "producers with acks=all are refused there: bring replicas back before anything else",
}


@dataclass(frozen=True, slots=True)
class Reached:
    """Whether a broker answers at its advertised address. `addresses` are those of its host name here, `versions` those that it speaks."""

    broker: BrokerNode
    addresses: tuple[str, ...]
    problem: str | None = None
    versions: Mapping[int, tuple[int, int]] = field(default_factory=dict)


async def check_brokers(
    admin: Admin, bootstrap: Sequence[tuple[str, int]], tls: Mapping[str, Any], timeout_s: float
) -> list[Finding]:
    """Return the findings about listeners and the health of brokers and partitions. Raises ClientError.

    `bootstrap` are the servers that were asked; `tls` are options of `Connection.open`.
    """
    from kafkalite.administration.cluster_health import check_cluster

    described = await admin.describe_cluster()
    reached = await asyncio.gather(*[reach_broker(each, tls, timeout_s) for each in described.brokers])
    asked_at = await asyncio.gather(*[_resolve(host) for host, _ in bootstrap])
    outside = not any(map(are_loopback, asked_at))
    findings = [ok("cluster", f"{described.cluster_id} with {len(described.brokers)} brokers")]
    findings += judge_listeners(reached, outside)
    return findings + judge_health(await check_cluster(admin))


async def check_disks(admin: Admin) -> list[Finding]:
    """Return the findings about the brokers' disks, as far as the brokers report them."""
    from kafkalite.client.errors import ClientError

    try:
        return judge_log_dirs(await admin.describe_log_dirs())
    except ClientError as failed:
        return [skip_check(_DISKS, str(failed))]


async def _resolve(host: str) -> tuple[str, ...]:
    """Return the addresses of a host, none when it is unknown."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None)
    except OSError:
        return ()
    return tuple(dict.fromkeys(str(each[4][0]) for each in found))


async def reach_broker(broker: BrokerNode, tls: Mapping[str, Any], timeout_s: float) -> Reached:
    """Connect to a broker at its advertised address and ask what it speaks. `tls` are options of `Connection.open`."""
    from kafkalite.net.connection import Connection

    addresses = await _resolve(broker.host)
    if not addresses:
        return Reached(broker, (), f"this machine does not know the host {broker.host}")
    try:
        connection = await Connection.open(
            broker.host, broker.port, client_id="kafkalite-doctor", timeout_s=timeout_s, **tls
        )
        try:
            await connection.negotiate(timeout_s)
            versions = dict(connection.versions)
        finally:
            connection.close()
    except OSError as failed:
        return Reached(broker, addresses, str(failed))
    return Reached(broker, addresses, versions=versions)


def judge_listeners(reached: Sequence[Reached], outside: bool) -> list[Finding]:
    """Check that clients here reach every broker. With `outside` the cluster was not asked at a loopback address, so it should not
    advertise one.
    """
    findings = []
    for each in reached:
        broker = each.broker
        remedy = f"set advertised.listeners of broker {broker.id} to a host and port that clients reach, or open its port to them"
        named = f"broker {broker.id} says that it is at {address_text(broker.host, broker.port)}"
        if outside and are_loopback(each.addresses):
            findings.append(problem(_LISTENERS, f"{named}, which is this machine for every client", remedy))
        elif each.problem is not None:
            findings.append(problem(_LISTENERS, f"{named}: {each.problem}", remedy))
    if findings:
        return findings
    where = ", ".join(address_text(each.broker.host, each.broker.port) for each in reached)
    return [ok(_LISTENERS, f"every broker answers where it says: {where}")]


def judge_log_dirs(described: Mapping[int, Sequence[LogDir]]) -> list[Finding]:
    """Return findings about brokers' directories that are offline or fill up; one finding when there are none."""
    findings, count = [], 0
    for broker, directories in described.items():
        for each in directories:
            count += 1
            where = f"broker {broker}, {each.path}"
            if each.error is not None:
                remedy = "repair or replace the disk, then restart the broker"
                findings.append(problem(_DISKS, f"{where}: it is out of service ({each.error})", remedy))
            elif each.total_bytes >= 0 and each.usable_bytes >= 0:
                findings.append(judge_space(_DISKS, where, each.usable_bytes, each.total_bytes))
    bad = [each for each in findings if each.status is not Status.OK]
    return bad or [ok(_DISKS, f"{count} log directories have room")]


def judge_health(verdicts: Sequence[Verdict]) -> list[Finding]:
    return [
        ok(each.check, "as it should be")
        if each.healthy
        else problem(each.check, join_first(each.problems), _REMEDIES[each.check])
        for each in verdicts
    ]


def unreachable(reason: str) -> Finding:
    return problem(
        "brokers",
        reason,
        "start brokers, or say where they are: --bootstrap-server, --context, KAFKALITE_BOOTSTRAP_SERVERS",
    )


def security_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a bare connection from a client's options. Raises OSError for stores that cannot be read."""
    from kafkalite.client.security import SecurityOptions, credentials_of, tls_context_of

    known = {each.name for each in fields(SecurityOptions)}
    security = SecurityOptions(**{name: each for name, each in options.items() if name in known})
    return {
        "security_protocol": security.security_protocol,
        "ssl_context": tls_context_of(security),
        "credentials": credentials_of(security),
    }
