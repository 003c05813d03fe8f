"""`kafkalite consume TOPIC`: print records as lines of stdout."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from kafkalite.administration.record_lines import to_dict
from kafkalite.cli.calls import admin_options, bootstrap_option, run_long, select_given
from kafkalite.cli.kafka_words.options import named_argument
from kafkalite.cli.output import flush, format_count, note, output_option, write_bytes
from kafkalite.cli.topic_suggestions import suggesting
from kafkalite.timestamps import check_int64, parse_time, timestamp_text
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.client.consumer.consumer import Consumer
    from kafkalite.client.consumer_record import ConsumerRecord

_FORMATS = ("value", "table", "json", "jsonl")
_RESETS = {"beginning": "earliest", "earliest": "earliest", "end": "latest", "latest": "latest"}


@click.command()
@named_argument("topic", "--topic")
@click.option(
    "-s",
    "--offset",
    "start",
    default="beginning",
    show_default=True,
    metavar="WHERE",
    help="beginning, end, an offset, -N for the last N of each partition, or a time like 2013-01-31T12:00:00Z.",
)
@click.option("--from-beginning", is_flag=True, hidden=True, help="What --offset beginning says, and the default.")
@click.option("-p", "--partition", "partitions", type=int, multiple=True, help="Only this partition; may be repeated.")
@click.option(
    "-g",
    "--group",
    metavar="GROUP",
    help="As a member of this group: from where it is (or from --offset beginning|end), and commit what was read.",
)
@click.option("-n", "--max-messages", type=int, help="Stop after so many records.")
@click.option(
    "-e", "--exit-at-end", is_flag=True, help="Stop at the offsets where the partitions end when the command starts."
)
@click.option("--idle-timeout", type=float, help="Stop after so many seconds without a record.")
@click.option(
    "--isolation-level",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    show_default="read_uncommitted",
)
@click.option("-f", "--format", "template", help="A text with %k %v %o %p %t %T %h %% and \\n \\t, instead of -o.")
@bootstrap_option
@output_option("value", _FORMATS)
def consume(
    topic: str,
    start: str,
    from_beginning: bool,
    partitions: tuple[int, ...],
    group: str | None,
    max_messages: int | None,
    exit_at_end: bool,
    idle_timeout: float | None,
    isolation_level: str | None,
    template: str | None,
    output: str,
) -> None:
    """Read records of TOPIC.

    \b
    -o value   each value as it is, with a line end behind it
    -o table   partition, offset, time, key and value for people
    -o jsonl   a JSON object per record, which `produce --input jsonl` takes without loss
    -o json    the same as one array
    """
    show = _writer(output, template)
    if from_beginning and _RESETS.get(start) != "earliest":
        raise click.UsageError(f"--from-beginning, and --offset {start}: give one of them")
    if group is not None and (partitions or exit_at_end or start not in _RESETS):
        raise click.UsageError(
            "a group shares all partitions, and goes on where it is: no -p, no -e, --offset beginning or end"
        )

    async def read() -> int:
        from kafkalite.client.consumer.consumer import Consumer

        options = admin_options("Consumer") | select_given(isolation_level=isolation_level)
        options |= {"auto_offset_reset": _RESETS.get(start, "earliest"), "max_poll_records": 2000, "group_id": group}
        async with Consumer(*([] if group is None else [topic]), **options) as consumer:
            known = await consumer.partitions_for_topic(topic)
            unknown = set(partitions) - known
            if unknown:
                raise click.BadParameter(f"topic {topic} has no partition {min(unknown)}", param_hint="--partition")
            if group is not None:
                note(f"reading {topic} as a member of {group}")
                return await _read(consumer, show, max_messages, None, idle_timeout)
            chosen = [TopicPartition(topic, number) for number in sorted(partitions or known)]
            consumer.assign(chosen)
            await _seek(consumer, chosen, start)
            ends = await consumer.end_offsets(chosen) if exit_at_end else None
            return await _read(consumer, show, max_messages, ends, idle_timeout)

    options_of_admin = admin_options()
    count = run_long(suggesting(read(), options_of_admin))
    if isinstance(show, _ArrayWriter):
        show.end()
    flush()
    note(format_count(count, "record"))


async def _seek(consumer: Consumer, chosen: list[TopicPartition], start: str) -> None:
    """Seek to `start`. Raises click.BadParameter when it is invalid."""
    if start in ("beginning", "earliest"):
        await consumer.seek_to_beginning(*chosen)
    elif start in ("end", "latest"):
        await consumer.seek_to_end(*chosen)
    elif start.isdecimal():
        for each in chosen:
            consumer.seek(each, _offset(start))
    elif start.startswith("-") and start[1:].isdecimal():
        beginnings, ends = await consumer.beginning_offsets(chosen), await consumer.end_offsets(chosen)
        for each in chosen:
            consumer.seek(each, max(beginnings[each], ends[each] - int(start[1:])))
    else:
        try:
            moment_ms = parse_time(start)
        except ValueError:
            raise click.BadParameter(f"{start!r} is no offset and no time", param_hint="--offset") from None
        await consumer.seek_to_time(max(0, moment_ms), *chosen)  # negative ones stand for the end and the beginning


def _offset(text: str) -> int:
    try:
        return check_int64(int(text))
    except ValueError as problem:
        raise click.BadParameter(str(problem), param_hint="--offset") from None


async def _read(
    consumer: Consumer,
    show: Callable[[ConsumerRecord], None],
    limit: int | None,
    ends: dict[TopicPartition, int] | None,
    idle_timeout: float | None,
) -> int:
    """Show records until `limit`, until the `ends`, or until none came for `idle_timeout` seconds, and return their number."""
    count = 0
    while limit is None or count < limit:
        if ends is not None:
            await _pause_finished(consumer, ends)
            if not ends:
                break
        wait_ms = 200.0 if ends is not None else (idle_timeout or 60.0) * 1000
        room = 2000 if limit is None else min(2000, limit - count)
        found = await consumer.getmany(timeout_ms=wait_ms, max_records=room)
        for topic_partition, records in found.items():
            for record in records:
                if ends is None or record.offset < ends.get(topic_partition, 0):
                    show(record)
                    count += 1
        flush()
        if not found and ends is None and idle_timeout is not None:
            break
    return count


async def _pause_finished(consumer: Consumer, ends: dict[TopicPartition, int]) -> None:
    """Pause partitions that were read to their end, and remove them from `ends`."""
    for each, end in list(ends.items()):
        if await consumer.position(each) >= end:
            consumer.pause(each)
            del ends[each]


def _writer(output: str, template: str | None) -> Callable[[ConsumerRecord], None]:
    """Return the function that writes a record, always as UTF-8, because programs read it."""
    if template is not None:
        unescaped = template.replace("\\n", "\n").replace("\\t", "\t")
        return lambda record: write_bytes(_fill_template(unescaped, record))
    match output:
        case "value":
            return lambda record: write_bytes((record.value or b"") + b"\n")
        case "table":
            return lambda record: write_bytes(_person_line(record).encode() + b"\n")
        case "json":
            return _ArrayWriter()
        case _:
            return lambda record: write_bytes(_json(record) + b"\n")


def _json(record: ConsumerRecord) -> bytes:
    return json.dumps(to_dict(record), ensure_ascii=False).encode()


class _ArrayWriter:
    """Writes a JSON array of records, started with the first one, so that a command that fails writes nothing."""

    def __init__(self) -> None:
        self._before = b"[\n"

    def __call__(self, record: ConsumerRecord) -> None:
        write_bytes(self._before + _json(record))
        self._before = b",\n"

    def end(self) -> None:
        write_bytes(b"\n]\n" if self._before == b",\n" else b"[]\n")


def _text(data: Any) -> str:
    return "null" if data is None else bytes(data).decode("utf-8", "backslashreplace")


def _person_line(record: ConsumerRecord) -> str:
    return f"{record.partition}:{record.offset}\t{timestamp_text(record.timestamp)}\t{_text(record.key)}\t{_text(record.value)}"


def _fill_template(template: str, record: ConsumerRecord) -> bytes:
    """Return the template with its letters (those of kcat) replaced; keys and values byte for byte."""
    letters: dict[str, Callable[[], bytes]] = {
        "k": lambda: record.key if record.key is not None else b"",
        "v": lambda: record.value if record.value is not None else b"",
        "o": lambda: b"%d" % record.offset,
        "p": lambda: b"%d" % record.partition,
        "T": lambda: b"%d" % record.timestamp,
        "t": lambda: record.topic.encode(),
        "h": lambda: ",".join(f"{name}={_text(content)}" for name, content in record.headers).encode(),
        "%": lambda: b"%",
    }
    first, *rest = template.split("%")
    parts = [first.encode()]
    index = 0
    while index < len(rest):
        piece = rest[index]
        if not piece and index + 1 < len(rest):  # "%%"
            parts += [b"%", rest[index + 1].encode()]
            index += 2
            continue
        fill = letters.get(piece[:1])
        parts += [fill(), piece[1:].encode()] if fill else [b"%", piece.encode()]
        index += 1
    return b"".join(parts)
