"""A broker that was forked is a child as any other: it has a status, is signalled, prints where it should and dies alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkalite.local import broker_process, warm_brokers
from kafkalite.local.broker_process import BROKER_COMMAND, wait_until
from kafkalite.local.warm_brokers import WarmProcess

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are handed over on Linux only")

UNREACHABLE = "broker.id=1\nlisteners=PLAINTEXT://127.0.0.1:0\nzookeeper.connect=127.0.0.1:1\nlog.dirs={}\n"


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    """Of a broker that waits for ZooKeeper."""
    path = tmp_path / "broker.properties"
    path.write_text(UNREACHABLE.format(tmp_path / "data"))
    return path


@pytest.fixture
def broker(properties: Path, tmp_path: Path) -> Iterator[WarmProcess]:
    with tmp_path.joinpath("output").open("wb") as output:
        started = broker_process.start_process([*BROKER_COMMAND, str(properties)], output)
    assert isinstance(started, WarmProcess)
    yield started
    started.send_signal(signal.SIGKILL)
    started.wait(30)


def test_it_is_a_child_in_a_session_of_its_own(broker: WarmProcess) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        broker.wait(0)
    fields = Path(f"/proc/{broker.pid}/stat").read_text().rpartition(")")[2].split()
    assert int(fields[1]) == os.getpid() and int(fields[3]) == broker.pid != os.getsid(0)


def test_a_signal_is_its_status(broker: WarmProcess) -> None:
    broker.send_signal(signal.SIGKILL)
    assert broker.wait(30) == broker.poll() == -signal.SIGKILL
    broker.send_signal(signal.SIGTERM)  # to nobody


def test_what_it_prints_and_its_status(tmp_path: Path) -> None:
    with tmp_path.joinpath("output").open("wb") as output:
        broker = broker_process.start_process([*BROKER_COMMAND, str(tmp_path / "none.properties")], output)
    assert isinstance(broker, WarmProcess)
    assert broker.wait(60) != 0
    assert "none.properties" in tmp_path.joinpath("output").read_text()


def test_another_process_starts_brokers_when_the_first_one_was_killed(tmp_path: Path) -> None:
    nursery = warm_brokers._nursery(os.getpid(), "")
    nursery._process.kill()
    nursery._process.wait(30)
    with tmp_path.joinpath("output").open("wb") as output:
        broker = broker_process.start_process([*BROKER_COMMAND, str(tmp_path / "none.properties")], output)
    assert isinstance(broker, WarmProcess) and broker.wait(60) != 0
    assert "none.properties" in tmp_path.joinpath("output").read_text()


def test_another_command_is_started_as_always(tmp_path: Path) -> None:
    with tmp_path.joinpath("output").open("wb") as output:
        started = broker_process.start_process(["/bin/echo", "said"], output)
    assert isinstance(started, subprocess.Popen) and started.wait(30) == 0
    assert tmp_path.joinpath("output").read_text() == "said\n"


def test_it_ends_with_whoever_started_it(properties: Path, tmp_path: Path) -> None:
    program = f"""
import sys
from pathlib import Path
from kafkalite.local import broker_process
from tests.warm_broker import use_warm_brokers
use_warm_brokers()
with open({str(tmp_path / "output")!r}, "wb") as output:
    print(broker_process.start_process([*broker_process.BROKER_COMMAND, {str(properties)!r}], output).pid, flush=True)
sys.stdin.read()
"""
    root = Path(__file__).parents[3]
    parent = subprocess.Popen(
        [sys.executable, "-c", program], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert Path(f"/proc/{pid}/stat").exists()
        parent.kill()

    def has_ended() -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True

    wait_until(has_ended, "the end of a broker whose parent was killed", 30)
