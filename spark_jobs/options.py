"""The options of source and sink: those of Spark's own Kafka source, by the same names and rules, with the same errors. Pure.

Names of options are case-insensitive. `kafka.<setting>` goes to the client, in Kafka's names; settings that Spark manages itself are
refused, those of Java's client that ours does not have are warned about and left out, except for security: a connection that would be
less safe than asked for is refused.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from kafkalite.client import AdminOptions, ConsumerOptions, IsolationLevel, TopicPartition
from kafkalite.client.options import ConnectionOptions, split_config
from spark_jobs import ranges
from spark_jobs.ranges import (
    EARLIEST,
    LATEST,
    Bound,
    EarliestOffsets,
    GivenOffsets,
    GivenTimestamps,
    LatestOffsets,
    OneTimestamp,
)
from spark_jobs.tasks import Task, tasks_from_json

log = logging.getLogger(__name__)

DEFAULT_POLL_TIMEOUT_MS = 120_000
DEFAULT_FETCH_OFFSET_RETRIES = 3
DEFAULT_FETCH_OFFSET_RETRY_INTERVAL_MS = 1_000
DEFAULT_MAX_TRIGGER_DELAY_MS = 15 * 60_000

_STRATEGIES = ("subscribe", "subscribepattern", "assign")
_TIME_UNITS_MS = {
    "us": 0.001,
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}
_REFUSED = {
    "auto.offset.reset": ". Instead set the source option 'startingOffsets' to 'earliest' or 'latest' to specify where to start.",
    "key.deserializer": " as keys are deserialized as byte arrays with ByteArrayDeserializer. Use DataFrame operations to explicitly "
    "deserialize the keys.",
    "value.deserializer": " as values are deserialized as byte arrays with ByteArrayDeserializer. Use DataFrame operations to explicitly "
    "deserialize the values.",
    "enable.auto.commit": ": Spark keeps the offsets itself.",
    "interceptor.classes": ": interceptors can change records.",
}
_REFUSED_OF_SINKS = {
    "key.serializer": " as keys are serialized as byte arrays with ByteArraySerializer.",
    "value.serializer": " as values are serialized as byte arrays with ByteArraySerializer.",
}
_OF_GROUPS = frozenset({"group.id", "group.instance.id", "partition.assignment.strategy", "session.timeout.ms"})
"""Settings of consumer groups: ranges are read without one."""


class Options(Mapping[str, str]):
    """What the user gave, whatever the case of the names."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._values = {name.lower(): value for name, value in given.items()}

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


class OptionError(ValueError):
    """An option that is missing, cannot be read, or contradicts another."""


# what to read


