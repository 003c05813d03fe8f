"""`kafkalite produce TOPIC`: send the lines of stdin as records."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import click

from kafkalite.administration.record_lines import InputRecord, LineError, from_json_line, from_text_line
from kafkalite.cli.admin_call import ask_topics
from kafkalite.cli.calls import admin_options, bootstrap_option, producer_options, run, select_given
from kafkalite.cli.kafka_words.options import named_argument
from kafkalite.cli.new_topic import prepare_topic
from kafkalite.cli.output import Exit, fail, format_count, note
from kafkalite.cli.records.retention_warning import OldestTimestamp, find_retention_warning
from kafkalite.cli.topic_suggestions import suggesting

if TYPE_CHECKING:
    from kafkalite.client.admin.topics import TopicAdmin


@click.command()
@named_argument("topic", "--topic")
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
@click.option("--acks", type=click.Choice(["0", "1", "all"]), show_default="all")
@click.option(
    "-z",
    "--compression",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    show_default="none",
)
@click.option(
    "--partitioner",
    type=click.Choice(["murmur2", "round_robin", "sticky", "murmur3"]),
    show_default="murmur2",
)
@click.option("--create", is_flag=True, help="Create the topic with the brokers' defaults if it is missing.")
@click.option("--dry-run", is_flag=True, help="Only read the lines, and check that they could be written.")
@bootstrap_option
def produce(
    topic: str,
    input_: str,
    key_separator: str | None,
    key: str | None,
    partition: int | None,
    headers: tuple[str, ...],
    keep_partition: bool,
    acks: str | None,
    compression: str | None,
    partitioner: str | None,
    create: bool,
    dry_run: bool,
) -> None:
    """Write the lines of stdin to TOPIC; with -X transactional.id=ID in one transaction.

    A missing TOPIC is created with --create, or after a question at a terminal, never silently.
    """
    extra: list[tuple[str, bytes | None]] = [
        (name, value.encode()) for name, _, value in (each.partition("=") for each in headers)
    ]
    records = _complete_records(
        _records(input_, key_separator, keep_partition), None if key is None else key.encode(), partition, extra
    )
    if dry_run:
        count = ask_topics(lambda admin: _check_records(admin, topic, records))
        note(f"{format_count(count, 'record')} could be written to {topic}")
        return
    options = producer_options()
    options.setdefault("delivery_timeout_ms", options["request_timeout_ms"] + options.get("linger_ms", 0))
    options |= select_given(acks=acks, compression_type=compression, partitioner=partitioner)
    ask_topics(lambda admin: prepare_topic(admin, topic, create))
    options_of_admin = admin_options()
    oldest = OldestTimestamp()
    count, unreadable = run(suggesting(_write_records(options, topic, oldest.of(records)), options_of_admin))
    note(f"{format_count(count, 'record')} written to {topic}")
    if warning := run(find_retention_warning(options_of_admin, topic, oldest.timestamp_ms)):
        note(warning)
    if unreadable is not None:
        fail(str(unreadable))


async def _write_records(
    options: dict[str, Any], topic: str, records: AsyncIterator[InputRecord]
) -> tuple[int, LineError | None]:
    """Return the number of delivered records, and the invalid line before which this ends. Raises the first delivery error."""
    from kafkalite.client.producer.producer import Producer
    from kafkalite.client.records import RecordMetadata

    failures: list[Exception] = []
    unreadable: LineError | None = None

    def on_delivery(_: RecordMetadata | None, problem: Exception | None) -> None:
        if problem is not None:
            failures.append(problem)

    async with Producer(**options) as producer, AsyncExitStack() as transaction:
        if producer.options.transactional_id is not None:
            await producer.init_transactions()
            await transaction.enter_async_context(producer.transaction())
        count = 0
        try:
            async for each in records:
                await producer.send_bytes(
                    topic, each.value, each.key, each.partition, each.timestamp, each.headers, on_delivery
                )
                count += 1
                if failures:
                    break
        except LineError as problem:
            unreadable = problem
        await producer.flush()
        if failures:
            raise failures[0]
        return count, unreadable


async def _complete_records(
    records: AsyncIterator[InputRecord],
    key: bytes | None,
    partition: int | None,
    headers: list[tuple[str, bytes | None]],
) -> AsyncIterator[InputRecord]:
    """Yield the records with the values that the command line gives to all of them."""
    async for each in records:
        yield each._replace(
            key=each.key if key is None else key,
            partition=each.partition if partition is None else partition,
            headers=[*each.headers, *headers],
        )


async def _check_records(admin: TopicAdmin, topic: str, records: AsyncIterator[InputRecord]) -> int:
    """Return the number of records. An invalid line, and an unknown partition, end the command."""
    (described,) = await admin.describe_topics([topic])
    known = {view.partition for view in described.partitions}
    count = 0
    try:
        async for each in records:
            if each.partition is not None and each.partition not in known:
                fail(f"topic {topic} has no partition {each.partition}", Exit.NOT_FOUND)
            count += 1
    except LineError as problem:
        fail(str(problem))
    return count


async def _records(input_: str, key_separator: str | None, keep_partition: bool) -> AsyncIterator[InputRecord]:
    from kafkalite.administration.stdin_lines import InputError, stdin_lines

    separator = None if key_separator is None else key_separator.encode()
    number = 0
    try:
        async for line in stdin_lines():
            number += 1
            try:
                if input_ == "lines":
                    yield from_text_line(line, separator)
                elif line.strip():
                    yield from_json_line(line, keep_partition)
            except LineError as problem:
                raise LineError(f"line {number}: {problem}") from None
    except InputError as problem:
        raise LineError(str(problem)) from None
