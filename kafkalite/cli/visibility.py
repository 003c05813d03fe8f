"""Waiting until every broker shows a change of the controller: brokers learn of topics one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kafkalite.cli.progress import wait_until_done
from kafkalite.types import NO_BROKER

if TYPE_CHECKING:
    from kafkalite.client.admin.topics import TopicAdmin


async def until_seen(admin: TopicAdmin, partitions: Mapping[str, int], timeout_s: float) -> None:
    """Wait until every broker has these topics, with at least so many partitions (0: none at all), each with a leader.

    Exceeding the time limit ends the command.
    """
    brokers = [broker.id for broker in (await admin.describe_cluster()).brokers]

    async def find_remaining() -> list[str]:
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
    await wait_until_done("brokers that know of it", items, find_remaining, timeout_s)
