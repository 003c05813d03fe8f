"""The parameters of a request, validated and bounded before anything is done."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from kafkalite.types import TopicPartition

MOST_PER_PAGE = 500


class BadRequestError(Exception):
    """Raised for an invalid request. The text says why."""


class Parameters:
    """The query of a request, or its JSON object. All methods raise BadRequestError."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = given

    def text(self, name: str, default: str = "", longest: int = 10_000) -> str:
        found = self._given.get(name, default)
        if not isinstance(found, str) or len(found) > longest:
            raise BadRequestError(f"{name} is no text of at most {longest} characters")
        return found

    def one_of(self, name: str, choices: Collection[str], default: str) -> str:
        found = self.text(name, default)
        if found not in choices:
            raise BadRequestError(f"{name} is {found!r}; it may be {', '.join(choices)}")
        return found

    def flag(self, name: str) -> bool:
        return self._given.get(name) in (True, "1", "true", "yes", "on")

    def number(self, name: str, default: int, lowest: int = 0, highest: int = 2**63 - 1) -> int:
        found = self._given.get(name, default)
        try:
            number = int(found) if isinstance(found, str) and len(found) <= 20 else found
        except ValueError:
            number = None
        if not isinstance(number, int) or isinstance(number, bool) or not lowest <= number <= highest:
            raise BadRequestError(f"{name} is no whole number from {lowest} to {highest}")
        return number

    def page(self) -> tuple[int, int]:
        """Return the page, from 0, and the rows of a page."""
        return self.number("page", 0, highest=10**6), self.number("rows", 50, 1, MOST_PER_PAGE)

    def has(self, name: str) -> bool:
        return self._given.get(name) not in (None, "")

    def value(self, name: str) -> Any:
        return self._given.get(name)

    def partitions(self, name: str) -> list[int] | None:
        """Return the numbers of "0,2"; None for all."""
        text = self.text(name)
        if not text:
            return None
        parts = text.split(",")
        if not all(each.isdecimal() and len(each) <= 9 for each in parts):
            raise BadRequestError(f"{name} is {text!r}, which is not like 0,2,5")
        return sorted(set(map(int, parts)))

    def positions(self, name: str, topic: str) -> dict[TopicPartition, int] | None:
        """Return the offsets by partition of "0:17,1:4"; None when it is not given."""
        text = self.text(name, longest=100_000)
        if not text:
            return None
        found = {}
        for item in text.split(","):
            partition, _, offset = item.partition(":")
            if not (partition.isdecimal() and offset.isdecimal() and len(item) <= 30):
                raise BadRequestError(f"{name} is not like 0:17,1:4")
            found[TopicPartition(topic, int(partition))] = int(offset)
        return found


def cut_page(rows: list[Any], page: int, per_page: int) -> dict[str, Any]:
    """Return one page of rows, with the number of all."""
    first = page * per_page
    return {"rows": rows[first : first + per_page], "count": len(rows), "page": page, "rows_per_page": per_page}
