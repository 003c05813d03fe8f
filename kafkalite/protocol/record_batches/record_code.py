"""The code that reads and writes the records of a batch: compiled (`_records`) where that was built, else Python's (`python_records`).

Both do the same, byte for byte and error for error; `_records` in a tenth of the time. It is built with the package where there is a C
compiler, and wheels have it. `KAFKALITE_PURE_PYTHON=1` does without, for a comparison.

Data is any buffer, of which the bytes from `position` to before `end` are encoded records, decompressed. A position that lies outside of
the buffer is a ValueError. Python's code copies what is not bytes: who calls more than once gives it what `readable` returns.
"""

from __future__ import annotations

import os
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, Final, Protocol, TypeAlias

from kafkalite.types import Buffer

VARIABLE: Final = "KAFKALITE_PURE_PYTHON"
_COMPILED: Final = "kafkalite.protocol.record_batches._records"
_IN_PYTHON: Final = "kafkalite.protocol.record_batches.python_records"

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]
QueuedRecord: TypeAlias = tuple[Any, str, bytes | None, bytes | None, int | None, int | None, Headers | None, Any]
"""Delivery, topic, value, key, partition, timestamp, headers, and what is called when it is delivered."""
Columns: TypeAlias = tuple[list[int], list[int], list[bytes | None], list[bytes | None], list[Headers]]
"""Offsets, timestamps in ms, keys, values and headers of records."""
Places: TypeAlias = Sequence["array[int]"]
"""Offsets, timestamps in ms, begins and ends of keys and of values, counts and begins of headers, ends of records; a key or value that
begins at -1 is null."""

KEYS: Final = 1
VALUES: Final = 2
HEADERS: Final = 4
EVERYTHING: Final = KEYS | VALUES | HEADERS

LEAST_TIMESTAMP: Final = -(1 << 63)


class RecordMemory(Protocol):
    """What the batches of a producer share: the bytes that they take (`used_bytes`), which may pass `limit_bytes` by one record, the most
    bytes of key and value together that `RecordsWriter.add` takes, and the clock."""

    used_bytes: int

    @property
    def limit_bytes(self) -> int:
        """Return from how many bytes on no record is added."""


class RecordsWriter(Protocol):
    """A batch under construction, of up to `target_bytes` with its header; the first record always fits.

    Records of a writer with a `RecordMemory` are counted there, with the header of the batch, and their timestamps are kept for as long
    as the writer.
    """

    @property
    def count(self) -> int:
        """Return the number of records."""

    @property
    def size(self) -> int:
        """Return the bytes of the batch so far, with its header."""

    @property
    def base_timestamp(self) -> int:
        """Return the timestamp of the first record, -1 without one."""

    @property
    def max_timestamp(self) -> int:
        """Return the largest timestamp, -1 without a record."""

    def append(self, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers) -> int:
        """Return the size in bytes of the record that was added, 0 if it does not fit any more.

        Raises TypeError for a key or value without bytes, OverflowError for a timestamp beyond 64 bits or a record beyond 2 GiB, and
        UnicodeEncodeError; then nothing was added.
        """

    def add(self, timestamp: int | None, key: bytes | None, value: bytes | None, headers: Headers) -> int:
        """Return the index of the record that was added. None for the timestamp is now, by the memory's clock.

        Return -1, with nothing added, where it does not fit any more, its content is larger than the memory says, or the memory is full.
        Raises as `append`, and ValueError without a memory.
        """

    def add_queued(
        self,
        records: deque[QueuedRecord],
        topic: str,
        partition: int,
        now_ms: int,
        batch: Any,
        make_callback: Callable[[Any], Any],
    ) -> tuple[int, int]:
        """Take records from the queue as long as they have this topic and partition, and no headers, and `add` them.

        Each is known to its delivery by `batch` and `index`, and to `batch.callbacks` by its index and what `make_callback` makes of what
        shall be called. Return how many were taken, and the bytes of their contents. What `add` raises for the first of them is raised;
        a later one that would raise stays the first in the queue.
        """

    def timestamp_at(self, index: int) -> int:
        """Return the timestamp of a record. Raises IndexError without such a record, or without a memory."""

    def extend(self, records: Iterable[tuple[int, bytes | None, bytes | None, Headers]]) -> int:
        """Append records (timestamp, key, value, headers) until one does not fit; returns how many were added. Raises as `append`."""

    def finish(self) -> bytearray:
        """Return 61 bytes for the header of the batch, and the records behind it. The writer is spent."""


_FUNCTIONS: Final = (
    "RecordMemory",
    "RecordsWriter",
    "check_in_order",
    "choose_partition",
    "choose_partitions",
    "digest_batches",
    "digest_records",
    "find_places",
    "find_runs",
    "find_starts",
    "hash_rows",
    "read_columns",
    "skip_records",
)


def load_code(environment: Mapping[str, str]) -> ModuleType:
    """Return the compiled module; Python's where there is none, `KAFKALITE_PURE_PYTHON` is set, or an older source was compiled."""
    if not environment.get(VARIABLE):
        try:
            compiled = import_module(_COMPILED)
        except (ImportError, SystemError):  # the latter by a Python without the global lock, which has another ABI
            pass
        else:
            if all(hasattr(compiled, name) for name in _FUNCTIONS):
                return compiled
    return import_module(_IN_PYTHON)


_code: Final[Any] = load_code(os.environ)
IS_COMPILED: Final = _code.__name__ == _COMPILED

