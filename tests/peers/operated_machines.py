"""Machines that an operator reaches by `ssh` and whose services `systemctl` starts, played by folders and processes of this machine.

Blocks of a page run as they stand there. Programs on the PATH stand for others (`played_programs`): `ssh HOST` runs a command in HOST's
folder without the caller's variables, `scp` copies there, `systemctl` starts the `ExecStart` of a unit with its drop-ins. Paths below
`/etc`, `/opt` and `/var` are below the folder of their machine; `kafka-ID:PORT` and `zk-1:2181` are addresses of this machine.
"""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from deploy.docs.blocks import Block, blocks_of
from deploy.docs.staging import ROOT
from kafkalite.cli.migrate.evidence import LEDGER_FILE
from kafkalite.local.broker_process import BROKER_COMMAND, wait_until
from kafkalite.local.ports import ReservedPort
from tests.peers import apache_kafka
from tests.peers.played_programs import Folder, map_paths
from tests.peers.probed import Group
from zk.servers.java_properties import properties_text

_PROGRAMS: Final = Path(__file__).with_name("played_programs.py")
_READY_S: Final = 240
_YES: Final = b"y\n" * 20
_SYSTEMD: Final = ROOT / "deploy/systemd"
UNIT: Final = "[Service]\nUser=kafka\nExecStart=/opt/kafka/bin/kafka-server-start.sh /etc/kafka/server.properties\n"
"""kafka.service of an operator."""
START: Final = "bin/kafka-server-start.sh"


def programs_of_3_9(folder: str) -> dict[str, Sequence[str]]:
    """Return the programs of Apache Kafka 3.9 in a folder below /opt, and ours."""
    return {
        f"{folder}/{START}": apache_kafka.broker_command(),
        f"{folder}/bin/kafka-storage.sh": apache_kafka.java_command("kafka.tools.StorageTool"),
        "kafkalite/bin/kafkalite": BROKER_COMMAND[:-2],
    }


