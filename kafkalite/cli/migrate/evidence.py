"""The evidence of a migration, and its files. Pure, but for the reading and writing of files.

A file is JSON lines: a header, rows, and a seal with the number of rows and a digest of all lines before it. What was cut off, taken out,
added or altered does not fit the seal, and is refused: evidence is whole, or none.

- `acknowledged.jsonl`: a `Ledger`, what a probe sent and brokers acknowledged. Written line by line while it goes on.
- `before.jsonl`, `after.jsonl`: a `Moment` each, digests of what was readable, and the groups' offsets.

Format 1 had digests of records that brokers do not know; evidence of that format is refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeVar

from kafkalite.types import TopicPartition

FORMAT: Final = 2
LEDGER_FILE: Final = "acknowledged.jsonl"
BEFORE_FILE: Final = "before.jsonl"
AFTER_FILE: Final = "after.jsonl"
_DIGEST_BYTES: Final = 16

Row = TypeVar("Row")


class IncompleteEvidenceError(Exception):
    """Raised for evidence that is not whole: nothing may be concluded from it."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path} is no complete evidence: {why}")


@dataclass(frozen=True, slots=True)
class PartitionBounds:
    """Where a partition began and ended. `is_compacted` says that its topic may lose superseded records at any time, `may_expire` that
    retention may delete its oldest ones.
    """

    topic: str
    partition: int
    log_start: int
    end: int
    is_compacted: bool
    may_expire: bool = True
    stable: int | None = None
    """The last stable offset: where a reader of committed records stops. None in files of earlier versions."""

    @property
    def committed(self) -> int:
        """The offset before which all is committed."""
        return self.end if self.stable is None else min(self.end, self.stable)

    def holds(self, start: int, end: int) -> bool:
        """True if copies of the partition have all of these offsets, batch by batch."""
        return not self.is_compacted and self.log_start <= start and end <= self.end


