"""Which commits publish a night: for each table one, which replaces what an earlier run of the same date left there. Pure.

    units of a run                                          table                       replaced where
    archive/topic=flights/date=2013-06-14/run=2013-06-15    archive/topic=flights       run = 2013-06-15
    archive/topic=flights/date=2013-06-15/run=2013-06-15    archive/topic=flights       run = 2013-06-15
    reprocessed/delays/topic=flights/date=2013-06-15        reprocessed/delays/topic=…  date = 2013-06-15

The last column of a unit's path is what a run replaces: late records of other dates go with their run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from kafkalite import OWN_SETTINGS
from spark_jobs.batch.ledger import Entry, Unit

_PARTITIONS: Final = ("date", "run")
_PREFIX: Final = OWN_SETTINGS


@dataclass(frozen=True, slots=True)
class Identity:
    """Which run a commit publishes. An attempt is never repeated, so a commit that has it is that of the run at hand."""

    job: str
    topic: str
    date: str
    attempt: str

    def properties(self) -> dict[str, str]:
        """Return the identity as the properties of an Iceberg snapshot."""
        return {f"{_PREFIX}{name}": getattr(self, name) for name in self.__slots__}

    def to_json(self) -> str:
        """Return the identity as the user metadata of a Delta commit."""
        return json.dumps(self.properties())


@dataclass(frozen=True, slots=True)
class Commit:
    """The commit of a run to a table: partition columns, the one by whose value rows are replaced, units with the new rows."""

    table: str
    partitions: tuple[str, ...]
    replaced_by: str
    value: str
    units: tuple[Unit, ...]
    identity: Identity

    @property
    def rows(self) -> int:
        return sum(unit.rows for unit in self.units)


def is_in_table(unit: Unit) -> bool:
    """True if the unit becomes rows of a table; what readers do not see stays a folder."""
    return not unit.path.startswith("_")


def table_of(path: str) -> tuple[str, tuple[str, ...], str]:
    """Return the table of a unit's path, its partition columns, and the value of the last one."""
    parts, names, value = path.split("/"), [], ""
    while parts and parts[-1].partition("=")[0] in _PARTITIONS:
        name, _, found = parts.pop().partition("=")
        names.append(name)
        value = value or found
    return "/".join(parts), tuple(reversed(names)), value


def plan_commits(entry: Entry, replaced: Entry | None) -> list[Commit]:
    """Return the commits of a run, one for each table that it, or the finished run of the same date (`replaced`), has rows in."""
    identity = Identity(entry.job, entry.plan.topic, str(entry.plan.date), entry.attempt)
    ours = _by_table(entry.units)
    theirs = _by_table(replaced.units if replaced is not None else ())
    found = []
    for table in sorted({*ours, *theirs}):
        units = ours.get(table, [])
        _, partitions, value = table_of((units or theirs[table])[0].path)
        found.append(Commit(table, partitions, partitions[-1], value, tuple(units), identity))
    return found


def _by_table(units: Iterable[Unit]) -> Mapping[str, list[Unit]]:
    found: dict[str, list[Unit]] = {}
    for unit in units:
        if is_in_table(unit):
            found.setdefault(table_of(unit.path)[0], []).append(unit)
    return found
