"""The batches of a stream, whatever the release of Spark: where a query begins, which tasks a batch has, what counts as lost.

Offsets in checkpoints are Spark's own: `{"topic": {"0": 23}}`, where to read on; with `topicIdsInOffsets` a topic has its `id` beside
its partitions, and one that was made again is not taken for the one of before. Spark writes the end of a batch into the checkpoint
before it plans the batch's tasks, and plans the same batch after each restart. An end that is wrong, because a broker that has just
started knows less than others, would therefore fail the query for good, so ends are checked before Spark has them, too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from kafkalite.client import TopicPartition
from spark_jobs.decoded_columns import DecodingFinder, RegistryColumns, decoded_fields
from spark_jobs.options import OptionError, SourceOptions
from spark_jobs.positions import Positions
from spark_jobs.ranges import (
    TOPIC_ID,
    DataLossError,
    OffsetRange,
    Offsets,
    list_partitions,
    offsets_to_json,
    split_ranges,
    split_topic_ids,
)
from spark_jobs.reader import RangePartition, read_partition
from spark_jobs.rows import check_schema

log = logging.getLogger(__name__)

OffsetsJson = dict[str, dict[str, Any]]


class StreamBatches(DataSourceStreamReader):
    """The reader but for `latestOffset`, whose arguments differ between releases of Spark. The driver's half keeps a connection,
    executors only `read`."""

    def __init__(
        self,
        options: SourceOptions,
        schema: StructType,
        ask: Callable[[SourceOptions], Positions] = Positions,
        columns: RegistryColumns | None = None,
    ) -> None:
        check_schema(schema, decoded_fields(columns))
        self._finder = DecodingFinder(columns, schema)
        self._options = options
        self._schema = schema
        self._ask = ask
        self._asked: Positions | None = None
        self._topic_ids: Mapping[str, str] = {}
        """Of the topics in which the last ends, or the beginning, were found."""

    @property
    def _positions(self) -> Positions:
        """Made at need: a reader travels to executors without a connection."""
        if self._asked is None:
            self._asked = self._ask(self._options)
        return self._asked

    # where batches begin and end

    def initialOffset(self) -> OffsetsJson:
        """Return where a new query begins. OffsetsError, ClientError."""
        partitions = self._positions.choose_partitions()
        self._topic_ids = self._positions.topic_ids
        return self._to_json(self._positions.resolve(self._options.start, partitions, starting=True))

    def _to_json(self, offsets: Offsets) -> OffsetsJson:
        """Return offsets for the checkpoint. OptionError when they are to have ids of topics, and the brokers have none."""
        topics: OffsetsJson = {**offsets_to_json(offsets)}
        for topic, partitions in topics.items() if self._options.topic_ids_in_offsets else ():
            if (topic_id := self._topic_ids.get(topic)) is None:
                raise OptionError(
                    f"option 'topicIdsInOffsets' is true, and the brokers have no id of topic {topic}; leave it out, or have "
                    "brokers of 2.8 or newer"
                )
            partitions[TOPIC_ID] = topic_id
        return topics

    def _check_topics(self, now: Mapping[str, str], *given: Mapping[str, Mapping[str, Any]]) -> None:
        """Raise DataLossError when a topic was made again since the offsets `given` were found in it."""
        if not self._options.topic_ids_in_offsets:
            return
        for topic, topic_id in sorted(pair for each in given for pair in split_topic_ids(each)[1].items()):
            if (found := now.get(topic, topic_id)) != topic_id:
                self._report(f"Topic {topic} was deleted and made again: its id was {topic_id} and is {found}.")

    def _ends(self, known: Offsets) -> dict[TopicPartition, int]:
        """Return where the log ends now; a broker that does not know of what is `known` is asked again."""
        partitions = self._positions.choose_partitions(known)
        self._topic_ids = self._positions.topic_ids
        return self._positions.latest(partitions, known)

    def _check_ends(self, start: Offsets, ends: Offsets) -> None:
        """Raise DataLossError when a batch from `start` to `ends` lost something and `failOnDataLoss` is true; Spark does not write down
        the batch then, and a query that is started again asks again."""
        if gone := set(start) - set(ends):
            self._report(f"Partitions {list_partitions(gone)} have been deleted.")
        for topic_partition in sorted(set(ends) & set(start)):
            first, last = start[topic_partition], ends[topic_partition]
            if last < first:
                self._report(f"Partition {topic_partition} offset was changed from {first} to {last}.")

    # a batch

    def partitions(
        self, start: Mapping[str, Mapping[str, Any]], end: Mapping[str, Mapping[str, Any]]
    ) -> list[RangePartition]:
        """Return the tasks of a batch. DataLossError when partitions or offsets went away and `failOnDataLoss` is true."""
        begun, ends = split_topic_ids(start)[0], split_topic_ids(end)[0]
        if self._options.topic_ids_in_offsets:
            self._positions.choose_partitions(ends)
            self._check_topics(self._positions.topic_ids, start, end)
        self._check_ends(begun, ends)
        begun.update(self._starts_of_new(set(ends) - set(begun)))
        ranges = [OffsetRange(*each, begun[each], ends[each]) for each in sorted(set(ends) & set(begun))]
        options = self._options
        tasks = split_ranges(ranges, options.min_partitions, options.max_records_per_partition)
        decodings = self._finder.find()
        return [RangePartition([each], decodings) for each in tasks]

    def _starts_of_new(self, partitions: set[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the beginnings of partitions that were added while the query ran, which should be 0."""
        there = partitions & self._positions.choose_partitions(partitions) if partitions else set()
        if partitions - there:
            self._report(
                f"Cannot find initial offsets for partitions {list_partitions(partitions - there)}. They may have been deleted."
            )
        starts = self._positions.earliest(there)
        for topic_partition, offset in sorted(starts.items()):
            if offset:
                self._report(f"Added partition {topic_partition} starts from {offset} instead of 0.")
        return starts

    def _report(self, loss: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLossError(loss)
        log.warning("%s Some data may have been missed; failOnDataLoss is false, so the query goes on", loss)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_partition(partition, self._options, self._schema)

    def commit(self, end: Mapping[str, Mapping[str, Any]]) -> None:
        """Commit nothing: the checkpoint has the offsets. (Spark does not call it for the last batch of Trigger.AvailableNow.)"""

    def stop(self) -> None:
        asked, self._asked = self._asked, None
        if asked is not None:
            asked.close()
