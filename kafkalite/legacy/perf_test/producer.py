"""`kafka-producer-perf-test`: send records as fast as possible or at a rate, and print throughput and latency."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kafkalite.legacy.cluster.client_settings import options_for, properties_of
from kafkalite.legacy.command_line.argument_parser import Argument, Misuse
from kafkalite.legacy.command_line.entry import run_tool, runs_long
from kafkalite.legacy.command_line.failures import ToolError, uncaught
from kafkalite.legacy.command_line.option_parser import java_integer

if TYPE_CHECKING:
    from kafkalite.perf.flow import Flow

TOOL: Final = "kafka-producer-perf-test"
_PROGRAM: Final = "producer-performance"
_REQUIRED: Final = ("--throughput", "--num-records", "--topic")
_PAYLOADS: Final = ("--record-size", "--payload-file", "--payload-monotonic")
_FLAGS: Final = ("--print-metrics", "--payload-monotonic")
_ARGUMENTS: Final = {
    each.name: each
    for each in (
        Argument("--num-records", "Long", java_integer(64)),
        Argument("--throughput", "Double", float),
        Argument("--record-size", "Integer", java_integer(32)),
        Argument("--transaction-duration-ms", "Long", java_integer(64)),
        *map(Argument, ("--topic", "--payload-file", "--payload-monotonic", "--payload-delimiter")),
        *map(Argument, ("--producer-props", "--producer.config", "--print-metrics", "--transactional-id")),
    )
}
_TRANSACTIONAL_ID: Final = "performance-producer-default-transactional-id"
_WINDOW_MS: Final = 5000.0


def main(arguments: Sequence[str] | None = None) -> int:
    return run_tool(_run, arguments)


def _run(arguments: Sequence[str]) -> int:
    from kafkalite.legacy.command_line.help_texts import option_table

    if not arguments or "-h" in arguments or "--help" in arguments:
        print(option_table(TOOL), end="")
        return 1 if arguments else 0
    try:
        given = _read_options(arguments)
    except Misuse as problem:
        usage = option_table(TOOL).split("\n\n")[0]
        print(f"{usage}\n{_PROGRAM}: error: {problem}\n", file=sys.stderr)
        return 1
    value_of = _payloads(given)
    settings = _settings(given)
    if given.get("--transaction-duration-ms", 0) > 0:
        settings["transactional.id"] = given.get("--transactional-id", _TRANSACTIONAL_ID)
    from kafkalite.legacy.cluster.servers import check_servers

    try:
        check_servers(settings.get("bootstrap.servers", ""), "Failed to construct kafka producer")
    except ToolError as problem:
        raise uncaught(problem, with_cause=True) from None
    import asyncio

    asyncio.run(_measure(given, settings, value_of))
    return 0


def _read_options(arguments: Sequence[str]) -> dict[str, Any]:
    """Return the options by name. `--producer-props` takes all words up to the next option."""
    given: dict[str, Any] = {}
    left = list(arguments)
    while left:
        name, equals, value = left.pop(0).partition("=")
        if name not in _ARGUMENTS:
            raise Misuse(f"unrecognized arguments: '{name}{equals}{value}'")
        if name in _FLAGS:
            given[name] = True
        elif name == "--producer-props":
            words = [value] if equals else []
            while left and not left[0].startswith("-"):
                words.append(left.pop(0))
            if not words:
                raise Misuse(f"argument {name}: expected 1 argument(s)")
            given[name] = words
        else:
            if not equals and (not left or left[0].startswith("--")):
                raise Misuse(f"argument {name}: expected one argument")
            given[name] = _ARGUMENTS[name].convert_text(value if equals else left.pop(0))
        payloads = [each for each in _PAYLOADS if each in given]
        if name in payloads and len(payloads) > 1:
            other = next(each for each in payloads if each != name)
            raise Misuse(f"argument {name}: not allowed with argument {other}")
    _check_complete(given)
    return given


def _check_complete(given: dict[str, Any]) -> None:
    for each in _REQUIRED:
        if each not in given:
            raise Misuse(f"argument {each} is required")
    if not any(each in given for each in _PAYLOADS):
        raise Misuse(f"one of the arguments {' '.join(_PAYLOADS)} is required")
    if "--producer-props" not in given and "--producer.config" not in given:
        raise Misuse("Either --producer-props or --producer.config must be specified.")


def _payloads(given: dict[str, Any]) -> Callable[[int], bytes]:
    from kafkalite.perf.payloads import payloads_of_file, random_payloads

    if "--payload-monotonic" in given:
        return lambda number: b"%d" % number
    if "--record-size" in given:
        return random_payloads(given["--record-size"])
    path = Path(given["--payload-file"])
    print(f"Reading payloads from: {path.absolute()}")
    try:
        if not path.stat().st_size:
            raise uncaught(ToolError("File does not exist or empty file provided."))
        value_of = payloads_of_file(path, given.get("--payload-delimiter", "\\n"))
    except OSError:
        raise uncaught(ToolError("File does not exist or empty file provided.")) from None
    count = len([each for each in path.read_bytes().split(_delimiter(given)) if each])
    print(f"Number of messages read: {count}")
    return value_of


def _delimiter(given: dict[str, Any]) -> bytes:
    return str(given.get("--payload-delimiter", "\\n")).replace("\\n", "\n").encode()


def _settings(given: dict[str, Any]) -> dict[str, str]:
    settings = properties_of(given.get("--producer.config"))
    for each in given.get("--producer-props", ()):
        pieces = each.rstrip("=").split("=")
        if len(pieces) != 2:
            raise uncaught(ToolError(f"Invalid property: {each}"))
        settings[pieces[0]] = pieces[1]
    settings.setdefault("client.id", "perf-producer-client")
    return settings


async def _measure(given: dict[str, Any], settings: dict[str, str], value_of: Callable[[int], bytes]) -> None:
    runs_long()
    from kafkalite.client.errors import ClientError
    from kafkalite.client.producer.options import ProducerOptions
    from kafkalite.client.producer.producer import Producer
    from kafkalite.clock import SystemClock
    from kafkalite.perf.measure import ProduceLoad, produce_load

    duration_ms = given.get("--transaction-duration-ms", 0)
    load = ProduceLoad(
        *(given["--topic"], given["--num-records"], value_of, given["--throughput"]),
        transaction_ms=duration_ms if duration_ms > 0 else None,
    )
    producer = Producer(**options_for(ProducerOptions, settings))
    try:
        await producer.connect(float(settings.get("max.block.ms", 60_000)) / 1000)
        if load.transaction_ms is not None:
            await producer.init_transactions()
        outcome = await produce_load(producer, load, SystemClock(), _print_window, _WINDOW_MS)
        if outcome.first_error is not None:
            print(f"{outcome.failed} records failed: {outcome.first_error}", file=sys.stderr)
        print(_total_line(outcome.flow))
        if "--print-metrics" in given:
            from kafkalite.legacy.perf_test.metrics_table import print_metrics

            print_metrics("producer-metrics", settings["client.id"], producer.statistics())
    except (ClientError, OSError) as problem:
        raise ToolError(str(problem), "org.apache.kafka.common.KafkaException") from None
    finally:
        await producer.close()


def _print_window(window: Flow, total: Flow) -> None:
    if window.records:
        print(
            f"{window.records} records sent, {window.records_per_s:.1f} records/sec ({window.mb_per_s:.2f} MB/sec), "
            f"{window.latencies.mean_ms:.1f} ms avg latency, {window.latencies.max_ms:.1f} ms max latency.",
            flush=True,
        )


def _total_line(total: Flow) -> str:
    half, most, nearly, almost = (int(each) for each in total.latencies.percentiles_ms())
    return (
        f"{total.records} records sent, {total.records_per_s:f} records/sec ({total.mb_per_s:.2f} MB/sec), "
        f"{total.latencies.mean_ms:.2f} ms avg latency, {total.latencies.max_ms:.2f} ms max latency, "
        f"{half} ms 50th, {most} ms 95th, {nearly} ms 99th, {almost} ms 99.9th."
    )
