"""Which pages the site has, in order, and where each comes from: a page has one home, mostly beside the code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from deploy.docs import api_reference, command_reference, names_reference, settings_reference
from deploy.docs.reference import Reference

OWN: Final = "deploy/docs/pages"


class Page(NamedTuple):
    """`place` is where it lies in the site, without suffix; `origin` the file in the repository that it is, or the function that makes it.
    `below` are the pages under it in the navigation.

    Pages link to each other as their origins lie; a page that is made has its place below `deploy/docs/pages`.
    """

    place: str
    origin: str | Callable[[], str]
    below: tuple[Page, ...] = ()

    @property
    def path(self) -> str:
        """What links to it name, from the top of the repository."""
        return self.origin if isinstance(self.origin, str) else f"{OWN}/{self.place}.md"


def _own(*places: str) -> list[Page]:
    return [Page(place, f"{OWN}/{place}.md") for place in places]


def _made(place: str, made: Reference) -> Page:
    """A page that is made of the code, with a page below it for each of its parts."""
    parts = (Page(f"{place}/{name}", text) for name, text in made.parts.items())
    return Page(place, made.text, tuple(parts))


INDEX: Final = Page("index", "README.md")

SECTIONS: Final[Mapping[str, list[Page]]] = {
    "Begin": [
        *_own("start/tutorial", "start/install", "start/commands"),
        Page("start/examples", "deploy/examples/README.md"),
    ],
    "Operate": [
        *_own("howto/deploy", "reference/configuration", "howto/secure"),
        *_own("howto/monitoring", "howto/console", "howto/troubleshooting"),
        Page("howto/runbook", "deploy/RUNBOOK.md"),
        *_own("howto/move-partitions", "howto/back-up-zookeeper", "howto/from-apache-kafka", "howto/to-kafka-4"),
    ],
    "Clients": [
        *_own("howto/clients"),
        Page("client/overview", "kafkalite/client/README.md"),
        Page("client/producer", "kafkalite/client/producer.md"),
        Page("client/consumer", "kafkalite/client/consumer.md"),
        Page("client/admin", "kafkalite/client/admin.md"),
        Page("client/errors", "kafkalite/client/errors.md"),
    ],
    "Spark": [
        Page("client/dataframes", "spark_jobs/source.md"),
        *_own("howto/spark-nightly", "howto/watch-nights", "howto/spark-tables"),
        Page("howto/spark-clusters", "deploy/spark/README.md"),
    ],
    "Test": _own("howto/pytest", "howto/testcontainers"),
    "Reference": [
        _made("reference/commands", command_reference.our_commands()),
        _made("reference/kafka-tools", command_reference.kafka_tools()),
        Page("reference/broker-settings", settings_reference.broker_settings),
        Page("reference/topic-settings", settings_reference.topic_settings),
        Page("reference/client-settings", settings_reference.client_settings),
        _made("reference/client-api", api_reference.client()),
        _made("reference/testing-api", api_reference.testing()),
        Page("reference/metrics", names_reference.metrics),
        Page("reference/errors", names_reference.errors),
        Page("reference/files", names_reference.files),
        Page("reference/znodes", names_reference.znodes),
    ],
    "Explanations": [
        *_own("explain/architecture", "explain/elections", "explain/differences"),
        Page("explain/promises", "kafkalite/PROMISES.md"),
        Page("explain/security-model", "kafkalite/SECURITY_MODEL.md"),
        Page("explain/design", "kafkalite/DESIGN.md"),
        Page("explain/compatibility", "tests/museum/TABLE.md"),
        Page("explain/programs", "tests/ecosystem/TABLE.md"),
        *_own("explain/benchmarks"),
        Page("explain/results", "tests/bench/RESULTS.md"),
        Page("explain/failover", "tests/bench/FAILOVER.md"),
        Page("explain/growth", "tests/bench/GROWTH.md"),
        Page("explain/many-partitions", "tests/bench/SCALE.md"),
        Page("explain/memory", "tests/bench/MEMORY.md"),
    ],
    "Decisions": _own(
        "decisions/about",
        "decisions/zookeeper",
        "decisions/one-event-loop",
        "decisions/one-compiled-module",
        "decisions/schemas-as-a-table",
        "decisions/request-bounds",
        "decisions/unauthenticated-connections",
        "decisions/produce-fast-path",
        "decisions/blocking-clients",
        "decisions/reading-logs",
        "decisions/log-summaries",
        "decisions/record-digests",
        "decisions/old-message-formats",
        "decisions/coordinators",
        "decisions/failure-detection",
        "decisions/early-session-end",
        "decisions/controller-takeover",
        "decisions/migration",
        "decisions/mirror",
        "decisions/simulation",
        "decisions/test-clusters",
        "decisions/observing",
        "decisions/spark",
        "decisions/foreign-code",
        "decisions/documentation",
        "decisions/name",
    ),
    "The project": [
        Page("project/contributing", ".github/CONTRIBUTING.md"),
        Page("project/security", ".github/SECURITY.md"),
        Page("project/changes", "CHANGES.md"),
        *_own("project/versions", "project/layout", "project/where-to-change"),
        Page("project/tests", "tests/README.md"),
    ],
}

MOVED: Final[Mapping[str, str]] = {
    "howto/first-errors": "howto/troubleshooting",
    "howto/monitor": "howto/monitoring",
}
"""Old places of pages, with those where they are now: links to the old ones lead on."""

PAGES: Final = (INDEX, *(page for pages in SECTIONS.values() for above in pages for page in (above, *above.below)))
