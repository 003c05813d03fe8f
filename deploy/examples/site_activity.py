"""Tracking of a site's activity: every click is a record, and everybody who wants to know something of them reads all of them.

    python site_activity.py visit --visitors 20     # the site: clicks of some visitors
    python site_activity.py popular                 # the most viewed pages, as they change
    python site_activity.py journeys                # what each visitor looked at, in order

The visitor is the key, so the clicks of one are in one partition and stay in their order. `popular` and `journeys` are groups of their
own: neither takes records from the other, and each may be started several times to share the work.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

from needs import cluster_at

from kafkalite.client import SyncConsumer, SyncProducer

TOPIC = "example-page-views"
PAGES = ("/", "/search", "/product", "/basket", "/checkout")


def visit(servers: str, visitors: int, seed: int = 0) -> int:
    """Each visitor looks at some pages, in turn with the others; how many clicks there were."""
    chance = random.Random(seed)
    left = {f"visitor-{number}": chance.randrange(2, 9) for number in range(visitors)}
    clicks = 0
    with SyncProducer(
        bootstrap_servers=servers, key_serializer="str", value_serializer="json", linger_ms=5
    ) as producer:
        while left:
            visitor = chance.choice(list(left))
            producer.send(TOPIC, {"page": chance.choice(PAGES), "click": clicks}, key=visitor)
            clicks += 1
            left[visitor] -= 1
            if not left[visitor]:
                del left[visitor]
    return clicks


def _views(servers: str, group: str, count: int | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Visitor and view, from the beginning or from where the group was."""
    with SyncConsumer(
        TOPIC,
        bootstrap_servers=servers,
        group_id=group,
        auto_offset_reset="earliest",
        key_deserializer="str",
        value_deserializer="json",
    ) as consumer:
        for record in islice(consumer, count):
            yield record.key, record.value


def popular(servers: str, count: int | None = None) -> Counter[str]:
    """How often each page was viewed, by `count` clicks."""
    views: Counter[str] = Counter()
    for number, (_, view) in enumerate(_views(servers, "example-popular", count), 1):
        views[view["page"]] += 1
        if number % 20 == 0:
            print(", ".join(f"{page} {times}" for page, times in views.most_common()))
    return views


def journeys(servers: str, count: int | None = None) -> dict[str, list[int]]:
    """The clicks of each visitor in order."""
    found: dict[str, list[int]] = {}
    for visitor, view in _views(servers, "example-journeys", count):
        found.setdefault(visitor, []).append(view["click"])
        print(f"{visitor} looks at {view['page']}")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("visit", "popular", "journeys"))
    parser.add_argument("--bootstrap-server", default="localhost:9092")
    parser.add_argument("--visitors", type=int, default=20)
    parser.add_argument("--count", type=int, help="end after so many clicks; without it go on until Ctrl-C")
    given = parser.parse_args()
    with cluster_at(given.bootstrap_server, TOPIC):
        if given.what == "visit":
            print(visit(given.bootstrap_server, given.visitors), "clicks")
        else:
            {"popular": popular, "journeys": journeys}[given.what](given.bootstrap_server, given.count)
