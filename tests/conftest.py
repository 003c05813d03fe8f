"""What all tests share: order and grouping for parallel runs, foreign programs, and broker logs in reports of failures.

With pytest-xdist (`--dist loadgroup`) the tests that run many processes form one group each and come first, so that they
share no more than one processor with each other; every other file is a group of its own and keeps its fixtures to itself.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Generator

import pytest

REQUIRE_PEERS = os.environ.get("KAFKALITE_REQUIRE_PEERS") == "1"
"""Continuous integration sets this: a test that is not run for want of a foreign program then fails."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--apache", action="store_true", help="run tests/wire against Apache Kafka instead of kafkalite")


def foreign_program(name: str, package: str) -> str:
    """The path of a program that is no part of this project; without it the test is reported as not run.

    With KAFKALITE_REQUIRE_PEERS=1 its absence is a failure.
    """
    path = shutil.which(name)
    if path is not None:
        return path
    reason = f"{name} is not installed (Debian package {package})"
    if REQUIRE_PEERS:
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the groups in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def group(item: pytest.Item) -> tuple[int, str]:
        for rank, marker in enumerate(("system", "peer", "wire")):
            if item.get_closest_marker(marker) is not None:
                return rank, "processes" if marker == "system" else marker
        return 9, item.path.as_posix()

    items.sort(key=lambda item: group(item)[0])
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(group(item)[1]))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    # Only a test that started a cluster has loaded this module: unit tests need not pay for it.
    if report.failed and (module := sys.modules.get("kafkalite.testing.local_cluster")) is not None:
        for cluster in list(module.LIVE_CLUSTERS):
            report.sections.extend(cluster.logs().items())
    return report