@dataclass(frozen=True, slots=True)
class Assign:
    """These partitions; those that do not exist are left out."""

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Subscribe:
    """All partitions of these topics."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SubscribePattern:
    """All partitions of the topics in whose name the pattern is found; internal topics are not looked at."""

    pattern: str


Selection = Assign | Subscribe | SubscribePattern


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of `spark.read` and `spark.readStream`; times in ms, `None` for no limit. `kafka` has the client's settings."""

    choice: Selection
    start: Bound
    end: Bound
    kafka: Mapping[str, str] = field(repr=False)
    fail_on_data_loss: bool = True
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_bytes_per_partition: int | None = None
    """Not in Spark's own source."""
    tasks: tuple[Task, ...] | None = None
    """Ranges that the nightly jobs have cut themselves; then brokers are not asked where partitions begin and end."""
    poll_timeout_ms: int = DEFAULT_POLL_TIMEOUT_MS
    fetch_offset_retries: int = DEFAULT_FETCH_OFFSET_RETRIES
    fetch_offset_retry_interval_ms: int = DEFAULT_FETCH_OFFSET_RETRY_INTERVAL_MS
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = DEFAULT_MAX_TRIGGER_DELAY_MS
    topic_ids_in_offsets: bool = False

    @property
    def isolation_level(self) -> IsolationLevel:
        return cast(IsolationLevel, self.kafka.get("isolation.level", "read_uncommitted"))


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The options of `df.write` and `df.writeStream`.

    `topic` wins over the column. Not in Spark's own sink: with `include_timestamp` the column `timestamp` is the records' time; with
    `transactional_id_prefix` rows are written in transactions (`transactions`).
    """

    topic: str | None
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)
    include_timestamp: bool = False
    transactional_id_prefix: str | None = None


def batch_options(options: Mapping[str, str]) -> SourceOptions:
    """Return the options of a batch read. OptionError, OffsetsError."""
    given = Options(options)
    start, end = _bound(given, "starting", EarliestOffsets()), _bound(given, "ending", LatestOffsets())
    if isinstance(start, LatestOffsets):
        raise OptionError("starting offset can't be latest for batch queries on Kafka")
    if isinstance(start, GivenOffsets):
        _refuse_offset(start, LATEST, "startingOffsets for {} can't be latest for batch queries on Kafka")
    if isinstance(end, EarliestOffsets):
        raise OptionError("ending offset can't be earliest for batch queries on Kafka")
    if isinstance(end, GivenOffsets):
        _refuse_offset(end, EARLIEST, "ending offset for {} can't be earliest for batch queries on Kafka")
    parsed = _source_options(given, start, end)
    ranges.check_bounds(start, end)
    for name in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"):
        if name in given:
            log.warning("%s option ignored in batch queries", name)
    return parsed


def stream_options(options: Mapping[str, str]) -> SourceOptions:
    """Return the options of a stream. OptionError."""
    given = Options(options)
    for name, what in (
        ("endingOffsets", "offset"),
        ("endingOffsetsByTimestamp", "timestamp"),
        ("endingTimestamp", "timestamp"),
    ):
        if name in given:
            raise OptionError(f"ending {what} not valid in streaming queries")
    if "maxBytesPerPartition" in given:
        log.warning("maxBytesPerPartition option ignored in streaming queries")
    parsed = _source_options(given, _bound(given, "starting", LatestOffsets()), LatestOffsets())
    if _boolean(given, "topicIdsInOffsets", False):
        if not parsed.fail_on_data_loss:
            raise OptionError(
                "options 'topicIdsInOffsets' (true) and 'failOnDataLoss' (false) contradict each other: the first one makes an error of a "
                "topic that was made again, the second one goes on. Leave one out"
            )
        parsed = replace(parsed, topic_ids_in_offsets=True)
    return parsed


def sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Return the options of a write. OptionError."""
    given = Options(options)
    settings = _kafka_settings(given)
    _refuse_settings(settings, _REFUSED_OF_SINKS)
    if "transactional.id" in settings:
        raise OptionError(
            "Kafka option 'transactional.id' is not supported: tasks would fence each other. "
            "Use the sink option 'transactional.id.prefix'."
        )
    prefix = given.get("transactional.id.prefix")
    if prefix is not None and not prefix.strip():
        raise OptionError("Option 'transactional.id.prefix' is empty")
    topic = given.get("topic")
    return SinkOptions(
        topic=topic.strip() if topic is not None else None,
        kafka=settings,
        include_timestamp=_boolean(given, "includeTimestamp", False),
        transactional_id_prefix=prefix.strip() if prefix is not None else None,
    )


def boolean_option(given: Options, name: str, default: bool) -> bool:
    """Return an option that is true or false. OptionError."""
    return _boolean(given, name, default)


def include_headers(options: Mapping[str, str]) -> bool:
    """True if rows have a column of headers. OptionError."""
    return _boolean(Options(options), "includeHeaders", False)


