"""Looks at one area after the other and writes what was found: `kafkalite doctor` and `kafkalite migrate check` end so."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from kafkalite.cli.doctor.findings import Finding, any_problem
from kafkalite.cli.output import Exit, note, write_rows
from kafkalite.cli.progress import patience

_COLUMNS: Final = ("status", "check", "found", "remedy")


def report_areas(
    areas: Mapping[str, Callable[[], Iterable[Finding]]],
    only: Collection[str],
    output: str,
    *,
    only_problems: bool,
    findings: Iterable[Finding] = (),
) -> None:
    """Write the given findings and those of the areas, or of `only` those, as `report_findings` does."""
    found = list(findings)
    for name, look in areas.items():
        if not only or name in only:
            with patience(f"looking at {name}"):
                found += look()
    report_findings(found, output, only_problems=only_problems)


def report_findings(findings: Collection[Finding], output: str, *, only_problems: bool) -> None:
    """Write findings; `only_problems` leaves out what has no remedy. Exits with CHECK_FAILED when one of them is a problem."""
    rows = [each.to_dict() for each in findings if each.remedy is not None or not only_problems]
    write_rows(rows, output, columns=_COLUMNS, name="check")
    if any_problem(findings):
        raise SystemExit(int(Exit.CHECK_FAILED))
    if not rows and output in ("table", "wide"):
        note("all is well")
