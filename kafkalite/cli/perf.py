"""`kafkalite perf produce|consume|end-to-end`: measure the throughput and latency of a cluster."""

from __future__ import annotations

import json
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import click

from kafkalite.cli.admin_call import ask_cluster
from kafkalite.cli.calls import (
    admin_options,
    bootstrap_option,
    given_timeout_s,
    producer_options,
    run_long,
    select_given,
)
from kafkalite.cli.kafka_words.options import named_argument
from kafkalite.cli.new_topic import prepare_topic
from kafkalite.cli.output import Exit, fail, note, output_option, write_rows
from kafkalite.cli.progress import wants_json

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from rich.progress import Progress

    from kafkalite.client.consumer.consumer import Consumer
    from kafkalite.perf.flow import Flow
    from kafkalite.perf.measure import ConsumeOutcome, ProduceOutcome
    from kafkalite.types import TopicPartition

Outcome = TypeVar("Outcome")

_LIVE_INTERVAL_MS: Final = 250
_LINE_INTERVAL_MS: Final = 5000
_LEAST_ROUND_TRIP_BYTES: Final = 16
_RATE_COLUMNS: Final = ("records", "elapsed_ms", "records_per_s", "mb_per_s")
_LATENCY_COLUMNS: Final = ("mean_ms", "p50_ms", "p95_ms", "p99_ms", "p999_ms", "max_ms")


@click.group()
def perf() -> None:
    """Measure producing, consuming, and both.

    While it runs, rate and latency are shown on stderr: a bar on a terminal, elsewhere a JSON object every 5 seconds. -X gives the
    client other settings, such as -X linger.ms=5 -X batch.size=16384.
    """


_create_option = click.option(
    "--create", is_flag=True, help="Create the topic with the brokers' defaults if it is missing."
)
_acks_option = click.option("--acks", type=click.Choice(["0", "1", "all"]), show_default="all")
_throughput_option = click.option(
    "--throughput", type=float, default=-1, show_default=True, help="Records per second at most; -1 for no limit."
)


