"""What the programs did on this machine, kept in `$XDG_CACHE_HOME/kafkalite/ecosystem/outcomes.json`, and the table of it."""

from __future__ import annotations

import fcntl
import json
from typing import Final

from tests.ecosystem.contract import Program, programs
from tests.museum.environments import cache_folder

_AGAINST: Final = {"ours": "kafkalite", "kafka-3.9": "Apache Kafka 3.9.1"}
_HEAD: Final = """# Programs of the field

Written by `python -m tests.ecosystem --all --against ours --against kafka-3.9`: each program comes from the registry of its
language or from Debian, unchanged, and does the same on both. `tests/ecosystem/contract.py` tells how one is added. Clients by
themselves, from 0.8.2 to today, are in `tests/museum/TABLE.md`.

"""
_NOT_SHOWN: Final = (
    (
        "kafka_exporter, kafkactl, kcl, topicctl",
        "the Go module proxy has their libraries only, and Debian does not have them",
    ),
    (
        "kaf, kminion, Redpanda Connect, Redpanda Console",
        "the Go module proxy does not have them; Benthos, which Redpanda Connect was called before, is above",
    ),
    ("Kafdrop", "not on Maven Central"),
    ("Karapace", "not on PyPI"),
    ("AKHQ, kafka-ui, ksqlDB, Logstash, Vector", "published as images, archives or repositories of their own"),
    ("Fluentd", "its plugin for Kafka is on RubyGems, which the tests do not use"),
)


class Outcomes:
    """By program and cluster: the version, and an empty text or what went wrong."""

    def __init__(self) -> None:
        self._path = cache_folder().with_name("ecosystem") / "outcomes.json"
        self._kept: dict[str, dict[str, list[str]]] = {}
        self._read()

    def _read(self) -> None:
        if self._path.exists():
            self._kept = json.loads(self._path.read_text())

    def keep(self, program: Program, against: str, problem: str) -> None:
        """Add to what this run and others have kept."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._read()
            self._kept.setdefault(program.name, {})[against] = [program.version, problem]
            self._path.write_text(json.dumps(self._kept, indent=1, sort_keys=True))

    def _cell(self, program: Program, against: str) -> str:
        if program.only_ours and against != "ours":
            return ""
        version, problem = self._kept.get(program.name, {}).get(against, ["", ""])
        if version != program.version:
            return "not shown"
        return "**✗** " + " ".join(problem.replace("|", "/").split())[:160] if problem else "✓"

    def table(self) -> str:
        """As Markdown."""
        lines = [("Program", "Version", "What was tried", *_AGAINST.values()), ("---",) * 5]
        for each in programs():
            lines.append((each.title, each.version, each.tried, *(self._cell(each, against) for against in _AGAINST)))
        text = _HEAD + "".join(f"| {' | '.join(line)} |\n" for line in lines)
        return text + "\n| Not shown | Why |\n| --- | --- |\n" + "".join(f"| {a} | {b} |\n" for a, b in _NOT_SHOWN)
