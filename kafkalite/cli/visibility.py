"""Waiting until every broker shows what the controller has done: brokers hear of topics one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kafkalite.cli.progress import wait_until_done
from kafkalite.types import NO_BROKER

if TYPE_CHECKING:
    from kafkalite.client import Admin


async def until_seen(admin: Admin, partitions: Mapping[str, int], timeout_s: float) -> None:
    """Until every broker tells of these topics, with so many partitions at least (0: none at all), each with a leader.

    Ends the command when the time is up.
    """
    brokers = [broker.id for broker in (await admin.describe_cluster()).brokers]

    async def left() -> list[str]:
        missing = []
        for broker in brokers:
            seen = await admin.describe_topics_at(broker, partitions)
            for name, count in partitions.items():
                found = seen[name].partitions if name in seen else ()
                led = sum(each.leader != NO_BROKER for each in found)
                if found if count == 0 else led < count:
                    missing.append(f"{name} at broker {broker}")
        return missing

    items = [f"{name} at broker {broker}" for broker in brokers for name in partitions]
    await wait_until_done("brokers that know of it", items, left, timeout_s)