class _Live:
    """Shows a measurement in progress on stderr: a bar on a terminal, elsewhere lines, as JSON when the results are printed as JSON.

    `measured` describes the latency.
    """

    def __init__(self, what: str, num_records: int, measured: str = "latency") -> None:
        self._what, self._num_records, self._measured = what, num_records, measured
        self._bar: Progress | None = None
        self._task: Any = None
        self._as_json = wants_json()
        self.total: Flow | None = None

    @property
    def interval_ms(self) -> float:
        return _LINE_INTERVAL_MS if self._bar is None else _LIVE_INTERVAL_MS

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[now]}"),
            )
            self._bar = Progress(*columns, console=Console(stderr=True))
            self._task = self._bar.add_task(self._what, total=self._num_records, now="")
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Leave the bar as it is, so that later output is written below it."""
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.stop()

    def __call__(self, window: Flow, total: Flow) -> None:
        self.total = total
        if self._bar is None and self._as_json:
            event = {"event": "progress", "what": self._what, "done": total.records, "total": self._num_records}
            note(json.dumps({**event, **window.to_dict()}))
            return
        p99_ms = window.latencies.percentiles_ms([99.0])[0]
        rates = f"{window.records_per_s:,.0f} records/s, {window.mb_per_s:,.2f} MB/s"
        now = f"{rates}, {self._measured} {window.latencies.mean_ms:.1f} ms, 99% {p99_ms:.1f} ms"
        if self._bar is None:
            note(f"{self._what}: {total.records} of {self._num_records}, {now}")
            return
        self._bar.update(self._task, completed=total.records, now=now)

    def finish(self, total: Flow) -> None:
        if self._bar is not None:
            self._bar.update(self._task, completed=total.records, now="")


def _run_measurement(measuring: Coroutine[Any, Any, Outcome], live: _Live, topic: str, output: str) -> Outcome:
    """Return the result of the measurement. After an interrupt the result so far is shown."""
    try:
        return run_long(measuring)
    except SystemExit as end:
        if end.code == Exit.INTERRUPTED and live.total is not None:
            live.stop()
            _show(topic, live.total.to_dict(), output, ())
        raise


def _show(topic: str, result: dict[str, Any], output: str, wide: tuple[str, ...]) -> None:
    """Print one row: the latencies beside everything else."""
    latency = result.pop("latency")
    row = {"topic": topic, **result, **latency}
    write_rows([row], output, columns=[*_RATE_COLUMNS, *_LATENCY_COLUMNS], wide=["bytes", *wide], name="topic")


@perf.command(short_help="Measure rate and latency of a producer.")
@named_argument("topic", "--topic")
@click.option("-n", "--num-records", type=click.IntRange(1), default=100_000, show_default=True)
@click.option("-s", "--record-size", type=click.IntRange(0), default=1000, show_default=True, help="Bytes of a value.")
@click.option(
    "--payload-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Values are parts of this file, taken by chance, instead of random letters.",
)
@click.option("--payload-delimiter", default="\\n", show_default=True, help="What separates the parts of that file.")
@_create_option
@_throughput_option
@_acks_option
@click.option("-z", "--compression", type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]), show_default="none")
@bootstrap_option
@output_option()
def produce(
    topic: str,
    num_records: int,
    record_size: int,
    payload_file: Path | None,
    payload_delimiter: str,
    create: bool,
    throughput: float,
    acks: str | None,
    compression: str | None,
    output: str,
) -> None:
    """Write records to TOPIC, and tell how many per second it took and how long each waited for its acknowledgement.

    Exits with 1 when records were refused or lost.
    """
    from kafkalite.client.producer.producer import Producer
    from kafkalite.clock import SystemClock
    from kafkalite.perf.measure import ProduceLoad, produce_load
    from kafkalite.perf.payloads import payloads_of_file, random_payloads

    try:
        value_of: Callable[[int], bytes] = (
            random_payloads(record_size) if payload_file is None else payloads_of_file(payload_file, payload_delimiter)
        )
    except (OSError, ValueError) as problem:
        fail(str(problem), Exit.USAGE)
    options = producer_options() | select_given(acks=acks, compression_type=compression)
    ask_cluster(lambda admin: prepare_topic(admin, topic, create))

    async def measure(live: _Live) -> ProduceOutcome:
        async with Producer(**options) as producer:
            await producer.partitions_for(topic)  # the first record should not wait for metadata
            load = ProduceLoad(topic, num_records, value_of, throughput)
            outcome = await produce_load(producer, load, SystemClock(), live, live.interval_ms)
            live.finish(outcome.flow)
            return outcome

    with _Live(f"writing to {topic}", num_records) as live:
        outcome = _run_measurement(measure(live), live, topic, output)
    _show(topic, outcome.to_dict(), output, ("failed",))
    if outcome.failed:
        fail(f"{outcome.failed} of {num_records} records were not written: {outcome.first_error}")


@perf.command(short_help="Measure the rate of a consumer.")
@named_argument("topic", "--topic")
@click.option("-n", "--num-records", type=click.IntRange(1), default=100_000, show_default=True)
@click.option("-g", "--group", help="Read as a member of this group, which commits; otherwise all of the topic.")
@click.option(
    "--idle-timeout", type=float, default=10, show_default=True, help="Stop after so many seconds without a record."
)
@bootstrap_option
@output_option()
def consume(topic: str, num_records: int, group: str | None, idle_timeout: float, output: str) -> None:
    """Read records of TOPIC from its beginning, and tell how many came per second and how long each poll waited for records.

    Exits with 1 when there were fewer than asked for.
    """
    from kafkalite.client.consumer.consumer import Consumer
    from kafkalite.clock import SystemClock
    from kafkalite.perf.measure import JoinTimer, consume_load

    clock = SystemClock()
    options = {"auto_offset_reset": "earliest", **admin_options("Consumer")}
    options["group_id"] = group

    async def measure(live: _Live) -> ConsumeOutcome:
        async with Consumer(**options) as consumer:
            joined = None
            if group is None:
                consumer.assign(await _partitions(consumer, topic))
            else:
                joined = JoinTimer(clock)
                consumer.subscribe([topic], listener=joined)
            outcome = await consume_load(
                consumer,
                num_records,
                clock,
                live,
                timeout_ms=idle_timeout * 1000,
                interval_ms=live.interval_ms,
                joined=joined,
            )
            live.finish(outcome.flow)
            return outcome

    with _Live(f"reading {topic}", num_records, "poll") as live:
        outcome = _run_measurement(measure(live), live, topic, output)
    _show(topic, outcome.to_dict(), output, ("joining_ms",))
    if outcome.timed_out:
        fail(f"only {outcome.flow.records} of {num_records} records came; none for {idle_timeout:g} s")


async def _partitions(consumer: Consumer, topic: str) -> list[TopicPartition]:
    from kafkalite.types import TopicPartition

    return [TopicPartition(topic, number) for number in sorted(await consumer.partitions_for_topic(topic))]


@perf.command("end-to-end", short_help="Measure the time from producer to consumer.")
@named_argument("topic", "--topic")
@click.option("-n", "--num-records", type=click.IntRange(1), default=1000, show_default=True)
@click.option(
    "-s",
    "--record-size",
    type=click.IntRange(_LEAST_ROUND_TRIP_BYTES),
    default=100,
    show_default=True,
    help="Bytes of a value.",
)
@click.option(
    "--throughput",
    type=float,
    default=-1,
    show_default=True,
    help="Records per second; -1: each is sent when the one before it has come back.",
)
@_create_option
@_acks_option
@bootstrap_option
@output_option()
def end_to_end(
    topic: str, num_records: int, record_size: int, throughput: float, create: bool, acks: str | None, output: str
) -> None:
    """Write records to TOPIC, read them back, and tell how long that took for each.

    Other records in TOPIC are passed over. Exits with 1 when a record does not come back within --timeout.
    """
    from kafkalite.client.consumer.consumer import Consumer
    from kafkalite.client.producer.producer import Producer
    from kafkalite.clock import SystemClock
    from kafkalite.perf.measure import RoundTripLostError, RoundTrips, round_trips

    wanted = RoundTrips(topic, num_records, record_size, secrets.randbits(64), throughput, given_timeout_s() * 1000)
    ask_cluster(lambda admin: prepare_topic(admin, topic, create))
    reading = admin_options("Consumer") | {"group_id": None}
    writing = producer_options() | select_given(acks=acks)

    async def measure(live: _Live) -> Flow:
        async with Producer(**writing) as producer, Consumer(**reading) as consumer:
            partitions = await _partitions(consumer, topic)
            consumer.assign(partitions)
            await consumer.seek_to_end(*partitions)
            flow = await round_trips(producer, consumer, wanted, SystemClock(), live, live.interval_ms)
            live.finish(flow)
            return flow

    with _Live(f"there and back through {topic}", num_records) as live:
        try:
            flow = _run_measurement(measure(live), live, topic, output)
        except RoundTripLostError as problem:
            fail(str(problem))
    _show(topic, flow.to_dict(), output, ())
