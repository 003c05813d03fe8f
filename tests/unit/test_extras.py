"""An installation without an extra: the client and the commands work, and what needs the extra says in one line how to get it."""

from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner

from kafkalite.cli import calls
from kafkalite.cli.main import main
from kafkalite.extras import MissingExtraError, require_extra
from kafkalite.local.cluster import LocalCluster

OF_SERVER = ("uvloop", "h11", "jwt")
OF_CONSOLE = ("starlette", "uvicorn")
IMPORT_ALL = f"""
import pkgutil, sys
from importlib import import_module

sys.modules.update(dict.fromkeys({OF_SERVER + OF_CONSOLE}))
for package in ("administration", "cli", "client", "config", "legacy", "local", "net", "protocol", "security"):
    folder = import_module("kafkalite." + package)
    for module in pkgutil.walk_packages(folder.__path__, folder.__name__ + "."):
        if module.name != "kafkalite.protocol.schemas.kio_schemas":  # only tests use it
            import_module(module.name)
print("imported")
"""


@pytest.fixture
def core_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No package of an extra is installed, as far as an import can tell."""
    for name in OF_SERVER + OF_CONSOLE:
        monkeypatch.setitem(sys.modules, name, None)


def test_the_client_and_all_commands_are_imported_without_an_extra() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORT_ALL], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("imported\n", "")


@pytest.mark.parametrize(
    ("command", "user", "extra"),
    [
        (
            ["broker", "-X", "zookeeper.connect=127.0.0.1:1", "-X", "kafkalite.http.listener=127.0.0.1:0"],
            "kafkalite.http.listener",
            "server",
        ),
        (["cluster", "up"], "a broker with an HTTP listener", "server"),
        (["console", "--port", "0"], "the console", "console"),
    ],
)
def test_what_needs_an_extra_names_it_in_one_line(core_alone: None, command: list[str], user: str, extra: str) -> None:
    result = CliRunner().invoke(main, command)
    names = ", ".join(OF_SERVER if extra == "server" else OF_CONSOLE)
    line = f"Error: {user} needs packages that are not installed ({names}): pip install 'kafkalite[{extra}]'\n"
    assert (result.exit_code, result.output) == (2, line)


def test_a_cluster_of_the_fixtures_names_it_too(core_alone: None) -> None:
    """pytest's plugin tells an ImportError without a traceback."""
    with pytest.raises(MissingExtraError, match=r"pip install 'kafkalite\[server\]'"):
        LocalCluster(brokers=1, http=True)


def test_nothing_is_said_where_all_is_installed() -> None:
    require_extra("server", "a broker")
    require_extra("console", "the console")


def test_a_long_command_runs_on_asyncios_loop_without_uvloop(core_alone: None) -> None:
    async def loop_module() -> str:
        import asyncio

        return type(asyncio.get_running_loop()).__module__

    assert calls.run_long(loop_module()).startswith("asyncio")
