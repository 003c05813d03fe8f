"""Results of clients as what JSON and tables can show."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from kafkalite.types import TopicPartition


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
