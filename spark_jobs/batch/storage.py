"""The output folder: what the jobs need of a file system, and how it is had on a local one (`hadoop_storage` has the others).

Paths are relative to the output folder, with slashes. Writing a file is atomic, and so is replacing a folder where the file system renames
folders: whoever looks finds the old or the new one, also after a crash.

A folder has two notations. Its URI (`uri`) has blanks, `#` and letters beyond ASCII as percent signs and digits. Spark and Hadoop take
the text of a path as it is (`spark_path`): Hadoop's `Path(String)` decodes nothing, so a URI would name another folder. What Spark
writes goes there; reading additionally expands `[ ] { } * ? \\` unless `read_parquet` asks it not to.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import unquote_to_bytes

import mmh3

from spark_jobs.batch.failures import OutputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_DIGEST_PIECE_BYTES = 1 << 20
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?=/)")
"""Before a slash, so that a relative folder `a:b` is one."""
_FILE_URI: Final = re.compile(r"file:(?://[^/]*(?=/))?(/.*)", re.IGNORECASE | re.DOTALL)
_PATTERN: Final = re.compile(r"[\[\]{}*?\\]")
"""In a path that Spark takes for a pattern (`SparkHadoopUtil.isGlobPath`)."""
_GLOB_PATHS: Final = "__globPaths__"
"""Spark's own option of file sources for paths that are meant literally (`DataSource.GLOB_PATHS_KEY`)."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or folder in a folder."""

    name: str
    size_bytes: int
    is_folder: bool


class Storage(Protocol):
    """A folder of files. Methods raise OutputError when the file system refuses."""

    @property
    def uri(self) -> str:
        """The folder's URI, which names it in locks and messages. Spark takes `spark_path`."""

    @property
    def renames_folders(self) -> bool:
        """True if a folder is renamed in one step. False where each of its files is copied for that, and a crash leaves some of them."""

    def spark_path(self, path: str) -> str:
        """Return a path in the form that Spark and Hadoop take. OutputError for one that they cannot take."""

    def read(self, path: str) -> bytes | None:
        """Return a file's bytes; None when it is not there."""

    def write(self, path: str, data: bytes) -> None:
        """Write or replace a file, atomically and durably; folders above it are made."""

    def entries(self, path: str) -> list[Entry]:
        """Return what is in a folder, sorted by name; nothing when it is not there."""

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with all that is in it; nothing when it is not there."""

    def move(self, path: str, target: str) -> None:
        """Rename a file or folder to a name that is free, durably; folders above it are made."""

    def replace(self, path: str, target: str) -> None:
        """Put the folder `path` in the place of `target`, where `renames_folders`. What was there, if anything, is at `path` afterwards."""

    def digest(self, path: str) -> str | None:
        """Return a text that is equal for equal contents, of the bytes if `renames_folders`, else as the store tells; None where that is
        expensive.
        """

    def parquet_rows(self, path: str) -> int:
        """Return the number of rows of a Parquet file, by its footer."""


class LocalStorage:
    """A folder of a local file system, or of one that is mounted on every machine."""

    renames_folders = True

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def uri(self) -> str:
        return self._root.as_uri()

    def spark_path(self, path: str) -> str:
        found = f"file:{self._at(path)}"
        try:
            found.encode()
        except UnicodeEncodeError:
            raise OutputError(
                f"Spark cannot write to {os.fsencode(self._root)!r}: the name is not UTF-8; give another --output"
            ) from None
        return found

    def read(self, path: str) -> bytes | None:
        with self._translate_refusals("read", path):
            try:
                return self._at(path).read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                return None

    def write(self, path: str, data: bytes) -> None:
        target = self._at(path)
        temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        with self._translate_refusals("write", path):
            target.parent.mkdir(parents=True, exist_ok=True)
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
            _sync(target.parent)

    def entries(self, path: str) -> list[Entry]:
        with self._translate_refusals("list", path):
            try:
                with os.scandir(self._at(path)) as found:
                    listed = [(each.name, each.is_dir(), each) for each in found]
            except (FileNotFoundError, NotADirectoryError):
                return []
            entries = [
                Entry(name, 0 if is_folder else each.stat().st_size, is_folder) for name, is_folder, each in listed
            ]
        return sorted(entries, key=lambda entry: entry.name)

    def remove(self, path: str) -> None:
        target = self._at(path)
        with self._translate_refusals("remove", path):
            if target.is_dir() and not target.is_symlink():
                shutil.rmtree(target)
            else:
                target.unlink(missing_ok=True)

    def move(self, path: str, target: str) -> None:
        to = self._at(target)
        with self._translate_refusals("move", path):
            to.parent.mkdir(parents=True, exist_ok=True)
            self._at(path).rename(to)
            _sync(to)
            _sync(to.parent)

    def replace(self, path: str, target: str) -> None:
        """Replace a folder. Where the kernel cannot exchange two names, the target is missing between two renames."""
        source, to = self._at(path), self._at(target)
        with self._translate_refusals("replace", target):
            if not to.exists():
                self.move(path, target)
                return
            if not _exchange(source, to):
                aside = source.with_name(source.name + ".old")
                to.rename(aside)
                source.rename(to)
                aside.rename(source)
            _sync(to.parent)

    def digest(self, path: str) -> str | None:
        hasher = mmh3.mmh3_x64_128()
        with self._translate_refusals("read", path), self._at(path).open("rb") as file:
            while piece := file.read(_DIGEST_PIECE_BYTES):
                hasher.update(piece)
        return hasher.digest().hex()

    def parquet_rows(self, path: str) -> int:
        from pyarrow import parquet  # type: ignore[import-untyped]

        return int(parquet.read_metadata(self._at(path)).num_rows)

    def _at(self, path: str) -> Path:
        return self._root / path

    @contextmanager
    def _translate_refusals(self, what: str, path: str) -> Iterator[None]:
        """Raise OutputError for an OSError."""
        try:
            yield
        except OSError as problem:
            reason = problem.strerror or str(problem)
            raise OutputError(
                f"cannot {what} {self._at(path)}: {reason}; the output folder must be writable for this user"
            ) from problem


def local_folder(output: str) -> Path | None:
    """Return the local folder that `output` names, always by the same name; None when it is a URI of another file system.

    A `file:` URI is decoded, its `#` and `?` too are part of the name; anything without a scheme is a path as it stands.
    """
    if uri := _FILE_URI.fullmatch(output):
        return Path(os.fsdecode(unquote_to_bytes(os.fsencode(uri[1])))).resolve()
    return None if _SCHEME.match(output) else Path(output).expanduser().resolve()


def read_parquet(
    spark: SparkSession,
    paths: Iterable[str],
    schema: StructType | None = None,
    added: Mapping[str, Column] | None = None,
) -> DataFrame:
    """Return the rows of Parquet files or folders, whose `Storage.spark_path`s are meant literally: no letter of a path is a pattern.

    `added` are columns that may use Spark's `_metadata`.
    """
    every, reader = list(paths), spark.read
    reader = reader if schema is None else reader.schema(schema)
    if not any(_PATTERN.search(path) for path in every):
        return reader.parquet(*every).withColumns(dict(added or {}))
    # One by one: Spark reads all of several literal paths once for each of them that looks like a pattern.
    found = [reader.option(_GLOB_PATHS, "false").parquet(path).withColumns(dict(added or {})) for path in every]
    return reduce(lambda one, other: one.unionAll(other), found)


def _sync(path: Path) -> None:
    """Make a file durable, or the renames in a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two names in one step (Linux: renameat2); False where that cannot be done."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    if renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EXDEV):
        return False
    raise OSError(code, os.strerror(code), str(other))
