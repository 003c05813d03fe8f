"""The areas of a cluster that `kafkalite doctor` checks, each by one function that returns its findings; `kafkalite migrate check` shares
them.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from kafkalite.cli.calls import admin_options
from kafkalite.cli.doctor.findings import Finding, problem, skip_check

if TYPE_CHECKING:
    from kafkalite.client import Admin
    from zk.security.store_security import StoreSecurity
    from zk.size_limits import SizeLimits


async def check_zookeeper(connect: str, timeout_s: float, security: StoreSecurity, limits: SizeLimits) -> list[Finding]:
    """Return the findings about ZooKeeper's servers and the brokers' clocks."""
    import asyncio

    from kafkalite.cli.doctor import znode_sizes
    from kafkalite.cli.doctor import zookeeper as doctor_zookeeper
    from zk.store import StoreError
    from zk.znodes import MalformedZnodeError

    check = "brokers' clocks"
    try:
        answers = await doctor_zookeeper.ask_servers(connect, timeout_s, security)
    except ValueError as failed:
        return [problem("zookeeper server", str(failed), "write it as HOST:PORT,HOST:PORT/CHROOT")]
    findings = list(doctor_zookeeper.judge_servers(answers))
    exposed, taken = await asyncio.gather(
        doctor_zookeeper.check_exposure(connect, timeout_s, security),
        znode_sizes.check_servers(connect, limits, security),
    )
    findings += [*exposed, *taken]
    if not any(each.serving for each in answers):
        return [*findings, skip_check(check, "ZooKeeper does not serve")]
    try:
        clocks = await doctor_zookeeper.read_broker_clocks(connect, timeout_s, security)
    except (OSError, StoreError, MalformedZnodeError) as failed:
        return [*findings, skip_check(check, f"no registration can be read: {failed}")]
    return [*findings, *doctor_zookeeper.judge_broker_clocks(clocks)]


async def check_znodes(connect: str, timeout_s: float, security: StoreSecurity, limits: SizeLimits) -> list[Finding]:
    """Return the findings about znodes; those that disagree are looked at twice, some seconds apart."""
    from kafkalite.cli.doctor import kraft, znode_sizes, znodes
    from kafkalite.cli.doctor.zookeeper import open_store
    from zk.store import StoreError

    try:
        async with open_store(connect, timeout_s, security) as (store, chroot):
            _, repairs = await znodes.find_inconsistencies(store, chroot)
            kraft_move = await kraft.check_kraft(store, chroot)
            measured = await znode_sizes.measure(store, chroot)
    except (OSError, StoreError, ValueError) as failed:
        return [skip_check(znodes.CHECK, f"they cannot be read: {failed}")]
    return [*znodes.findings(repairs), kraft_move, *znode_sizes.judge(measured, limits)]


async def check_cluster(own_address: str, timeout_s: float) -> list[Finding]:
    """Return the findings about brokers and partitions. `own_address` is where to ask unless the command line says so."""
    from kafkalite.cli.doctor import cluster as doctor_cluster
    from kafkalite.client import Admin
    from kafkalite.client.errors import ClientError
    from kafkalite.server_addresses import parse_servers

    options = admin_options(bootstrap_server=own_address)
    try:
        servers = parse_servers(options["bootstrap_servers"])
        async with Admin(**options) as admin:
            return await doctor_cluster.check_brokers(
                admin, servers, doctor_cluster.security_options(options), timeout_s
            )
    except (ClientError, ValueError) as failed:
        return [doctor_cluster.unreachable(str(failed))]


async def check_disks(own_address: str) -> list[Finding]:
    """Return the findings about the brokers' disks. `own_address` is where to ask unless the command line says so."""
    from kafkalite.cli.doctor import cluster as doctor_cluster

    return await _ask_brokers(own_address, "brokers' disks", doctor_cluster.check_disks)


async def check_transactions(own_address: str) -> list[Finding]:
    """Return the findings about open transactions. `own_address` is where to ask unless the command line says so."""
    from kafkalite.cli.doctor import transactions
    from kafkalite.clock import SystemClock

    now_ms = SystemClock().now_ms()
    return await _ask_brokers(
        own_address, transactions.CHECK, lambda admin: transactions.check_transactions(admin, now_ms)
    )


async def check_groups(own_address: str, max_lag: int) -> list[Finding]:
    """Return the findings about consumer groups. `own_address` is where to ask unless the command line says so."""
    from kafkalite.cli.doctor import groups

    return await _ask_brokers(own_address, groups.CHECK, lambda admin: groups.check_groups(admin, max_lag))


async def _ask_brokers(
    own_address: str, check: str, question: Callable[[Admin], Coroutine[Any, Any, list[Finding]]]
) -> list[Finding]:
    """Return the findings of `question`; one that it was skipped when no broker can be reached, or when it is refused."""
    from kafkalite.client import Admin
    from kafkalite.client.errors import ClientError, NoBrokersAvailableError

    try:
        async with Admin(**admin_options(bootstrap_server=own_address)) as admin:
            return await question(admin)
    except (NoBrokersAvailableError, ValueError):
        return [skip_check(check, "no broker can be reached")]
    except ClientError as failed:
        return [skip_check(check, str(failed))]
