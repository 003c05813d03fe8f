"""Source of the functions that read a struct of a message in one version, in two forms.

`PLAIN`: `read_<struct>(b, p, size)` returns (object, position behind it). `Metered`: the same with a `bounds.Budget` as `c`, which is
charged before anything is made; structs with arrays of strings or structs are generators there, which yield after each portion.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from kafkalite.errors import BoundExceeded, ProtocolViolation
from kafkalite.protocol.bounds import (
    INT_BYTES,
    LIST_BYTES,
    PORTION,
    RECORDS_BYTES,
    STRING_BYTES,
    STRING_BYTES_MAX,
    UNKNOWN_TAGS,
    item_bytes,
    least_item_bytes,
    struct_bytes,
    too_many_tags,
)
from kafkalite.protocol.schemas.generated_source import Lines, Source
from kafkalite.protocol.schemas.schema import FIXED_FORMATS, Field, Struct, size_of
from kafkalite.types import Buffer

_SHARED_UP_TO: Final = 16
"""Numbers in an array that may be shared with an equal one."""
_REPEATED: Final = frozenset({"live_brokers"})
"""Arrays of structs that are mostly the same bytes in each message: a controller names every broker whenever one partition changes. The
objects of the message before are used again then, so nobody may change them. Messages that are read with a budget are too long for that.
"""
_ALIKE: Final = "PartitionState"
"""Structs whose bytes behind the index of their partition are mostly those of another: an election ends a hundred thousand partitions in a
few states. What was read of the other is taken, with its lists, so nobody may change them."""
_ALIKE_BYTES: Final = 256
"""A longer state is read by itself: what is kept of a reader's states stays small, whoever sends them."""
_ALIKE_LENGTHS: Final = 3
_INDEX: Final = "partition_index"
_ALIKE_KEPT: Final = 1_000
_NUMBERS_AT_ONCE: Final = 16_384
_NUMBER_BYTES: Final = 96
"""Charge for a number in a long array, twice what it takes: such an array in a struct that is no generator is read in one go."""


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Return (value, position after it). ProtocolViolation when it is longer than five bytes."""
    value = shift = 0
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7
        if shift > 28:
            raise ProtocolViolation("a varint of more than five bytes")


def _read_string_length(buffer: Buffer, position: int) -> tuple[int, int]:
    """Return the length of a compact string and one, as it is written. BoundExceeded when it is longer than a string may be."""
    value, position = read_uvarint(buffer, position)
    if value - 1 > STRING_BYTES_MAX:
        raise BoundExceeded("string", f"a string of {value - 1} bytes; allowed are {STRING_BYTES_MAX}")
    return value, position


READER_NAMES: Final[dict[str, Any]] = {
    "BoundExceeded": BoundExceeded,
    "ProtocolViolation": ProtocolViolation,
    "read_uvarint": read_uvarint,
    "read_string_length": _read_string_length,
    "too_many_tags": too_many_tags,
    "unpack_from": struct.unpack_from,
}
"""Names that generated readers use."""


class Plain:
    """Reads a struct in one go and charges nothing: the message is short."""

    arguments = "b, p, size"

    def call(self, each: Struct) -> str:
        """Return the call of the function that reads `each`."""
        return f"read_{each.name}({self.arguments})"


PLAIN: Final = Plain()


class Metered(Plain):
    """Charges, and lets the caller stop after each portion."""

    arguments = "b, p, size, c"

    def __init__(self, root: Struct) -> None:
        self._root = root

    def call(self, each: Struct) -> str:
        call = super().call(each)
        return f"yield from {call}" if self.yields(each) else call

    def yields(self, each: Struct) -> bool:
        """True if the function is a generator; that of the whole message always is."""
        if each == self._root:
            return True
        return any(
            (field.is_array and field.type not in FIXED_FORMATS)
            or (isinstance(field.type, Struct) and self.yields(field.type))
            for field in each.fields
        )


class _Reading(Lines):
    """The body of a function; `charge` puts nothing where nothing is charged."""

    def __init__(self, head: str, source: Source, classes: dict[str, type], mode: Plain) -> None:
        super().__init__(head, source, _flush_reads)
        self.classes, self.mode = classes, mode
        self.metered = isinstance(mode, Metered)
        self.is_generator = False

    def charge(self, size: str | int) -> None:
        """Charge for what may be large, which is refused before it is made."""
        if self.metered:
            self.put(f"c.charge({size})")

    def take(self, size: str | int) -> None:
        """Count what is small, until the next charge or the end of the item that it belongs to."""
        if self.metered:
            self.put(f"c.left_bytes -= {size}")


def _flush_reads(lines: Lines, run: list[tuple[str, str]]) -> None:
    format_ = "".join(f for f, _ in run)
    targets = ", ".join(name for _, name in run)
    lines.put(f"{targets}, = {lines.source.packer(format_, 'unpack_from')}(b, p)")
    lines.put(f"p += {size_of(format_)}")
    numbers = [name for f, name in run if f in "hHiIqd" and name.startswith("o.")]
    if isinstance(lines, _Reading) and lines.metered and numbers:
        large = " + ".join(f"(not -6 < {name} < 257)" for name in numbers)  # the others are there already
        lines.take(f"{INT_BYTES} * ({large})")


def reader_source(each: Struct, classes: dict[str, type], source: Source, mode: Plain) -> str:
    """Return the function that reads `each` into an object of its class in `classes`."""
    kind = source.names[f"class_{each.name}"] = classes[each.name]
    lines = _Reading(f"def read_{each.name}({mode.arguments}):", source, classes, mode)
    lines.is_generator = isinstance(mode, Metered) and mode.yields(each)
    alike = lengths = ""
    if _repeats_behind_index(each):
        alike, lengths = source.constant({}), source.constant([])
        _find_alike(lines, each, kind, alike, lengths)
    lines.put(f"o = class_{each.name}.__new__(class_{each.name})")
    present = {field.name for field in each.fields if field.tag is None}
    for field in kind.FIELDS:  # type: ignore[attr-defined]
        if field.name not in present:
            lines.put(f"o.{field.name} = {_default_source(field, classes, source)}")
    for field in each.fields:
        if field.tag is None:
            _read_field(lines, field, each.flexible, f"o.{field.name}")
    if each.flexible:
        _read_tags(lines, [field for field in each.fields if field.tag is not None])
    if alike:
        _keep_alike(lines, alike, lengths)
    lines.put("return o, p")
    if lines.is_generator:
        lines.put("yield")  # what makes it a generator even where nothing above does
    return lines.text()


def _repeats_behind_index(each: Struct) -> bool:
    """True for a struct whose bytes behind the index of its partition are looked up."""
    if each.name != _ALIKE or each.fields[0].name != _INDEX:
        return False
    others = each.fields[1:]
    return any(field.is_array for field in others) and all(
        field.type in FIXED_FORMATS and field.tag is None for field in others
    )


def _find_alike(lines: _Reading, each: Struct, kind: type, alike: str, lengths: str) -> None:
    """Write code that returns an object like an earlier one with the same bytes behind the index, as many as one of the latest had.

    The bytes of a struct say where it ends, so the same bytes are the same struct.
    """
    lines.put("q = p + 4")
    lines.put(f"for n in {lengths}:")
    lines.indent += 1
    lines.put(f"like = {alike}.get(bytes(b[q:q + n]))")
    lines.put("if like is not None:")
    lines.indent += 1
    lines.put(f"o = class_{each.name}.__new__(class_{each.name})")
    lines.put(f"o.{_INDEX}, = {lines.source.packer('i', 'unpack_from')}(b, p)")
    for field in kind.FIELDS:  # type: ignore[attr-defined]
        if field.name != _INDEX:
            lines.put(f"o.{field.name} = like.{field.name}")
    lines.put("return o, q + n")
    lines.indent -= 2


def _keep_alike(lines: _Reading, alike: str, lengths: str) -> None:
    """Write code that keeps the object that was read, and the length of its bytes behind the index before those of others."""
    lines.put("n = p - q")
    lines.put(f"if n <= {_ALIKE_BYTES}:")
    lines.indent += 1
    lines.put(f"if len({alike}) >= {_ALIKE_KEPT}: {alike}.clear()")
    lines.put(f"{alike}[bytes(b[q:p])] = o")
    lines.put(f"if n not in {lengths}:")
    lines.put(f"    {lengths}[:] = n, *{lengths}[:{_ALIKE_LENGTHS - 1}]")
    lines.indent -= 1


def _default_source(field: Field, classes: dict[str, type], source: Source) -> str:
    if field.has_own_default and isinstance(field.type, Struct) and not field.is_array:
        source.names[f"class_{field.type.name}"] = classes[field.type.name]
        return f"class_{field.type.name}()"
    if field.has_own_default:
        return "[]"
    return repr(field.default) if not isinstance(field.default, float) else source.constant(field.default)


def _read_field(lines: _Reading, field: Field, flexible: bool, target: str) -> None:
    if field.is_array:
        _read_array(lines, field, flexible, target)
    elif isinstance(field.type, Struct):
        if field.nullable:
            lines.add_fixed("b", "n")
            lines.put("if n < 0:")
            lines.put(f"    {target} = None")
            lines.put("else:")
            lines.indent += 1
            lines.charge(struct_bytes(field.type, lines.classes))
            lines.put(f"{target}, p = {lines.mode.call(field.type)}")
            lines.indent -= 1
        else:
            lines.put(f"{target}, p = {lines.mode.call(field.type)}")
    elif field.type in FIXED_FORMATS:
        lines.add_fixed(FIXED_FORMATS[field.type], target)
    else:
        _read_length(lines, flexible, "h" if field.type == "string" else "i", field.type == "string")
        _read_variable(lines, field, target)


def _read_length(lines: _Reading, flexible: bool, format_: str, of_string: bool = False) -> None:
    """Write code that leaves the length in n, negative for null."""
    if not flexible:
        lines.add_fixed(format_, "n")
        return
    lines.put("n = b[p]")
    lines.put("p += 1")
    lines.put(f"if n > 127: n, p = {'read_string_length' if of_string else 'read_uvarint'}(b, p - 1)")
    lines.put("n -= 1")


def _read_variable(lines: _Reading, field: Field, target: str) -> None:
    null = "None" if field.nullable else ('""' if field.type == "string" else 'b""')
    lines.put("e = p + n")
    lines.put("if n < 0:")
    lines.put(f"    {target} = {null}")
    lines.put("elif e > size:")
    lines.put(f"    raise ProtocolViolation(f'field {field.name} of {{n}} bytes where {{size - p}} are left')")
    lines.put("else:")
    lines.indent += 1
    if field.type == "bytes":
        lines.charge(f"{STRING_BYTES} + n")
    else:
        lines.take(RECORDS_BYTES if field.type == "records" else f"{STRING_BYTES} + n")
    value = {"string": "str(b[p:e], 'utf-8')", "bytes": "bytes(b[p:e])", "records": "b[p:e]"}[str(field.type)]
    lines.put(f"{target} = {value}")
    if field.type == "string" and lines.metered:
        lines.put(f"if len({target}) < n: c.left_bytes -= 3 * n")  # every character may take four bytes then
    lines.put("p = e")
    lines.indent -= 1


def _read_array(lines: _Reading, field: Field, flexible: bool, target: str) -> None:
    _read_length(lines, flexible, "i")
    least = least_item_bytes(field, flexible)
    lines.put(f"if n{f' * {least}' if least > 1 else ''} > size - p:")
    lines.put(
        f"    raise BoundExceeded('array', f'array {field.name} of {{n}} items where {{size - p}} bytes are left')"
    )
    lines.put("if n < 0:")
    lines.put(f"    {target} = {'None' if field.nullable else '[]'}")
    repeated = ""
    if field.name in _REPEATED and not lines.metered:
        repeated = lines.source.constant(
            [0, b"", []]
        )  # the items of the message before: their number, bytes, and objects
        lines.put(f"elif n == {repeated}[0] and b[p:p + len({repeated}[1])] == {repeated}[1]:")
        lines.put(f"    {target} = {repeated}[2]")
        lines.put(f"    p += len({repeated}[1])")
    lines.put("else:")
    lines.indent += 1
    if repeated:
        lines.put("start = p")
    if isinstance(field.type, str) and field.type in FIXED_FORMATS:
        _read_fixed_array(lines, field, target)
    else:
        item_charge = item_bytes(field.type, lines.classes) if isinstance(field.type, Struct) else STRING_BYTES
        lines.charge(f"{LIST_BYTES} + {item_charge} * n")
        lines.put(f"{target} = a_{field.name} = []")
        lines.put("for _ in range(n):")
        lines.indent += 1
        _read_field(lines, Field(field.name, field.type), flexible, "v")
        lines.put(f"a_{field.name}.append(v)")
        if lines.metered:
            lines.put("c.items -= 1")
            lines.put("if c.left_bytes < 0: c.charge(0)")
            lines.put("if c.items < 0:")
            lines.put(f"    c.items = {PORTION}")
            lines.put("    yield")
        lines.indent -= 1
        if repeated:
            lines.put(f"{repeated}[:] = n, bytes(b[start:p]), {target}")
    lines.indent -= 1


def _read_fixed_array(lines: _Reading, field: Field, target: str) -> None:
    format_ = FIXED_FORMATS[str(field.type)]
    if field.type == "uuid":
        lines.charge(f"{LIST_BYTES} + {STRING_BYTES + 8} * n")
        lines.put(f"{target} = [bytes(b[q:q + 16]) for q in range(p, p + 16 * n, 16)]")
    elif lines.metered:
        unpackers = lines.source.packers(format_, _SHARED_UP_TO, "unpack_from")
        lines.put("if not n:")
        lines.put(f"    c.left_bytes -= {LIST_BYTES}")
        lines.put(f"    {target} = []")
        lines.put(f"elif n <= {_SHARED_UP_TO}:")
        lines.put(f"    c.left_bytes -= {LIST_BYTES} + 8 * n")
        lines.put(f"    {target} = list(c.arrays.get(v := {unpackers}[n](b, p)) or c.share_array(v))")
        lines.put("else:")
        lines.indent += 1
        lines.charge(f"{LIST_BYTES} + {_NUMBER_BYTES} * n")
        lines.put(f"{target} = numbers = []")
        lines.put(f"for q in range(0, n, {_NUMBERS_AT_ONCE}):")
        lines.indent += 1
        lines.put(f"k = min({_NUMBERS_AT_ONCE}, n - q)")
        lines.put(f"numbers.extend(unpack_from(f'>{{k}}{format_}', b, p + q * {size_of(format_)}))")
        lines.put("c.items -= k >> 5")
        if lines.is_generator:
            lines.put("if c.items < 0:")
            lines.put(f"    c.items = {PORTION}")
            lines.put("    yield")
        lines.indent -= 2
    else:
        lines.put(f"{target} = list(unpack_from(f'>{{n}}{format_}', b, p))")
    lines.put(f"p += {size_of(format_)} * n")


def _read_tags(lines: _Reading, fields: list[Field]) -> None:
    most = len(fields) + UNKNOWN_TAGS
    lines.put("n = b[p]")
    lines.put("p += 1")
    lines.put("if n:")
    lines.indent += 1
    lines.put("if n > 127: n, p = read_uvarint(b, p - 1)")
    lines.put(f"if n > {most}: raise too_many_tags(n, {most})")
    lines.put("for _ in range(n):")
    lines.indent += 1
    lines.put("tag, p = read_uvarint(b, p)")
    lines.put("n, p = read_uvarint(b, p)")
    lines.put("end = p + n")
    lines.put("if end > size: raise ProtocolViolation(f'tagged field {tag} of {n} bytes where {size - p} are left')")
    for index, field in enumerate(fields):
        lines.put(f"{'if' if index == 0 else 'elif'} tag == {field.tag}:")
        lines.indent += 1
        lines.put("whole, size = size, end")  # or every struct could read all that is behind it once more
        body = Field(field.name, field.type, field.is_array, field.nullable and isinstance(field.type, str))
        if isinstance(field.type, Struct) and not field.is_array:
            lines.charge(struct_bytes(field.type, lines.classes))
        _read_field(lines, body, True, f"o.{field.name}")
        lines.put("size = whole")
        lines.put(
            "if p > end: raise ProtocolViolation(f'tagged field {tag} is longer than the {n} bytes that it claims')"
        )
        lines.indent -= 1
    lines.put("p = end")
    lines.indent -= 2
