"""Turns a message's schema in one version into two functions: a reader and a writer.

Python source is generated and compiled once for each (message, version), at first use. Neighbouring fields of constant
size are packed and unpacked with one `struct` call, so the cost is about 0.1 µs a field. The objects are of the unified
classes (`messages`), which know the fields of all versions: a reader sets what the version lacks to its default, a writer
leaves out what the version lacks.

Bounds: a length beyond the buffer, an array longer than its remaining bytes, and a bad UTF-8 string raise `ProtocolViolation`.
Negative lengths mean null, and an empty value where null is not allowed, as Kafka tolerates.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import Any

from kafkalite.errors import ProtocolViolation
from kafkalite.protocol.schema import FIXED_FORMATS, Field, Struct
from kafkalite.types import Buffer

Reader = Callable[[Buffer, int], Any]
Writer = Callable[[Any], list[Buffer]]

_JOIN_BELOW_BYTES = 2048
"""Parts at least this long are handed to the socket as they are; shorter ones are copied together."""


def compile_reader(root: Struct, classes: dict[str, type]) -> Reader:
    """A function (buffer, position) -> message. Bytes after the message are ignored, as Kafka does."""
    source = _Source(classes)
    for each in root.structs():
        source.add(f"read_{each.name}", partial(_reader_source, each, classes[each.name], source))
    read = source.compile()[f"read_{root.name}"]

    def read_message(buffer: Buffer, position: int) -> Any:
        try:
            return read(buffer, position, len(buffer))[0]
        except (struct.error, IndexError, UnicodeDecodeError) as problem:
            raise ProtocolViolation(f"{root.name} cannot be read: {problem}") from None

    return read_message


def compile_writer(root: Struct, classes: dict[str, type]) -> Writer:
    """A function message -> buffers; record data is passed on without a copy."""
    source = _Source(classes)
    for each in root.structs():
        source.add(f"write_{each.name}", partial(_writer_source, each, source))
    write = source.compile()[f"write_{root.name}"]

    def write_message(message: Any) -> list[Buffer]:
        parts: list[Buffer] = []
        write(parts.append, message)
        return joined(parts)

    return write_message


def joined(parts: list[Buffer]) -> list[Buffer]:
    """The same bytes in fewer parts: short neighbours are copied together, long ones stay what they are."""
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


def uvarint(value: int) -> bytes:
    """An unsigned varint as KIP-482 and protocol buffers write it."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """(value, position after it). ProtocolViolation when it is longer than five bytes."""
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


class _Source:
    """Generated functions and the constants that they use."""

    def __init__(self, classes: dict[str, type]) -> None:
        self.names: dict[str, Any] = {
            "ProtocolViolation": ProtocolViolation,
            "read_uvarint": read_uvarint,
            "uvarint": uvarint,
            "UVARINTS": [uvarint(n) for n in range(256)],
            **{f"class_{name}": kind for name, kind in classes.items()},
        }
        self.functions: dict[str, str] = {}

    def add(self, name: str, make: Callable[[], str]) -> None:
        if name not in self.functions:
            self.functions[name] = make()

    def constant(self, value: Any) -> str:
        name = f"k{len(self.names)}"
        self.names[name] = value
        return name

    def packer(self, format_: str, method: str) -> str:
        name = f"{method}_" + format_.replace("?", "B_")
        if name not in self.names:
            self.names[name] = getattr(struct.Struct(">" + format_), method)
        return name

    def compile(self) -> dict[str, Any]:
        exec(compile("\n".join(self.functions.values()), "<kafkalite message codec>", "exec"), self.names)
        return self.names


class _Lines:
    """Lines of a function body; runs of constant-size fields are gathered and flushed as one struct call."""

    def __init__(self, head: str, source: _Source, flush_run: Callable[[_Lines, list[tuple[str, str]]], None]) -> None:
        self.lines, self.source, self.indent = [head], source, 1
        self.run: list[tuple[str, str]] = []
        self._flush_run = flush_run

    def put(self, line: str) -> None:
        self.flush()
        self.lines.append("    " * self.indent + line)

    def fixed(self, format_: str, name: str) -> None:
        self.run.append((format_, name))

    def flush(self) -> None:
        if self.run:
            run, self.run = self.run, []
            self._flush_run(self, run)

    def text(self) -> str:
        self.flush()
        return "\n".join(self.lines)


def _size_of(format_: str) -> int:
    return struct.calcsize(">" + format_)


# Reading


def _flush_reads(lines: _Lines, run: list[tuple[str, str]]) -> None:
    format_ = "".join(f for f, _ in run)
    targets = ", ".join(name for _, name in run)
    lines.put(f"{targets}, = {lines.source.packer(format_, 'unpack_from')}(b, p)")
    lines.put(f"p += {_size_of(format_)}")


def _reader_source(each: Struct, kind: type, source: _Source) -> str:
    lines = _Lines(f"def read_{each.name}(b, p, size):", source, _flush_reads)
    lines.put(f"o = class_{each.name}.__new__(class_{each.name})")
    present = {field.name for field in each.fields}
    for field in kind.FIELDS:  # type: ignore[attr-defined]
        tagged = any(f.name == field.name and f.tag is not None for f in each.fields)
        if field.name not in present or tagged:
            lines.put(f"o.{field.name} = {_default_source(field, source)}")
    tagged_fields = [field for field in each.fields if field.tag is not None]
    for field in each.fields:
        if field.tag is None:
            _read_field(lines, field, each.flexible, f"o.{field.name}")
    if each.flexible:
        _read_tags(lines, tagged_fields)
    lines.put("return o, p")
    return lines.text()


def _default_source(field: Field, source: _Source) -> str:
    if field.has_own_default:
        return "[]" if field.is_array else f"class_{field.type.name}()"  # type: ignore[union-attr]
    return repr(field.default) if not isinstance(field.default, float) else source.constant(field.default)


def _read_field(lines: _Lines, field: Field, flexible: bool, target: str) -> None:
    if field.is_array:
        _read_array(lines, field, flexible, target)
    elif isinstance(field.type, Struct):
        if field.nullable:
            lines.fixed("b", "n")
            lines.put("if n < 0:")
            lines.put(f"    {target} = None")
            lines.put("else:")
            lines.put(f"    {target}, p = read_{field.type.name}(b, p, size)")
        else:
            lines.put(f"{target}, p = read_{field.type.name}(b, p, size)")
    elif field.type in FIXED_FORMATS:
        lines.fixed(FIXED_FORMATS[field.type], target)
    else:
        _read_length(lines, flexible, "h" if field.type == "string" else "i")
        _read_variable(lines, field, target)


def _read_length(lines: _Lines, flexible: bool, format_: str) -> None:
    """Leaves the length in n, negative for null."""
    if not flexible:
        lines.fixed(format_, "n")
        return
    lines.put("n = b[p]")
    lines.put("p += 1")
    lines.put("if n > 127: n, p = read_uvarint(b, p - 1)")
    lines.put("n -= 1")


def _read_variable(lines: _Lines, field: Field, target: str) -> None:
    null = "None" if field.nullable else ('""' if field.type == "string" else 'b""')
    lines.put("e = p + n")
    lines.put("if n < 0:")
    lines.put(f"    {target} = {null}")
    lines.put("elif e > size:")
    lines.put(f"    raise ProtocolViolation(f'field {field.name} of {{n}} bytes where {{size - p}} are left')")
    lines.put("else:")
    value = {"string": "str(b[p:e], 'utf-8')", "bytes": "bytes(b[p:e])", "records": "b[p:e]"}[str(field.type)]
    lines.put(f"    {target} = {value}")
    lines.put("    p = e")


def _read_array(lines: _Lines, field: Field, flexible: bool, target: str) -> None:
    _read_length(lines, flexible, "i")
    null = "None" if field.nullable else "[]"
    lines.put("if n > size - p:")
    lines.put(f"    raise ProtocolViolation(f'array {field.name} of {{n}} items where {{size - p}} bytes are left')")
    lines.put("if n < 0:")
    lines.put(f"    {target} = {null}")
    lines.put("else:")
    lines.indent += 1
    if isinstance(field.type, str) and field.type in FIXED_FORMATS:
        format_ = FIXED_FORMATS[field.type]
        lines.source.names["unpack_from"] = struct.unpack_from
        if field.type == "uuid":
            lines.put("if p + 16 * n > size: raise IndexError('array of ids beyond the end')")
            lines.put(f"{target} = [bytes(b[q:q + 16]) for q in range(p, p + 16 * n, 16)]")
        else:
            lines.put(f"{target} = list(unpack_from(f'>{{n}}{format_}', b, p))")
        lines.put(f"p += {_size_of(format_)} * n")
    else:
        item = Field(field.name, field.type)
        lines.put(f"{target} = a_{field.name} = []")
        lines.put("for _ in range(n):")
        lines.indent += 1
        _read_field(lines, item, flexible, "v")
        lines.put(f"a_{field.name}.append(v)")
        lines.indent -= 1
    lines.indent -= 1


def _read_tags(lines: _Lines, fields: list[Field]) -> None:
    lines.put("n = b[p]")
    lines.put("p += 1")
    lines.put("if n:")
    lines.put("    if n > 127: n, p = read_uvarint(b, p - 1)")
    lines.indent += 1
    lines.put("for _ in range(n):")
    lines.indent += 1
    lines.put("tag, p = read_uvarint(b, p)")
    lines.put("n, p = read_uvarint(b, p)")
    lines.put("end = p + n")
    lines.put("if end > size: raise ProtocolViolation(f'tagged field {tag} of {n} bytes where {size - p} are left')")
    for index, field in enumerate(fields):
        lines.put(f"{'if' if index == 0 else 'elif'} tag == {field.tag}:")
        lines.indent += 1
        body = Field(field.name, field.type, field.is_array, field.nullable and isinstance(field.type, str))
        _read_field(lines, body, True, f"o.{field.name}")
        lines.flush()
        lines.indent -= 1
    lines.put("p = end")
    lines.indent -= 2


# Writing


def _flush_writes(lines: _Lines, run: list[tuple[str, str]]) -> None:
    format_ = "".join(f for f, _ in run)
    values = ", ".join(name for _, name in run)
    lines.put(f"put({lines.source.packer(format_, 'pack')}({values}))")


def _writer_source(each: Struct, source: _Source) -> str:
    lines = _Lines(f"def write_{each.name}(put, o):", source, _flush_writes)
    for field in each.fields:
        if field.tag is None:
            _write_field(lines, field, each.flexible, f"o.{field.name}")
    if each.flexible:
        _write_tags(lines, each, source)
    lines.put("return")
    return lines.text()


def _write_field(lines: _Lines, field: Field, flexible: bool, value: str) -> None:
    if field.is_array:
        _write_array(lines, field, flexible, value)
    elif isinstance(field.type, Struct):
        if field.nullable:
            lines.put(f"if {value} is None: put(b'\\xff')")
            lines.put("else:")
            lines.put("    put(b'\\x01')")
            lines.put(f"    write_{field.type.name}(put, {value})")
        else:
            lines.put(f"write_{field.type.name}(put, {value})")
    elif field.type in FIXED_FORMATS:
        lines.fixed(FIXED_FORMATS[field.type], value)
    else:
        _write_variable(lines, field, flexible, value)


def _write_variable(lines: _Lines, field: Field, flexible: bool, value: str) -> None:
    length = "h" if field.type == "string" else "i"
    lines.put(f"v = {value}")
    lines.put("if v is None:")
    if field.nullable:
        lines.put("    put(b'\\x00')" if flexible else f"    put({lines.source.packer(length, 'pack')}(-1))")
    else:
        lines.put("    put(b'\\x01')" if flexible else f"    put({lines.source.packer(length, 'pack')}(0))")
    lines.put("else:")
    lines.indent += 1
    if field.type == "string":
        lines.put("v = v.encode()")
    lines.put("n = len(v)")
    if flexible:
        lines.put("put(UVARINTS[n + 1] if n < 255 else uvarint(n + 1))")
    else:
        lines.put(f"put({lines.source.packer(length, 'pack')}(n))")
    lines.put("put(v)")
    lines.indent -= 1


def _write_array(lines: _Lines, field: Field, flexible: bool, value: str) -> None:
    lines.put(f"v = {value}")
    null = -1 if field.nullable else 0
    pack = lines.source.packer("i", "pack")
    lines.put(f"if v is None: put({'UVARINTS[' + str(null + 1) + ']' if flexible else f'{pack}({null})'})")
    lines.put("else:")
    lines.indent += 1
    lines.put("n = len(v)")
    lines.put("put(UVARINTS[n + 1] if n < 255 else uvarint(n + 1))" if flexible else f"put({pack}(n))")
    if isinstance(field.type, Struct):
        lines.put(f"for i in v: write_{field.type.name}(put, i)")
    elif field.type in FIXED_FORMATS and field.type != "uuid":
        lines.source.names["pack"] = struct.pack
        lines.put(f"if n: put(pack(f'>{{n}}{FIXED_FORMATS[field.type]}', *v))")
    else:
        lines.put("for i in v:")
        lines.indent += 1
        _write_field(lines, Field(field.name, field.type), flexible, "i")
        lines.flush()
        lines.indent -= 1
    lines.indent -= 1


def _write_tags(lines: _Lines, each: Struct, source: _Source) -> None:
    tagged = sorted((f for f in each.fields if f.tag is not None), key=lambda f: f.tag or 0)
    if not tagged:
        lines.put("put(b'\\x00')")
        return
    lines.put("tags = []")
    for field in tagged:
        value = f"o.{field.name}"
        if field.is_array:
            condition = value
        elif isinstance(field.type, Struct):
            condition = f"{value} is not None"
        else:
            condition = f"{value} != {source.constant(field.default)}"
        lines.put(f"if {condition}:")
        lines.indent += 1
        lines.put("body = []")
        lines.put("outer, put = put, body.append")
        _write_field(
            lines,
            Field(field.name, field.type, field.is_array, field.nullable and isinstance(field.type, str)),
            True,
            value,
        )
        lines.put("put = outer")
        lines.put("body = b''.join(body)")
        lines.put(f"tags.append(uvarint({field.tag}) + uvarint(len(body)) + body)")
        lines.indent -= 1
    lines.put("put(uvarint(len(tags)))")
    lines.put("for t in tags: put(t)")
