"""The output folder on any file system that Spark's Hadoop client reaches: HDFS, object stores.

Where a folder cannot be exchanged for another in one step, it is missing for a moment between two renames; a crash in that moment is made
good by the next run (`publication`). On object stores a rename copies, and is no single step either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from spark_jobs.batch import layout
from spark_jobs.batch.failures import OutputError
from spark_jobs.batch.storage import Entry, Storage

T = TypeVar("T")


class HadoopStorage:
    """See `Storage`. Uses the Java file system classes of the session's driver."""

    def __init__(self, spark: SparkSession, output: str) -> None:
        context: Any = spark.sparkContext
        self._jvm: Any = context._jvm
        self._configuration: Any = context._jsc.hadoopConfiguration()
        self._root = output.rstrip("/")
        self._files: Any = self._try("open", "", lambda: self._path("").getFileSystem(self._configuration))

    @property
    def uri(self) -> str:
        return self._root

    def spark_path(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root

    def read(self, path: str) -> bytes | None:
        where = self._path(path)

        def read() -> bytes | None:
            if not self._files.exists(where) or self._files.getFileStatus(where).isDirectory():
                return None
            stream = self._files.open(where)
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()

        return self._try("read", path, read)

    def write(self, path: str, data: bytes) -> None:
        where, temporary = self._path(path), self._path(f"{path}.tmp")

        def write() -> None:
            stream = self._files.create(temporary, True)
            try:
                stream.write(bytearray(data))
                if hasattr(stream, "hsync"):
                    stream.hsync()
            finally:
                stream.close()
            self._rename_over(temporary, where)

        self._try("write", path, write)

    def entries(self, path: str) -> list[Entry]:
        where = self._path(path)

        def list_entries() -> list[Entry]:
            if not self._files.exists(where):
                return []
            found = [
                Entry(each.getPath().getName(), each.getLen(), each.isDirectory())
                for each in self._files.listStatus(where)
            ]
            return sorted(found, key=lambda entry: entry.name)

        return self._try("list", path, list_entries)

    def remove(self, path: str) -> None:
        self._try("remove", path, lambda: self._files.delete(self._path(path), True))

    def move(self, path: str, target: str) -> None:
        to = self._path(target)

        def move() -> None:
            self._files.mkdirs(to.getParent())
            if not self._files.rename(self._path(path), to):
                raise OutputError(f"cannot move {self._root}/{path} to {self._root}/{target}")

        self._try("move", path, move)

    def replace(self, path: str, target: str) -> None:
        if not self._try("look at", target, lambda: self._files.exists(self._path(target))):
            self.move(path, target)
            return
        aside = f"{path}.old"
        self.move(target, aside)
        self.move(path, target)
        self.move(aside, path)

    def digest(self, path: str) -> str | None:
        found: Any = self._try("read", path, lambda: self._files.getFileChecksum(self._path(path)))
        return None if found is None else str(found.toString())

    def parquet_rows(self, path: str) -> int:
        hadoop = self._jvm.org.apache.parquet.hadoop

        def count() -> int:
            reader = hadoop.ParquetFileReader.open(
                hadoop.util.HadoopInputFile.fromPath(self._path(path), self._configuration)
            )
            try:
                return int(reader.getRecordCount())
            finally:
                reader.close()

        return self._try("read", path, count)

    def _rename_over(self, path: Any, target: Any) -> None:
        """FileContext's rename replaces the target in one step where the file system can."""
        fs = self._jvm.org.apache.hadoop.fs
        context = fs.FileContext.getFileContext(self._files.getUri(), self._configuration)
        overwrite = self._jvm.java.lang.reflect.Array.newInstance(fs.Options.Rename.OVERWRITE.getClass(), 1)
        overwrite[0] = fs.Options.Rename.OVERWRITE
        context.rename(path, target, overwrite)

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.spark_path(path))

    def _try(self, what: str, path: str, call: Callable[[], T]) -> T:
        try:
            return call()
        except Py4JJavaError as problem:
            reason = str(problem.java_exception.toString())
            raise OutputError(f"cannot {what} {self._root}/{path}: {reason}") from problem


def check_seen(spark: SparkSession, local: Storage) -> None:
    """OutputError unless Spark's driver sees the file WRITABLE in a local output folder.

    Java finds no name with letters beyond ASCII when it was started in a locale without them, and writes to another folder.
    """
    folder = local.spark_path("")
    if HadoopStorage(spark, folder).read(layout.WRITABLE) is None:
        raise OutputError(
            f"Spark's Java does not see {folder}, which was made just now; where its name has letters beyond ASCII, start Java with "
            "LC_ALL=C.UTF-8, or give another --output"
        )
