"""One class for each struct of each message: the unified shape of all its versions.

`messages.fetch_request` is a namespace that holds `FetchRequest`, `FetchTopic`, `FetchPartition`, …; it is made at first use. What is
sent as a whole has a name here too: `messages.FetchRequest`.
Objects are plain and mutable, with `__slots__`; every argument is a keyword and defaults to the protocol's default. The shape is
that of the newest version, plus the fields that only older structures have (`apis.Api.shapes`). Static types are in `messages.pyi`,
which `python -m kafkalite.protocol.stubs` writes.

Schemas are kio's, read from `schema_tables`, which the same command writes: importing kio's classes takes a short command a third
of its time. What kio does not ship is declared in the same form in `control_tables`, `legacy_tables` and `private_tables`. What is in none
of them is asked of kio itself, which only happens to who adds a version and has not written the tables yet: kio is not needed to run.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from types import SimpleNamespace
from typing import Any, Final

from kafkalite.protocol.apis import APIS, Api
from kafkalite.protocol.schemas.control_tables import CONTROL_TABLES
from kafkalite.protocol.schemas.legacy_tables import LEGACY_TABLES
from kafkalite.protocol.schemas.private_tables import PRIVATE_TABLES
from kafkalite.protocol.schemas.schema import Field, Struct
from kafkalite.protocol.schemas.schema_notation import Schemas, read_schemas
from kafkalite.protocol.schemas.schema_tables import TABLES

_APIS_BY_NAME = {api.name: api for api in APIS.values()}

_SECRET: Final = frozenset({"auth_bytes", "salted_password", "hmac", "session_password"})
"""Fields that hold credentials, in any message."""


class Message:
    """Base of all generated classes: equality by value, and a repr that leaves out defaults, and what secret fields hold."""

    __slots__ = ()
    FIELDS: tuple[Field, ...] = ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(getattr(self, f.name) == getattr(other, f.name) for f in self.FIELDS)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        values = ((f, getattr(self, f.name)) for f in self.FIELDS)
        shown = (
            f"{f.name}={'[hidden]' if f.name in _SECRET else repr(value)}"
            for f, value in values
            if value not in (f.default, [])
        )
        return f"{type(self).__name__}({', '.join(shown)})"


class Request(Message):
    """Base of what is sent as a whole. For type checkers it is generic in its response: `Request[FetchResponse]`."""

    __slots__ = ()


def has_more_items(message: Message, most: int) -> bool:
    """True if the arrays of the message, nested ones included, have more than `most` items. It looks at no more of them than that."""
    return _left_of(message, most) < 0


def _left_of(message: Message, left: int) -> int:
    for name, are_structs in _arrays(type(message)):
        items = getattr(message, name)
        if items:
            left -= len(items)
            if left < 0:
                return left
            if are_structs:
                for item in items:
                    left = _left_of(item, left)
                    if left < 0:
                        return left
    return left


@cache
def _arrays(kind: type[Message]) -> tuple[tuple[str, bool], ...]:
    """Return (name, whether its items may have arrays themselves) of each array of a struct."""
    return tuple((field.name, _has_arrays(field.type)) for field in kind.FIELDS if field.is_array)


def _has_arrays(kind: Struct | str) -> bool:
    return isinstance(kind, Struct) and any(field.is_array for field in kind.fields)


def schema(api: Api, direction: str, version: int) -> Struct:
    """Return the schema of one message version; `direction` is "request" or "response"."""
    name = f"{api.name}_{direction}"
    for known in (_find_in_table(name), _find_declared(name)):
        if known is not None and known.first <= version <= known.last:
            return known.struct(version, api.is_flexible(version))
    from kafkalite.protocol.schemas.kio_schemas import load_struct

    return load_struct(api.name, version, direction)


def declared_versions(api: Api) -> range:
    """Return the versions of which the schema is declared by us; kio has the others."""
    declared = _find_declared(f"{api.name}_request")
    return range(0) if declared is None else range(declared.first, declared.last + 1)


@cache
def _find_in_table(name: str) -> Schemas | None:
    return read_schemas(TABLES[name]) if name in TABLES else None


@cache
def _find_declared(name: str) -> Schemas | None:
    text = LEGACY_TABLES.get(name) or CONTROL_TABLES.get(name) or PRIVATE_TABLES.get(name)
    return None if text is None else read_schemas(text)


def _shapes(api: Api, direction: str) -> list[Struct]:
    """Return the schemas whose union is the unified shape, newest first: those that `apis` names, and all declared by us."""
    versions = {*(api.shapes or (api.max_version,)), *declared_versions(api)}
    return [schema(api, direction, version) for version in sorted(versions, reverse=True)]


def _union(roots: Iterable[Struct]) -> dict[str, dict[str, Field]]:
    """Return fields by struct name; the newest version of a field counts."""
    union: dict[str, dict[str, Field]] = {}
    for root in roots:
        for struct in root.structs():
            fields = union.setdefault(struct.name, {})
            for field in struct.fields:
                fields.setdefault(field.name, field)
    return union


def _make_class(
    name: str, fields: tuple[Field, ...], namespace: dict[str, type], api: Api, base: type[Message]
) -> type:
    arguments, body, names = [], [], dict(namespace)
    for index, field in enumerate(fields):
        if field.has_own_default:
            fresh = "[]" if field.is_array else f"{field.type.name}()"  # type: ignore[union-attr]
            arguments.append(f"{field.name}=None")
            body.append(f"self.{field.name} = {fresh} if {field.name} is None else {field.name}")
        else:
            names[f"default{index}"] = None if field.is_array else field.default
            arguments.append(f"{field.name}=default{index}")
            body.append(f"self.{field.name} = {field.name}")
    head = f"def __init__(self, *, {', '.join(arguments)}):" if arguments else "def __init__(self):"
    exec("\n    ".join([head, *(body or ["pass"])]), names)
    members: dict[str, Any] = {
        "__slots__": tuple(field.name for field in fields),
        "__init__": names["__init__"],
        "FIELDS": fields,
        "API": api,
        "__module__": __name__,
    }
    return type(name, (base,), members)


def _make_namespace(name: str) -> SimpleNamespace:
    api_name, _, direction = name.rpartition("_")
    api = _APIS_BY_NAME[api_name]
    roots = _shapes(api, direction)
    classes: dict[str, type] = {}
    for struct_name, fields in _union(roots).items():
        is_request = direction == "request" and struct_name == roots[0].name
        base = Request if is_request else Message
        classes[struct_name] = _make_class(struct_name, tuple(fields.values()), classes, api, base)
    return SimpleNamespace(**classes, ROOT=classes[roots[0].name], CLASSES=classes)


def namespace_names() -> list[str]:
    """Return all namespaces, for tools that list them."""
    return [f"{name}_{direction}" for name in _APIS_BY_NAME for direction in ("request", "response")]


_NAMESPACES = {name: each for each in namespace_names() for name in (each, each.title().replace("_", ""))}
"""By its own name and that of its message: fetch_request and FetchRequest."""


def __getattr__(name: str) -> Any:
    namespace = _NAMESPACES.get(name)
    if namespace is None:
        raise AttributeError(f"no message namespace {name!r}")
    made = _make_namespace(namespace)
    globals().update({namespace: made, made.ROOT.__name__: made.ROOT})
    return globals()[name]
