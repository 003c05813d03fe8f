"""What the programs beside this file need, and one line for each thing that is away. No program: the others import it."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    from kafkalite.client import AdminError, ErrorCode, NewTopic, NoBrokersAvailableError, SyncAdmin
except ImportError as missing:
    raise SystemExit(f"{missing.name} is missing: pip install kafkalite") from None

PATIENCE_MS = 5000


@contextmanager
def cluster_at(servers: str, *topics: str) -> Iterator[None]:
    """End the program in one line when no cluster answers, and quietly at Ctrl-C. Those of its topics that are missing are made."""
    try:
        with SyncAdmin(bootstrap_servers=servers, request_timeout_ms=PATIENCE_MS) as admin:
            there = admin.list_topics()
            make_missing(admin, *(NewTopic(each) for each in topics if each not in there))
        yield
    except NoBrokersAvailableError:
        raise SystemExit(
            f"no cluster answers at {servers}: start one (kafkalite cluster up --brokers 1 --base-port 9092), or give --bootstrap-server"
        ) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def make_missing(admin: SyncAdmin, *wanted: NewTopic) -> None:
    """Make topics; those that are there stay as they are."""
    try:
        admin.create_topics(wanted)
    except AdminError as problem:
        if any(each.code != ErrorCode.TOPIC_ALREADY_EXISTS for each in problem.failures.values()):
            raise


def require_same_partitions(admin: SyncAdmin, *topics: str) -> None:
    """End the program in one line when topics that are to be joined have different numbers of partitions."""
    counts = {each.name: len(each.partitions) for each in admin.describe_topics(topics)}
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{name} has {count}" for name, count in counts.items())
        raise SystemExit(f"these need the same number of partitions, and {told}: delete one, and it is made again")


def require(module: str, install: str) -> None:
    """End the program in one line when a package is not installed."""
    if importlib.util.find_spec(module) is None:
        raise SystemExit(f"{module} is missing: {install}")


def require_java() -> None:
    """End the program in one line when there is no Java, on which Spark runs."""
    home = os.environ.get("JAVA_HOME")
    if not (home and Path(home, "bin", "java").exists()) and shutil.which("java") is None:
        raise SystemExit("Spark needs Java 17 or newer: apt-get install openjdk-17-jre-headless, or JAVA_HOME at one")
