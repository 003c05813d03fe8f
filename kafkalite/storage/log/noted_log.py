"""A log as the jobs of its store see it (`directories/log_upkeep`): it tells that it has changed, so that nobody has to ask all logs."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from kafkalite.config.topic import TopicConfig
from kafkalite.storage.log_directory import LogDirectory
from kafkalite.types import TopicPartition

LogT = TypeVar("LogT")


class LogBlock(Generic[LogT]):
    """Logs of a directory whose lines in its checkpoints are made together (`directories/directory_checkpoints`)."""

    __slots__ = ("logs",)

    def __init__(self) -> None:
        self.logs: list[LogT] = []


class NotedLog:
    """A log in `log_directory` with the settings of its topic; its methods are decorated by `changes_disk` or `uses_disk`."""

    def __init__(self, topic_partition: TopicPartition, log_directory: LogDirectory, config: TopicConfig) -> None:
        self.topic_partition = topic_partition
        self.log_directory = log_directory
        self._config = config
        self.summarized_as: int | None = None
        """Fingerprint of the state that the directory's file of summaries has of this log (`log_summaries`)."""
        self.checkpoint_block: LogBlock[Any] | None = None
        self.is_noted = False
        self.note_change()

    @property
    def config(self) -> TopicConfig:
        return self._config

    @config.setter
    def config(self, config: TopicConfig) -> None:
        self._config = config
        self.note_change()

    def note_change(self) -> None:
        """Note with the directory that the log has changed, or that a job of it is to be tried again."""
        self.log_directory.note_change(self)
