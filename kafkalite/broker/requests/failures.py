"""The response of an API when all of its request failed, derived from the schemas of both (Kafka's `AbstractRequest.getErrorResponse`).

A list of the response pairs with the list of the request whose items have the same keys: topic, partition, group, resource. Keys are
copied, `error_code` and `error_message` are set at the top and in each item, and other fields have the protocol's default.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kafkalite.protocol import messages
from kafkalite.protocol.schemas.schema import Field, Struct

if TYPE_CHECKING:
    from kafkalite.errors import ErrorCode
    from kafkalite.protocol.messages import Message

Failure: TypeAlias = "Callable[[Any, ErrorCode, str | None], Message]"
"""Makes the response of a request that failed with this error and message."""

_KEYS: Final = frozenset(
    {"entity_name", "entity_type", "group_id", "index", "key", "name", "partition", "partition_id", "partition_index"}
    | {"producer_id", "resource_name", "resource_type", "topic", "topic_id", "topic_name", "transactional_id", "user"}
)
"""Fields that identify an item, in requests and responses."""


def fail_whole_request(request: Message, code: ErrorCode, message: str | None) -> Message:
    """Return the failure of an API whose response has one error, at the top, with or without a message."""
    reply: Any = getattr(messages, f"{request.API.name}_response").ROOT()
    reply.error_code = code
    if hasattr(reply, "error_message"):
        reply.error_message = message
    return reply  # type: ignore[no-any-return]


class FailedItems:
    """The failure of an API whose response has an error in each item. Compiled at the first one, because few are ever needed."""

    def __init__(self, *lists: str, **values: object) -> None:
        """Fill these `lists` of the response, by default those of the newest version; `values` replace the protocol's defaults."""
        self._lists, self._values = lists, values
        self._make: Failure | None = None

    def __call__(self, request: Message, code: ErrorCode, message: str | None) -> Any:
        if self._make is None:
            name = request.API.name
            source = _Source(getattr(messages, f"{name}_request"), getattr(messages, f"{name}_response"), self._values)
            self._make = source.compile(self._lists)
        return self._make(request, code, message)


class _Source:
    """The source text of a failure: a constructor call for each struct, with a comprehension for each list in it."""

    def __init__(self, request: Any, response: Any, values: dict[str, object]) -> None:
        self._request, self._response, self._values = request, response, values
        self._variables = (f"item{index}" for index in count())

    def compile(self, lists: tuple[str, ...]) -> Failure:
        root = self._response.ROOT
        newest = {field.name for field in messages.schema(root.API, "response", root.API.max_version).fields}
        fields = [each for each in root.FIELDS if each.name in (lists if lists and each.is_array else newest)]
        source = self._make_call(root, fields, self._request.ROOT, "request", {})
        return eval(f"lambda request, code, message: {source}", dict(self._response.CLASSES))  # type: ignore[no-any-return]

    def _make_call(
        self, kind: type[Message], fields: list[Field], asked: type[Message] | str, variable: str, keys: dict[str, str]
    ) -> str:
        arguments = {name: variable + attribute for name, attribute in keys.items()}
        names = {field.name for field in kind.FIELDS}
        for field in fields:
            if field.name in self._values:
                arguments[field.name] = repr(self._values[field.name])
            elif field.name == "error_code" or (field.name.endswith("_error_code") and "error_code" not in names):
                arguments[field.name] = "code"
            elif field.name == "error_message":
                arguments[field.name] = "message"
            elif (
                isinstance(field.type, Struct)
                and field.is_array
                and (pair := self._find_pair(field.type, field, asked))
            ):
                arguments[field.name] = self._make_list(self._response.CLASSES[field.type.name], pair, variable)
        return f"{kind.__name__}({', '.join(f'{name}={value}' for name, value in arguments.items())})"

    def _make_list(self, kind: type[Message], pair: Field, variable: str) -> str:
        asked, each = self._type_of(pair), next(self._variables)
        item = self._make_call(kind, list(kind.FIELDS), asked, each, self._find_keys(kind, asked))
        items = f"{variable}.{pair.name}{' or ()' if pair.nullable else ''}"
        return f"[{item} for {each} in {items}]" if each in item else f"[{item}] * len({items})"

    def _find_pair(self, struct: Struct, field: Field, asked: type[Message] | str) -> Field | None:
        """Return the list of the request that has an item for each one of the response's list."""
        if isinstance(asked, str) or not _holds_failures(struct):
            return None
        kind = self._response.CLASSES[struct.name]
        lists = sorted((each for each in asked.FIELDS if each.is_array), key=lambda each: each.name != field.name)
        with_keys = [each for each in lists if self._find_keys(kind, self._type_of(each))]
        return with_keys[0] if with_keys else lists[0] if len(lists) == 1 else None

    def _find_keys(self, kind: type[Message], asked: type[Message] | str) -> dict[str, str]:
        """Return where each key of a response's item is in the request's: an attribute, or "" where the item is the key."""
        keys = [field for field in kind.FIELDS if field.name in _KEYS and field.name not in self._values]
        if isinstance(asked, str):
            return {field.name: "" for field in keys if field.type == asked}
        known = [field.name for field in asked.FIELDS if field.name in _KEYS]
        if len(keys) == len(known) == 1:
            return {keys[0].name: f".{known[0]}"}
        return {field.name: f".{field.name}" for field in keys if field.name in known}

    def _type_of(self, field: Field) -> type[Message] | str:
        return self._request.CLASSES[field.type.name] if isinstance(field.type, Struct) else field.type


def _holds_failures(struct: Struct) -> bool:
    """True if an item has an error, itself or in a list in it, or has nothing but keys."""
    names = [field.name for each in struct.structs() for field in each.fields]
    return any(name.endswith("error_code") for name in names) or _KEYS.issuperset(names)
