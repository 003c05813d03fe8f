"""Plans are written into files that nobody has used yet: no plan, journal or evidence of that name is there."""

from __future__ import annotations

import os
from pathlib import Path

from kafkalite.cli.migrate.evidence import sync_directory
from kafkalite.cli.migrate.journal import evidence_path, journal_path
from kafkalite.cli.output import Exit, fail, flush, note, write_line


def refuse_existing(file: Path) -> None:
    """End the command if there is a plan in this file already, or a journal or evidence of one."""
    for each in (file, journal_path(file), evidence_path(file)):
        if each.exists():
            fail(f"{each} exists; give another name, or remove it", Exit.EXISTS)


def write_plan(file: Path | None, text: str, counts: str) -> None:
    """Write a plan to disk and say what it has, or print it if there is no file."""
    if file is None:
        write_line(text.removesuffix("\n"))
        flush()
        return
    with file.open("x", encoding="utf-8") as new:
        new.write(text)
        new.flush()
        os.fsync(new.fileno())
    sync_directory(file.parent)
    note(f"{counts} in {file}")
