"""`kafka-dump-log`: print the files of a log directory, offline."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kafkalite.legacy.command_line.entry import run_tool
from kafkalite.legacy.command_line.failures import ToolError, UsageError, file_error, uncaught
from kafkalite.legacy.command_line.option_parser import Argument, Option, Options, declared_options, flag, integer, text
from kafkalite.standard_streams import is_reader_gone

if TYPE_CHECKING:
    from kafkalite.storage.inspection import Row

TOOL: Final = "kafka-dump-log"
HEADLINE: Final = (
    "This tool helps to parse a log file and dump its contents to the console, "
    "useful for debugging a seemingly corrupt log segment."
)
_DECODERS: Final = "org.apache.kafka.tools.api."

PRINT_DATA_LOG: Final = flag("print-data-log")
VERIFY_INDEX_ONLY: Final = flag("verify-index-only")
INDEX_SANITY_CHECK: Final = flag("index-sanity-check")
FILES: Final = text("files")
MAX_MESSAGE_SIZE: Final = integer("max-message-size", 5242880)
MAX_BYTES: Final = integer("max-bytes", 2147483647)
DEEP_ITERATION: Final = flag("deep-iteration")
VALUE_DECODER: Final = Option("value-decoder-class", Argument.OPTIONAL, default=f"{_DECODERS}StringDecoder")
KEY_DECODER: Final = Option("key-decoder-class", Argument.OPTIONAL, default=f"{_DECODERS}StringDecoder")
OFFSETS_DECODER: Final = flag("offsets-decoder")
TRANSACTION_LOG_DECODER: Final = flag("transaction-log-decoder")
CLUSTER_METADATA_DECODER: Final = flag("cluster-metadata-decoder")
REMOTE_LOG_METADATA_DECODER: Final = flag("remote-log-metadata-decoder")
SKIP_RECORD_METADATA: Final = flag("skip-record-metadata")
_DECODER_OPTIONS: Final = (
    *(OFFSETS_DECODER, TRANSACTION_LOG_DECODER, CLUSTER_METADATA_DECODER, REMOTE_LOG_METADATA_DECODER),
    *(VALUE_DECODER, KEY_DECODER),
)
OPTIONS: Final = declared_options(vars())
_SEQUENCES: Final = 2**31

Parser = Callable[[dict[str, Any]], tuple[str | None, str | None]]
"""Returns the printed key and payload of a record's fields."""


def main(arguments: Sequence[str] | None = None) -> int:
    return run_tool(_run, arguments)


def _run(arguments: Sequence[str]) -> int:
    try:
        options = Options(TOOL, OPTIONS, arguments)
    except UsageError as problem:
        raise uncaught(problem) from None
    options.print_help_or_version(HEADLINE)
    options.require(FILES)
    dump = _Dump(options)
    for name in options.value(FILES).split(","):
        try:
            dump.file(Path(name))
        except ToolError as problem:
            sys.stdout.flush()
            raise uncaught(problem) from None
    dump.report()
    return 0


def _missing(path: Path) -> ToolError:
    return ToolError(str(path), "java.nio.file.NoSuchFileException")