def _source_options(given: Options, start: Bound, end: Bound) -> SourceOptions:
    choice = selection_of(given)
    min_partitions = _positive(given, "minPartitions")
    max_records = _positive(given, "maxRecordsPerPartition")
    max_bytes = _positive(given, "maxBytesPerPartition")
    settings = _kafka_settings(given)
    _refuse_settings(settings, _REFUSED)
    if "group.id" in settings:
        log.warning("Kafka option 'kafka.group.id' is not used: ranges are read without a consumer group")
    max_offsets, min_offsets = _long(given, "maxOffsetsPerTrigger"), _long(given, "minOffsetsPerTrigger")
    if min_offsets is not None and max_offsets is not None and min_offsets > max_offsets:
        raise OptionError(
            f"The value of minOffsetPerTrigger({min_offsets}) is higher than the maxOffsetsPerTrigger({max_offsets})."
        )
    return SourceOptions(
        choice=choice,
        start=start,
        end=end,
        kafka={name: value for name, value in settings.items() if name not in _OF_GROUPS},
        fail_on_data_loss=_boolean(given, "failOnDataLoss", True),
        min_partitions=min_partitions,
        max_records_per_partition=max_records,
        max_bytes_per_partition=max_bytes,
        tasks=_tasks(given, choice),
        poll_timeout_ms=_or(_long(given, "kafkaConsumer.pollTimeoutMs"), DEFAULT_POLL_TIMEOUT_MS),
        fetch_offset_retries=_or(_long(given, "fetchOffset.numRetries"), DEFAULT_FETCH_OFFSET_RETRIES),
        fetch_offset_retry_interval_ms=_or(
            _long(given, "fetchOffset.retryIntervalMs"), DEFAULT_FETCH_OFFSET_RETRY_INTERVAL_MS
        ),
        max_offsets_per_trigger=max_offsets,
        min_offsets_per_trigger=min_offsets,
        max_trigger_delay_ms=_duration_ms(given, "maxTriggerDelay", DEFAULT_MAX_TRIGGER_DELAY_MS),
    )


def _tasks(given: Options, choice: Selection) -> tuple[Task, ...] | None:
    text = given.get("tasks")
    if text is None:
        return None
    topics = {each.topic for each in choice.partitions} if isinstance(choice, Assign) else set()
    if len(topics) != 1:
        raise OptionError("Option 'tasks' needs the option 'assign' with the partitions of one topic")
    try:
        return tasks_from_json(topics.pop(), text)
    except (ValueError, TypeError) as problem:
        raise OptionError(
            f"Option 'tasks' is no list like [[[0,23,42]],[[1,0,9],[2,5,7]]] of partitions, starts and ends: {problem}"
        ) from None


def selection_of(given: Options) -> Selection:
    """Return what is read. OptionError."""
    chosen = [name for name in _STRATEGIES if name in given]
    if len(chosen) != 1:
        count = "Only one" if chosen else "One"
        verb = "can" if chosen else "must"
        raise OptionError(
            f"{count} of the following options {verb} be specified for Kafka source: {', '.join(_STRATEGIES)}. "
            "See the docs for more details."
        )
    text = given[chosen[0]]
    if chosen[0] == "assign":
        if not text.strip().startswith("{"):
            raise OptionError(f"No topicpartitions to assign as specified value for option 'assign' is '{text}'")
        return Assign(_parse_assignment(text))
    if chosen[0] == "subscribe":
        topics = tuple(dict.fromkeys(topic for each in text.split(",") if (topic := each.strip())))
        if not topics:
            raise OptionError(f"No topics to subscribe to as specified value for option 'subscribe' is '{text}'")
        return Subscribe(topics)
    pattern = text.strip()
    if not pattern:
        raise OptionError(f"Pattern to subscribe is empty as specified value for option 'subscribePattern' is '{text}'")
    try:
        re.compile(pattern)
    except re.error as problem:
        raise OptionError(f"Option 'subscribePattern' is no regular expression: {pattern!r}: {problem}") from None
    return SubscribePattern(pattern)


def _parse_assignment(text: str) -> frozenset[TopicPartition]:
    try:
        partitions = [
            TopicPartition(topic, number) for topic, numbers in json.loads(text).items() for number in numbers
        ]
        if not all(type(each.partition) is int for each in partitions):
            raise ValueError("partitions are integers")
    except (ValueError, TypeError, AttributeError):
        raise OptionError(f'Expected e.g. {{"topicA":[0,1],"topicB":[0,1]}}, got {text}') from None
    return frozenset(partitions)


