"""What all tests share: options and foreign programs. (kafkalite's own pytest plugin puts broker logs into the reports of failures.)"""

from __future__ import annotations

import gc
import os
import shutil
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import NoReturn

import hypothesis
import pytest
from hypothesis.internal.conjecture import providers

from tests.class_data import use_archive
from tests.quick_ends import use_quick_ends
from tests.warm_broker import use_warm_brokers
from tests.warm_zookeeper import use_warm_zookeepers

pytest_plugins = ("tests.processor_time",)

TESTS = Path(__file__).parent
REQUIRE_PEERS = os.environ.get("KAFKALITE_REQUIRE_PEERS") == "1"
"""Continuous integration sets this: a test that is not run for want of a foreign program then fails."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--apache", action="store_true", help="run tests/wire against Apache Kafka instead of kafkalite")
    parser.addoption(
        "--long",
        action="store_true",
        help="at full length what is shortened otherwise: a year of flights, a minute of storm",
    )
    parser.addoption("--seed", type=int, default=1, help="of what tests/system leaves to chance")
    parser.addoption("--rewrite-goldens", action="store_true", help="write what commands print into the transcripts")


hypothesis.settings.register_profile("long", deadline=None)
hypothesis.settings.register_profile(
    "suite", deadline=None, derandomize=True, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
"""The same examples each time, and as slow as the machine is; --long looks for new ones."""


def _without_constants_of_the_source() -> None:
    """Hypothesis mixes constants of whatever project module is imported by then into its examples.

    They would depend on what ran before in a worker; and each worker would read all modules for them, 5 s of processor time.
    """
    if hasattr(providers, "is_local_module_file"):
        providers.is_local_module_file = lambda path: False


def pytest_configure(config: pytest.Config) -> None:
    use_archive()
    use_warm_brokers()
    use_warm_zookeepers()
    use_quick_ends()
    if config.getoption("--long"):
        hypothesis.settings.load_profile("long")
    else:
        hypothesis.settings.load_profile("suite")
        _without_constants_of_the_source()
        config.option.deselect = [*(config.option.deselect or ()), *(f"tests/{name}" for name in _ONLY_LONG)]


@pytest.fixture(scope="session")
def long(request: pytest.FixtureRequest) -> bool:
    """Was --long given? Tests of many records or of random events then take all the time that they can use."""
    return bool(request.config.getoption("--long"))


_LONGEST_FIRST = (
    "simulation/test_simulation.py",
    "system/test_broker_failures.py",
    "containers/test_cluster_contract.py",
    "containers/test_clusters.py",
    "system/test_reassignment.py",
    "system/test_zookeeper_failures.py",
    "containers/test_histories.py",
    "containers/test_ensembles.py",
    "containers/test_examples.py",
    "system/test_old_leaders.py",
    "system/test_groups.py",
    "system",
    "containers",
    "peers/test_drop_in.py",
    "peers/test_legacy_clients.py",
    "peers/test_legacy_admin.py",
    "peers/test_failover.py",
    "deploy/test_runbook.py",
    "ecosystem",
    "peers",
    "deploy",
    "wire",
    "contract",
    "simulation",
)
"""Files and folders that take long: workers that share a run begin with them, so that none is left with one at the end.

The first of them computes for minutes, while others wait.
"""


_ONLY_LONG = (
    "peers/test_object_store.py",
    "peers/test_streams_exactly_once.py",
    "peers/test_swap_under_load.py",
    "peers/test_table_nights.py",
)
"""Files that take minutes whatever they leave out; parts of what they show are tested in others."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave those files out that only `--long` runs; pytest does not ask for files that are named to it, which are deselected."""
    only_long = collection_path.is_relative_to(TESTS) and str(collection_path.relative_to(TESTS)) in _ONLY_LONG
    return True if only_long and not config.getoption("--long") else None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected lives as long as this process: the garbage collector need not walk through all of it again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


_MARKED_FOLDERS = ("containers", "spark", "system")
"""All that is in them has the marker of that name."""


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    rank = {name: number for number, name in enumerate(_LONGEST_FIRST)}

    def place(item: pytest.Item) -> int:
        path = item.path.relative_to(TESTS)
        return rank.get(path.as_posix(), rank.get(path.parts[0], len(rank)))

    for item in items:
        folder = item.path.relative_to(TESTS).parts[0]
        if folder in _MARKED_FOLDERS:
            item.add_marker(folder)
    items.sort(key=place)


@pytest.fixture(scope="module", autouse=True)
def _no_client_is_left_open() -> Iterator[None]:
    """Blocking clients share a thread, which ends with the last of them: one that a module leaves is a fault of that module."""
    yield
    blocking = sys.modules.get("kafkalite.client.blocking.loop_thread")
    shared = blocking.LoopThread._shared if blocking is not None else None
    assert shared is None, f"{shared._users} blocking clients or locks were not closed"


def not_run(reason: str) -> NoReturn:
    """The test lacks what it needs: it is reported as not run, with KAFKALITE_REQUIRE_PEERS=1 as failed."""
    if REQUIRE_PEERS:
        pytest.fail(reason)
    pytest.skip(reason)


def foreign_program(name: str, package: str) -> str:
    """The path of a program that is no part of this project; without it the test is reported as not run.

    With KAFKALITE_REQUIRE_PEERS=1 its absence is a failure.
    """
    path = shutil.which(name)
    if path is not None:
        return path
    not_run(f"{name} is not installed (Debian package {package})")
