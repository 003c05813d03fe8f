"""Bodies that cost their reader as much as they can: for each array of a message, as many of the shortest items as one likes."""

from __future__ import annotations

from collections.abc import Iterator

from kafkalite.protocol.bounds import least_bytes
from kafkalite.protocol.schemas.schema import FIXED_FORMATS, Field, Struct, size_of
from kafkalite.protocol.schemas.writer_source import uvarint

Path = tuple[str, ...]


def arrays(struct: Struct, above: Path = ()) -> Iterator[Path]:
    """The way to each array in a message, by the names of the fields."""
    for field in struct.fields:
        path = (*above, field.name)
        if field.is_array:
            yield path
        if isinstance(field.type, Struct):
            yield from arrays(field.type, path)


def body_with_many(struct: Struct, path: Path, count: int, claimed: int | None = None) -> bytes:
    """The shortest body in which the array at `path` has `count` of the shortest items, or claims another number."""
    claimed = count if claimed is None else claimed
    out, tagged = b"", []
    for field in struct.fields:
        rest = path[1:] if path and path[0] == field.name else None
        if field.tag is None:
            out += _field(field, struct.flexible, rest, count, claimed)
        elif rest is not None:
            bare = Field(field.name, field.type, field.is_array, field.nullable and isinstance(field.type, str))
            tagged.append((field.tag, _field(bare, True, rest, count, claimed)))
    if struct.flexible:
        out += uvarint(len(tagged)) + b"".join(uvarint(tag) + uvarint(len(body)) + body for tag, body in tagged)
    return out


def _field(field: Field, flexible: bool, rest: Path | None, count: int, claimed: int) -> bytes:
    item = Field(field.name, field.type)
    if rest is None and field.is_array:
        return _length(0, flexible)
    if rest is None:
        return _shortest(field, flexible)
    if not field.is_array:
        assert isinstance(field.type, Struct)
        return (b"\x01" if field.nullable else b"") + body_with_many(field.type, rest, count, claimed)
    if not rest:
        return _length(claimed, flexible) + _shortest(item, flexible) * count
    assert isinstance(field.type, Struct)
    return _length(1, flexible) + body_with_many(field.type, rest, count, claimed)


def _length(count: int, flexible: bool) -> bytes:
    return uvarint(count + 1) if flexible else count.to_bytes(4, "big")


def _shortest(field: Field, flexible: bool) -> bytes:
    if isinstance(field.type, Struct):
        return b"\xff" if field.nullable else body_with_many(field.type, (), 0)
    if field.type in FIXED_FORMATS:
        return b"\x7f" * size_of(FIXED_FORMATS[field.type])  # numbers that Python must make
    return b"\x01" if flexible else bytes(least_bytes(field, flexible))
