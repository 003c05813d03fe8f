"""A JSON Schema and those that it refers to, as one document whose references are all within it. Pure.

Each `$ref` becomes a JSON pointer into the document, so what a reference means is decided here and nowhere else: what measures a schema,
what makes columns of it and what validates by it see the same, and nothing is fetched. Refused: references to what is not there, names
for places (`$anchor`), references that depend on who refers (`$dynamicRef`), schemas within the schema that have an `$id` of their own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote, unquote, urljoin

from spark_jobs.registry.schemas import Schema, SchemaError

IN_PLACE: Final = ("not", "if", "then", "else")
IN_PLACE_LISTS: Final = ("allOf", "anyOf", "oneOf")
IN_PLACE_MAPS: Final = ("dependentSchemas", "dependencies")
OF_ITEMS: Final = ("items", "additionalItems", "unevaluatedItems", "contains", "prefixItems")
OF_ANY_PROPERTY: Final = ("additionalProperties", "unevaluatedProperties", "propertyNames")
DEFINITIONS: Final = ("$defs", "definitions")
_IDS: Final = ("$id", "id")
_DYNAMIC: Final = ("$dynamicRef", "$recursiveRef")
_ADDED: Final = "kafkalite_{}"

Node = Any
"""A schema as parsed JSON: a dict or a bool."""


class JsonDocument:
    """`root` is the schema with `$defs` that have the others, which `target` finds by a `$ref`. SchemaError."""

    def __init__(self, schema: Schema) -> None:
        texts = [schema.text, *(each.text for each in schema.references)]
        documents = [_parse(text) for text in texts]
        self.root: dict[str, Any] = documents[0]
        self._bases = [_remove_id(each) for each in documents]
        self._names = {each.name: index for index, each in enumerate(schema.references, 1)}
        for index, base in enumerate(self._bases):
            self._names.setdefault(base, index)
        if len(documents) > 1:
            added = self.root.setdefault("$defs", {})
            if not isinstance(added, dict):
                raise SchemaError("not a JSON Schema: its $defs are no object")
            added.update({_ADDED.format(index): each for index, each in enumerate(documents) if index > 0})
        self._rewrite([(index, each) for index, each in enumerate(documents)])

    def target(self, node: Mapping[str, Any]) -> Node:
        """Return the schema that a node's `$ref` refers to."""
        return self._find(_tokens(node["$ref"].removeprefix("#")), node["$ref"])

    def _rewrite(self, waiting: list[tuple[int, Node]]) -> None:
        """Replace the references of these schemas, of all within them and of all that they refer to."""
        seen: set[int] = set()
        roots = {id(node) for _, node in waiting}
        while waiting:
            index, node = waiting.pop()
            if not isinstance(node, dict) or id(node) in seen:
                continue
            seen.add(id(node))
            if id(node) not in roots and isinstance(node.get("$id"), str):
                raise SchemaError("a schema within the JSON Schema has an $id of its own: register it and refer to it")
            for name in _DYNAMIC:
                if name in node:
                    raise SchemaError(f"the JSON Schema has a {name}, for which there is no rule here: use $ref")
            if "$ref" in node:
                place, tokens = self._resolve(index, node["$ref"])
                node["$ref"] = "#" + "".join(f"/{quote(each.replace('~', '~0').replace('/', '~1'))}" for each in tokens)
                waiting.append((place, self._find(tokens, node["$ref"])))
            waiting += [(index, inner) for inner in _inner_schemas(node)]

    def _resolve(self, index: int, reference: Any) -> tuple[int, list[str]]:
        """Return the document that a reference of another one means, and the pointer into the whole."""
        if not isinstance(reference, str):
            raise SchemaError(f"not a JSON Schema: {reference!r:.100} is no reference")
        name, _, fragment = reference.partition("#")
        place = index
        if name:
            absolute = _join(self._bases[index], name)
            found = self._names.get(name, self._names.get(absolute))
            if found is None:
                raise SchemaError(f"the JSON Schema refers to {reference:.200}, which is not among its references")
            place = found
        if fragment and not fragment.startswith("/"):
            raise SchemaError(f"the JSON Schema refers to {reference:.200}: give a JSON pointer instead of an anchor")
        prefix = [] if place == 0 else ["$defs", _ADDED.format(place)]
        return place, prefix + _tokens(fragment)

    def _find(self, tokens: list[str], reference: str) -> Node:
        found: Any = self.root
        try:
            for each in tokens:
                found = found[int(each)] if isinstance(found, list) else found[each]
        except (KeyError, IndexError, TypeError, ValueError):
            found = None
        if not isinstance(found, dict | bool):
            raise SchemaError(f"the JSON Schema refers to {reference:.200}, where there is no schema")
        return found


def items_of(node: Mapping[str, Any]) -> list[Node]:
    """Return the schemas of a node that items of an array are checked by."""
    found = [node[name] for name in OF_ITEMS if name in node]
    return [inner for each in found for inner in (each if isinstance(each, list) else [each])]


def schemas_by_name(node: Mapping[str, Any], keyword: str) -> dict[str, Node]:
    """Return the schemas of a keyword that has them by names. SchemaError."""
    found = node.get(keyword, {})
    if not isinstance(found, dict):
        raise SchemaError(f"not a JSON Schema: its {keyword} are no object")
    return {name: each for name, each in found.items() if isinstance(each, dict | bool)}


def in_place(node: Mapping[str, Any]) -> list[Node]:
    """Return the schemas of a node that check the same value as the node itself, but for what `$ref` refers to."""
    found = [node[name] for name in IN_PLACE if name in node]
    for name in IN_PLACE_LISTS:
        members = node.get(name, [])
        if not isinstance(members, list):
            raise SchemaError(f"not a JSON Schema: its {name} is no list")
        found += members
    return found + [each for name in IN_PLACE_MAPS for each in schemas_by_name(node, name).values()]


def _inner_schemas(node: Mapping[str, Any]) -> Iterator[Node]:
    yield from in_place(node)
    yield from items_of(node)
    yield from (node[name] for name in OF_ANY_PROPERTY if name in node)
    for name in ("properties", "patternProperties", *DEFINITIONS):
        yield from schemas_by_name(node, name).values()


def _parse(text: str) -> Any:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise SchemaError(f"not a JSON Schema: {problem!s:.200}") from None
    if isinstance(found, bool):
        return {} if found else {"not": {}}
    if not isinstance(found, dict):
        raise SchemaError(f"not a JSON Schema: a {type(found).__name__}, where an object is due")
    return found


def _remove_id(document: dict[str, Any]) -> str:
    """Return the document's own URI, which it has no more."""
    found = [each for name in _IDS if isinstance(each := document.pop(name, None), str)]
    return found[0].removesuffix("#") if found else ""


def _join(base: str, name: str) -> str:
    try:
        return urljoin(base, name)
    except ValueError:
        return name


def _tokens(pointer: str) -> list[str]:
    return [unquote(each).replace("~1", "/").replace("~0", "~") for each in pointer.split("/")[1:]]
