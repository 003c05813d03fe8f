"""`kafkalite produce TOPIC`: lines of stdin become records."""

from __future__ import annotations

from collections.abc import AsyncIterator

import click

from kafkalite.cli.calls import bootstrap_option, client_options, run
from kafkalite.cli.output import fail, note
from kafkalite.cli.record_lines import InputRecord, LineError, from_json_line, from_text_line
from kafkalite.cli.stdin_lines import stdin_lines


@click.command()
@click.argument("topic")
@click.option(
    "-i",
    "--input",
    "input_",
    type=click.Choice(["lines", "jsonl"]),
    default="lines",
    show_default=True,
    help="Each line a value, or a JSON object as `consume -o jsonl` writes it.",
)
@click.option("-K", "--key-separator", help="With lines: what separates key and value.")
@click.option("-k", "--key", help="The key of every record.")
@click.option("-p", "--partition", type=int, help="The partition of every record.")
@click.option("-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header for every record.")
@click.option("--keep-partition", is_flag=True, help="With jsonl: into the partition that the line names.")
@click.option("--acks", type=click.Choice(["0", "1", "all"]), default="all", show_default=True)
@click.option(
    "-z",
    "--compression",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    default="none",
    show_default=True,
)
@click.option(
    "--partitioner",
    type=click.Choice(["murmur2", "round_robin", "sticky", "murmur3"]),
    default="murmur2",
    show_default=True,
)
@bootstrap_option
def produce(
    topic: str,
    input_: str,
    key_separator: str | None,
    key: str | None,
    partition: int | None,
    headers: tuple[str, ...],
    keep_partition: bool,
    acks: str,
    compression: str,
    partitioner: str,
    bootstrap_server: str,
    timeout: float,
) -> None:
    """Write the lines of stdin to TOPIC."""
    from kafkalite.client.producer import Producer
    from kafkalite.client.records import RecordMetadata

    pairs = [(name, value.encode()) for name, _, value in (each.partition("=") for each in headers)]
    failures: list[Exception] = []
    unreadable: list[LineError] = []

    def on_delivery(_: RecordMetadata | None, problem: Exception | None) -> None:
        if problem is not None:
            failures.append(problem)

    async def send_all() -> int:
        options = client_options(bootstrap_server, timeout)
        options["max_block_ms"] = options["delivery_timeout_ms"] = options["request_timeout_ms"]
        async with Producer(
            **options, acks=acks, compression_type=compression, partitioner=partitioner, linger_ms=0
        ) as producer:
            count = 0
            try:
                async for record in _records(input_, key_separator, keep_partition):
                    await producer.send_bytes(
                        topic,
                        record.value,
                        key.encode() if key is not None else record.key,
                        record.partition if partition is None else partition,
                        record.timestamp,
                        [*record.headers, *pairs],
                        on_delivery,
                    )
                    count += 1
                    if failures:
                        break
            except LineError as problem:
                unreadable.append(problem)  # what came before it is delivered
            await producer.flush()
            if failures:
                raise failures[0]
            return count

    count = run(send_all())
    note(f"{count} records written to {topic}")
    if unreadable:
        fail(str(unreadable[0]))


async def _records(input_: str, key_separator: str | None, keep_partition: bool) -> AsyncIterator[InputRecord]:
    separator = None if key_separator is None else key_separator.encode()
    number = 0
    async for line in stdin_lines():
        number += 1
        try:
            if input_ == "lines":
                yield from_text_line(line, separator)
            elif line.strip():
                yield from_json_line(line, keep_partition)
        except LineError as problem:
            raise LineError(f"line {number}: {problem}") from None
