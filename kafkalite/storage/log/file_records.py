"""Records of a fetch that are read when they are sent (Kafka's FileRecords): the first of them are here, the others are where they lie.

A consumer that catches up is answered with tens of MiB. Read in one go they keep the loop for milliseconds and the client waiting for its
first byte, and take memory for as long as the client likes.

What was read before it was sent could not change any more. So files say before they change (`OpenFiles.lend`): records keep a file that
is about to have another name or none, by retention, compaction or deletion, and are cut when a replica is truncated within them. Who is
being sent records that were cut loses the connection, as with Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.storage.log_directory import LogDirectory, uses_disk

if TYPE_CHECKING:
    from kafkalite.storage.open_files import KeptFile
    from kafkalite.types import Buffer

HEAD_BYTES: Final = 64 * 1024
LARGE_BYTES: Final = 256 * 1024
"""Smaller records are read at once."""
PORTION_BYTES: Final = 1024 * 1024
"""Read and sent at a time, in some tenths of a millisecond."""


class FileRecords:
    """`size` bytes at `position` of the file at `path`, of which `head` was read. To a writer of messages it is a buffer of that length."""

    __slots__ = ("__weakref__", "_is_cut", "_kept", "_position", "_size", "head", "log_directory", "path")

    def __init__(self, log_directory: LogDirectory, path: str, position: int, head: Buffer, size: int) -> None:
        self.log_directory, self.path, self.head = log_directory, path, head
        self._position, self._size = position, size
        self._kept: KeptFile | None = None
        self._is_cut = False
        log_directory.files.lend(self)

    def __len__(self) -> int:
        return self._size

    @uses_disk
    def read(self, begin: int, *, may_wait: bool = False) -> Buffer:
        """Return the portion that begins `begin` bytes behind the first one.

        Raises NotInMemory where the medium would have to be waited for, KafkaError KAFKA_STORAGE_ERROR.
        """
        files, size = self.log_directory.files, min(PORTION_BYTES, self._size - begin)
        data: Buffer = b""
        if self._kept is not None:
            data = self._kept.file.read_at(self._position + begin, size)
        elif may_wait:
            data = files.read(self.path, self._position + begin, size)
        elif not self._is_cut:
            with files:
                data = files.read(self.path, self._position + begin, size)
        if self._is_cut or len(data) < size:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.path} was cut while its records were sent")
        return data

    # What becomes of the file: see `OpenFiles`

    def keep_file(self, file: KeptFile) -> None:
        """Read from `file` from now on, which is at no path any more."""
        if self._kept is None:
            self._kept = file

    def note_truncation(self, size: int) -> None:
        """Note that the file ends behind `size` bytes from now on."""
        self._is_cut |= self._kept is None and self._position + self._size > size
