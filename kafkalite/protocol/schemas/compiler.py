"""Turns a message's schema in one version into functions: a reader, one that reads in portions, and a writer.

Python source is generated and compiled once for each (message, version), at first use. Neighbouring fields of constant
size are packed and unpacked with one `struct` call, so the cost is about 0.1 µs a field. The objects are of the unified
classes (`messages`), which know the fields of all versions: a reader sets what the version lacks to its default, a writer
leaves out what the version lacks.

Bounds: see `bounds`. What breaks one, a length beyond the buffer and a bad UTF-8 string raise `ProtocolViolation`. Negative lengths mean
null, and an empty value where null is not allowed, as Kafka tolerates.
"""

from __future__ import annotations

import gc
import struct
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, TypeAlias

from kafkalite.errors import ProtocolViolation
from kafkalite.portions import Work
from kafkalite.protocol.bounds import Budget
from kafkalite.protocol.schemas.generated_source import Source
from kafkalite.protocol.schemas.reader_source import PLAIN, READER_NAMES, Metered, reader_source
from kafkalite.protocol.schemas.schema import Struct
from kafkalite.protocol.schemas.writer_source import AT_ONCE, IN_PORTIONS, uvarint, writer_source
from kafkalite.types import Buffer

Reader: TypeAlias = Callable[[Buffer, int], Any]
Reading: TypeAlias = Generator[None, None, Any]
"""Reads on at each step, and returns the message in the end."""
MeteredReader: TypeAlias = Callable[[Buffer, int, Budget], Reading]
Writer: TypeAlias = Callable[[Any], list[Buffer]]
PortionedWriter: TypeAlias = Callable[[Any], Work[list[Buffer]]]
ItemWriter: TypeAlias = Callable[[Any], bytes]

_JOIN_BELOW_BYTES = 2048
"""Parts at least this long are handed to the socket as they are; shorter ones are copied together."""
_PARTS_MAX = 8192
"""Number of parts of a long message that are copied together; each takes several times its bytes."""
_UVARINTS = [uvarint(n) for n in range(256)]
_UNREADABLE = (struct.error, IndexError, UnicodeDecodeError)


def compile_reader(root: Struct, classes: dict[str, type]) -> Reader:
    """Return a function (buffer, position) -> message. Bytes after the message are ignored, as Kafka does."""
    source = Source(**READER_NAMES)
    for each in root.structs():
        source.add(f"read_{each.name}", partial(reader_source, each, classes, source, PLAIN))
    read = source.compile()[f"read_{root.name}"]

    def read_message(buffer: Buffer, position: int) -> Any:
        try:
            return read(buffer, position, len(buffer))[0]
        except _UNREADABLE as problem:
            raise ProtocolViolation(f"{root.name} cannot be read: {problem}") from None

    return read_message


def compile_metered_reader(root: Struct, classes: dict[str, type]) -> MeteredReader:
    """Compile a reader of long messages, which charges a budget for what it makes, and stops after each portion of items."""
    source = Source(**READER_NAMES)
    metered = Metered(root)
    for each in root.structs():
        source.add(f"read_{each.name}", partial(reader_source, each, classes, source, metered))
    read = source.compile()[f"read_{root.name}"]

    def read_portions(buffer: Buffer, position: int, budget: Budget) -> Reading:
        reading = read(buffer, position, len(buffer), budget)
        while True:
            collects = gc.isenabled()
            gc.disable()  # nothing is garbage while a message grows, and each search would look at the same objects once more
            try:
                next(reading)
            except StopIteration as end:
                budget.charge(0)
                return end.value[0]
            except _UNREADABLE as problem:
                raise ProtocolViolation(f"{root.name} cannot be read: {problem}") from None
            finally:
                if collects:
                    gc.enable()
            yield

    return read_portions


def compile_writer(root: Struct, classes: dict[str, type]) -> Writer:
    """Return a function message -> buffers; record data is passed on without a copy."""
    source = Source(uvarint=uvarint, UVARINTS=_UVARINTS)
    for each in root.structs():
        source.add(f"write_{each.name}", partial(writer_source, each, source, AT_ONCE))
    write = source.compile()[f"write_{root.name}"]

    def write_message(message: Any) -> list[Buffer]:
        parts: list[Buffer] = []
        write(parts.append, message)
        return join_parts(parts)

    return write_message


def compile_item_writer(root: Struct, name: str) -> ItemWriter:
    """Return a function object -> bytes for the struct of this name within a message."""
    source = Source(uvarint=uvarint, UVARINTS=_UVARINTS)
    for each in root.structs():
        source.add(f"write_{each.name}", partial(writer_source, each, source, AT_ONCE))
    write = source.compile()[f"write_{name}"]

    def write_item(item: Any) -> bytes:
        parts: list[Buffer] = []
        write(parts.append, item)
        return b"".join(parts)

    return write_item


def compile_portioned_writer(root: Struct) -> PortionedWriter:
    """Compile a writer of long messages, which yields after each struct."""
    source = Source(uvarint=uvarint, UVARINTS=_UVARINTS)
    for each in root.structs():
        source.add(f"write_{each.name}", partial(writer_source, each, source, IN_PORTIONS))
    write = source.compile()[f"write_{root.name}"]

    def write_portions(message: Any) -> Work[list[Buffer]]:
        parts: list[Buffer] = []
        written: list[Buffer] = []
        for _ in write(parts.append, message):
            if len(parts) >= _PARTS_MAX:
                written += join_parts(parts)
                parts.clear()
            yield
        written += join_parts(parts)
        return written

    return write_portions


def join_parts(parts: list[Buffer]) -> list[Buffer]:
    """Return the same bytes in fewer parts: short neighbours are copied together, long ones stay what they are."""
    out: list[Buffer] = []
    start = 0
    for index, part in enumerate(parts):
        if len(part) >= _JOIN_BELOW_BYTES:
            if index > start:
                out.append(b"".join(parts[start:index]))
            out.append(part)
            start = index + 1
    if start < len(parts):
        out.append(b"".join(parts[start:]) if start else b"".join(parts))
    return out
