"""`kafkalite doctor`: looks for what is wrong with a cluster or a broker's machine, and says what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from kafkalite.cli.calls import admin_options, bootstrap_option, given_timeout_s
from kafkalite.cli.confirmation import confirm
from kafkalite.cli.context.settings import working_directory
from kafkalite.cli.doctor import areas
from kafkalite.cli.doctor.findings import Finding, ok, problem
from kafkalite.cli.doctor.report import report_areas
from kafkalite.cli.output import fail, format_count, note, output_option
from kafkalite.cli.zookeeper.session import zookeeper_option

if TYPE_CHECKING:
    from kafkalite.config.broker import BrokerConfig
    from zk.security.store_security import StoreSecurity
    from zk.size_limits import SizeLimits

_PARTS = ("machine", "zookeeper", "znodes", "cluster", "disks", "transactions", "groups")


@click.command()
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Check the machine for the broker with this server.properties, too.",
)
@click.option(
    "-P", "--property", "properties", multiple=True, metavar="KEY=VALUE", help="A setting that wins over --config's."
)
@click.option("--only", type=click.Choice(_PARTS), multiple=True, help="Look at nothing else; may be repeated.")
@click.option("--problems", "only_problems", is_flag=True, help="Leave out what is well.")
@click.option(
    "--max-lag",
    type=click.IntRange(0),
    default=10_000,
    show_default=True,
    help="Warn of groups that are more records behind.",
)
@click.option("--fix", is_flag=True, help="Repair znodes that disagree, after a question.")
@click.option("--dry-run", is_flag=True, help="With --fix: only say what would be done.")
@click.option("--yes", is_flag=True, help="With --fix: do it without a question.")
@zookeeper_option
@bootstrap_option
@output_option()
def doctor(
    config: Path | None,
    properties: tuple[str, ...],
    only: tuple[str, ...],
    only_problems: bool,
    max_lag: int,
    fix: bool,
    dry_run: bool,
    yes: bool,
    zookeeper: str,
    output: str,
) -> None:
    """Diagnose a machine, ZooKeeper and a cluster, and say what to do.

    \b
    machine       Java, compiled code, limit of open files, clock, disk; with --config also a broker's settings, ports and directories
    zookeeper     its servers, its quorum, the brokers' clocks
    znodes        do those of topics, deletions, moves and epochs agree; --fix repairs them; does KRaft own them; how near are they
                  to ZooKeeper's limit of size
    cluster       do brokers answer where they say, how well are partitions
    disks         how full are the brokers' disks
    transactions  which are open for long, or for ever, so that readers of committed records wait
    groups        how far are they behind, and who reads for them

    Exits with 7 when there is a problem; warnings are not problems. With --config, ZooKeeper and the broker are where the file says,
    unless --zookeeper and --bootstrap-server say otherwise.
    """
    import asyncio

    settings, findings = _settings(config, properties)
    own_address = "" if settings is None else _own_address(settings)
    timeout_s = given_timeout_s()
    if settings is not None:
        context = click.get_current_context()
        if context.get_parameter_source("zookeeper") is not ParameterSource.COMMANDLINE:
            zookeeper = settings.zookeeper_connect
    security, limits = _zookeeper_security(settings), _size_limits(settings)
    if fix:
        asyncio.run(_fix(zookeeper, own_address, timeout_s, security, dry_run=dry_run, yes=yes))
        return
    parts: dict[str, Callable[[], Iterator[Finding]]] = {
        "machine": lambda: _machine(settings, timeout_s),
        "zookeeper": lambda: iter(asyncio.run(areas.check_zookeeper(zookeeper, timeout_s, security, limits))),
        "znodes": lambda: iter(asyncio.run(areas.check_znodes(zookeeper, timeout_s, security, limits))),
        "cluster": lambda: iter(asyncio.run(areas.check_cluster(own_address, timeout_s))),
        "disks": lambda: iter(asyncio.run(areas.check_disks(own_address))),
        "transactions": lambda: iter(asyncio.run(areas.check_transactions(own_address))),
        "groups": lambda: iter(asyncio.run(areas.check_groups(own_address, max_lag))),
    }
    report_areas(parts, only, output, only_problems=only_problems, findings=findings)


def _settings(config: Path | None, properties: tuple[str, ...]) -> tuple[BrokerConfig | None, list[Finding]]:
    """Return a broker's settings, and findings about them."""
    if config is None and not properties:
        return None, []
    from kafkalite.config.broker import ConfigError, load_broker_config
    from kafkalite.config.properties import parse_overrides

    named = str(config) if config is not None else "--property"
    try:
        settings = load_broker_config(config, parse_overrides(properties))
    except ConfigError as failed:
        return None, [problem("settings", f"{named}: {failed}", "correct them: a broker would not start")]
    return settings, [ok("settings", f"{named}: a broker would take them")]


