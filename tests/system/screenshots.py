"""`python -m tests.system.screenshots` makes the documentation's pictures of the console, in light and dark, of a real cluster.

Three brokers, a shop's records from a producer that goes on, a group that follows and one that lags behind. Pictures are WebP, 30 to
60 kB each. It takes as long as `--seconds` and half a minute: the plots' curves need the time. Each step is told on standard error, and
has a deadline, which says what was waited for.
"""

from __future__ import annotations

import base64
import json
import random
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import click
import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from selenium.webdriver import Chrome

from deploy.docs.drawings.__main__ import PICTURES
from kafkalite.local.cluster import LocalCluster
from tests.system.browser import browser
from tests.system.console_screens import Screens, console

THEMES: Final = ("light", "dark")
SCREENS: Final = (
    ("console-overview", "#/", "Overview"),
    ("console-records", "#/topics/orders/records", "orders"),
    ("console-group", "#/groups/billing", "billing"),
)
TOPICS: Final = {"orders": 6, "payments": 3, "clicks": 6}
SETTINGS: Final = {"offsets.topic.num.partitions": "3", "default.replication.factor": "3", "min.insync.replicas": "2"}
PER_SECOND: Final = 60
SEED: Final = 7
STEP_S: Final = 180.0
"""Deadline of a step, on a machine that is busy."""
_ALARM_AGAIN_S: Final = 2.0
_TELL_EVERY_S: Final = 10.0
_BEGAN_S: Final = time.monotonic()
_SIZE: Final = {"width": 1280, "height": 800, "deviceScaleFactor": 1, "mobile": False}


def tell(line: str) -> None:
    """Print a line of progress, with the seconds since the start."""
    click.echo(f"{time.monotonic() - _BEGAN_S:6.1f} s  {line}", err=True)


@contextmanager
def step(what: str, limit_s: float = STEP_S) -> Iterator[None]:
    """Tell a step. TimeoutError names it when it takes too long, whatever it waits for."""

    def give_up(*_: object) -> None:
        raise TimeoutError(f"{what}: not done within {limit_s:g} s")

    tell(what)
    before = signal.signal(signal.SIGALRM, give_up)
    # More than once, because an event loop catches what is raised in its callbacks.
    signal.setitimer(signal.ITIMER_REAL, limit_s, _ALARM_AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def produce(servers: str, stopped: threading.Event) -> None:
    """Write a shop's records until that is over."""
    chance = random.Random(SEED)
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "linger.ms": 20})
    number = 10_000
    while not stopped.wait(1 / PER_SECOND):
        number += 1
        customer = f"c-{chance.randrange(400):03d}"
        order = {
            "order": number,
            "customer": customer,
            "total": round(chance.lognormvariate(3.4, 0.7), 2),
            "currency": "EUR",
        }
        producer.produce("orders", json.dumps(order), customer, headers=[("source", b"shop")])
        if chance.random() < 0.8:
            producer.produce("payments", json.dumps({"order": number, "paid": order["total"]}), customer)
        for _ in range(chance.randrange(4)):
            producer.produce(
                "clicks", json.dumps({"customer": customer, "page": f"/item/{chance.randrange(90)}"}), customer
            )
        producer.poll(0)
    producer.flush(30)


def consume(servers: str, group: str, topics: list[str], rate: float, stopped: threading.Event) -> None:
    """Follow topics as a member of a group, so many records a second at most."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": group, "client.id": f"{group}-1", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(topics)
    while not stopped.is_set():
        if consumer.poll(0.2) is not None:
            stopped.wait(1 / rate)
    consumer.close()


@contextmanager
def shop() -> Iterator[LocalCluster]:
    """A cluster on which something is going on."""
    cluster = LocalCluster(brokers=3, first_broker_id=101, properties=SETTINGS, start_timeout_s=STEP_S)
    stopped, threads = threading.Event(), list[threading.Thread]()
    try:
        with step("three brokers are started"):
            cluster.start(tell)
        servers = cluster.bootstrap_servers
        with step(f"topics are created: {', '.join(TOPICS)}"):
            admin = AdminClient({"bootstrap.servers": servers})
            created = admin.create_topics([NewTopic(name, partitions, 3) for name, partitions in TOPICS.items()])
            for future in created.values():
                future.result()
        threads += [
            threading.Thread(target=produce, args=(servers, stopped)),
            threading.Thread(target=consume, args=(servers, "billing", ["orders", "payments"], 70, stopped)),
            threading.Thread(target=consume, args=(servers, "recommendations", ["clicks"], 5000, stopped)),
        ]
        for thread in threads:
            thread.start()
        yield cluster
    finally:
        stopped.set()
        with step("the shop is closed, and the brokers are stopped"):
            for thread in threads:
                thread.join()
            cluster.close()


def run_shop(seconds: float) -> None:
    """Wait while the shop runs, which gives the plots their curves."""
    end_s = time.monotonic() + seconds
    while (left_s := end_s - time.monotonic()) > 0:
        tell(f"the shop runs for the plots' curves: {left_s:.0f} s to go (--seconds {seconds:g})")
        time.sleep(min(left_s, _TELL_EVERY_S))  # that is what is asked for


def take(chrome: Chrome, screens: Screens, folder: Path) -> Iterator[Path]:
    """Take every screen in both themes."""
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", _SIZE)
    chrome.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
    for name, place, heading in SCREENS:
        with step(f"the screen {place} has its rows"):
            screens.open(place, heading)
            screens.page.wait(lambda: screens.page.texts("tbody tr") != [], "rows", STEP_S)
        for theme in THEMES:
            screens.prefer(theme)
            taken = chrome.execute_cdp_cmd("Page.captureScreenshot", {"format": "webp", "quality": 80})
            path = folder / f"{name}-{theme}.webp"
            path.write_bytes(base64.b64decode(taken["data"]))
            yield path


@click.command(help=__doc__)
@click.option(
    "--seconds", default=150.0, show_default=True, help="So long the shop runs before, to have plots with curves."
)
@click.option("--folder", type=click.Path(path_type=Path, exists=True), default=PICTURES, help="For the pictures.")
def main(seconds: float, folder: Path) -> None:
    with ExitStack() as stack:
        temporary = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        cluster = stack.enter_context(shop())
        with step("the console is started"):
            address = stack.enter_context(console(cluster, temporary))
        run_shop(seconds)
        with step("a browser is started, and loads the console"):
            chrome = stack.enter_context(browser(temporary / "chromium"))
            screens = Screens(chrome, address, temporary)
        for path in take(chrome, screens, folder):
            click.echo(f"{path}: {path.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
