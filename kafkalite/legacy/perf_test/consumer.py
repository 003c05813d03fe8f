"""`kafka-consumer-perf-test`: read records as fast as possible, and print the throughput."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from kafkalite.legacy.cluster.client_settings import options_for, properties_of
from kafkalite.legacy.command_line.entry import run_tool, runs_long
from kafkalite.legacy.command_line.failures import ToolError
from kafkalite.legacy.command_line.option_parser import (
    Argument,
    Option,
    Options,
    declared_options,
    flag,
    integer,
    java_integer,
    long,
    text,
)

if TYPE_CHECKING:
    from kafkalite.perf.flow import Flow
    from kafkalite.perf.measure import ConsumeOutcome, JoinTimer

TOOL: Final = "kafka-consumer-perf-test"
HEADLINE: Final = "This tool is used to verify the consumer performance."
_LARGEST_GROUP_NUMBER: Final = 100_000

BROKER_LIST: Final = text("broker-list")
BOOTSTRAP_SERVER: Final = text("bootstrap-server")
TOPIC: Final = text("topic")
GROUP: Final = text("group", f"perf-consumer-{random.randrange(_LARGEST_GROUP_NUMBER)}")
FETCH_SIZE: Final = integer("fetch-size", 1024 * 1024)
FROM_LATEST: Final = flag("from-latest")
SOCKET_BUFFER_SIZE: Final = integer("socket-buffer-size", 2 * 1024 * 1024)
THREADS: Final = integer("threads", 10)
NUM_FETCH_THREADS: Final = integer("num-fetch-threads", 1)
CONSUMER_CONFIG: Final = text("consumer.config")
PRINT_METRICS: Final = flag("print-metrics")
SHOW_DETAILED_STATS: Final = flag("show-detailed-stats")
TIMEOUT: Final = Option("timeout", Argument.OPTIONAL, java_integer(64), 10_000)
MESSAGES: Final = long("messages")
REPORTING_INTERVAL: Final = long("reporting-interval", 5000)
DATE_FORMAT: Final = text("date-format", "yyyy-MM-dd HH:mm:ss:SSS")
HIDE_HEADER: Final = flag("hide-header")
OPTIONS: Final = declared_options(vars())


def main(arguments: Sequence[str] | None = None) -> int:
    return run_tool(_run, arguments)


def _run(arguments: Sequence[str]) -> int:
    options = _read_options(arguments)
    detailed = options.has(SHOW_DETAILED_STATS)
    if not options.has(HIDE_HEADER):
        print(
            f"{'time, threadId' if detailed else 'start.time, end.time'}, data.consumed.in.MB, MB.sec, "
            "data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
        )
    settings = _settings(options)
    from kafkalite.legacy.cluster.servers import check_servers

    check_servers(settings["bootstrap.servers"], "Failed to construct kafka consumer")
    limit = options.value(MESSAGES)
    if options.value(REPORTING_INTERVAL) <= 0:
        raise ToolError("Reporting interval must be greater than 0.")
    import asyncio

    asyncio.run(_measure(options, settings, limit))
    return 0


def _read_options(arguments: Sequence[str]) -> Options:
    options = Options.read_or_refuse(TOOL, OPTIONS, arguments)
    if not options.asks_for_help and not options.has_any(BOOTSTRAP_SERVER, BROKER_LIST):
        options.refuse("Missing required option(s) [bootstrap-server]")
    if options.has(THREADS) or options.has(NUM_FETCH_THREADS):
        print("WARNING: option [threads] and [num-fetch-threads] have been deprecated and will be ignored by the test")
    options.print_help_or_version(HEADLINE)
    options.require(TOPIC, MESSAGES)
    return options


def _settings(options: Options) -> dict[str, str]:
    settings = {
        **properties_of(options.value(CONSUMER_CONFIG)),
        "bootstrap.servers": options.value_of_either(BOOTSTRAP_SERVER, BROKER_LIST),
        "group.id": options.value(GROUP),
        "max.partition.fetch.bytes": str(options.value(FETCH_SIZE)),
        "auto.offset.reset": "latest" if options.has(FROM_LATEST) else "earliest",
        "check.crcs": "false",
    }
    settings.setdefault("client.id", "perf-consumer-client")
    return settings


async def _measure(options: Options, settings: dict[str, str], limit: int) -> None:
    runs_long()
    from kafkalite.client.consumer.consumer import Consumer
    from kafkalite.client.consumer.options import ConsumerOptions
    from kafkalite.client.errors import ClientError
    from kafkalite.clock import SystemClock
    from kafkalite.perf.measure import JoinTimer, consume_load

    clock = SystemClock()
    consumer = Consumer(**options_for(ConsumerOptions, settings))
    try:
        await consumer.connect()
        began_s, joined = time.time(), JoinTimer(clock)
        consumer.subscribe([options.value(TOPIC)], listener=joined)
        outcome = await consume_load(
            consumer,
            limit,
            clock,
            _Progress(options, joined).report,
            timeout_ms=options.value(TIMEOUT),
            interval_ms=options.value(REPORTING_INTERVAL),
            joined=joined,
        )
        ended_s = time.time()
        statistics = consumer.statistics()
    except (ClientError, OSError) as problem:
        raise ToolError(str(problem), "org.apache.kafka.common.KafkaException") from None
    finally:
        await consumer.close()
    if outcome.timed_out:
        print(
            "WARNING: Exiting before consuming the expected number of messages: "
            f"timeout ({options.value(TIMEOUT)} ms) exceeded. "
            "You can use the --timeout option to increase the timeout."
        )
    if not options.has(SHOW_DETAILED_STATS):
        print(_total_line(options.value(DATE_FORMAT), began_s, ended_s, outcome))
    if options.has(PRINT_METRICS):
        from kafkalite.legacy.perf_test.metrics_table import print_metrics

        print_metrics("consumer-metrics", settings["client.id"], statistics)


class _Progress:
    """Prints the lines of --show-detailed-stats."""

    def __init__(self, options: Options, joined: JoinTimer) -> None:
        self._detailed, self._format = options.has(SHOW_DETAILED_STATS), options.value(DATE_FORMAT)
        self._joined, self._joined_before_ms = joined, 0.0

    def report(self, window: Flow, total: Flow) -> None:
        if not self._detailed or not window.records:
            return
        joining_ms = int(self._joined.total_ms - self._joined_before_ms)
        self._joined_before_ms = self._joined.total_ms
        fetching_ms = int(window.elapsed_ms) - joining_ms
        mb = _megabytes(window)
        per_s = [mb * 1000 / fetching_ms, window.records * 1000 / fetching_ms] if fetching_ms > 0 else [0.0, 0.0]
        print(
            f"{format_time(time.time(), self._format)}, 0, {_megabytes(total):.4f}, "
            f"{mb * 1000 / window.elapsed_ms:.4f}, {total.records}, {window.records_per_s:.4f}, "
            f"{joining_ms}, {fetching_ms}, {per_s[0]:.4f}, {per_s[1]:.4f}",
            flush=True,
        )


def _total_line(date_format: str, began_s: float, ended_s: float, outcome: ConsumeOutcome) -> str:
    records, mb = outcome.flow.records, _megabytes(outcome.flow)
    elapsed_s = max(ended_s - began_s, 0.001)
    joining_ms = int(outcome.joining_ms)
    fetching_ms = int(elapsed_s * 1000) - joining_ms
    fetching_s = max(fetching_ms, 1) / 1000
    return (
        f"{format_time(began_s, date_format)}, {format_time(ended_s, date_format)}, {mb:.4f}, {mb / elapsed_s:.4f}, "
        f"{records}, {records / elapsed_s:.4f}, {joining_ms}, {fetching_ms}, "
        f"{mb / fetching_s:.4f}, {records / fetching_s:.4f}"
    )


def _megabytes(flow: Flow) -> float:
    from kafkalite.perf.flow import MEGABYTE

    return flow.bytes / MEGABYTE


_PATTERN_PARTS: Final = re.compile(r"'([^']*)'|(y+|M+|d+|H+|m+|s+|S+)|(.)", re.DOTALL)


def format_time(time_s: float, pattern: str) -> str:
    """Return a local time by a pattern of `java.text.SimpleDateFormat`: years to milliseconds, and texts in quotes."""
    moment = datetime.fromtimestamp(time_s)
    values = {
        "y": moment.year,
        "M": moment.month,
        "d": moment.day,
        "H": moment.hour,
        "m": moment.minute,
        "s": moment.second,
        "S": moment.microsecond // 1000,
    }

    def replace_part(match: re.Match[str]) -> str:
        quoted, letters, other = match.groups()
        if letters is None:
            return other if quoted is None else quoted or "'"
        if letters == "yy":
            return f"{moment.year % 100:02}"
        return f"{values[letters[0]]:0{len(letters)}}"

    return _PATTERN_PARTS.sub(replace_part, pattern)
