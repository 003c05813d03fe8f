"""The output folder on any file system that Spark's Hadoop client reaches: HDFS, object stores.

Where a folder cannot be exchanged for another in one step, it is missing for a moment between two renames; a crash in that moment is made
good by the next run (`publication`). On object stores a folder is no more than what the names of objects begin with, and renaming one would
copy them one by one: there only objects are written, each in one step.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, Final

from py4j.java_gateway import is_instance_of  # type: ignore[import-untyped]
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from spark_jobs.batch import layout
from spark_jobs.batch.failures import OutputError
from spark_jobs.batch.storage import Entry, Storage

_OBJECT_STORES: Final = frozenset({"s3a", "s3", "s3n", "gs", "oss", "cosn", "obs", "wasb", "wasbs"})
"""Schemes of file systems that rename a folder by copying. Azure's `abfs` renames it in one step."""
_TELLS_TAGS: Final = "org.apache.hadoop.fs.EtagSource"
_SLASHES_OF_HOST: Final = 2
_LACKS_CLASSES: Final = ("ClassNotFoundException", "UnsupportedFileSystemException", "NoClassDefFoundError")


class HadoopStorage:
    """`Storage` by the Java file system classes of the session's driver."""

    renames_folders = True

    def __init__(self, spark: SparkSession, output: str) -> None:
        context: Any = spark.sparkContext
        self._gateway: Any = context._gateway
        self._jvm: Any = context._jvm
        self._configuration: Any = context._jsc.hadoopConfiguration()
        self._root = output.rstrip("/")
        try:
            with self._translate_refusals("open", ""):
                self._files: Any = self._path("").getFileSystem(self._configuration)
        except OutputError as problem:
            if not any(text in str(problem) for text in _LACKS_CLASSES):
                raise
            version = self._jvm.org.apache.hadoop.util.VersionInfo.getVersion()
            raise OutputError(
                f"{problem}; Spark's Java needs the package of this file system, for s3a by "
                f"--conf spark.jars.packages=org.apache.hadoop:hadoop-aws:{version}"
            ) from problem

    @property
    def uri(self) -> str:
        return self._root

    def spark_path(self, path: str) -> str:
        is_below = path or self._root.count("/") == _SLASHES_OF_HOST  # the root of a file system has a slash
        return f"{self._root}/{path}" if is_below else self._root

    def read(self, path: str) -> bytes | None:
        where = self._path(path)
        with self._translate_refusals("read", path):
            if not self._files.exists(where) or self._files.getFileStatus(where).isDirectory():
                return None
            with closing(self._files.open(where)) as stream:
                return bytes(stream.readAllBytes())

    def write(self, path: str, data: bytes) -> None:
        temporary = self._path(f"{path}.tmp")
        with self._translate_refusals("write", path):
            with closing(self._files.create(temporary, True)) as stream:
                stream.write(bytearray(data))
                if hasattr(stream, "hsync"):
                    stream.hsync()
            self._rename_over(temporary, self._path(path))

    def entries(self, path: str) -> list[Entry]:
        where = self._path(path)
        with self._translate_refusals("list", path):
            if not self._files.exists(where):
                return []
            found = [
                Entry(each.getPath().getName(), each.getLen(), each.isDirectory())
                for each in self._files.listStatus(where)
            ]
        return sorted(found, key=lambda entry: entry.name)

    def remove(self, path: str) -> None:
        with self._translate_refusals("remove", path):
            self._files.delete(self._path(path), True)

    def move(self, path: str, target: str) -> None:
        to = self._path(target)
        with self._translate_refusals("move", path):
            self._files.mkdirs(to.getParent())
            if not self._files.rename(self._path(path), to):
                raise OutputError(f"cannot move {self._root}/{path} to {self._root}/{target}")

    def replace(self, path: str, target: str) -> None:
        with self._translate_refusals("look at", target):
            is_there = self._files.exists(self._path(target))
        if not is_there:
            self.move(path, target)
            return
        aside = f"{path}.old"
        self.move(target, aside)
        self.move(path, target)
        self.move(aside, path)

    def digest(self, path: str) -> str | None:
        with self._translate_refusals("read", path):
            found: Any = self._files.getFileChecksum(self._path(path))
        return None if found is None else str(found.toString())

    def parquet_rows(self, path: str) -> int:
        hadoop = self._jvm.org.apache.parquet.hadoop
        with self._translate_refusals("read", path):
            file = hadoop.util.HadoopInputFile.fromPath(self._path(path), self._configuration)
            with closing(hadoop.ParquetFileReader.open(file)) as reader:
                return int(reader.getRecordCount())

    def _rename_over(self, path: Any, target: Any) -> None:
        """Rename by FileContext, which replaces the target in one step where the file system can."""
        fs = self._jvm.org.apache.hadoop.fs
        context = fs.FileContext.getFileContext(self._files.getUri(), self._configuration)
        overwrite = self._jvm.java.lang.reflect.Array.newInstance(fs.Options.Rename.OVERWRITE.getClass(), 1)
        overwrite[0] = fs.Options.Rename.OVERWRITE
        context.rename(path, target, overwrite)

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.spark_path(path))

    @contextmanager
    def _translate_refusals(self, what: str, path: str) -> Iterator[None]:
        """Raise OutputError for an exception of Java."""
        try:
            yield
        except Py4JJavaError as problem:
            reason = str(problem.java_exception.toString())
            raise OutputError(f"cannot {what} {self._root}/{path}: {reason}") from problem


class ObjectStorage(HadoopStorage):
    """`Storage` of objects. `digest` is the entity tag of an object, which a copy of equal contents need not have."""

    renames_folders = False

    def write(self, path: str, data: bytes) -> None:
        with self._translate_refusals("write", path), closing(self._files.create(self._path(path), True)) as stream:
            stream.write(bytearray(data))

    def digest(self, path: str) -> str | None:
        with self._translate_refusals("look at", path):
            status: Any = self._files.getFileStatus(self._path(path))
            if not is_instance_of(self._gateway, status, _TELLS_TAGS):
                return None
            return status.getEtag() or None


def open_hadoop_storage(spark: SparkSession, output: str) -> HadoopStorage:
    """Return the storage of an output that is a URI."""
    is_on_objects = output.partition(":")[0].lower() in _OBJECT_STORES
    return (ObjectStorage if is_on_objects else HadoopStorage)(spark, output)


def check_seen(spark: SparkSession, local: Storage, file: str = layout.WRITABLE) -> None:
    """Raise OutputError unless Spark's driver sees a file of a local output folder.

    Java finds no name with letters beyond ASCII when it was started in a locale without them, and writes to another folder.
    """
    folder = local.spark_path("")
    if HadoopStorage(spark, folder).read(file) is None:
        raise OutputError(
            f"Spark's Java does not see {folder}, which has {file}; where its name has letters beyond ASCII, start Java with "
            "LC_ALL=C.UTF-8, or give another --output"
        )
