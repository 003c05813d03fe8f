"""The tables of options that the tools print: files in `help/`, named by the tool."""

from __future__ import annotations

import os
import sys
from typing import Final

_RANDOM_GROUP: Final = "{group}"
"""Stands in a table for a default that is another one each time."""


def option_table(tool: str) -> str:
    """The table of a tool's options, as Apache Kafka's tool of that name prints it."""
    with open(os.path.join(os.path.dirname(__file__), "help", f"{tool}.txt"), encoding="utf-8") as table:
        return table.read()


def print_usage(message: str, tool: str) -> None:
    """The message and the table, to stderr."""
    table = option_table(tool)
    if _RANDOM_GROUP in table:
        from kafkalite.legacy.consumer_perf_test import GROUP

        width = len(f"{_RANDOM_GROUP})  ")
        table = table.replace(f"{_RANDOM_GROUP})".ljust(width), f"{GROUP.default})".ljust(width))
    sys.stderr.write(f"{message}\n{table}")