read_columns: Final[Callable[[Buffer, int, int, int, int, int, int | None, int], tuple[int, Columns]]] = (
    _code.read_columns
)
"""Read up to so many records into columns: data, position, end, limit, base offset, base timestamp, append time, wanted columns.

Return the position behind them, and the columns. With an append time all have that, else the base timestamp and their own delta (64 bits:
behind the largest comes the smallest). Columns that are not `wanted` (KEYS, VALUES, HEADERS) stay empty. A record without headers has ().
The key of a header that is not UTF-8 is read with U+FFFD, as Java does. Ends before a malformed record; raises ValueError where that is
the first, or there is none.
"""

find_places: Final[Callable[[Buffer, int, int, int, int, int], tuple[int, Places]]] = _code.find_places
"""Find where keys, values and headers of up to so many records lie, without making them: data, position, end, limit, both bases.

Return the position behind these records, and arrays of 64-bit integers with an element for each of them; behind the largest offset and
timestamp comes the smallest. Ends before a malformed record; raises ValueError where that is the first, or there is none.
"""

skip_records: Final[Callable[[Buffer, int, int, int, int, int, int, int], tuple[int, int]]] = _code.skip_records
"""Find the first record of at least an offset and a timestamp: data, position, end, count, both bases, offset, timestamp.

Return its position and how many of the `count` records are before it. Stops at a malformed record too, and behind the last one.
"""

check_in_order: Final[Callable[[Buffer, int, int, int, int], tuple[int, int, bool] | None]] = _code.check_in_order
"""Check that so many well-formed records with offset deltas 0, 1, 2 … fill the data: data, position, end, count, headers at once.

Return their smallest and largest timestamp delta in ms, and if all have a key. None says nothing: they may be otherwise, a record has more
headers than that, or the code is Python's, where `record_check` walks.
"""

Digest: TypeAlias = tuple[int, int, int, int, int, int, int]
"""The fields of `record_digest.RangeDigest`."""

digest_records: Final[
    Callable[[Buffer, int, int, int, int, int, int | None, int, int, int, int], tuple[int, Digest] | None]
] = _code.digest_records
"""Digest so many records: data, position, end, count, base offset, base timestamp, append time, first offset, offset behind the last, least
and largest timestamp.

Return the position behind them and the digest of those within the bounds. None says nothing: one is malformed, has an offset beyond 64 bits
or a header whose key is not ASCII, or the code is Python's; `record_digest` reads them one by one then.
"""

digest_batches: Final[Callable[[Buffer, int, int, int, int, int, int], tuple[int, Digest]]] = _code.digest_batches
"""Digest batches that follow each other: data, position, end, first offset, offset behind the last, least and largest timestamp.

Return the position behind the last of them and the digest of those of their records that lie within the bounds. Ends before a batch that
is compressed, of an older format or cut, or that `digest_records` says nothing of; Python's code before the first. Neither checksums nor
what kind of batch it is matter.
"""

Run: TypeAlias = tuple[int, int, int, list[tuple[int, int, int]]]
"""The position of the first batch and that behind the last one, the number of their records, and of each batch the begin and end of the
bytes that its checksum covers, and the checksum."""

find_runs: Final[Callable[[Buffer, int, int, int, int, int, int, int], list[Run] | None]] = _code.find_runs
"""Find batches that need nothing but `digest_batches`, and the walk over their headers: data, position, end, position before which a batch
begins, offset before which it begins, most records of a batch and of a run, most bytes of a batch, most batches of a run.

Return all whole ones from the position on, in runs. None says nothing: one of them is compressed, transactional, a control batch or of an
older format, has no records or too many, or is no batch; there is none; or the code is Python's.
"""

find_starts: Final[Callable[[Buffer, int, int, int], array[int]]] = _code.find_starts
"""Return the positions of the `count` records between position and end, which are known by their lengths alone. Raises ValueError where
their lengths say otherwise."""

hash_rows: Final[
    Callable[[int, Buffer, Buffer, Buffer, Buffer, Buffer, Buffer | None, Buffer, Buffer, Buffer | None], bytearray]
] = _code.hash_rows
"""Hash so many rows: count, partitions (32 bits), offsets, timestamps (64 bits), then bounds (32 bits, one more than rows), data and nulls
(a byte for each row, None for no null) of keys, and of values, as Arrow has columns of bytes.

Return 16 bytes for each, murmur3 (x64, 128 bits) of what `python_records.hash_row` says. Raises ValueError for columns that are too short,
or bounds that lie outside of the data.
"""

choose_partition: Final[Callable[[Buffer, int], int]] = _code.choose_partition
"""Return the partition of a key, of so many, as Kafka's default partitioner (murmur2). Raises TypeError for what has no bytes."""

choose_partitions: Final[Callable[[Iterable[Buffer | None], int], list[int | None]]] = _code.choose_partitions
"""Return for each key what `choose_partition` does; None for a null key. Raises as that."""

new_memory: Final[Callable[[int, int, Callable[[], int] | None], RecordMemory]] = _code.RecordMemory
"""Return a memory of so many bytes, for records with at most so many bytes of key and value, and with a clock that returns milliseconds
since 1970 UTC; None for the machine's, which compiled code reads itself."""

new_writer: Final[Callable[[int, RecordMemory | None], RecordsWriter]] = _code.RecordsWriter
"""Return a writer of a batch of up to so many bytes, with a memory or without."""


def readable(data: Buffer) -> Buffer:
    """Return the data as it is read best: as it is by compiled code, as bytes by Python's."""
    return data if IS_COMPILED or isinstance(data, bytes | bytearray) else bytes(data)
