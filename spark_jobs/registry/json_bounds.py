"""What it costs to validate a value by a JSON Schema. Pure.

A validator follows references as often as they stand there: a schema of a kilobyte can check a value a billion times, and one that contains
itself twice at the same place doubles the work at each level of the value. So the schemas are counted that are applied, with each reference
replaced by its target up to where it contains itself, and then how often it does at most below one property or item.

The work for a value is at most `nodes` for each of its bytes, times `growth` for each level of its nesting.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from spark_jobs.registry.json_document import OF_ANY_PROPERTY, JsonDocument, Node, in_place, items_of, schemas_by_name
from spark_jobs.registry.schemas import MAX_DEPTH, MAX_NODES, SchemaError

MAX_WORK: Final = 4_000_000_000
_ITEM, _ANY = "[]", "*"
_LISTS: Final = ("enum", "required")
"""Keywords whose entries are looked at one by one."""

_Frames = tuple[tuple[int, str | None], ...]
"""The schemas that are open: each by its identity, with the first step of the value since it was entered, None where there is none yet."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The work for each byte of a value, and what each level of its nesting multiplies that by."""

    nodes: int
    growth: int

    def allows(self, size: int, value: Any) -> bool:
        """True if a value that was written in `size` bytes can be validated within MAX_WORK."""
        work = self.nodes * size
        if self.growth > 1:
            work *= self.growth ** _depth(value)
        return bool(work <= MAX_WORK)


def measure(document: JsonDocument) -> Cost:
    """Return the cost of a schema. SchemaError beyond MAX_NODES or MAX_DEPTH, and for one that refers to itself at the same place."""
    return _Measurement(document).measure()


class _Measurement:
    def __init__(self, document: JsonDocument) -> None:
        self._document = document
        self._nodes = 0
        self._returns: Counter[tuple[int, str | None]] = Counter()
        """References back, for each open schema, by the first step of the value below it."""

    def measure(self) -> Cost:
        root = self._document.root
        self._visit(root, ((id(root), None),), 0)
        by_place = Counter({key: n for key, n in self._returns.items() if key[1] not in (None, _ANY)})
        named = max(by_place.values(), default=0)
        anywhere = max((n for (_, step), n in self._returns.items() if step == _ANY), default=0)
        at_once = max((n for (_, step), n in self._returns.items() if step is None), default=0)
        return Cost(self._nodes, max(1, named + anywhere) * (1 + at_once))

    def _visit(self, node: Node, frames: _Frames, depth: int) -> None:
        self._count(1)
        if depth > MAX_DEPTH:
            raise SchemaError(f"the JSON Schema is nested too deeply: more than {MAX_DEPTH} levels")
        if not isinstance(node, dict):
            return
        self._count(sum(len(node[name]) for name in _LISTS if isinstance(node.get(name), list)))
        # What is left over of a value is found by checking it once more.
        for _ in range(2 if "unevaluatedProperties" in node or "unevaluatedItems" in node else 1):
            if "$ref" in node:
                self._follow(self._document.target(node), frames, depth)
            for inner in in_place(node):
                self._visit(inner, frames, depth + 1)
            for step, inner in _steps(node):
                below = tuple((opened, first or step) for opened, first in frames)
                self._visit(inner, below, depth + 1)

    def _follow(self, target: Node, frames: _Frames, depth: int) -> None:
        opened = [each for each, _ in frames]
        if id(target) not in opened:
            self._visit(target, (*frames, (id(target), None)), depth + 1)
            return
        place = opened.index(id(target))
        if frames[place][1] is None:
            raise SchemaError("the JSON Schema refers to itself at the same place, which has no end")
        self._returns.update(frames[place:])

    def _count(self, nodes: int) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            raise SchemaError(
                f"the JSON Schema has more than {MAX_NODES} schemas, with each reference replaced by its target"
            )


def _steps(node: dict[str, Any]) -> Iterator[tuple[str, Node]]:
    """Yield the schemas that check what a value contains, with the step to it."""
    yield from ((_ITEM, each) for each in items_of(node))
    yield from ((_ANY, node[name]) for name in OF_ANY_PROPERTY if name in node)
    yield from ((_ANY, each) for each in schemas_by_name(node, "patternProperties").values())
    yield from ((f".{name}", each) for name, each in schemas_by_name(node, "properties").items())


def _depth(value: Any) -> int:
    """Return how deep lists and objects of a value are nested."""
    deepest, waiting = 0, [(value, 0)]
    while waiting:
        each, depth = waiting.pop()
        deepest = max(deepest, depth)
        inner = each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
        waiting += [(item, depth + 1) for item in inner]
    return deepest
