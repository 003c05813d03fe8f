"""Writes what is known of messages before run time: `python -m kafkalite.protocol.stubs`.

`messages.pyi` has the static types of the classes that `messages` makes, `schema_tables.py` the schemas that kio has. With `--check`
nothing is written, and the exit status is 1 when a file is not what would be written. The output depends on nothing but the schemas
of kio, `control_tables`, `legacy_tables` and `private_tables`, and is formatted as `ruff format` would.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from kafkalite.protocol import messages
from kafkalite.protocol.apis import APIS, Api
from kafkalite.protocol.schemas import kio_schemas
from kafkalite.protocol.schemas.schema import Field, Struct
from kafkalite.protocol.schemas.schema_notation import write_schemas

STUB_PATH = Path(messages.__file__).with_suffix(".pyi")
TABLES_PATH = Path(messages.__file__).parent / "schemas" / "schema_tables.py"

_LINE_LENGTH = 120

_HEAD = '''\
"""Static types of `messages`. Written by `python -m kafkalite.protocol.stubs`; a test compares them."""

from typing import ClassVar, Generic, TypeAlias, TypeVar, dataclass_transform

from kafkalite.protocol.apis import Api
from kafkalite.protocol.schemas.schema import Field, Struct
from kafkalite.types import Buffer

@dataclass_transform(kw_only_default=True)
class Message:
    FIELDS: ClassVar[tuple[Field, ...]]
    API: ClassVar[Api]
    def __eq__(self, other: object) -> bool: ...
    __hash__: ClassVar[None]  # type: ignore[assignment]

ResponseT_co = TypeVar("ResponseT_co", bound=Message, covariant=True)

class Request(Message, Generic[ResponseT_co]): ...

def has_more_items(message: Message, most: int) -> bool: ...
def schema(api: Api, direction: str, version: int) -> Struct: ...
def declared_versions(api: Api) -> range: ...
def namespace_names() -> list[str]: ...
'''

_SCALARS = {"bool": "bool", "float64": "float", "string": "str", "bytes": "bytes", "uuid": "bytes", "records": "Buffer"}


def stub_source() -> str:
    """Return the whole text of `messages.pyi`."""
    names = messages.namespace_names()
    classes = "".join("\n" + "\n".join(_namespace(name)) + "\n" for name in names)
    roots = ((name, getattr(messages, name).ROOT.__name__) for name in names)
    return _HEAD + classes + "\n" + "".join(f"{root} = {name}.{root}\n" for name, root in roots)


def _namespace(name: str) -> Iterator[str]:
    namespace = getattr(messages, name)
    yield f"class {name}:"
    for class_name, kind in namespace.CLASSES.items():
        yield from _class(name, class_name, kind)
        yield ""
    yield f"    ROOT: TypeAlias = {namespace.ROOT.__name__}"
    yield "    CLASSES: ClassVar[dict[str, type[Message]]]"


def _class(namespace: str, name: str, kind: type[messages.Message]) -> Iterator[str]:
    end = ":" if kind.FIELDS else ": ..."
    head = f"    class {name}({_base(kind)}){end}"
    if len(head) <= _LINE_LENGTH:
        yield head
    else:
        yield from (f"    class {name}(", f"        {_base(kind)}", f"    ){end}")
    for field in kind.FIELDS:
        yield f"        {field.name}: {_annotation(namespace, field)} = ..."


def _base(kind: type[messages.Message]) -> str:
    """Return the base class of a message; a request names its response, so that its sender gets one of that type."""
    if not issubclass(kind, messages.Request):
        return "Message"
    response = f"{kind.API.name}_response"
    return f"Request[{response}.{getattr(messages, response).ROOT.__name__}]"


def _annotation(namespace: str, field: Field) -> str:
    item = f"{namespace}.{field.type.name}" if isinstance(field.type, Struct) else _SCALARS.get(field.type, "int")
    whole = f"list[{item}]" if field.is_array else item
    return f"{whole} | None" if field.nullable or (field.type == "records" and not field.is_array) else whole


def tables_source() -> str:
    """Return the whole text of `schema_tables.py`."""
    tables = (
        f'    "{api.name}_{direction}": """\n{table}\n""",\n'
        for api in APIS.values()
        for direction in ("request", "response")
        for table in _table(api, direction)
    )
    return f"{_TABLES_HEAD}{''.join(tables)}}}\n"


_TABLES_HEAD = '''\
"""The schemas of kio in the form of `schema_notation`.

Written by `python -m kafkalite.protocol.stubs`, never by hand, which is why it may be this long; a test compares it with kio.
"""

from __future__ import annotations

TABLES: dict[str, str] = {
'''


def _table(api: Api, direction: str) -> Iterator[str]:
    """Yield the versions that kio has to give; none for a message of which all are declared by us."""
    declared = messages.declared_versions(api)
    versions = [each for each in range(api.min_version, api.max_version + 1) if each not in declared]
    if versions:
        yield write_schemas({each: kio_schemas.load_struct(api.name, each, direction) for each in versions})


def main(arguments: list[str]) -> int:
    """Write or check; return the exit status."""
    status = 0
    for path, make in ((TABLES_PATH, tables_source), (STUB_PATH, stub_source)):
        source = make()
        if "--check" not in arguments:
            path.write_text(source)
        elif not path.exists() or path.read_text() != source:
            print(f"{path.name} is out of date; run python -m kafkalite.protocol.stubs", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
