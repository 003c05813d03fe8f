"""Values that programs give to clients, with checked names of fields, and get from them, as what JSON and tables can show."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import wraps
from typing import Any, TypeVar

from kafkalite.client.errors import UnknownOptionError
from kafkalite.suggestions import did_you_mean
from kafkalite.types import TopicPartition

Given = TypeVar("Given")


def with_known_fields(of: type[Given]) -> type[Given]:
    """Decorate a dataclass that programs make: a keyword that is none of its fields is an UnknownOptionError with the nearest one."""
    names, make = [each.name for each in fields(of) if each.init], of.__init__  # type: ignore[arg-type]

    @wraps(make)
    def check(self: Given, *arguments: Any, **keywords: Any) -> None:
        for name in keywords:
            if name not in names:
                raise UnknownOptionError(
                    f"{of.__name__} has no {name!r}{did_you_mean(name, names)} (it has {', '.join(names)})"
                )
        make(self, *arguments, **keywords)

    of.__init__ = check  # type: ignore[method-assign, assignment]
    return of


@dataclass(frozen=True, slots=True)
class PlainValues:
    """Base of results: frozen dataclasses with `to_dict()`."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values under the names of the fields, for JSON and tables; a `topic_partition` as `topic` and `partition`."""
        found: dict[str, Any] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name == "topic_partition":
                found |= value._asdict()
            else:
                found[each.name] = _plain(value)
        return found


def _plain(value: Any) -> Any:
    if isinstance(value, PlainValues):
        return value.to_dict()
    if isinstance(value, TopicPartition):
        return value._asdict()
    return [_plain(each) for each in value] if isinstance(value, tuple) else value
