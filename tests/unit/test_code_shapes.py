"""Shapes that this project does not write: none is new, and the list of those that are left (tests/code_shapes.txt) only shrinks."""

from __future__ import annotations

import pytest

from tests.code_shapes import (
    FULL_FOLDERS,
    LONG_MODULES,
    ROOT,
    Finding,
    as_text,
    find_all,
    find_full_folders,
    find_in_module,
    is_participle,
    read_exceptions,
)

FILE = "kafkalite/example.py"


def names(source: str, rule: str) -> list[str]:
    return [each.name for each in find_in_module(FILE, source) if each.rule == rule]


def test_no_shape_is_new_and_the_list_of_old_ones_shrinks() -> None:
    found, listed = find_all(), read_exceptions()
    assert not as_text(listed - found), "these are gone: python -m tests.code_shapes --shrink"
    assert not as_text(found - listed), (
        "name a function by a verb and its object, divide what is long, say what a docstring refers to"
    )


def test_exceptions_by_name_are_there() -> None:
    assert all((ROOT / place).exists() for place in (*LONG_MODULES, *FULL_FOLDERS))


@pytest.mark.parametrize("name", ["_told", "answered", "gone", "__taken", "_failed", "begun"])
def test_participles(name: str) -> None:
    assert is_participle(name)


@pytest.mark.parametrize(
    "name", ["notify_client", "is_closed", "feed", "read", "_run", "connection_lost", "exceed", "set"]
)
def test_verbs_and_words_with_an_object_are_no_participles(name: str) -> None:
    assert not is_participle(name)


def test_a_participle_may_be_a_property_or_a_predicate() -> None:
    source = """
class A:
    @property
    def closed(self) -> object: ...
    @cached_property
    def sorted(self) -> list[int]: ...
    def started(self) -> bool: ...
    def stopped(self) -> None: ...
async def _asked(x): ...
"""
    assert sorted(names(source, "participle")) == ["_asked", "stopped"]


def test_docstrings_that_make_no_sense_alone() -> None:
    source = '''
def a():
    """See the
    module."""
NUMBER = 3
"""As above, for followers."""
TEXT = "see the module"
# as above
def b():
    """Return the next offset."""
'''
    assert sorted(names(source, "docstring")) == ["as-above", "see-the-module"]


def test_what_is_long_or_has_too_much() -> None:
    body = "    x = 1\n"
    assert names("def a():\n" + body * 60, "long function") == ["a"]
    assert not names("def a():\n" + body * 59, "long function")
    methods = "".join(f"    def m{number}(self): ...\n" for number in range(41))
    assert names("class A:\n" + methods, "large class") == ["A"]
    assert names("x = 1\n" * 501, "long module") == ["-"]
    assert not names("x = 1\n" * 500, "long module")


def test_folders_with_too_many_modules() -> None:
    files = [f"kafkalite/{folder}/m{number}.py" for folder, count in (("a", 26), ("b", 25)) for number in range(count)]
    handlers = [f"kafkalite/broker/handlers/m{number}.py" for number in range(40)]
    found = list(find_full_folders([*files, "kafkalite/b/__init__.py", *handlers]))
    assert found == [Finding("full folder", "kafkalite/a", "-")]
