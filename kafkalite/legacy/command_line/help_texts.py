"""The tables of options that the tools print: files in `legacy/help/`, named by the tool."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Final

_RANDOM_GROUP: Final = "{group}"
"""Stands in a table for the default of --group, where that is another one each time."""


def option_table(tool: str) -> str:
    """The table of a tool's options, as Apache Kafka's tool of that name prints it."""
    with open(
        os.path.join(os.path.dirname(os.path.dirname(__file__)), "help", f"{tool}.txt"), encoding="utf-8"
    ) as table:
        return table.read()


def print_usage(message: str, tool: str, defaults: Mapping[str, object]) -> None:
    """The message and the table, to stderr; `defaults` are those of the options, by their names."""
    table = option_table(tool)
    if _RANDOM_GROUP in table:
        width = len(f"{_RANDOM_GROUP})  ")
        table = table.replace(f"{_RANDOM_GROUP})".ljust(width), f"{defaults['group']})".ljust(width))
    sys.stderr.write(f"{message}\n{table}")
