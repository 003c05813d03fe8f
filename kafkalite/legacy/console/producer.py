"""`kafka-console-producer`: send the lines of stdin as records."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from kafkalite.legacy.cluster.client_settings import key_values, options_for, properties_of
from kafkalite.legacy.cluster.servers import HOST_AND_PORT, check_servers
from kafkalite.legacy.command_line.entry import log, print_failure, run_tool, runs_long
from kafkalite.legacy.command_line.failures import TerseError, ToolError
from kafkalite.legacy.command_line.option_parser import (
    Argument,
    Option,
    Options,
    declared_options,
    flag,
    integer,
    long,
    text,
)

if TYPE_CHECKING:
    from kafkalite.legacy.console.stdin_records import LineReader, LineRecord

TOOL: Final = "kafka-console-producer"
HEADLINE: Final = "This tool helps to read data from standard input and publish it to Kafka."
LINE_READER_CLASS: Final = "kafka.tools.ConsoleProducer$LineMessageReader"

TOPIC: Final = text("topic")
BROKER_LIST: Final = text("broker-list")
BOOTSTRAP_SERVER: Final = text("bootstrap-server")
SYNC: Final = flag("sync")
COMPRESSION_CODEC: Final = Option("compression-codec", Argument.OPTIONAL)
BATCH_SIZE: Final = integer("batch-size", 16384)
LINE_READER: Final = text("line-reader", LINE_READER_CLASS)
PROPERTY: Final = text("property")
READER_CONFIG: Final = text("reader-config")
PRODUCER_PROPERTY: Final = text("producer-property")
PRODUCER_CONFIG: Final = text("producer.config")
_MERGED: Final = (
    ("linger.ms", long("timeout", 1000)),
    ("acks", text("request-required-acks", "-1")),
    ("request.timeout.ms", integer("request-timeout-ms", 1500)),
    ("retries", integer("message-send-max-retries", 3)),
    ("retry.backoff.ms", long("retry-backoff-ms", 100)),
    ("send.buffer.bytes", integer("socket-buffer-size", 102400)),
    ("buffer.memory", long("max-memory-bytes", 33554432)),
    ("batch.size", BATCH_SIZE),
    ("batch.size", integer("max-partition-memory-bytes", 16384)),
    ("metadata.max.age.ms", long("metadata-expiry-ms", 300_000)),
    ("max.block.ms", long("max-block-ms", 60_000)),
)
"""Settings of the producer and the options that set them. An option on the command line wins over the file; its default does not."""
OPTIONS: Final = (*declared_options(vars()), *(option for _, option in _MERGED))


def main(arguments: Sequence[str] | None = None) -> int:
    return run_tool(_run, arguments)


def _run(arguments: Sequence[str]) -> int:
    try:
        options = _read_options(arguments)
        settings = producer_settings(options)
        check_servers(settings["bootstrap.servers"], "Failed to construct kafka producer")
        reader = _line_reader(options)
        import asyncio

        asyncio.run(_produce(options, settings, reader))
    except ToolError as problem:
        if problem.java_class.startswith("joptsimple."):
            raise TerseError(problem.message) from None
        sys.stdout.flush()
        print_failure(TerseError(str(problem)))
        if problem.cause is not None:
            print(f"Caused by: {problem.cause}", file=sys.stderr)
        return 1
    return 0


def _read_options(arguments: Sequence[str]) -> Options:
    options = Options.read_or_refuse(TOOL, OPTIONS, arguments)
    if not options.asks_for_help and not options.has_any(BOOTSTRAP_SERVER, BROKER_LIST):
        options.refuse("Missing required option(s) [bootstrap-server]")
    options.print_help_or_version(HEADLINE)
    options.require(TOPIC)
    servers = options.value_of_either(BOOTSTRAP_SERVER, BROKER_LIST)
    if not servers or not all(HOST_AND_PORT.fullmatch(each) for each in servers.split(",")):
        options.refuse("Please provide valid host:port like host1:9091,host2:9092\n ")
    return options


def producer_settings(options: Options) -> dict[str, str]:
    """Return the producer's settings from the file, the command line and the options; later ones win."""
    settings = {
        **properties_of(options.value(PRODUCER_CONFIG)),
        **key_values(options.values(PRODUCER_PROPERTY)),
        "bootstrap.servers": options.value_of_either(BOOTSTRAP_SERVER, BROKER_LIST),
        "compression.type": (options.value(COMPRESSION_CODEC) or "gzip") if options.has(COMPRESSION_CODEC) else "none",
    }
    settings.setdefault("client.id", "console-producer")
    for name, option in _MERGED:
        if options.has(option) or name not in settings:
            settings[name] = str(options.value(option))
    return settings


