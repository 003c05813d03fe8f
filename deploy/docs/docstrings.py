"""Docstrings as Markdown, in which they are written anyway, but for what a page would take for something else."""

from __future__ import annotations

import inspect
import re
from typing import Any


def cell(text: str) -> str:
    """A text within a table."""
    return _safe(" ".join(text.split())).replace("|", r"\|")


def prose(described: Any) -> str:
    """What an object's own docstring says; empty without one."""
    return markdown(vars(described).get("__doc__") or "")


def markdown(docstring: str) -> str:
    lines = inspect.cleandoc(docstring).splitlines()
    return "\n".join(line if line.startswith("    ") else _safe(line) for line in lines)


def _safe(line: str) -> str:
    """Without tags and links: what stands between brackets outside of code is meant as it is."""
    parts = re.split(r"(`[^`]*`)", line)
    return "".join(part if part.startswith("`") else part.translate(_MEANT_AS_THEY_ARE) for part in parts)


_MEANT_AS_THEY_ARE = {ord("<"): "&lt;", ord("*"): r"\*", ord("["): r"\["}