class OperatedPlace:
    """A folder `here` from which an operator works, in terminals, with programs of the place's own on the PATH, in `programs`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.here, self.programs = folder, folder / "here", folder / "bin"
        self.here.mkdir(parents=True)
        self.programs.mkdir()
        (self.here / "deploy").mkdir()
        (self.here / "deploy/systemd").symlink_to(_SYSTEMD)
        self._terminals: list[int] = []
        self.before = ""
        """What each block begins with: the variables that an earlier one has set."""

    def map_addresses(self, text: str) -> str:
        """Return a text with names and addresses of this machine in the place of those of the page."""
        return text

    def log_tails(self) -> str:
        """Return the last lines of all servers."""
        return ""

    def await_brokers(self, count: int, servers: str = "") -> None:
        """Wait until so many brokers are registered, and all replicas in sync; asked at `servers`, or at those of the page."""
        where = f" -b {servers}" if servers else ""

        def is_whole() -> bool:
            code, told = self.run(f"kafkalite cluster info -o json{where}")
            return code == 0 and len(json.loads(told)[0]["brokers"]) == count

        health = f"kafkalite cluster health --wait --timeout 60{where}"
        try:
            wait_until(lambda: is_whole() and self.run(health)[0] == 0, "a healthy cluster", _READY_S)
        except TimeoutError as late:
            raise TimeoutError(f"{late}\n{self.log_tails()}") from None

    def close(self) -> None:
        """Close the terminals."""
        for each in self._terminals:
            os.close(each)

    def start(self, block: str, output: Path) -> subprocess.Popen[bytes]:
        """Start a block in a terminal of its own, whose operator says yes to whatever is asked."""
        ours, theirs = pty.openpty()
        try:
            os.write(ours, _YES)
            text = self.map_addresses(f"{self.before}\n{block}")
            path = os.pathsep.join([str(self.programs), str(Path(sys.executable).parent), os.environ["PATH"]])
            with output.open("ab") as log:
                found = subprocess.Popen(
                    ["bash", "-eu", "-o", "pipefail", "-c", text],
                    cwd=self.here,
                    env=os.environ | {"PATH": path},
                    stdin=theirs,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
        finally:
            os.close(theirs)
        self._terminals.append(ours)
        return found

    def run(self, block: str, timeout_s: float = 400) -> tuple[int, str]:
        """Run a block to its end. Returns its exit code and what it printed."""
        output = self.folder / "output"
        output.unlink(missing_ok=True)
        process = self.start(block, output)
        try:
            return process.wait(timeout_s), output.read_text(errors="replace")
        except subprocess.TimeoutExpired:
            return 124, output.read_text(errors="replace")
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


class OperatedMachines(OperatedPlace):
    """The machines `kafka-ID` of servers, and a folder from which they are operated.

    `programs` are commands by the path that stands for them below each machine's `/opt`, as `kafka-3.9/bin/kafka-server-start.sh`.
    """

    def __init__(
        self, folder: Path, servers: Iterable[int], zookeeper: str, programs: Mapping[str, Sequence[str]]
    ) -> None:
        super().__init__(folder)
        self._reserved = {each: ReservedPort() for each in servers}
        ports = {server: each.number for server, each in self._reserved.items()}
        self.servers = tuple(ports)
        (folder / "machines.json").write_text(
            json.dumps({"ports": ports, "zookeeper": zookeeper, "programs": dict(programs)})
        )
        self._played = Folder(str(folder))
        for name in ("ssh", "scp", "systemctl", "chown"):
            self._write_program(self.programs / name, name)
        for server in ports:
            for each in ("etc/kafka", "etc/systemd/system", "var/lib", "root"):
                (self.machine(server) / each).mkdir(parents=True)
            for each in programs:
                path = self.machine(server) / "opt" / each
                path.parent.mkdir(parents=True, exist_ok=True)
                self._write_program(path, "program", each)
            self.write(server, "/etc/systemd/system/kafka.service", UNIT)

    def _write_program(self, path: Path, name: str, *more: str) -> None:
        words = [sys.executable, "-IS", str(_PROGRAMS), name, str(self.folder), *more]
        path.write_text(f'#!/bin/sh\nexec {" ".join(words)} "$@"\n')
        path.chmod(0o755)

    def machine(self, server: int) -> Path:
        """Return the folder of a machine."""
        return self.folder / f"kafka-{server}"

    def write(self, server: int, path: str, text: str) -> None:
        """Write a file of a machine, with paths of that machine in it."""
        target = Path(map_paths(path, self.machine(server)))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(map_paths(text, self.machine(server)))

    def write_broker(self, server: int, settings: Mapping[str, str]) -> None:
        """Write server.properties of a broker."""
        text = properties_text(
            {
                **settings,
                "broker.id": str(server),
                "listeners": f"PLAINTEXT://kafka-{server}:9092",
                "log.dirs": "/var/lib/kafka",
                "zookeeper.connect": "zk-1:2181",
            }
        )
        (self.machine(server) / "etc/kafka/server.properties").write_text(text)

    def map_addresses(self, text: str) -> str:
        return self._played.map_addresses(text)

    def log_tails(self) -> str:
        return "\n".join(
            f"{path.parent.name}: " + "\n  ".join(path.read_text(errors="replace").splitlines()[-6:])
            for path in sorted(self.folder.glob("kafka-*/*.log"))
        )

    def close(self) -> None:
        """Kill every service."""
        for path in self.folder.glob("kafka-*/run/*.pid"):
            with suppress(ProcessLookupError, ValueError):
                os.killpg(int(path.read_text()), signal.SIGKILL)
        super().close()
        for port in self._reserved.values():
            port.release()


class Operator:
    """Takes the blocks of a page, each found by a text in it. `taken` are those that were taken.

    The page's first block has the variables with which every window begins.
    """

    def __init__(self, page: Path, machines: OperatedPlace) -> None:
        self.blocks = blocks_of(page.read_text("utf-8"))
        self.machines, self.taken = machines, [self.blocks[0]]
        machines.before = self.blocks[0].text

    def find(self, text: str) -> Block:
        """Return the one block that has this text; it counts as taken."""
        (found,) = (each for each in self.blocks if text in each.text)
        self.taken.append(found)
        return found

    def run(self, text: str, *codes: int, until_s: float = 0) -> str:
        """Run the block that has this text, for so many seconds until it ends with one of these codes (0). Returns its output."""
        block, deadline_s = self.find(text), time.monotonic() + until_s
        while True:
            found, told = self.machines.run(block.text)
            if found in (codes or (0,)):
                return told
            if time.monotonic() > deadline_s:
                raise AssertionError(f"{block.text}ended with {found}: {told}\n{self.machines.log_tails()}")

    def step(self, text: str, *becomes: str) -> None:
        """Run a block once for each server, which becomes what is told; again where a quorum or a replica was late."""
        for each in becomes:
            told = self.run(text, until_s=120)
            assert told.splitlines()[-1].endswith(each), told

    @contextmanager
    def probing(self) -> Iterator[None]:
        """Let the probe run in a window of its own, ended with Ctrl-C; records are acknowledged to the end."""
        self.run("topic create migration-probe")
        ledger = self.machines.here / "night-1" / LEDGER_FILE
        probe = self.machines.start(self.find("migrate probe").text, self.machines.folder / "probe.output")

        def await_more() -> None:
            seen = count_lines(ledger)
            wait_until(lambda: count_lines(ledger) > seen + 20, "acknowledgements", 120)

        try:
            await_more()
            yield
            await_more()
            os.killpg(probe.pid, signal.SIGINT)
            assert probe.wait(300) == 0
        finally:
            with suppress(ProcessLookupError):
                os.killpg(probe.pid, signal.SIGKILL)
            probe.wait()

    @contextmanager
    def reading(self, servers: str) -> Iterator[None]:
        """As `probing`, and a group reads what the probe writes; it reads nothing twice."""
        group = Group(servers, "migration-probe")
        with self.probing():
            group.start()
            try:
                yield
                seen = len(group.read)
                wait_until(lambda: len(group.read) > seen, "records that the group reads", 120)
            finally:
                group.end()
        assert group.is_uncertain or len(group.read) == len(set(group.read)), "nothing was read twice"


def count_lines(path: Path) -> int:
    """Return how many lines a file has; 0 where there is none."""
    return len(path.read_text().splitlines()) if path.exists() else 0
