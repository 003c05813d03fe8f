"""How long a person waits for the console: three seconds for the truth where a broker is killed, hangs or is slow or ZooKeeper is lost, on
every screen.

The limit is on what the page shows. `console_truth` holds the console's answers to the same limit by their own times, also on a busy
machine.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Final

import pytest
from selenium.webdriver import Chrome

from kafkalite.client import NewTopic, SyncAdmin, SyncProducer
from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.types import OFFSETS_TOPIC, TopicPartition
from tests.case import case
from tests.system.browser import browser
from tests.system.console_roles import SCREENS, Screen
from tests.system.console_screens import Screens, console

pytestmark = [pytest.mark.system, pytest.mark.timing, pytest.mark.timeout(300)]

TRUTH_S: Final = 3.0
SETTINGS: Final = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "log.retention.hours": "-1",
    "auto.leader.rebalance.enable": "false",
    "zookeeper.session.timeout.ms": "60000",
}
DELAYED: Final = (
    *("METADATA", "LIST_OFFSETS", "DESCRIBE_CONFIGS", "FETCH", "LIST_GROUPS", "OFFSET_FETCH", "DESCRIBE_GROUPS"),
    *("DESCRIBE_LOG_DIRS", "FIND_COORDINATOR", "LIST_TRANSACTIONS", "DESCRIBE_TRANSACTIONS", "DESCRIBE_ACLS"),
)
DELAY_S: Final = 1.3
OTHER_TEXTS: Final = {
    "Overview": ("Brokers up", "✓ controller"),
    "Brokers": (" controller", "None."),
    "Access": ("No Authorizer",),
    "Timeline": ("What has changed",),
}
"""Texts of screens that show something else here than in the table of roles."""


@pytest.fixture(scope="module")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    with browser(tmp_path_factory.mktemp("chromium")) as found:
        yield found


@pytest.fixture(scope="module")
def shop(chrome: Chrome, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalCluster, Screens]]:
    """Two brokers with records, a group and a transaction, and a console that knows them."""
    folder = tmp_path_factory.mktemp("console")
    with LocalCluster(brokers=2, properties=SETTINGS, faults=True) as cluster:
        servers = cluster.bootstrap_servers
        with SyncAdmin(bootstrap_servers=servers) as admin:
            wait_until(lambda: is_coordinated(admin), "the topic of offsets", 60)
            leader = cluster.leader_of(OFFSETS_TOPIC)
            (follower,) = set(cluster.broker_ids) - {leader}
            admin.create_topics([NewTopic("orders", replica_assignments={0: [leader, follower]})])
            with SyncProducer(bootstrap_servers=servers, transactional_id="paid") as producer:
                producer.init_transactions()
                producer.begin_transaction()
                producer.send_and_wait("orders", b"an order", partition=0)
                producer.commit_transaction()
            admin.alter_group_offsets("readers", {TopicPartition("orders", 0): 1})
        with console(cluster, folder) as address:
            screens = Screens(chrome, address, folder)
            screens.open("#/groups", "Groups")
            screens.has("readers")
            yield cluster, screens


def is_coordinated(admin: SyncAdmin) -> bool:
    """Ask for a group, so that brokers make the topic of offsets; True once there is one."""
    admin.describe_groups(["readers"])
    return OFFSETS_TOPIC in admin.list_topics(include_internal=True)


def wait_well(screens: Screens) -> None:
    """Wait for the overview of a cluster that is well."""
    screens.open("#/", "Overview")
    screens.has("2 of 2", "✓ brokers answer", "✓ ZooKeeper answers")


def shows_in_time(screens: Screens, since_s: float, is_true: Callable[[str], bool], what: str) -> None:
    """Wait until the page shows it. TimeoutError says what it showed instead at the end of the time."""
    screens.page.wait(lambda: is_true(screens.text()), what, TRUTH_S - (time.monotonic() - since_s))


def show_screen(screens: Screens, screen: Screen, of: str, reason: str) -> None:
    """Open a screen; in time it shows what it has, or why not."""
    texts = OTHER_TEXTS.get(screen.title, screen.shows)
    since_s = time.monotonic()
    screens.chrome.execute_script("location.hash = arguments[0]", screen.place.format(of=of))

    def is_true(shown: str) -> bool:
        return reason in shown or all(each in shown for each in texts)

    screens.page.wait(
        lambda: screens.page.texts("h1") == [screen.heading.replace("Broker 1", f"Broker {of}")], "heading"
    )
    shows_in_time(screens, since_s, is_true, f"{texts}, or {reason}")


def test_every_screen_with_a_broker_that_hangs_or_is_slow(shop: tuple[LocalCluster, Screens]) -> None:
    """It leads a partition, and coordinates the group and the transactions."""
    cluster, screens = shop
    wait_well(screens)
    troubled = cluster.leader_of(OFFSETS_TOPIC)
    since_s = time.monotonic()
    for api in DELAYED:
        cluster.faults.delay(api, DELAY_S, broker_id=troubled, times=None)
    shows_in_time(screens, since_s, lambda shown: f"{troubled}\tslow" in shown or "1 of 2" in shown, "a slow broker")
    for screen in SCREENS:
        with case(("slow", screen.title)):
            show_screen(screens, screen, str(troubled) if screen.of == "1" else screen.of, f"broker {troubled} ")
    cluster.faults.clear()
    wait_well(screens)
    since_s = time.monotonic()
    cluster.pause(troubled)
    try:
        shows_in_time(screens, since_s, lambda shown: "1 of 2" in shown and "✕ brokers" in shown, "a broker that hangs")
        for screen in SCREENS:
            with case(("hangs", screen.title)):
                reason = f"broker {troubled} does not answer"
                show_screen(screens, screen, str(troubled) if screen.of == "1" else screen.of, reason)
    finally:
        cluster.unpause(troubled)


def test_the_page_after_a_kill_and_after_the_loss_of_zookeeper(shop: tuple[LocalCluster, Screens]) -> None:
    cluster, screens = shop
    wait_well(screens)
    assert cluster.ensemble is not None
    since_s = time.monotonic()
    cluster.kill(cluster.leader_of(OFFSETS_TOPIC))
    shows_in_time(screens, since_s, lambda shown: "1 of 2" in shown and "✕ brokers" in shown, "a killed broker")
    since_s = time.monotonic()
    asyncio.run(cluster.ensemble.kill(1))
    shows_in_time(screens, since_s, lambda shown: "✕ ZooKeeper answers" in shown, "that ZooKeeper is lost")
