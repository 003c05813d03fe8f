"""What all tests share: foreign programs, and broker logs in the reports of failures."""

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
