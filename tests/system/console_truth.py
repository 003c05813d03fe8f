"""What the console says when a broker hangs or is killed, and when ZooKeeper is lost: the truth, within three seconds."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
from collections.abc import Callable
from typing import Any

from kafkalite.local.cluster import LocalCluster
from tests.system.console_screens import Screens


def shows_within_three_seconds(screens: Screens, is_told: Callable[[dict[str, Any]], bool]) -> None:
    """Every answer of the console that is as of three seconds from now tells it. Waits for the first one that does."""
    since_ms = time.time() * 1000
    deadline_s = time.monotonic() + 60
    while True:
        assert time.monotonic() < deadline_s, "no answer of the console is young enough"
        with urllib.request.urlopen(f"{screens.address}api/overview", timeout=60) as response:
            found = json.load(response)
        known_ms = min(each["time_ms"] for each in found["as_of"] if each["name"].startswith(("brokers", "leaders")))
        assert is_told(found) or known_ms < since_ms + 3000, found
        if known_ms >= since_ms and is_told(found):
            return


def state_of(overview: dict[str, Any], broker: int) -> str:
    (found,) = [each["state"] for each in overview["brokers"] if each["id"] == broker]
    return str(found)


def what_is_lost_is_told(screens: Screens, cluster: LocalCluster) -> None:
    """A broker that is there and answers nobody, and a ZooKeeper that is lost."""

    def zookeeper_answers(overview: dict[str, Any]) -> bool:
        (found,) = [each["healthy"] for each in overview["health"] if each["check"] == "ZooKeeper answers"]
        return bool(found)

    screens.open("#/", "Overview")
    screens.has("2 of 2", "✓ brokers answer", "✓ ZooKeeper answers")
    slow = max(cluster.broker_ids)
    cluster.pause(slow)
    try:
        shows_within_three_seconds(screens, lambda found: state_of(found, slow) in ("silent", "down"))
        screens.has("1 of 2", "✕ brokers")
        screens.keep("hangs")
    finally:
        cluster.unpause(slow)
    screens.has("2 of 2", "✓ brokers answer", "✓ ZooKeeper answers")
    assert cluster.ensemble is not None
    asyncio.run(cluster.ensemble.kill(1))
    shows_within_three_seconds(screens, lambda found: not zookeeper_answers(found))
    screens.has("✕ ZooKeeper answers", "2 of 2")
    screens.keep("without-zookeeper")
    asyncio.run(cluster.ensemble.start_member(1, 60.0))
    screens.has("✓ ZooKeeper answers")


def a_killed_broker_is_not_up(screens: Screens, cluster: LocalCluster) -> None:
    """No answer that is as of three seconds after the kill has it up; nor has the page when it has such an answer."""
    screens.open("#/", "Overview")
    screens.has("2 of 2", "✓ brokers answer", "✓ ZooKeeper answers", "as of ")
    killed_id = max(cluster.broker_ids)
    cluster.kill(killed_id)
    shows_within_three_seconds(screens, lambda found: state_of(found, killed_id) in ("silent", "down"))
    screens.has("1 of 2", "✕ brokers")
    screens.keep("killed")
    screens.open("#/topics/orders", "orders")
    screens.has("Partitions", "as of ")
    cluster.kill(min(cluster.broker_ids))
    screens.open("#/", "Overview")
    screens.has("⚠ leaders and in-sync replicas as of ", "? offline partitions")
    screens.keep("late")
