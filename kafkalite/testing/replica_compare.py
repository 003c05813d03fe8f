"""Are the replicas of a partition equal? Record batches compared byte for byte across brokers' log directories.

Reads the segments as they lie on disk, so the brokers may run or not; what is still being written makes replicas differ,
so compare when nothing is. Segments may be cut at different batches: only the row of batches counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from kafkalite.protocol.records import crc_of, iter_batches
from kafkalite.testing.history import ReplicaBatch
from kafkalite.testing.judge import replica_findings
from kafkalite.types import TopicPartition

_DIGEST_BYTES: Final = 16


class Comparison(NamedTuple):
    """`differences` per partition: what differs first between two replicas, or what is wrong within one."""

    replicas: int
    batches: int
    size_bytes: int
    differences: dict[TopicPartition, list[str]]

    @property
    def equal(self) -> bool:
        return not self.differences

    def __str__(self) -> str:
        counts = f"{self.replicas} replicas with {self.batches} batches, {self.size_bytes} bytes"
        if self.equal:
            return f"{counts}: equal"
        lines = [f"  {name}: {text}" for name, texts in sorted(self.differences.items()) for text in texts]
        return f"{counts}: {len(self.differences)} partitions differ\n" + "\n".join(lines)


def partition_directories(log_dirs: Iterable[Path]) -> dict[TopicPartition, Path]:
    """The partitions that lie in a broker's log directories; those of deleted or future replicas are left out."""
    found = {}
    for log_dir in log_dirs:
        for directory in log_dir.iterdir():
            topic, dash, partition = directory.name.rpartition("-")
            if dash and partition.isdecimal() and directory.is_dir():
                found[TopicPartition(topic, int(partition))] = directory
    return found


def replica_batches(directory: Path) -> Iterator[ReplicaBatch]:
    """The batches of one replica in the order of its segments.

    Raises KafkaError CORRUPT_MESSAGE at bytes that are no batch, OSError.
    """
    for segment in sorted(directory.glob("*.log")):
        content = segment.read_bytes()
        for header in iter_batches(content):
            whole = memoryview(content)[header.position : header.end]
            digest = hashlib.blake2b(whole, digest_size=_DIGEST_BYTES).digest()
            yield ReplicaBatch(header.base_offset, header.partition_leader_epoch, header.crc, header.size, digest)


def inner_faults(directory: Path) -> Iterator[str]:
    """What is wrong within one replica: a checksum, offsets or leader epochs that go back, bytes behind the last batch."""
    next_offset, epoch = 0, -1
    for segment in sorted(directory.glob("*.log")):
        content, end = segment.read_bytes(), 0
        for header in iter_batches(content):
            if crc_of(content, header) != header.crc:
                yield f"{segment}: the batch at {header.base_offset} has a wrong checksum"
            if header.base_offset < next_offset:
                yield f"{segment}: the batch at {header.base_offset} comes after offset {next_offset - 1}"
            if header.partition_leader_epoch < epoch:
                yield f"{segment}: the batch at {header.base_offset} goes back to epoch {header.partition_leader_epoch}"
            next_offset, epoch, end = header.next_offset, header.partition_leader_epoch, header.end
        if content[end:].strip(b"\0"):
            yield f"{segment}: {len(content) - end} bytes behind the last batch"


def compare_replicas(
    log_dirs: Mapping[int, Sequence[Path]], partitions: Iterable[TopicPartition] | None = None
) -> Comparison:
    """Compare the replicas of `partitions` (default: all that lie there) in the log directories of each broker id.

    Raises KafkaError CORRUPT_MESSAGE where a segment cannot be read, OSError.
    """
    directories = {broker: partition_directories(paths) for broker, paths in log_dirs.items()}
    wanted = {name for found in directories.values() for name in found} if partitions is None else set(partitions)
    replicas = batches = size_bytes = 0
    differences: dict[TopicPartition, list[str]] = {}
    for name in sorted(wanted):
        contents = {}
        texts: list[str] = []
        for broker, found in directories.items():
            if name in found:
                contents[broker] = tuple(replica_batches(found[name]))
                texts += inner_faults(found[name])
        texts += [finding for finding in replica_findings(contents) if finding is not None]
        replicas += len(contents)
        batches += sum(len(content) for content in contents.values())
        size_bytes += sum(batch.size_bytes for content in contents.values() for batch in content)
        if texts:
            differences[name] = texts
    return Comparison(replicas, batches, size_bytes, differences)
