"""Are the replicas of a partition equal? Record batches compared byte for byte across brokers' log directories.

Reads the segments as they lie on disk, so the brokers may run or not; what is still being written makes replicas differ,
so compare when nothing is. Segments may be cut at different batches: only the row of batches counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from kafkalite.errors import KafkaError
from kafkalite.protocol.record_batches.records import BatchHeader, crc_of, iter_batches
from kafkalite.testing.history.events import ReplicaBatch
from kafkalite.testing.history.rules.replication import replica_findings
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
    """Return the partitions that lie in a broker's log directories; those of deleted or future replicas are left out."""
    found = {}
    for log_dir in log_dirs:
        for directory in log_dir.iterdir():
            topic, dash, partition = directory.name.rpartition("-")
            if dash and partition.isdecimal() and directory.is_dir():
                found[TopicPartition(topic, int(partition))] = directory
    return found


class Replica(NamedTuple):
    """What lies in the segments of one replica, and what is wrong with it by itself."""

    batches: tuple[ReplicaBatch, ...]
    faults: tuple[str, ...]


def digest_batch(content: bytes, header: BatchHeader) -> ReplicaBatch:
    """Return what a history keeps of a batch that lies in `content`."""
    digest = hashlib.blake2b(content[header.position : header.end], digest_size=_DIGEST_BYTES).digest()
    return ReplicaBatch(header.base_offset, header.partition_leader_epoch, header.crc, header.size, digest)


def read_replica(directory: Path) -> Replica:
    """Return the batches of a replica in the order of its segments. Raises OSError.

    Faults are a wrong checksum, offsets or leader epochs that go back, and bytes that are no whole batch.
    """
    batches: list[ReplicaBatch] = []
    faults: list[str] = []
    next_offset, epoch = 0, -1
    for segment in sorted(directory.glob("*.log")):
        content, end = segment.read_bytes(), 0
        try:
            for header in iter_batches(content):
                end = header.end
                found = digest_batch(content, header)
                batches.append(found)
                where = f"{segment}: the batch at {found.base_offset}"
                if crc_of(content, header) != header.crc:
                    faults.append(f"{where} has a wrong checksum")
                if found.base_offset < next_offset:
                    faults.append(f"{where} comes after offset {next_offset - 1}")
                if found.leader_epoch < epoch:
                    faults.append(f"{where} goes back to epoch {found.leader_epoch}")
                next_offset, epoch = header.next_offset, found.leader_epoch
        except KafkaError:
            pass  # said below, with the number of bytes
        if end != len(content):
            faults.append(f"{segment}: {len(content) - end} bytes behind the last batch")
    return Replica(tuple(batches), tuple(faults))


def compare_replicas(
    log_dirs: Mapping[int, Sequence[Path]], partitions: Iterable[TopicPartition] | None = None
) -> Comparison:
    """Compare the replicas of `partitions` (default: all that lie there) in the log directories of each broker id.

    Raises OSError.
    """
    directories = {broker: partition_directories(paths) for broker, paths in log_dirs.items()}
    wanted = {name for found in directories.values() for name in found} if partitions is None else set(partitions)
    replicas = batches = size_bytes = 0
    differences: dict[TopicPartition, list[str]] = {}
    for name in sorted(wanted):
        read = {broker: read_replica(found[name]) for broker, found in directories.items() if name in found}
        contents = {broker: replica.batches for broker, replica in read.items()}
        texts = [fault for replica in read.values() for fault in replica.faults]
        texts += [finding for finding in replica_findings(contents) if finding is not None]
        replicas += len(read)
        batches += sum(len(content) for content in contents.values())
        size_bytes += sum(batch.size_bytes for content in contents.values() for batch in content)
        if texts:
            differences[name] = texts
    return Comparison(replicas, batches, size_bytes, differences)