def _line_reader(options: Options) -> LineReader:
    from kafkalite.legacy.console.stdin_records import LineReader

    wanted = options.value(LINE_READER)
    if wanted != LINE_READER_CLASS:
        raise ToolError(wanted, "java.lang.ClassNotFoundException")
    return LineReader({**properties_of(options.value(READER_CONFIG)), **key_values(options.values(PROPERTY))})


async def _produce(options: Options, settings: dict[str, str], reader: LineReader) -> None:
    runs_long()
    from kafkalite.client.errors import ClientError
    from kafkalite.client.producer.options import ProducerOptions
    from kafkalite.client.producer.producer import Producer

    topic, sync = options.value(TOPIC), options.has(SYNC)
    producer = Producer(**options_for(ProducerOptions, settings))

    def tell(_: Any, problem: Exception | None) -> None:
        if problem is not None:
            log_failed(topic, problem)

    connected = False
    try:
        async for record in _records(reader):
            try:
                if not connected:
                    await _connect(producer, int(settings["max.block.ms"]) / 1000)
                    connected = True
                delivery = await producer.send_bytes(
                    topic, record.value, record.key, headers=record.headers, on_delivery=None if sync else tell
                )
                if sync:
                    await delivery
            except (ClientError, OSError, TimeoutError) as problem:
                if sync:
                    raise ToolError(str(problem), "java.util.concurrent.ExecutionException") from None
                log_failed(topic, problem)
    finally:
        await producer.close()


async def _connect(producer: Any, timeout_s: float) -> None:
    """Wait for the cluster as long as a record would wait to be taken. TimeoutError."""
    import asyncio

    from kafkalite.client.errors import NoBrokersAvailableError

    try:
        async with asyncio.timeout(timeout_s):
            while True:
                try:
                    await producer.connect(timeout_s)
                    return
                except NoBrokersAvailableError:
                    await asyncio.sleep(min(1.0, timeout_s / 10))
    except TimeoutError:
        raise TimeoutError(f"Topic not present in metadata after {timeout_s * 1000:.0f} ms.") from None


def log_failed(topic: str, problem: Exception) -> None:
    """Log a record that was not written as Kafka's ErrorLoggingCallback does."""
    log(
        "ERROR",
        f"Error when sending message to topic {topic} with error: {problem}",
        "org.apache.kafka.clients.producer.internals.ErrorLoggingCallback",
    )


async def _records(reader: LineReader) -> AsyncIterator[LineRecord]:
    from kafkalite.administration.stdin_lines import InputError, stdin_lines

    prompting = sys.stdin.isatty() and sys.stdout.isatty()
    if prompting:
        print(">", end="", flush=True)
    try:
        async for line in stdin_lines():
            for part in java_lines(line):
                yield reader.read(part)
                if prompting:
                    print(">", end="", flush=True)
    except InputError as problem:
        raise ToolError(str(problem), "java.io.IOException") from None


def java_lines(line: bytes) -> list[bytes]:
    """Split a line at carriage returns, where Java's reader ends lines too."""
    return line.removesuffix(b"\r").split(b"\r") if b"\r" in line else [line]
