"""All versions of one message in one text, in which each field tells the versions that have it.

    MetadataRequest 0-12
     topics []MetadataRequestTopic? 1-12
      topic_id uuid 10-12
      name string 0-9
      name string? 10-12
     allow_auto_topic_creation bool 4-12 default=True

A line is a name, a type, the versions, and what is not taken for granted: `tag=` of a tagged field, `default=` where it is not the
protocol's. `[]` makes an array, `?` allows null, a type with a capital letter is a struct, whose fields follow one space deeper.
A field that changed has a line for each of its forms. `write_schemas` makes the text, `read_schemas` turns it back.
"""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kafkalite.protocol.schemas.schema import Field, Struct, zero_of


class _Form(NamedTuple):
    """A field as it is in some versions; `type` is the name of a struct where it is one."""

    name: str
    type: str
    is_array: bool
    nullable: bool
    tag: int | None
    default: Any

    @property
    def is_struct(self) -> bool:
        return self.type[0].isupper()

    @property
    def usual_default(self) -> Any:
        return None if self.is_array or self.is_struct else zero_of(self.type, self.nullable)


# Writing


def write_schemas(versions: Mapping[int, Struct]) -> str:
    """Return the text for one message; `versions` are its schemas, which have one name."""
    (name,) = {each.name for each in versions.values()}
    return "\n".join([f"{name} {min(versions)}-{max(versions)}", *_lines(versions, " ")])


def _lines(versions: Mapping[int, Struct], indent: str) -> Iterator[str]:
    for form, fields in _merge_forms(versions):
        type_ = f"{'[]' if form.is_array else ''}{form.type}{'?' if form.nullable else ''}"
        tag = "" if form.tag is None else f" tag={form.tag}"
        default = "" if form.default == form.usual_default else f" default={form.default!r}"
        yield f"{indent}{form.name} {type_} {min(fields)}-{max(fields)}{tag}{default}"
        nested = {version: field.type for version, field in fields.items() if isinstance(field.type, Struct)}
        if nested:
            yield from _lines(nested, indent + " ")


def _merge_forms(versions: Mapping[int, Struct]) -> list[tuple[_Form, dict[int, Field]]]:
    """Return every form of every field with the versions that have it, without a gap, in an order that is right for each version."""
    lines: list[tuple[_Form, dict[int, Field]]] = []
    for version in sorted(versions):
        position = 0
        for field in versions[version].fields:
            form = _form(field)
            for index in range(position, len(lines)):
                if lines[index][0] == form and version - 1 in lines[index][1]:
                    position = index
                    lines[index][1][version] = field
                    break
            else:
                lines.insert(position, (form, {version: field}))
            position += 1
    return lines


def _form(field: Field) -> _Form:
    type_ = field.type.name if isinstance(field.type, Struct) else field.type
    return _Form(field.name, type_, field.is_array, field.nullable, field.tag, field.default)


# Reading


class _Line(NamedTuple):
    """A line of the text with those below it."""

    form: _Form
    first: int
    last: int
    below: list[_Line]


class Schemas:
    """One message as `read_schemas` read it; `first` and `last` are its versions."""

    def __init__(self, name: str, first: int, last: int, lines: list[_Line]) -> None:
        self.name, self.first, self.last = name, first, last
        self._lines = lines

    def struct(self, version: int, flexible: bool) -> Struct:
        """Return the schema in one version. KeyError when there is no such version."""
        if not self.first <= version <= self.last:
            raise KeyError(version)
        return _struct(self.name, self._lines, version, flexible)


def read_schemas(text: str) -> Schemas:
    """Return the message that `write_schemas` wrote."""
    head, *rest = text.strip().split("\n")
    name, versions = head.split(" ")
    top: list[_Line] = []
    open_lists = [top]
    for line in rest:
        depth = len(line) - len(line.lstrip(" "))
        read = _read_line(line[depth:])
        open_lists[depth - 1].append(read)
        open_lists[depth:] = [read.below]
    return Schemas(name, *_range(versions), top)


def _range(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    return int(first), int(last)


def _read_line(line: str) -> _Line:
    name, type_, versions, *more = line.split(" ", 3)
    is_array, nullable = type_.startswith("[]"), type_.endswith("?")
    form = _Form(name, type_.removeprefix("[]").removesuffix("?"), is_array, nullable, None, None)
    rest = more[0] if more else ""
    if rest.startswith("tag="):
        tag, _, rest = rest.removeprefix("tag=").partition(" ")
        form = form._replace(tag=int(tag))
    default = literal_eval(rest.removeprefix("default=")) if rest else form.usual_default
    return _Line(form._replace(default=default), *_range(versions), [])


def _struct(name: str, lines: list[_Line], version: int, flexible: bool) -> Struct:
    present = [line for line in lines if line.first <= version <= line.last]
    return Struct(name, tuple(_field(line, version, flexible) for line in present), flexible)


def _field(line: _Line, version: int, flexible: bool) -> Field:
    name, type_, is_array, nullable, tag, default = line.form
    inner = _struct(type_, line.below, version, flexible) if line.form.is_struct else type_
    return Field(name, inner, is_array, nullable, tag, default)
