"""Machines of a runbook, played by one `LocalCluster`: `ssh broker-2 sudo systemctl restart kafkalite-broker` restarts its broker 2.

A program named `ssh` on the PATH hands what concerns services to the test's process, through a Unix socket, and runs everything
else here, with the paths of the machine's directories replaced by those of the cluster. A program named `sleep` sleeps for a second.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import socketserver
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.local.cluster_facts import ClusterFacts
from tests.deploy.warm_commands import WarmCommands

_SSH: Final = """#!{python} -IS
import json, os, socket, sys

host, *command = sys.argv[1:]
if command[0] == "sudo":
    del command[0]
if command[0] in ("systemctl", "/opt/kafkalite/bin/pip"):
    with socket.socket(socket.AF_UNIX) as test:
        test.connect(os.environ["RUNBOOK_SOCKET"])
        test.sendall(json.dumps([host, *command]).encode() + b"\\n")
        status, told = json.loads(test.makefile().readline())
    print(told, end="", file=sys.stderr)
    sys.exit(status)
line = " ".join(command)
for path, stands_for in json.loads(os.environ["RUNBOOK_PATHS"])[host]:
    line = line.replace(path, stands_for)
os.execvp("bash", ["bash", "-c", line])
"""

_SLEEP: Final = "#!/bin/sh\nPATH=${PATH#*:}\nexec sleep 1\n"
"""Between two looks at what the cluster does: each look costs a process, and the runbook's ten seconds are for large clusters."""


class Machines:
    """Use in `with`. `run` runs a block of the runbook; `installed` are the machines where pip was called, in order."""

    def __init__(self, cluster: LocalCluster, folder: Path) -> None:
        self._cluster = cluster
        self._folder = folder
        self.installed: list[str] = []
        programs = folder / "bin"
        programs.mkdir()
        ssh = programs / "ssh"
        ssh.write_text(_SSH.format(python=sys.executable))
        ssh.chmod(0o755)
        pause = programs / "sleep"
        pause.write_text(_SLEEP)
        pause.chmod(0o755)
        self._commands = WarmCommands(programs)
        machines = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                try:
                    answer = (0, machines._do(*json.loads(self.rfile.readline())))
                except Exception as problem:
                    answer = (1, f"{problem!r}\n")
                self.wfile.write(json.dumps(answer).encode() + b"\n")

        self._server = socketserver.UnixStreamServer(str(folder / "socket"), Handler)
        # One thread for all, and until the end: a broker ends with the thread that started it.
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Machines:
        self._thread.start()
        self._commands.__enter__()
        return self

    def __exit__(self, *problem: object) -> None:
        # Brokers that this thread has started would end with it, and not cleanly.
        self._cluster.close()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._commands.__exit__()

    def run(self, block: str, timeout_s: float = 300) -> subprocess.CompletedProcess[str]:
        """Run a block as a whole, ending at the first command that fails."""
        return subprocess.run(
            ["bash", "-eu", "-o", "pipefail", "-c", block],
            cwd=self._folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
        )

    def _environment(self) -> Mapping[str, str]:
        programs = [str(self._folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]
        return os.environ | {
            "PATH": os.pathsep.join(programs),
            "RUNBOOK_SOCKET": str(self._folder / "socket"),
            "RUNBOOK_PATHS": json.dumps(self._paths()),
            "KAFKALITE_BOOTSTRAP_SERVERS": self._cluster.bootstrap_servers,
            "KAFKALITE_ZOOKEEPER": self._cluster.zookeeper_connect,
        }

    def _paths(self) -> dict[str, list[tuple[str, str]]]:
        """For each machine what stands for the paths of the runbook; the longest first."""
        commands = ("/opt/kafkalite/bin/kafkalite", shlex.quote(str(self._commands.program)))
        found = {
            f"broker-{broker.id}": [commands, ("/var/lib/kafkalite", str(broker.log_dir))]
            for broker in self._cluster.brokers.values()
        }
        for member in self._cluster.ensemble.members if self._cluster.ensemble is not None else ():
            found[f"zookeeper-{member.number}"] = [("/var/lib/kafkalite-zookeeper", str(member.data_path))]
        return found

    def _do(self, host: str, program: str, *arguments: str) -> str:
        kind, _, number = host.partition("-")
        if program.endswith("pip"):
            self.installed.append(host)
            return ""
        words = [word for word in arguments if word != "--now"]
        if len(words) != 2 or words[1] != f"kafkalite-{kind}":
            raise ValueError(f"{host} cannot do: {program} {' '.join(arguments)}")
        (self._broker if kind == "broker" else self._zookeeper)(words[0], int(number))
        return ""

    def _broker(self, verb: str, broker_id: int) -> None:
        """As the unit of Type=exec: a stop waits for the end, a start for nothing."""
        if verb in ("stop", "disable", "restart"):
            self._cluster.stop(broker_id)
        if verb == "enable" and broker_id not in self._cluster.brokers:
            self._cluster.add_broker(broker_id)
        elif verb in ("start", "enable", "restart"):
            self._cluster.broker(broker_id).start()

    def _zookeeper(self, verb: str, number: int) -> None:
        ensemble = self._cluster.ensemble
        if ensemble is None:
            raise RuntimeError("the cluster does not run")
        if verb in ("stop", "restart"):
            asyncio.run(ensemble.stop_member(number))
        if verb in ("start", "restart"):
            asyncio.run(ensemble.start_member(number, timeout_s=None))

    # -- what goes wrong

    def lose_broker(self, broker_id: int) -> None:
        """Machine and disk; returns when the cluster has noticed."""
        self._cluster.kill(broker_id)
        shutil.rmtree(self._cluster.broker(broker_id).log_dir)
        with ClusterFacts(self._cluster.zookeeper_connect) as facts:
            wait_until(lambda: broker_id not in facts.brokers(), f"end of the session of broker {broker_id}", 30)

    def lose_zookeeper(self, number: int) -> None:
        """Machine and disk; the new one has an empty directory."""
        ensemble = self._cluster.ensemble
        if ensemble is None:
            raise RuntimeError("the cluster does not run")
        asyncio.run(ensemble.kill(number))
        shutil.rmtree(ensemble.member(number).data_path)
        ensemble.member(number).data_path.mkdir()
