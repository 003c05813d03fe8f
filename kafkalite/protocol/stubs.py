"""Writes `messages.pyi`, the static types of the classes that `messages` makes at run time: `python -m kafkalite.protocol.stubs`.

With `--check` nothing is written, and the exit status is 1 when the file is not what would be written. The output depends on nothing
but the schemas, and is formatted as `ruff format` would.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from kafkalite.protocol import messages
from kafkalite.protocol.schema import Field, Struct

STUB_PATH = Path(messages.__file__).with_suffix(".pyi")

_HEAD = '''\
"""Static types of `messages`. Written by `python -m kafkalite.protocol.stubs`; a test compares them."""

from typing import ClassVar, TypeAlias

from kafkalite.protocol.apis import Api
from kafkalite.protocol.schema import Field, Struct
from kafkalite.types import Buffer

class Message:
    FIELDS: ClassVar[tuple[Field, ...]]
    API: ClassVar[Api]
    def __eq__(self, other: object) -> bool: ...
    __hash__: ClassVar[None]  # type: ignore[assignment]

def schema(api: Api, direction: str, version: int) -> Struct: ...
def namespace_names() -> list[str]: ...
'''

_SCALARS = {"bool": "bool", "float64": "float", "string": "str", "bytes": "bytes", "uuid": "bytes", "records": "Buffer"}


def stub_source() -> str:
    """The whole text of `messages.pyi`."""
    return _HEAD + "".join("\n" + "\n".join(_namespace(name)) + "\n" for name in messages.namespace_names())


def _namespace(name: str) -> Iterator[str]:
    namespace = getattr(messages, name)
    yield f"class {name}:"
    for class_name, kind in namespace.CLASSES.items():
        yield from _class(name, class_name, kind)
        yield ""
    yield f"    ROOT: TypeAlias = {namespace.ROOT.__name__}"
    yield "    CLASSES: ClassVar[dict[str, type[Message]]]"


def _class(namespace: str, name: str, kind: type[messages.Message]) -> Iterator[str]:
    typed = [(field.name, _annotation(namespace, field)) for field in kind.FIELDS]
    yield f"    class {name}(Message):"
    for field_name, annotation in typed:
        yield f"        {field_name}: {annotation}"
    if not typed:
        yield "        def __init__(self) -> None: ..."
        return
    yield "        def __init__("
    yield "            self,"
    yield "            *,"
    for field_name, annotation in typed:
        yield f"            {field_name}: {annotation} = ...,"
    yield "        ) -> None: ..."


def _annotation(namespace: str, field: Field) -> str:
    item = f"{namespace}.{field.type.name}" if isinstance(field.type, Struct) else _SCALARS.get(field.type, "int")
    whole = f"list[{item}]" if field.is_array else item
    return f"{whole} | None" if field.nullable or (field.type == "records" and not field.is_array) else whole


def main(arguments: list[str]) -> int:
    """Write or check; the exit status."""
    source = stub_source()
    if "--check" in arguments:
        current = STUB_PATH.exists() and STUB_PATH.read_text() == source
        if not current:
            print(f"{STUB_PATH.name} is out of date; run python -m kafkalite.protocol.stubs", file=sys.stderr)
        return 0 if current else 1
    STUB_PATH.write_text(source)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
