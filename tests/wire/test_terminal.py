"""What only a person at a terminal sees: TAB completes, questions are asked and obeyed, bars move and go."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.conftest import foreign_program
from tests.wire.conftest import TopicMaker
from tests.wire.terminal import PROMPT, Terminal, search_path

pytestmark = pytest.mark.wire


@pytest.fixture(scope="module")
def environment(servers: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {
        "KAFKALITE_BOOTSTRAP_SERVERS": servers,
        "KAFKALITE_CONFIG": str(tmp_path_factory.mktemp("contexts") / "config.toml"),
        "KAFKALITE_COMPLETION_BUDGET_MS": "20000",  # the machine may be busy with other tests
    }


@pytest.fixture(scope="module")
def terminal(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    with Terminal(tmp_path_factory.mktemp("home"), environment) as running:
        yield running


@pytest.fixture
def completing(terminal: Terminal) -> Terminal:
    assert terminal.run('eval "$(kafkalite completion bash)"')[1] == 0
    return terminal


def test_tab_completes_commands_and_names(completing: Terminal, make_topic: TopicMaker) -> None:
    name = make_topic()
    completing.write("kafkalite top")
    completing.press("Tab")
    completing.wait_for(rf"{PROMPT}kafkalite topic +$")
    completing.type("desc")
    completing.press("Tab")
    completing.wait_for(r"topic describe +$")
    completing.type(name[:-1])
    completing.press("Tab", "Tab")
    completing.wait_for(rf"\b{name}\b")
    completing.write(f"kafkalite topic describe {name} --ou")
    completing.press("Tab")
    completing.type("js")
    completing.press("Tab")
    completing.wait_for(r"--output json\s*$")
    completing.press("Tab", "Tab")
    completing.wait_for("json +jsonl")
    completing.press("Enter")
    completing.wait_for(f'"name": "{name}"')


def test_tab_completes_behind_colons_and_equals_signs(completing: Terminal, servers: str) -> None:
    host, _, port = servers.split(",")[0].rpartition(":")
    completing.write(f"kafkalite topic list -b {host}:{port[:-1]}")
    completing.press("Tab", "Tab")
    completing.wait_for(port)
    assert f"{host}:{host}" not in completing.screen(), "what stood there was doubled"
    completing.write("kafkalite topic create new -c retention.m")
    completing.press("Tab")
    completing.type("5")
    completing.wait_for(r"-c retention\.ms=5\s*$")


def test_tab_says_nothing_when_there_is_no_cluster(completing: Terminal) -> None:
    completing.write("kafkalite topic describe -b 127.0.0.1:1 ")
    completing.press("Tab", "Tab")
    completing.type("typed-on")
    completing.wait_for(rf"\A{PROMPT}kafkalite topic describe -b 127\.0\.0\.1:1 typed-on\s*\Z")


def test_contexts_complete_and_count(completing: Terminal, servers: str) -> None:
    assert completing.run(f"kafkalite context set staging bootstrap.servers={servers}")[1] == 0
    completing.write("kafkalite context use sta")
    completing.press("Tab")
    completing.wait_for(rf"{PROMPT}kafkalite context use staging +$")
    assert completing.run("KAFKALITE_BOOTSTRAP_SERVERS= kafkalite topic list --context staging")[1] == 0
    assert completing.run("kafkalite context delete staging --yes")[1] == 0


def test_zsh_completes(environment: dict[str, str], tmp_path: Path, make_topic: TopicMaker) -> None:
    foreign_program("zsh", "zsh")
    name = make_topic()
    with Terminal(tmp_path, environment) as terminal:
        terminal.write("exec zsh -f")
        terminal.press("Enter")
        terminal.run(f"PS1='{PROMPT}'; autoload -Uz compinit; compinit -u -D")
        assert terminal.run('eval "$(kafkalite completion zsh)"')[1] == 0
        terminal.write("kafkalite topic desc")
        terminal.press("Tab")
        terminal.wait_for(rf"{PROMPT}kafkalite topic describe *$")
        terminal.type(name[:-1])
        terminal.press("Tab", "Tab")
        terminal.wait_for(rf"\b{name}\b")


def test_fish_completes(environment: dict[str, str], make_topic: TopicMaker) -> None:
    fish, name = foreign_program("fish", "fish"), make_topic()
    line = (
        f"kafkalite completion fish | source; complete -C 'kafkalite topic describe {name}'; complete -C 'kafkalite no'"
    )
    done = subprocess.run(
        [fish, "--no-config", "-c", line],
        env={**os.environ, "PATH": search_path(), **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout.split(), done.stderr) == ([name], "")


def test_what_destroys_is_asked_for(terminal: Terminal, make_topic: TopicMaker, admin: AdminClient) -> None:
    name = make_topic()
    terminal.begin(f"kafkalite topic delete {name}")
    terminal.wait_for(re.escape("[y/N]:"))
    terminal.type("n")
    terminal.press("Enter")
    assert terminal.finish()[1] == 1
    assert name in admin.list_topics(timeout=20).topics
    terminal.begin(f"kafkalite topic delete {name}")
    terminal.wait_for(re.escape("[y/N]:"))
    terminal.type("y")
    terminal.press("Enter")
    shown, code = terminal.finish()
    assert f"deleted {name}" in shown and code == 0


def test_a_bar_shows_how_far_a_load_is(terminal: Terminal, make_topic: TopicMaker) -> None:
    name = make_topic()
    terminal.begin(f"kafkalite perf produce {name} -n 100000000 -s 100 --throughput 2000")
    first = terminal.wait_for(rf"writing to {name} .* (\d+)/100000000 .*records/s.*latency")
    more = int(first[1]) + 100
    terminal.wait_for("|".join(rf"\b{number}\d*/100000000" for number in range(more // 100, more // 100 + 100)))
    terminal.press("C-c")
    told = terminal.wait_for(rf"{PROMPT}\s*\Z").string
    assert "RECORDS PER S" in told and "Traceback" not in told, "who interrupts it is told what there was until then"
    shown, code = terminal.run(f"kafkalite perf produce {name} -n 500 -s 100")
    assert re.search(rf"writing to {name} .* 500/500", shown) and "RECORDS" in shown and code == 0
