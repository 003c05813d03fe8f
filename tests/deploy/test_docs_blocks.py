"""The blocks of the documentation's pages run: commands and programs against one cluster, settings through the broker's own tables.

Pages that have tests of their own are run there. A page's blocks come in its order, in one folder, and a block of several lines ends at the
first that fails.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import pytest

from deploy.docs.blocks import SHOWN_ONLY, blocks_of
from deploy.docs.contents import PAGES
from deploy.docs.names_reference import metric_families
from deploy.docs.staging import ROOT
from kafkalite.cli.main import main
from kafkalite.config.broker_keys import BROKER_KEYS
from kafkalite.config.properties import parse_properties
from kafkalite.config.security_keys import is_of_listener
from kafkalite.local.cluster import LocalCluster
from kafkalite.testing.simulation.programs import SEED_VARIABLE
from tests.deploy.shell_lines import ShellLines

pytestmark = pytest.mark.timeout(300)

TESTED_ELSEWHERE: Final = {
    "kafkalite/client/README.md": "tests/wire/test_client_pages.py",
    "kafkalite/client/producer.md": "tests/wire/test_client_pages.py",
    "kafkalite/client/consumer.md": "tests/wire/test_client_pages.py",
    "kafkalite/client/admin.md": "tests/wire/test_client_pages.py",
    "kafkalite/client/errors.md": "tests/wire/test_client_pages.py",
    "deploy/RUNBOOK.md": "tests/deploy/test_runbook.py",
    "deploy/docs/pages/howto/from-apache-kafka.md": "tests/peers/test_swap_page.py",
    "deploy/docs/pages/howto/to-kafka-4.md": "tests/peers/test_to_kafka_4.py",
    "spark_jobs/source.md": "tests/spark/test_source.py",
}
SHOWN_AT_MOST: Final = 30
"""Blocks that nobody runs. A new one needs a reason: another machine, a server that stays, Docker, Spark."""
RUN: Final = ("sh", "python", "properties")
SERVERS: Final = "localhost:9092"

BLOCKS: Final = {
    page.path: blocks_of((ROOT / page.path).read_text())
    for page in PAGES
    if isinstance(page.origin, str) and page.path not in TESTED_ELSEWHERE
}
WITH_BLOCKS: Final = [path for path, blocks in BLOCKS.items() if any(block.language in RUN for block in blocks)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    settings = {"offsets.topic.num.partitions": "1", "group.initial.rebalance.delay.ms": "0"}
    with LocalCluster(properties=settings, http=True) as running:
        yield running


@pytest.mark.parametrize("page", WITH_BLOCKS)
def test_blocks(page: str, cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("KAFKALITE_BOOTSTRAP_SERVERS", cluster.bootstrap_servers)
    monkeypatch.setenv("KAFKALITE_ZOOKEEPER", cluster.zookeeper_connect)
    monkeypatch.setenv(SEED_VARIABLE, "1")
    run_commands("before", "kafkalite cluster health --wait --timeout 60\n")  # whatever the page before has left
    for block in BLOCKS[page]:
        where = f"{page}:{block.line}"
        text = block.text.replace(SERVERS, cluster.bootstrap_servers)
        match block.language:
            case "sh":
                run_commands(where, text)
            case "python":
                run_program(where, text)
            case "properties":
                read_settings(where, text)


def run_commands(where: str, text: str) -> None:
    lines = ShellLines.of(text)
    if lines is not None:
        lines.run(where)
        return
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-eu", "-o", "pipefail", "-c", text],
        env=os.environ | {"PATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, f"{where}: {done.stdout}"


def run_program(where: str, text: str) -> None:
    """What it defines as a test is run too, unless it asks for fixtures."""
    names: dict[str, object] = {"__name__": where}
    exec(compile(text, where, "exec"), names)
    for name, found in names.items():
        if name.startswith("test_") and callable(found) and hasattr(found, "__wrapped__"):
            found()


def read_settings(where: str, text: str) -> None:
    """Every key is one of a broker's, with a value that it takes."""
    for name, value in parse_properties(text).items():
        assert name in BROKER_KEYS or is_of_listener(name), f"{where}: there is no {name}"
        if name in BROKER_KEYS:
            BROKER_KEYS[name].parse(value)


def commands_in(text: str) -> Iterator[list[str]]:
    """The calls of `kafkalite` in a block, as words."""
    for line in text.splitlines():
        for part in re.split(r"[|;]|&&", line.removeprefix("$ ")):
            words = shlex.split(part, comments=True)
            if words and words[0] == "kafkalite":
                yield words[1:]


def check_usage(words: list[str]) -> None:
    """Are these commands, arguments and options that there are? Nothing is run. click's UsageError."""
    context, command = click.Context(main, info_name="kafkalite"), main
    while isinstance(command, click.Group) and words:
        _, below, words = command.resolve_command(context, words)
        assert below is not None
        command = below  # type: ignore[assignment]
    try:
        command.make_context(context.info_name, list(words), resilient_parsing="--help" in words)
    except click.BadParameter as problem:
        if not problem.message.endswith("does not exist."):  # files are those of the reader
            raise


SHOWN: Final = [(path, block) for path, blocks in BLOCKS.items() for block in blocks if block.language == SHOWN_ONLY]


@pytest.mark.parametrize("page", sorted({path for path, _ in SHOWN}))
def test_commands_that_are_only_shown_are_commands(page: str) -> None:
    for path, block in SHOWN:
        if path == page:
            for words in commands_in(block.text):
                check_usage(words)


def test_few_blocks_are_only_shown() -> None:
    counted = Counter(path for path, _ in SHOWN)
    assert counted.total() <= SHOWN_AT_MOST, counted


def test_every_block_says_what_it_is() -> None:
    known = {*RUN, SHOWN_ONLY}
    unknown = [
        f"{path}:{block.line}" for path, blocks in BLOCKS.items() for block in blocks if block.language not in known
    ]
    assert unknown == []


def test_pages_with_tests_of_their_own_have_them() -> None:
    for page, test in TESTED_ELSEWHERE.items():
        assert Path(page).name in (ROOT / test).read_text() or page.endswith("client/README.md"), test


def test_every_metric_of_a_live_broker_is_in_the_reference(cluster: LocalCluster) -> None:
    url = cluster.broker(1).http_url
    assert url is not None
    with urllib.request.urlopen(f"{url}metrics", timeout=30) as page:
        told = set(re.findall(r"^# TYPE (kafkalite_\w+)", page.read().decode(), re.MULTILINE))
    assert len(told) > 40
    assert told <= {family.name for family in metric_families()}
