"""The tables of options that the tools print, read from files in `legacy/help/` that are named after the tools."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Final

_RANDOM_GROUP: Final = "{group}"
"""Placeholder in a table for the default of --group, which is random."""


def option_table(tool: str) -> str:
    """Return the table of options as Apache Kafka's tool of that name prints it."""
    with open(
        os.path.join(os.path.dirname(os.path.dirname(__file__)), "help", f"{tool}.txt"), encoding="utf-8"
    ) as table:
        return table.read()


def print_usage(message: str, tool: str, defaults: Mapping[str, object]) -> None:
    """Print the message and the table on stderr. `defaults` has the options' defaults by name."""
    table = option_table(tool)
    if _RANDOM_GROUP in table:
        width = len(f"{_RANDOM_GROUP})  ")
        table = table.replace(f"{_RANDOM_GROUP})".ljust(width), f"{defaults['group']})".ljust(width))
    sys.stderr.write(f"{message}\n{table}")
