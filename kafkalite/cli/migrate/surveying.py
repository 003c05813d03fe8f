"""Asks a cluster what `kafkalite migrate` has to know, for its commands: what cannot be reached ends them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkalite.cli.admin_call import ask_cluster
from kafkalite.cli.calls import admin_options, given_timeout_s
from kafkalite.cli.doctor.findings import Finding
from kafkalite.cli.output import Exit, fail
from kafkalite.cli.zookeeper.session import zookeeper_limits, zookeeper_security

if TYPE_CHECKING:
    from kafkalite.cli.migrate.survey import Survey
    from kafkalite.client import Admin


def list_areas(target: str, zookeeper: str) -> dict[str, Callable[[], list[Finding]]]:
    """Return the function that looks, by area, by name. The cluster is asked once for the last two."""
    import asyncio
    from functools import cache

    from kafkalite.cli.doctor import areas
    from kafkalite.cli.migrate import checks
    from kafkalite.cli.migrate.survey import Side

    timeout_s, security, limits = given_timeout_s(), zookeeper_security(), zookeeper_limits()
    side = Side(target)
    survey = cache(lambda: survey_cluster(zookeeper))
    return {
        "zookeeper": lambda: asyncio.run(areas.check_zookeeper(zookeeper, timeout_s, security, limits)),
        "znodes": lambda: asyncio.run(areas.check_znodes(zookeeper, timeout_s, security, limits)),
        "cluster": lambda: asyncio.run(areas.check_cluster("", timeout_s)),
        "disks": lambda: asyncio.run(areas.check_disks("")),
        "brokers": lambda: list(checks.judge_brokers(survey(), side)),
        "metadata": lambda: list(checks.judge_metadata(survey(), side)),
    }


def survey_cluster(zookeeper: str) -> Survey:
    """Return the survey of brokers and ZooKeeper. What cannot be reached ends the command."""
    import asyncio
    from dataclasses import replace

    from kafkalite.cli.doctor.cluster import security_options
    from kafkalite.cli.doctor.zookeeper import open_store
    from kafkalite.cli.migrate.survey import SurveyedMetadata, survey_brokers, survey_metadata
    from zk.store import StoreError

    timeout_s = given_timeout_s()
    options = security_options(admin_options())

    async def look_at_brokers(admin: Admin) -> Survey:
        return await survey_brokers(admin, options, timeout_s)

    async def look_at_zookeeper() -> SurveyedMetadata:
        async with open_store(zookeeper, timeout_s, zookeeper_security()) as (store, chroot):
            return await survey_metadata(store, chroot)

    found = ask_cluster(look_at_brokers)
    try:
        return replace(found, metadata=asyncio.run(look_at_zookeeper()))
    except ValueError as failed:
        fail(str(failed), Exit.USAGE)
    except (OSError, StoreError) as failed:
        fail(f"ZooKeeper at {zookeeper}: {failed}", Exit.UNREACHABLE)
