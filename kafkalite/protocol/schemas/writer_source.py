"""Source of the functions that write a struct of a message in one version: `write_<struct>(put, object)`.

Source of the encodings: `schema`.
"""

from __future__ import annotations

import struct
from typing import Final

from kafkalite.protocol.schemas.generated_source import Lines, Source
from kafkalite.protocol.schemas.schema import ENCODED, FIXED_FORMATS, Field, Struct

AT_ONCE: Final = ""
"""Prefix of calls between writing functions of a message that is written in one go."""
IN_PORTIONS: Final = "yield from "
"""Prefix of calls where each function yields once for its struct, and for each text of an array."""


def uvarint(value: int) -> bytes:
    """Return an unsigned varint as KIP-482 and protocol buffers write it."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _flush_writes(lines: Lines, run: list[tuple[str, str]]) -> None:
    format_ = "".join(f for f, _ in run)
    values = ", ".join(name for _, name in run)
    lines.put(f"put({lines.source.packer(format_, 'pack')}({values}))")


def writer_source(each: Struct, source: Source, call: str) -> str:
    """Return the function that writes `each`; `call` is AT_ONCE or IN_PORTIONS."""
    lines = Lines(f"def write_{each.name}(put, o):", source, _flush_writes)
    if call is IN_PORTIONS:
        lines.put("yield")
    for field in each.fields:
        if field.tag is None:
            _write_field(lines, field, each.flexible, f"o.{field.name}", call)
    if each.flexible:
        _write_tags(lines, each, source, call)
    lines.put("return")
    return lines.text()


def _write_field(lines: Lines, field: Field, flexible: bool, value: str, call: str) -> None:
    if field.is_array:
        _write_array(lines, field, flexible, value, call)
    elif isinstance(field.type, Struct):
        if field.nullable:
            lines.put(f"if {value} is None: put(b'\\xff')")
            lines.put("else:")
            lines.put("    put(b'\\x01')")
            lines.put(f"    {call}write_{field.type.name}(put, {value})")
        else:
            lines.put(f"{call}write_{field.type.name}(put, {value})")
    elif field.type in FIXED_FORMATS:
        lines.add_fixed(FIXED_FORMATS[field.type], value)
    else:
        _write_variable(lines, field, flexible, value)


def _write_variable(lines: Lines, field: Field, flexible: bool, value: str) -> None:
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


def _write_array(lines: Lines, field: Field, flexible: bool, value: str, call: str) -> None:
    lines.put(f"v = {value}")
    null = -1 if field.nullable else 0
    pack = lines.source.packer("i", "pack")
    lines.put(f"if v is None: put({'UVARINTS[' + str(null + 1) + ']' if flexible else f'{pack}({null})'})")
    lines.put("else:")
    lines.indent += 1
    lines.put("n = len(v)")
    lines.put("put(UVARINTS[n + 1] if n < 255 else uvarint(n + 1))" if flexible else f"put({pack}(n))")
    if isinstance(field.type, Struct):
        lines.put(f"for i in v: {call}write_{field.type.name}(put, i)")
    elif field.type == ENCODED:
        lines.put("if n: put(b''.join(v))")
    elif field.type in FIXED_FORMATS and field.type != "uuid":
        lines.source.names["pack"] = struct.pack
        lines.put(f"if n: put(pack(f'>{{n}}{FIXED_FORMATS[field.type]}', *v))")
    else:
        lines.put("for i in v:")
        lines.indent += 1
        if call is IN_PORTIONS:
            lines.put("yield")
        _write_field(lines, Field(field.name, field.type), flexible, "i", call)
        lines.flush()
        lines.indent -= 1
    lines.indent -= 1


def _write_tags(lines: Lines, each: Struct, source: Source, call: str) -> None:
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
            call,
        )
        lines.put("put = outer")
        lines.put("body = b''.join(body)")
        lines.put(f"tags.append(uvarint({field.tag}) + uvarint(len(body)) + body)")
        lines.indent -= 1
    lines.put("put(uvarint(len(tags)))")
    lines.put("for t in tags: put(t)")