def _zookeeper_security(settings: BrokerConfig | None) -> StoreSecurity:
    """Return the security of ZooKeeper sessions by the broker's settings, else by context and environment. Invalid settings end the
    command.
    """
    from kafkalite.cli.zookeeper.session import zookeeper_security
    from kafkalite.config.keys import ConfigError
    from kafkalite.zookeeper_connection import store_security

    if settings is None:
        return zookeeper_security()
    try:
        return store_security(settings)
    except ConfigError as failed:
        fail(str(failed))


def _size_limits(settings: BrokerConfig | None) -> SizeLimits:
    """Return the limits of znodes and lists by the broker's settings, else by context and environment. Invalid settings end the
    command.
    """
    from kafkalite.cli.zookeeper.session import zookeeper_limits
    from kafkalite.config.zookeeper_keys import jute_maxbuffer
    from zk.size_limits import SizeLimits

    if settings is None:
        return zookeeper_limits()
    return SizeLimits.of(jute_maxbuffer(settings.kafkalite_zookeeper_jute_maxbuffer))


def _own_address(settings: BrokerConfig) -> str:
    """Return the address for clients on the broker's machine; empty when it advertises none."""
    for each in settings.advertised_listeners:
        if each.security_protocol == "PLAINTEXT" and each.port:
            return f"{f'[{each.host}]' if ':' in each.host else each.host or 'localhost'}:{each.port}"
    return ""


def _machine(settings: BrokerConfig | None, timeout_s: float) -> Iterator[Finding]:
    from kafkalite.cli.doctor import broker as doctor_broker
    from kafkalite.cli.doctor import host as doctor_host

    if settings is None:
        yield from doctor_host.check_host(working_directory())
        return
    yield from (each for each in doctor_host.check_host(working_directory()) if each.check in ("java", "clock"))
    yield from doctor_broker.check_machine(settings, timeout_s)


async def _fix(
    connect: str, own_address: str, timeout_s: float, security: StoreSecurity, *, dry_run: bool, yes: bool
) -> None:
    """Repair inconsistent znodes: print the repairs, ask, check again, and do those that are still due."""
    from kafkalite.cli.doctor import znodes
    from kafkalite.cli.doctor.zookeeper import open_store
    from kafkalite.client import Admin
    from kafkalite.client.errors import ClientError
    from kafkalite.errors import ErrorCode
    from zk.store import StoreError

    try:
        async with open_store(connect, timeout_s, security) as (store, chroot):
            planned = [each for each in (await znodes.find_inconsistencies(store, chroot))[1] if each.has_action]
            for each in planned:
                note(f"{each.found}\n  → {each.remedy}")
            if not planned or dry_run:
                note(
                    f"{format_count(len(planned), 'repair')} would be made" if planned else "nothing is to be repaired"
                )
                return
            confirm(f"Make {format_count(len(planned), 'repair')}?", yes)
            seen = await znodes.snapshot(store, chroot)
            still = [each for each in znodes.judge(seen) if each in planned]
            for each in still:
                await znodes.delete(store, seen, each, chroot)
            elects, again = any(each.elects for each in still), ""
            epoch_at_least = max((each.epoch_at_least for each in still), default=0)
            if cancelled := [place for each in still for place in each.cancelled]:
                async with Admin(**admin_options(bootstrap_server=own_address)) as admin:
                    try:
                        await admin.alter_partition_reassignments(dict.fromkeys(cancelled))
                    except ClientError as failed:
                        if failed.code is not ErrorCode.NO_REASSIGNMENT_IN_PROGRESS:
                            raise
                        elects, again = True, "; another controller will know of these moves: run it again"
            if elects:
                await znodes.elect(store, seen, chroot, epoch_at_least)
                if seen.brokers and not await znodes.wait_for_controller(store, timeout_s, chroot):
                    fail(f"no controller was elected within {timeout_s:g} s: restart no broker before there is one")
    except (OSError, StoreError, ClientError, ValueError) as failed:
        fail(f"not everything could be repaired: {failed}")
    note(f"{format_count(len(still), 'repair')} made{again}")
