"""The areas of a cluster that `kafkalite doctor` checks, each by one function that returns its findings; `kafkalite migrate check` shares
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.cli.calls import admin_options
from kafkalite.cli.doctor.findings import Finding, problem, skip_check

if TYPE_CHECKING:
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
    from kafkalite.client import Admin
    from kafkalite.client.errors import ClientError

    try:
        async with Admin(**admin_options(bootstrap_server=own_address)) as admin:
            return await doctor_cluster.check_disks(admin)
    except (ClientError, ValueError):
        return [skip_check("brokers' disks", "no broker can be reached")]
