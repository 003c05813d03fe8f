"""Programs that a page's blocks call, played in the folders of `operated_machines`. Run as a script, with the standard library alone.

played_programs.py NAME FOLDER ARGUMENTS...
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

_HOST: Final = re.compile(r"kafka-(\d+):909[23]")
_PATH: Final = re.compile(r"(?<![\w./-])/(etc|opt|var)/")
_KEPT: Final = ("PATH", "HOME", "LANG", "TMPDIR", "XDG_CACHE_HOME", "JAVA_HOME", "PYTHONDONTWRITEBYTECODE")
"""Variables that a command on another machine has too: ssh passes none of its caller's."""
_MACHINE: Final = "MACHINE"
_STOP_S: Final = 90.0


class Folder:
    """The folder of all machines."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.settings = json.loads((self.path / "machines.json").read_text())

    def map_addresses(self, text: str) -> str:
        """Put addresses of this machine in the place of those of the page."""
        text = _HOST.sub(lambda found: f"127.0.0.1:{self.settings['ports'][found[1]]}", text)
        return text.replace("zk-1:2181", self.settings["zookeeper"])

    def machine(self, host: str) -> Path:
        """Return the folder of a machine. Ends this process when there is none of that name."""
        path = self.path / host
        if not path.is_dir():
            sys.exit(f"ssh: Could not resolve hostname {host}: Name or service not known")
        return path


def map_paths(text: str, machine: Path) -> str:
    """Put paths below the machine's folder in the place of those below the root."""
    return _PATH.sub(lambda found: f"{machine}/{found[1]}/", text)


def ssh(folder: Folder, host: str, *words: str) -> None:
    """Run a command on a machine."""
    machine = folder.machine(host)
    command = map_paths(folder.map_addresses(" ".join(words)), machine)
    os.chdir(machine / "root")
    kept = {name: value for name, value in os.environ.items() if name in _KEPT}
    os.execvpe("sh", ["sh", "-c", command], kept | {_MACHINE: str(machine)})


def scp(folder: Folder, *words: str) -> None:
    """Copy files to a machine, with paths of that machine in them."""
    *sources, target = words
    host, _, path = target.partition(":")
    machine = folder.machine(host)
    place = Path(map_paths(path, machine)) if path.startswith("/") else machine / "root" / path
    for source in map(Path, sources):
        copy = place / source.name if place.is_dir() else place
        copy.write_text(map_paths(source.read_text(), machine))
        shutil.copymode(source, copy)


def chown(folder: Folder, *words: str) -> None:
    """Do nothing: machines have no user for services here."""


def systemctl(folder: Folder, *words: str) -> None:
    """Start or stop services of this command's machine."""
    machine = Path(os.environ[_MACHINE])
    verb, *names = (each for each in words if each != "--now")
    is_now = "--now" in words
    for name in names:
        unit = Unit(name, machine)
        if verb in ("stop", "restart") or (verb == "disable" and is_now):
            unit.stop()
        if verb in ("start", "restart") or (verb == "enable" and is_now):
            unit.start()


class Unit:
    """A service of systemd's on a machine."""

    def __init__(self, name: str, machine: Path) -> None:
        self._machine, self._name = machine, name.removesuffix(".service")
        folder = machine / "etc/systemd/system"
        drop_ins = sorted((folder / f"{self._name}.service.d").glob("*.conf"))
        files = (folder / f"{self._name}.service", *drop_ins)
        lines = [line for path in files for line in path.read_text().splitlines() if not line.startswith("#")]
        # The last one counts: an ExecStart is emptied before it is set again.
        self._settings = dict(line.split("=", 1) for line in lines if "=" in line)
        (machine / "run").mkdir(exist_ok=True)
        self._pid_file = machine / "run" / f"{self._name}.pid"

    def find_pid(self) -> int | None:
        """Return the process that runs; None when none does."""
        try:
            pid = int(self._pid_file.read_text())
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError, ValueError):
            return None
        return None if state in "ZX" else pid

    def start(self) -> None:
        """Start it unless it runs, and stop what must not run beside it."""
        for other in self._settings.get("Conflicts", "").split():
            Unit(other, self._machine).stop()
        if self.find_pid() is not None:
            return
        command = self._settings["ExecStart"].split()
        with (self._machine / f"{self._name}.log").open("ab") as log:
            started = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self._pid_file.write_text(str(started.pid))

    def stop(self) -> None:
        """Send SIGTERM, wait for the end, and kill what is late."""
        pid = self.find_pid()
        if pid is None:
            return
        os.kill(pid, signal.SIGTERM)
        deadline_s = time.monotonic() + float(self._settings.get("TimeoutStopSec", _STOP_S))
        while self.find_pid() is not None:
            if time.monotonic() > deadline_s:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.1)


def program(folder: Folder, path: str, *words: str) -> None:
    """Run what stands for a program below /opt; files of settings have their addresses and paths replaced."""
    machine = Path(os.environ[_MACHINE])
    (machine / "run").mkdir(exist_ok=True)
    arguments = []
    for each in words:
        if each.endswith(".properties"):
            here = machine / "run" / f"{os.getpid()}-{Path(each).name}"
            here.write_text(map_paths(folder.map_addresses(Path(each).read_text()), machine))
            arguments.append(str(here))
        else:
            arguments.append(each)
    command = folder.settings["programs"][path]
    os.execvp(command[0], [*command, *arguments])


PLAYED: Final[dict[str, Callable[..., None]]] = {
    "ssh": ssh,
    "scp": scp,
    "chown": chown,
    "systemctl": systemctl,
    "program": program,
}

if __name__ == "__main__":
    PLAYED[sys.argv[1]](Folder(sys.argv[2]), *sys.argv[3:])