@dataclass(frozen=True, slots=True)
class RangeDigest:
    """The committed records with offsets from `start` to before `end`: how many, bytes of keys, values and headers, and the fingerprint of
    all of them with offsets and timestamps (`Admin.digest_records`).
    """

    topic: str
    partition: int
    start: int
    end: int
    records: int
    content_bytes: int
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets from `start` to before `end`; transactions that begin before `stable` were ended when it was chosen."""

    start: int
    end: int
    stable: int


@dataclass(frozen=True, slots=True)
class CopyDigest:
    """The batches of a span as one replica has them in its log, markers of transactions among them, and the aborted transactions that it
    tells readers of. `digest` is of all their bytes, in order.
    """

    topic: str
    partition: int
    broker: int
    start: int
    end: int
    stable: int
    batches: int
    markers: int
    aborted: int
    digest: str


@dataclass(frozen=True, slots=True)
class UnreadCopy:
    """A replica whose copy could not be read. `is_lacking` says that its broker answered, and had not all that the span has."""

    topic: str
    partition: int
    broker: int
    why: str
    is_lacking: bool = False


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """What a group has committed for a partition."""

    group: str
    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class ProbeRecord:
    """A record of the probe: its number, where it is, and a digest of key and value."""

    number: int
    partition: int
    offset: int
    digest: str


@dataclass(frozen=True, slots=True)
class Ledger:
    """What a probe did: records 0 to before `sent` of one topic; for each either where it was acknowledged, or in `unresolved` that nobody
    knows whether it is there.
    """

    probe: str
    topic: str
    sent: int
    acknowledged: tuple[ProbeRecord, ...]
    unresolved: frozenset[int]


@dataclass(frozen=True, slots=True)
class Moment:
    """What was readable at one time (Unix ms). `probe` is whose records `probed` are; None where no probe's were looked for. `last` is how
    many offsets of each partition were to be read, None where others decided that. `without_epochs`: digests of copies leave out the
    leader epochs of batches.
    """

    taken_ms: int
    cluster_id: str
    partitions: Mapping[TopicPartition, PartitionBounds]
    ranges: Mapping[tuple[TopicPartition, int], RangeDigest]
    """By partition and start."""
    groups: Mapping[tuple[str, TopicPartition], int]
    probe: str | None = None
    probed: tuple[ProbeRecord, ...] = field(default=())
    last: int | None = None
    copies: tuple[CopyDigest, ...] = ()
    unread: tuple[UnreadCopy, ...] = ()
    without_epochs: bool = False


class SealedFile:
    """A new file of evidence: rows go out at once, the seal at the end. FileExistsError for one that is there."""

    def __init__(self, path: Path, header: Mapping[str, Any]) -> None:
        self._path = path
        self._file = path.open("x", encoding="utf-8")
        self._digest = blake2b(digest_size=_DIGEST_BYTES)
        self._rows = -1
        self.write({"format": FORMAT, **header})

    def write(self, row: Mapping[str, Any]) -> None:
        """Write a row, so that it outlives this process."""
        line = json.dumps(row) + "\n"
        self._digest.update(line.encode())
        self._file.write(line)
        self._file.flush()
        self._rows += 1

    def seal(self) -> None:
        """Write the last line; without it the file is no evidence. It outlives the machine then, as what follows it in a journal does."""
        self._file.write(json.dumps({"rows": self._rows, "seal": self._digest.hexdigest()}) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        sync_directory(self._path.parent)

    def __enter__(self) -> SealedFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def sync_directory(directory: Path) -> None:
    """Put the names in a directory on disk: without it a new file may be gone after a power failure. Raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_sealed(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return header and rows. Raises IncompleteEvidenceError, and OSError for a file that cannot be read."""
    lines = path.read_bytes().splitlines(keepends=True)
    try:
        documents = [json.loads(line) for line in lines]
    except ValueError:
        raise IncompleteEvidenceError(path, "a line is no JSON, or was cut off") from None
    if len(documents) < 2 or not all(isinstance(each, dict) for each in documents) or "seal" not in documents[-1]:
        raise IncompleteEvidenceError(path, "it has no seal at its end: whoever wrote it did not finish")
    header, *rows, seal = documents
    if header.get("format") != FORMAT:
        was = f"its format is {header.get('format')!r}, not {FORMAT}"
        raise IncompleteEvidenceError(path, f"{was}: take it again with this release, into another directory")
    if seal.get("rows") != len(rows):
        raise IncompleteEvidenceError(path, f"{len(rows)} rows are there, {seal.get('rows')} were written")
    if seal["seal"] != blake2b(b"".join(lines[:-1]), digest_size=_DIGEST_BYTES).hexdigest():
        raise IncompleteEvidenceError(path, "its lines are not those that were sealed")
    return header, rows


def ledger_header(probe: str, topic: str) -> dict[str, Any]:
    """Return the header of a ledger, whose rows are those of `ProbeRecord`, and {"unresolved": number}."""
    return {"evidence": "ledger", "probe": probe, "topic": topic}


def read_ledger(path: Path) -> Ledger:
    """Return the ledger in a file. Raises IncompleteEvidenceError when it does not account for every record that was sent; OSError."""
    header, rows = read_sealed(path)
    try:
        acknowledged = tuple(ProbeRecord(**row) for row in rows if "unresolved" not in row)
        unresolved = [row["unresolved"] for row in rows if "unresolved" in row]
        ledger = Ledger(header["probe"], header["topic"], len(rows), acknowledged, frozenset(unresolved))
    except (KeyError, TypeError) as failed:
        raise IncompleteEvidenceError(path, f"it is no ledger: {failed}") from None
    told = sorted([*(each.number for each in acknowledged), *unresolved])
    missing = sorted(set(range(max(told, default=-1) + 1)) - set(told))
    if missing:
        raise IncompleteEvidenceError(path, f"it does not tell of record {missing[0]}, though of later ones")
    if len(told) != len(set(told)):
        raise IncompleteEvidenceError(path, "it tells of a record twice")
    if not acknowledged:
        raise IncompleteEvidenceError(path, "nothing was acknowledged")
    return ledger


def write_moment(path: Path, moment: Moment) -> None:
    """Write a new file. Raises FileExistsError, OSError."""
    facts = {"taken_ms": moment.taken_ms, "cluster_id": moment.cluster_id, "probe": moment.probe, "last": moment.last}
    if moment.without_epochs:
        facts["without_epochs"] = True
    with SealedFile(path, {"evidence": "moment", **facts}) as file:
        for kind, rows in (("partition", moment.partitions.values()), ("range", moment.ranges.values())):
            for each in rows:
                file.write({"kind": kind, **asdict(each)})
        for (group, place), offset in moment.groups.items():
            file.write({"kind": "group", **asdict(GroupOffset(group, *place, offset))})
        for kind, some in (("probe", moment.probed), ("copy", moment.copies), ("unread", moment.unread)):
            for one in some:
                file.write({"kind": kind, **asdict(one)})
        file.seal()


def read_moment(path: Path, *, to_the_end: bool) -> Moment:
    """Return the moment in a file. Raises IncompleteEvidenceError, also, with `to_the_end`, when the ranges of a partition have a gap or
    do not reach from its start, or its last offsets, to where its committed records end; OSError.
    """
    header, rows = read_sealed(path)
    try:
        moment = _moment_of(header, rows)
    except (KeyError, TypeError) as failed:
        raise IncompleteEvidenceError(path, f"it tells of no moment: {failed}") from None
    for place, bounds in moment.partitions.items() if to_the_end else ():
        ranges = sorted(
            (each for (where, _), each in moment.ranges.items() if where == place), key=lambda one: one.start
        )
        if gap := _find_gap(ranges, _first_offset(bounds, ranges, moment.last), bounds.committed):
            raise IncompleteEvidenceError(path, f"{place} is not covered from offset {gap[0]} to {gap[1]}")
    return moment


_KINDS: Final[Mapping[str, type]] = {
    "partition": PartitionBounds,
    "range": RangeDigest,
    "group": GroupOffset,
    "probe": ProbeRecord,
    "copy": CopyDigest,
    "unread": UnreadCopy,
}
"""What a row of a moment is."""


def _moment_of(header: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> Moment:
    found: dict[str, list[Any]] = {kind: [] for kind in _KINDS}
    for row in rows:
        values = {key: value for key, value in row.items() if key != "kind"}
        found[row["kind"]].append(_KINDS[row["kind"]](**values))
    partitions, ranges, groups = found["partition"], found["range"], found["group"]
    return Moment(
        header["taken_ms"],
        header["cluster_id"],
        {TopicPartition(each.topic, each.partition): each for each in partitions},
        {(TopicPartition(each.topic, each.partition), each.start): each for each in ranges},
        {(each.group, TopicPartition(each.topic, each.partition)): each.offset for each in groups},
        header["probe"],
        tuple(found["probe"]),
        header.get("last"),
        tuple(found["copy"]),
        tuple(found["unread"]),
        bool(header.get("without_epochs")),
    )


def _first_offset(bounds: PartitionBounds, ranges: Sequence[RangeDigest], last: int | None) -> int:
    """Return where the ranges of a partition have to begin."""
    if last is not None:
        return max(bounds.log_start, bounds.end - last)
    return ranges[0].start if ranges else bounds.log_start


def _find_gap(ranges: Sequence[RangeDigest], at: int, end: int) -> tuple[int, int] | None:
    """Return the first offsets from `at` to before the end that none of the ranges covers."""
    for each in ranges:
        if each.start != at:
            return at, each.start
        at = each.end
    return None if at >= end else (at, end)