class _Dump:
    """One run of the tool: prints files, and collects the problems that are reported at the end."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._contents = options.has(PRINT_DATA_LOG) or any(options.has(each) for each in _DECODER_OPTIONS)
        self._deep = self._contents or options.has(DEEP_ITERATION)
        self._max_bytes = options.value(MAX_BYTES)
        self._gaps: dict[str, list[tuple[int, int]]] = {}
        self._complaints: list[str] = []

    def file(self, path: Path) -> None:
        print(f"Dumping {path}")
        ways: dict[str, Callable[[Path], None]] = {
            ".log": self._log,
            ".index": self._index,
            ".timeindex": self._index,
            ".snapshot": _snapshot,
            ".txnindex": _transactions,
        }
        way = ways.get(path.suffix)
        if way is None:
            sys.stdout.flush()
            print(f"Ignoring unknown file {path}", file=sys.stderr)
            return
        number = path.name.split(".")[0]
        if not number.isdecimal() and (path.suffix != ".snapshot" or path.exists()):
            raise ToolError(f'For input string: "{number}"', "java.lang.NumberFormatException")
        if path.suffix != ".log" and not path.exists():
            raise _missing(path)
        try:
            way(path)
        except OSError as problem:
            raise file_error(str(path), problem) from None

    def _index(self, path: Path) -> None:
        from kafkalite.legacy.dump_log import index as dump_index

        sanity_only = self._options.has(INDEX_SANITY_CHECK)
        verify_only = self._options.has(VERIFY_INDEX_ONLY)
        dump = dump_index.offset_index if path.suffix == ".index" else dump_index.time_index
        self._complaints += dump(path, sanity_only=sanity_only, verify_only=verify_only)

    def _log(self, path: Path) -> None:
        from kafkalite.storage.inspection import BATCH, Depth, Row, examine

        parse = self._parser()
        print(f"Log starting offset: {int(path.name.split('.')[0])}")
        if not path.exists():
            raise _missing(path)
        batch: dict[str, Any] = {}
        valid_bytes, last_offset, sequence = 0, -1, 0
        for found in examine(path, Depth.RECORDS if self._deep else Depth.HEADERS):
            if not isinstance(found, Row):
                continue
            if is_reader_gone():
                return
            if found.kind == BATCH:
                batch = found.fields
                if batch["position"] + batch["size"] > self._max_bytes:
                    break
                valid_bytes, sequence = batch["position"] + batch["size"], batch["base_sequence"]
                print(_batch_line(batch))
                continue
            offset = found.fields["offset"]
            if last_offset not in (-1, offset - 1):
                self._gaps.setdefault(str(path.absolute()), []).insert(0, (last_offset, offset))
            last_offset = offset
            delta = offset - batch["base_offset"]
            print(self._record_line(batch, found, -1 if sequence < 0 else (sequence + delta) % _SEQUENCES, parse))
        trailing = path.stat().st_size - valid_bytes
        if trailing > 0 and self._max_bytes == MAX_BYTES.default:
            print(f"Found {trailing} invalid bytes at the end of {path.name}")

    def _record_line(self, batch: dict[str, Any], record: Row, sequence: int, parse: Parser) -> str:
        fields, parts = record.fields, []
        if not self._options.has(SKIP_RECORD_METADATA):
            parts += [
                f"offset: {fields['offset']} {batch['timestamp_type']}: {fields['timestamp']}",
                f"keySize: {_size(fields['key'])} valueSize: {_size(fields['value'])}",
            ]
            if "crc" in fields:  # of a message of format 0 or 1, which Kafka's tool ends so
                parts.append(f"isValid: {_java(fields['crc_valid'])} crc: {fields['crc']}}}")
            else:
                names = ",".join(header.key for header in fields["headers"])
                parts.append(f"sequence: {sequence} headerKeys: [{names}]")
            if "marker" in fields:
                marker = fields["marker"].upper()
                parts.append(f"endTxnMarker: {marker} coordinatorEpoch: {fields['coordinator_epoch']}")
        shown = "| " + " ".join(parts) if parts else ""
        if not self._contents or batch["control"]:
            return shown
        key, payload = parse(fields)
        if key is not None:
            shown += f" key: {key}" if parts else f"| key: {key}"
        return shown if payload is None else f"{shown} payload: {payload}"

    def _parser(self) -> Parser:
        from kafkalite.legacy.dump_log import record_decoders

        options = self._options
        if options.has(OFFSETS_DECODER):
            return record_decoders.offsets
        if options.has(TRANSACTION_LOG_DECODER):
            return record_decoders.transactions
        for each in (CLUSTER_METADATA_DECODER, REMOTE_LOG_METADATA_DECODER):
            if options.has(each):
                raise ToolError(f"--{each.name}: there are no such records here")
        return record_decoders.by_class(options.value(KEY_DECODER), options.value(VALUE_DECODER))

    def report(self) -> None:
        """Print the problems on stderr, as Kafka does at the end."""
        sys.stdout.flush()
        for line in self._complaints:
            print(line, file=sys.stderr)
        for name, pairs in self._gaps.items():
            print(f"Non-consecutive offsets in {name}", file=sys.stderr)
            for first, second in pairs:
                print(f"  {first} is followed by {second}", file=sys.stderr)


def _batch_line(batch: dict[str, Any]) -> str:
    place = (
        f"position: {batch['position']} {batch['timestamp_type']}: {batch['max_timestamp']} "
        f"size: {batch['size']} magic: {batch['magic']} compresscodec: {batch['codec']} crc: {batch['crc']} "
        f"isvalid: {_java(batch['crc_valid'])}"
    )
    if batch["count"] is None:  # a message of format 0 or 1
        return f"offset: {batch['last_offset']} {place}"
    horizon = batch["delete_horizon_ms"]
    return (
        f"baseOffset: {batch['base_offset']} lastOffset: {batch['last_offset']} count: {batch['count']} "
        f"baseSequence: {batch['base_sequence']} lastSequence: {batch['last_sequence']} "
        f"producerId: {batch['producer_id']} producerEpoch: {batch['producer_epoch']} "
        f"partitionLeaderEpoch: {batch['leader_epoch']} isTransactional: {_java(batch['transactional'])} "
        f"isControl: {_java(batch['control'])} deleteHorizonMs: {_optional(horizon)} "
        f"{place}"
    )


def _java(value: bool) -> str:
    return str(value).lower()


def _optional(value: int | None) -> str:
    return "OptionalLong.empty" if value is None or value < 0 else f"OptionalLong[{value}]"


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _rows(path: Path) -> list[dict[str, Any]]:
    """Return the undamaged entries of a file, and name the damage on stderr."""
    from kafkalite.storage.inspection import Row, examine

    found = []
    for each in examine(path):
        if isinstance(each, Row):
            found.append(each.fields)
        else:
            sys.stdout.flush()
            print(each.reason, file=sys.stderr)
    return found


def _snapshot(path: Path) -> None:
    for each in _rows(path):
        line = (
            f"producerId: {each['producer_id']} producerEpoch: {each['epoch']} "
            f"coordinatorEpoch: {each['coordinator_epoch']} "
            f"currentTxnFirstOffset: {_optional(each['transaction_first_offset'])} "
            f"lastTimestamp: {each['last_timestamp']} "
        )
        if each["last_offset"] is not None:
            line += (
                f"firstSequence: {each['first_sequence']} lastSequence: {each['last_sequence']} "
                f"lastOffset: {each['last_offset']} offsetDelta: {each['last_offset'] - each['first_offset']} "
                f"timestamp: {each['last_timestamp']}"
            )
        print(line)


def _transactions(path: Path) -> None:
    for each in _rows(path):
        print(
            f"version: 0 producerId: {each['producer_id']} firstOffset: {each['first_offset']} "
            f"lastOffset: {each['last_offset']} lastStableOffset: {each['last_stable_offset']}"
        )
