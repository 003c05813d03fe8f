"""Metrics, errors, files on disk and znodes: what has a name that people search for."""

from __future__ import annotations

import inspect
from collections.abc import Generator, Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock, patch

import zk.znodes
from deploy.docs.docstrings import cell, markdown, prose
from kafkalite.broker.observation import broker_metrics, controller_metrics, request_metrics, topic_metrics
from kafkalite.broker.observation.exposition import Family
from kafkalite.client import errors as client_errors
from kafkalite.console.znodes import MEANINGS
from kafkalite.errors import ErrorCode

_FILES = {
    "The segment: `.log`": "segments.segment",
    "Its offset index: `.index`": "segments.offset_index",
    "Its time index: `.timeindex`": "segments.time_index",
    "Its aborted transactions: `.txnindex`": "segments.transaction_index",
    "Producers: `.snapshot`": "producers.producer_snapshot",
    "The topic's id: `partition.metadata`": "log.partition_metadata",
    "Checkpoints and `leader-epoch-checkpoint`": "checkpoints",
    "The log directory": "log_directory",
    "`meta.properties`": "meta_properties",
    "Logs on their way between directories: `-future`": "directories.future_logs",
    "Segments that are exchanged: `.cleaned`, `.swap`, `.deleted`": "log.segment_swap",
}


def metric_families() -> list[Family]:
    """Every family, without samples: collected from a broker that is none."""
    broker: Any = MagicMock()
    groups: Any = MagicMock(coordinated=[])
    in_zookeeper: Any = MagicMock(views=[], omitted=0)
    with ExitStack() as without_samples:
        for module in (broker_metrics, controller_metrics, request_metrics):
            without_samples.enter_context(patch.object(module, "histogram_samples", return_value=[]))
        for module in (controller_metrics, topic_metrics):
            without_samples.enter_context(patch.object(module, "finish_with_pauses", _leave_out))
        return list(broker_metrics.all_families(broker, MagicMock(), MagicMock(), groups, in_zookeeper))


def _leave_out(work: object) -> Generator[Family, None, Any]:
    """Stand for `finish_with_pauses`: the work of a broker that is none has no end."""
    return MagicMock()
    yield


def metrics() -> str:
    lines = ["| Metric | Kind | What it is | Name of Apache Kafka's JMX exporter |", "|---|---|---|---|"]
    for each in metric_families():
        old = f"`{each.old_name}`" if each.old_name else ""
        lines.append(f"| `{each.name}` | {each.kind} | {cell(each.help)} | {old} |")
    return (
        "# Metrics\n\nWhat a broker with `kafkalite.http.listener` answers at `/metrics`. Metrics with a second name are "
        "there under both, so dashboards that were made for Apache Kafka find them.\n\n" + "\n".join(lines) + "\n"
    )


def errors() -> str:
    codes = "\n".join(f"| {code.value} | `{code.name}` | {'yes' if code.retriable else ''} |" for code in ErrorCode)
    classes = [
        found
        for found in vars(client_errors).values()
        if inspect.isclass(found) and issubclass(found, Exception) and found.__module__ == client_errors.__name__
    ]
    raised = "\n\n".join(f"### {found.__name__}\n\n{prose(found)}" for found in classes)
    return f"""# Errors

## Codes

What a broker answers with, by Apache Kafka's numbers and names. The same request may succeed later where "again" says yes.

| Code | Name | Again |
|---|---|---|
{codes}

## Exceptions of the Python client

All are a `ClientError`, whose `code` and `name` are those above, and `retriable` what is said there.
[errors.md](../../../../kafkalite/client/errors.md)
says what helps.

{raised}
"""


def files() -> str:
    parts = []
    for title, name in _FILES.items():
        module = import_module(f"kafkalite.storage.{name}")
        parts.append(f"## {title}\n\n{markdown(module.__doc__ or '')}\n")
    return (
        "# Files on disk\n\nEach entry of `log.dirs` has a directory for each partition, `<topic>-<partition>`, with the files of its "
        "segments, "
        "which are named by the offset of their first record. The formats are Apache Kafka's. `kafkalite log dump` shows what is in "
        "a file, `kafkalite log verify` whether it is whole.\n\n" + "\n".join(parts)
    )


def _modules(package: ModuleType) -> Sequence[ModuleType]:
    names = sorted(path.stem for path in Path(package.__file__ or "").parent.glob("*.py"))
    return [import_module(f"{package.__name__}.{name}") for name in names if name not in ("__init__", "fields")]


def znodes() -> str:
    rows = [f"| `{each.path}` | {cell(each.text)} |" for each in MEANINGS]
    parts = []
    for module in _modules(zk.znodes):
        classes = [
            found
            for found in vars(module).values()
            if inspect.isclass(found) and found.__module__ == module.__name__ and not found.__name__.startswith("_")
        ]
        described = "\n".join(f"- **{found.__name__}**: {' '.join(prose(found).split())}" for found in classes)
        parts.append(f"### {module.__name__.rpartition('.')[2]}\n\n{markdown(module.__doc__ or '')}\n\n{described}\n")
    table = "\n".join(rows)
    return f"""# Znodes

Paths are Apache Kafka's, relative to the chroot of `zookeeper.connect`; only what is below `/kafkalite` is ours.
`kafkalite zk tree` shows what is there.

## Paths

Each `*` stands for a name.

| Path | What it is |
|---|---|
{table}

## What is in them

{markdown(zk.znodes.__doc__ or "")}

{"".join(parts)}"""
