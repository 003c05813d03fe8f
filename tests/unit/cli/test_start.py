"""Commands start quickly, because they import what they need when they run: `--help` and TAB do not pay for clients and event loops."""

from __future__ import annotations

import resource
import socket
import subprocess
import sys
from math import inf
from typing import Final

import pytest

PROGRAM = """
import sys
import click
from kafkalite.cli.main import main

HEAVY = {"aiokafka", "asyncio", "kazoo", "kio", "rich", "ssl", "uvloop", "kafkalite.broker", "kafkalite.client", "kafkalite.protocol"}
seen = set()

def walk(command, path):
    if isinstance(command, click.Group):
        ctx = click.Context(command)
        for name in command.list_commands(ctx):
            walk(command.get_command(ctx, name), (*path, name))
    new = HEAVY & sys.modules.keys() - seen
    seen.update(new)
    for module in sorted(new):
        print(" ".join(path), "imports", module)

walk(main, ())
"""


def test_no_command_imports_much_before_it_runs() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


CALL = """
import sys
from kafkalite.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as ended:
    print(ended.code, *sorted(sys.modules))
"""
UNUSED: Final = {
    *("json", "kazoo", "msgspec", "rich", "uvloop", "zk"),
    *(
        "kafkalite.client.admin.admin",
        "kafkalite.client.admin.groups",
        "kafkalite.client.consumer",
        "kafkalite.config.keys",
    ),
}


def test_a_call_to_the_cluster_imports_the_admin_clients_part_for_topics_and_no_other() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]  # refused once it is closed
    done = subprocess.run(
        [sys.executable, "-c", CALL, "topic", "list", "-b", f"127.0.0.1:{port}"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    status, *loaded = done.stdout.split()
    assert status == "5" and "kafkalite.client.admin.topics" in loaded, done.stderr
    assert set(loaded) & UNUSED == set()


def cpu_ms(*program: str) -> float:
    """Processor time of a Python program, start of the interpreter included: what it takes when nothing else runs."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *program], stdout=subprocess.DEVNULL, check=True, timeout=60)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


_CLICK_MS: Final = 75.0
"""What click alone takes where a command may take 150 ms. A processor that others share may be half as fast for minutes."""


@pytest.mark.timing
@pytest.mark.parametrize(
    "command", ["", "topic create", "config set", "partition reassign execute", "group reset-offsets"]
)
def test_help_answers_in_150_ms(command: str) -> None:
    took_ms = click_ms = inf
    for _ in range(6):
        took_ms = min(took_ms, cpu_ms("-m", "kafkalite", *command.split(), "--help"))
        if took_ms < 150:
            return  # whatever click takes
        click_ms = min(click_ms, cpu_ms("-c", "import click"))
    assert took_ms < 150 * max(1.0, click_ms / _CLICK_MS)
