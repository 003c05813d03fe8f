"""Python source that is put together and compiled: what `reader_source` and `writer_source` write into."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any


class Source:
    """Generated functions and the constants that they use."""

    def __init__(self, **names: Any) -> None:
        self.names = names
        self.functions: dict[str, str] = {}

    def add(self, name: str, make: Callable[[], str]) -> None:
        """Add this function; it is made once."""
        if name not in self.functions:
            self.functions[name] = make()

    def constant(self, value: Any) -> str:
        """Return the name by which generated code reaches `value`."""
        name = f"k{len(self.names)}"
        self.names[name] = value
        return name

    def packer(self, format_: str, method: str) -> str:
        """Return the name of a method of a compiled struct of this format."""
        name = f"{method}_" + format_.replace("?", "B_")
        if name not in self.names:
            self.names[name] = getattr(struct.Struct(">" + format_), method)
        return name

    def packers(self, format_: str, most: int, method: str) -> str:
        """Return the name of a list: a method of a compiled struct of 0, 1, and up to `most` items of this format."""
        name = f"{method}_{format_.replace('?', 'B_')}_of"
        if name not in self.names:
            self.names[name] = [getattr(struct.Struct(f">{count}{format_}"), method) for count in range(most + 1)]
        return name

    def compile(self) -> dict[str, Any]:
        """Return the functions by name."""
        exec(compile("\n".join(self.functions.values()), "<kafkalite message codec>", "exec"), self.names)
        return self.names


class Lines:
    """Lines of a function body; runs of constant-size fields are gathered and flushed as one struct call."""

    def __init__(self, head: str, source: Source, flush_run: Callable[[Lines, list[tuple[str, str]]], None]) -> None:
        self.lines, self.source, self.indent = [head], source, 1
        self.run: list[tuple[str, str]] = []
        self._flush_run = flush_run

    def put(self, line: str) -> None:
        self.flush()
        self.lines.append("    " * self.indent + line)

    def add_fixed(self, format_: str, name: str) -> None:
        self.run.append((format_, name))

    def flush(self) -> None:
        if self.run:
            run, self.run = self.run, []
            self._flush_run(self, run)

    def text(self) -> str:
        self.flush()
        return "\n".join(self.lines)
