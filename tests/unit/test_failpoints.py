"""Points that fail on purpose: what arms them, and that the list of them is true."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import kafkalite
from kafkalite import failpoints
from kafkalite.broker.requests.fault_control import VARIABLE, FaultControl, is_wanted
from kafkalite.config.broker import ConfigError
from kafkalite.failpoints import FAILPOINTS, KILLED_STATUS, arm, arm_all, disarm, reach
from tests.unit.broker.broker_settings import broker_config

SOURCES = Path(kafkalite.__file__).parent
POINT = "log.rolling"


@pytest.fixture(autouse=True)
def none_is_armed() -> Iterator[None]:
    yield
    disarm()


def test_the_list_is_what_the_code_has_and_the_documents_say() -> None:
    reached = set()
    for path in SOURCES.rglob("*.py"):
        reached |= set(re.findall(r'\breach\("([\w.]+)"\)', path.read_text()))
    assert reached | {"loop.turn"} == set(FAILPOINTS)
    page = (SOURCES.parent / "deploy/docs/pages/decisions/simulation.md").read_text()
    rows = dict(re.findall(r"^\| `([\w.]+)` \| (.*) \|$", page, re.MULTILINE))
    assert {name: text for name, text in rows.items() if name in FAILPOINTS} == FAILPOINTS


def test_the_nth_time_fails_and_the_others_do_not() -> None:
    arm(POINT, "fail@3")
    reach(POINT)
    reach(POINT)
    with pytest.raises(OSError, match=POINT):
        reach(POINT)
    reach(POINT)


def test_a_function_happens_each_time_until_it_is_disarmed() -> None:
    times: list[int] = []
    arm(POINT, lambda: times.append(1))
    reach(POINT)
    reach("isr.changing")
    reach(POINT)
    disarm(POINT)
    reach(POINT)
    assert len(times) == 2


def test_the_process_ends() -> None:
    program = f"from kafkalite.failpoints import arm_all, reach; arm_all('{POINT} = exit@2; '); reach('{POINT}'); reach('{POINT}')"
    assert subprocess.run([sys.executable, "-S", "-c", program], cwd=SOURCES.parent).returncode == KILLED_STATUS


@pytest.mark.parametrize(
    "text", ["log.roling=exit", "log.rolling=explode", "log.rolling", "log.rolling=stall", "log.rolling=exit@"]
)
def test_what_cannot_be_armed_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"failpoint"):
        arm_all(text)


@pytest.mark.parametrize("name", [VARIABLE, failpoints.VARIABLE])
def test_a_broker_that_may_not_fail_on_purpose_does_not_start(name: str) -> None:
    armed = {name: "127.0.0.1:1"}
    with pytest.raises(ConfigError, match=r"kafkalite\.fault\.injection\.enable"):
        is_wanted(broker_config(), armed)
    assert is_wanted(broker_config(kafkalite_fault_injection_enable="true"), armed)
    assert not is_wanted(broker_config(kafkalite_fault_injection_enable="true"), {})


@pytest.mark.parametrize(
    "environment", [{VARIABLE: "0.0.0.0:9"}, {VARIABLE: "x"}, {failpoints.VARIABLE: "nowhere=exit"}]
)
def test_faults_of_an_environment_that_cannot_be(environment: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        FaultControl(environment)
