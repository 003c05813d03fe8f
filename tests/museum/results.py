"""What was shown on this machine, kept in `$XDG_CACHE_HOME/kafkalite/museum/results.json`, and the table of it."""

from __future__ import annotations

import fcntl
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.museum.contract import Exhibit, exhibits
from tests.museum.environments import cache_folder
from tests.museum.features import FEATURES

AGAINST: Final = {"ours": "kafkalite", "kafka-3.9": "Apache Kafka 3.9.1", "kafka-4": "Apache Kafka 4.1.0"}

_HEAD: Final = """# Clients and what they can do

Written by `python -m tests.museum --against ours --against kafka-3.9 --against kafka-4 --table tests/museum/TABLE.md`: every client
does the same with each of the three, all live; what it writes is read by confluent-kafka, and what it reads was written by it.
`tests/museum/contract.py` tells how a client is added, `tests/museum/features.py` what a feature is made of.

| Mark | Meaning |
|---|---|
| ✓ | works on all three |
| ✓³ | works here and on Apache Kafka 3.9.1, not on 4.1.0 |
| (✓) | works here and on Apache Kafka 3.9.1, not shown on 4.1.0 |
| = | works neither here nor on a live 3.9.1: see below |
| **✗** | works on a live 3.9.1 and not here |
| + | works here, and not on a live 3.9.1 |
| | the client does not have it |

"""


_NOT_SHOWN: Final = (
    (
        "kcl, topicctl",
        "the Go module proxy answers 403, to versions by name too",
        "franz-go and kafka-go, which they are made of",
    ),
    (
        "kafkactl, kafka_exporter",
        "likewise",
        "what they ask by Sarama, which they are made of; Burrow, of Debian: `tests/ecosystem/TABLE.md`",
    ),
    (
        "Cruise Control",
        "not in Maven Central; its metrics reporter is a plugin of Java's brokers",
        "Kafka's own tools, which ask the same by Java's admin client: `tests/peers/test_moving_tools.py`",
    ),
)
"""Tools, why they could not be had, and what stands in for them."""


def _mark(shown: Mapping[str, Mapping[str, str]], feature: str) -> str:
    """`shown` is by cluster; what was not shown says nothing."""
    outcomes = [shown.get(against, {}).get(feature) for against in AGAINST]
    if outcomes[0] is None or outcomes[1] is None:
        return "?"
    ours, apache, kafka_4 = (None if each is None else not each for each in outcomes)
    if not ours:
        return "**✗**" if apache else "="
    if not apache:
        return "+"
    return {True: "✓", False: "✓³", None: "(✓)"}[kafka_4]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |\n"


def _short(text: str) -> str:
    """One line without what differs from run to run."""
    text = re.sub(r"\s+", " ", text).replace("|", "/")
    text = re.sub(r"-[0-9a-f]{8}\b", "", re.sub(r"127\.0\.0\.1:\d+", "HOST:PORT", text))
    text = re.sub(r"(?<![\w.])[\w./-]*/(?=[\w-]+\.py\b)", "", text)
    return text[:160]


class Results:
    """By exhibit, cluster and feature: an empty text, or what went wrong."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or cache_folder() / "results.json"
        self._kept: dict[str, dict[str, dict[str, str]]] = {}
        self._read()

    def _read(self) -> None:
        if self._path.exists():
            self._kept = json.loads(self._path.read_text())

    def keep(self, exhibit: str, against: str, shown: Mapping[str, str]) -> None:
        """Add to what this run and others have kept."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._read()
            self._kept.setdefault(exhibit, {}).setdefault(against, {}).update(shown)
            self._path.write_text(json.dumps(self._kept, indent=1, sort_keys=True))

    def table(self) -> str:
        """All clients, as Markdown, and what went wrong where."""
        known = exhibits()
        text = _HEAD + _row(["Client", "Version", *FEATURES]) + _row(["---"] * (len(FEATURES) + 2))
        for each in known:
            shown = self._kept.get(each.name, {})
            cells = [_mark(shown, name) if name in each.features else "" for name in FEATURES]
            version = f"{each.version} ({each.variant})" if each.variant else each.version
            text += _row([each.client, version, *cells])
        lines = [line for each in known for line in self._failures(each)]
        if lines:
            text += "\n## What does not work\n\n" + _row(["Client", "Feature", *AGAINST.values()]) + _row(["---"] * 5)
        text += "".join(lines) + "\n## What is not shown\n\n"
        return text + "".join(map(_row, (("Tool", "Why", "What stands in for it"), ["---"] * 3, *_NOT_SHOWN)))

    def _failures(self, exhibit: Exhibit) -> list[str]:
        shown = self._kept.get(exhibit.name, {})
        found: dict[tuple[str, ...], list[str]] = {}
        for name in exhibit.features:
            outcomes = tuple(_short(shown.get(against, {}).get(name, "not shown")) for against in AGAINST)
            if any(shown.get(against, {}).get(name) for against in AGAINST):
                found.setdefault(outcomes, []).append(name)
        return [
            _row([exhibit.name, ", ".join(names), *(each or "✓" for each in outcomes)])
            for outcomes, names in found.items()
        ]
