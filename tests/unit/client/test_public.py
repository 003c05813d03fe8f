"""What programs meet is importable from `kafkalite.client`, documented, and the same in blocking clients."""

from __future__ import annotations

import ast
import builtins
import enum
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kafkalite.client
from kafkalite.client import (
    Admin,
    AdminKeywords,
    AdminOptions,
    ConnectionKeywords,
    ConnectionOptions,
    Consumer,
    ConsumerKeywords,
    ConsumerOptions,
    Producer,
    ProducerKeywords,
    ProducerOptions,
    SyncAdmin,
    SyncConsumer,
    SyncProducer,
)

TWINS: list[tuple[type, type]] = [(Admin, SyncAdmin), (Consumer, SyncConsumer), (Producer, SyncProducer)]
PUBLIC = {name: getattr(kafkalite.client, name) for name in kafkalite.client.__all__}
CLASSES = {name: found for name, found in PUBLIC.items() if inspect.isclass(found)}

HANDED_OVER = {"append", "crowded", "send_bytes", "send_failed", "serialize_record", "takes_bytes", "try_append"}
"""Parts of `Producer.send`: `SyncProducer.send` calls them on the loop, and nobody else needs them blocking."""
OF_THE_LOOP = {"consumed_offsets"}
"""Without what a blocking iteration has taken ahead; `SyncConsumer` commits that by itself."""
OTHER_RETURNS = {
    "send": "SyncDelivery",
    "commit_async": "None",
    "read_range": "Iterator[Any]",
    "transaction": "Iterator[Self]",
}
"""Where a blocking client returns something else than what its twin's coroutine gives."""


def members(cls: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties that `cls` itself and its bases of ours define."""
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("kafkalite"):
            for name, member in vars(base).items():
                if not name.startswith("_") and (inspect.isroutine(member) or isinstance(member, property)):
                    yield name, member


def functions(cls: type) -> Iterator[tuple[str, Any]]:
    """The functions behind `members`, and the constructor."""
    for name, member in members(cls):
        if isinstance(member, property):
            yield name, member.fget
        elif isinstance(member, classmethod | staticmethod):
            yield name, member.__func__
        else:
            yield name, member
    if "__init__" in vars(cls) or issubclass(cls, ConnectionOptions):
        yield "__init__", cls.__init__  # type: ignore[misc]


def test_what_type_checkers_see_is_what_is_there() -> None:
    tree = ast.parse(Path(kafkalite.client.__file__).read_text())
    (seen,) = (each for each in tree.body if isinstance(each, ast.If))
    imports = [each for each in seen.body if isinstance(each, ast.ImportFrom)]
    named = {alias.asname: each.module for each in imports for alias in each.names}
    assert sorted(str(name) for name in named) == kafkalite.client.__all__
    for name, module in named.items():
        assert PUBLIC[str(name)] is getattr(__import__(str(module), fromlist=["_"]), str(name)), name
    with pytest.raises(AttributeError, match="has no Nothing"):
        kafkalite.client.Nothing  # noqa: B018


def test_blocking_clients_have_the_signatures_of_their_twins() -> None:
    for twin, blocking in TWINS:
        asked, given = dict(members(twin)), dict(members(blocking))
        assert set(asked) - set(given) <= HANDED_OVER | OF_THE_LOOP, twin
        assert set(given) <= set(asked), blocking
        for name in ["__init__", *given]:
            there, here = inspect.signature(getattr(twin, name)), inspect.signature(getattr(blocking, name))
            assert list(here.parameters.values()) == list(there.parameters.values()), (blocking, name)
            assert here.return_annotation == OTHER_RETURNS.get(name, there.return_annotation), (blocking, name)


def test_options_are_shown_as_keyword_arguments() -> None:
    for client, options in ((Admin, AdminOptions), (Consumer, ConsumerOptions), (SyncProducer, ProducerOptions)):
        shown = inspect.signature(client).parameters
        fields = inspect.signature(options).parameters
        assert {name: shown[name].default for name in fields} == {name: each.default for name, each in fields.items()}
        assert set(shown) - set(fields) <= {"topics"}


def test_keyword_arguments_have_the_types_of_the_options() -> None:
    pairs: list[tuple[Any, type]] = [
        (ConnectionKeywords, ConnectionOptions),
        (AdminKeywords, AdminOptions),
        (ConsumerKeywords, ConsumerOptions),
        (ProducerKeywords, ProducerOptions),
    ]
    for keywords, options in pairs:
        types = {name: each.__forward_arg__ for name, each in keywords.__annotations__.items()}
        assert types == {each.name: each.type for each in options.__dataclass_fields__.values()}, options
        assert not keywords.__required_keys__


def test_classes_of_signatures_and_docstrings_are_public() -> None:
    """`Connection` is what an `Opener` makes, a door for simulation; `Backoff` is what clients make of two options."""
    known = {*PUBLIC, *vars(builtins), "Backoff", "Connection"}
    ours = {each.__name__ for each in _classes_of_kafkalite()}
    for owner in CLASSES.values():
        for name, function in functions(owner):
            signature = inspect.signature(function)
            texts = [str(each.annotation) for each in signature.parameters.values()]
            words = set(re.findall(r"\b[A-Z]\w+", " ".join([*texts, str(signature.return_annotation)])))
            raised = set(re.findall(r"(?<![\w.])[A-Z]\w+Error\b", function.__doc__ or ""))
            assert (words & ours) - known == set(), (owner, name)
            assert raised - known == set(), (owner, name)


def _classes_of_kafkalite() -> set[type]:
    modules = [each for name, each in sys.modules.items() if name.startswith("kafkalite.") and each is not None]
    classes = {found for module in modules for found in vars(module).values() if inspect.isclass(found)}
    return {each for each in classes if each.__module__.startswith("kafkalite.")}


def test_everything_public_is_documented() -> None:
    undocumented = []
    for name, found in CLASSES.items():
        if not (vars(found).get("__doc__") or "").strip() or found.__doc__.startswith(f"{name}("):
            undocumented.append(name)
        if issubclass(found, enum.Enum):
            continue
        for member, function in members(found):
            if not (inspect.getdoc(function) or "").strip():
                undocumented.append(f"{name}.{member}")
    assert undocumented == []


def test_pages_name_only_what_is_there() -> None:
    pages = Path(kafkalite.client.__file__).parent.glob("*.md")
    for page in pages:
        text = page.read_text()
        named = set(re.findall(r"`([A-Z][A-Za-z]+(?:Error|Options|Listener|Assignor|Delivery|Record|Metadata))`", text))
        assert named <= {*PUBLIC, *vars(builtins)}, page
        imported = re.findall(r"from kafkalite\.([\w.]+) import", text)
        assert set(imported) <= {"client"}, page


def test_the_admin_page_names_every_call() -> None:
    text = (Path(kafkalite.client.__file__).parent / "admin.md").read_text()
    calls = {name for name, _ in members(Admin)} - {"close", "connect", "from_config"}
    assert {name for name in calls if f"`{name}`" not in text} == set()
