"""The quick ones of the programs of the field; `python -m tests.ecosystem --all` shows all of them, and writes the table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkalite.local.broker_process import BROKER_COMMAND
from kafkalite.local.cluster import LocalCluster
from tests.conftest import not_run
from tests.ecosystem.contract import HERE, Program, programs, scene
from tests.ecosystem.environments import Missing
from tests.museum.clusters import PROPERTIES
from tests.museum.stage import Stage
from tests.peers.apache_kafka import broker_command, wait_for_controller

pytestmark = [pytest.mark.wire, pytest.mark.timeout(600)]  # the first run fetches the programs

KNOWN = programs()


@pytest.fixture(scope="module")
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    command = broker_command() if request.config.getoption("--apache") else BROKER_COMMAND
    with LocalCluster(brokers=1, properties=PROPERTIES, command=command) as cluster:
        wait_for_controller(cluster.bootstrap_servers)
        yield Stage(cluster.bootstrap_servers, cluster.zookeeper_connect)


@pytest.mark.parametrize("program", [each for each in KNOWN if each.quick], ids=lambda each: each.name)
def test_a_program_does_what_it_does_on_apache_kafka(program: Program, stage: Stage, tmp_path: Path) -> None:
    try:
        with scene(program, stage, tmp_path) as opened:
            program.show(opened)
    except Missing as problem:
        not_run(str(problem))


def test_the_table_has_every_program_in_its_version() -> None:
    table = (HERE / "TABLE.md").read_text()
    for each in KNOWN:
        assert f"| {each.title} | {each.version} | {each.tried} |" in table
