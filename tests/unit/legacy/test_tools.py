"""What all faces have in common: their names, their tables of options, their start."""

from __future__ import annotations

import configparser
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import kafkalite.legacy
from kafkalite.legacy.command_line.help_texts import option_table
from kafkalite.legacy.command_line.option_parser import Option
from kafkalite.tool_names import TOOLS

FOLDER = Path(kafkalite.legacy.__file__).parent
TABLES = sorted(path.stem for path in (FOLDER / "help").iterdir())
WITH_OPTIONS = [
    name for name in TABLES if name not in ("kafka-producer-perf-test", "kafka-transactions", "zookeeper-shell")
]


def module_of(tool: str) -> str:
    return TOOLS[tool]


def options_of(tool: str) -> tuple[Option, ...]:
    """The options that the table lists, which a tool of several files has in a file of their own."""
    module = import_module(module_of(tool))
    declared: tuple[Option, ...] = getattr(module, "tool", module).OPTIONS
    return declared


def test_every_tool_has_a_name_a_table_and_a_start() -> None:
    assert sorted(TOOLS) == TABLES
    for module in TOOLS.values():
        assert callable(import_module(module).main)


def test_no_installation_shadows_an_apache_kafka() -> None:
    """The tools are commands of nobody who did not ask for them."""
    settings = configparser.ConfigParser(delimiters=("=",))
    settings.read(FOLDER.parent.parent / "setup.cfg")
    assert settings["options.entry_points"]["console_scripts"].strip() == "kafkalite = kafkalite.cli.main:main"


@pytest.mark.parametrize("tool", WITH_OPTIONS)
def test_the_table_lists_the_options_that_the_tool_has(tool: str) -> None:
    listed = set(re.findall(r"^--([a-z][\w.-]*)", option_table(tool), re.MULTILINE))
    declared = {each.name for each in options_of(tool)}
    assert declared | {"help", "version"} == listed


@pytest.mark.parametrize("tool", WITH_OPTIONS)
def test_defaults_are_those_of_the_table(tool: str) -> None:
    """Descriptions are wrapped, so blanks do not count."""
    entries = re.split(r"^--", option_table(tool), flags=re.MULTILINE)
    told = {
        match[1]: default[1]
        for entry in entries
        if (match := re.match(r"([\w.-]+)", entry))
        and (default := re.search(r"\(default:(.*?)\)\s*$", _description(entry)))
    }
    for option in options_of(tool):
        if option.default is not None and option.name in told and "{group}" not in told[option.name]:
            assert str(option.default).replace(" ", "") == told[option.name]


def _description(entry: str) -> str:
    """The right column without blanks."""
    return re.sub(r"\s+", "", "".join(line[37:] if line[:37].strip() == "" else line for line in entry.splitlines()))


@pytest.mark.parametrize("tool", WITH_OPTIONS)
def test_help_needs_neither_a_client_nor_a_storage(tool: str) -> None:
    program = (
        f"import sys; from {module_of(tool)} import main; status = main(['--help']); "
        "heavy = {'asyncio', 'kafkalite.client', 'kafkalite.storage', 'click', 'kazoo'} & set(sys.modules); "
        "print(heavy or ''); sys.exit(7 if heavy else status)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done.stdout
    assert "Option " in done.stderr