def _bound(given: Options, side: str, default: Bound) -> Bound:
    """Return the bound of `side`, "starting" or "ending". One time for all wins over times by partition, these over offsets."""
    strategy = given.get("startingOffsetsByTimestampStrategy", "error").lower()
    if strategy not in ("error", "latest"):
        raise OptionError(f"Option 'startingOffsetsByTimestampStrategy' is '{strategy}', neither 'error' nor 'latest'")
    or_latest = strategy == "latest"
    if (text := given.get(f"{side}Timestamp")) is not None:
        try:
            return OneTimestamp(ranges.checked_long(int(text.strip())), or_latest)
        except ValueError:
            raise OptionError(f"Expected a single long value, got {text.strip()}") from None
    if (text := given.get(f"{side}OffsetsByTimestamp")) is not None:
        example = '{"topicA": {"0": 123456789, "1": 123456789}, "topicB": {"0": 123456789, "1": 123456789}}'
        return GivenTimestamps(_by_partition(text, example), or_latest)
    text = given.get(f"{side}Offsets")
    if text is None:
        return default
    word = text.strip().lower()
    if word in ("latest", "earliest"):
        return LatestOffsets() if word == "latest" else EarliestOffsets()
    return GivenOffsets(_by_partition(text, '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'))


def _by_partition(text: str, example: str) -> dict[TopicPartition, int]:
    try:
        return ranges.parse_offsets(text)
    except ValueError:
        raise OptionError(f"Expected e.g. {example}, got {text.strip()}") from None


def _refuse_offset(bound: GivenOffsets, refused: int, message: str) -> None:
    for topic_partition, offset in bound.offsets.items():
        if offset == refused:
            raise OptionError(message.format(topic_partition))


# kafka.*


def _kafka_settings(given: Options) -> dict[str, str]:
    settings = {name[6:]: value for name, value in given.items() if name.startswith("kafka.")}
    if "bootstrap.servers" not in settings:
        raise OptionError("Option 'kafka.bootstrap.servers' must be specified for configuring Kafka consumer")
    return settings


def _refuse_settings(settings: Mapping[str, str], refused: Mapping[str, str]) -> None:
    for name, reason in refused.items():
        if name in settings:
            raise OptionError(f"Kafka option '{name}' is not supported{reason}")


def client_options(options: type[ConnectionOptions], settings: Mapping[str, str]) -> dict[str, Any]:
    """Return the keyword arguments of the client with these options for settings in Kafka's names.

    OptionError for values that it cannot take, and for settings of security that it does not have.
    """
    try:
        found, unknown = split_config(options, settings)
    except ValueError as problem:
        raise OptionError(f"Option kafka.{problem}") from None
    for name in sorted(unknown):
        if name.startswith(("sasl.", "ssl.")):
            raise OptionError(f"Kafka option '{name}' is not supported by this client")
        if not (options is AdminOptions and _is_for_consumers(name, settings[name])):
            log.warning("Kafka option '%s' is not known to %s and has no effect", name, options.client_name())
    return found


def _is_for_consumers(name: str, text: str) -> bool:
    """True for a setting of consumers: the driver's own client gets what is meant for those of the tasks, too."""
    try:
        return not split_config(ConsumerOptions, {name: text})[1]
    except ValueError:
        return True  # the tasks will tell what is wrong with it


# values


def _boolean(given: Options, name: str, default: bool) -> bool:
    text = given.get(name)
    if text is None:
        return default
    if text.strip().lower() not in ("true", "false"):
        raise OptionError(f"Option '{name}' is '{text}', neither 'true' nor 'false'")
    return text.strip().lower() == "true"


def _integer(given: Options, name: str) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    try:
        return int(text.strip())
    except ValueError:
        raise OptionError(f"Option '{name}' is '{text}', not an integer") from None


def _long(given: Options, name: str) -> int | None:
    number = _integer(given, name)
    if number is not None and number < 0:
        raise OptionError(f"Option '{name}' is {number}, which is negative")
    return number


def _positive(given: Options, name: str) -> int | None:
    number = _integer(given, name)
    if number is not None and number <= 0:
        raise OptionError(f"{name} must be positive")
    return number


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def _duration_ms(given: Options, name: str, default: int) -> int:
    """Return the ms of one of Spark's time strings: a number and us, ms, s, m, min, h or d; ms without a unit."""
    text = given.get(name)
    if text is None:
        return default
    found = re.fullmatch(r"(\d+)\s*([a-z]*)", text.strip().lower())
    if found is None or (found[2] or "ms") not in _TIME_UNITS_MS:
        raise OptionError(f"Option '{name}' is '{text}', not a time like 500ms, 30s or 15m")
    return int(int(found[1]) * _TIME_UNITS_MS[found[2] or "ms"])
