"""The contexts file: what it says, what it may not say, and edits that leave everything else as it was."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafkalite.cli.context.file import (
    ContextError,
    check_name,
    find_project_file,
    parse,
    read,
    with_current,
    with_settings,
    without_context,
    write,
)

PATH = Path("/somewhere/config.toml")
TEXT = """\
# my clusters
current-context = "a"

[contexts.a]  # the first
bootstrap.servers = "one:9092"
# why it is slow
request.timeout.ms = 60_000

[contexts."b.c"]
"bootstrap.servers" = ["two:9092", "three:9092"]
enable.idempotence = false
"""


def test_bare_and_quoted_names_are_the_same() -> None:
    found = parse(TEXT, PATH)
    assert found.current == "a"
    assert found.contexts == {
        "a": {"bootstrap.servers": "one:9092", "request.timeout.ms": "60000"},
        "b.c": {"bootstrap.servers": "two:9092,three:9092", "enable.idempotence": "false"},
    }
    assert parse("", PATH).contexts == {}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("a = ", "not TOML"),
        ("context = 'x'", "context: unknown"),
        ("current-context = 3", "current-context"),
        ("contexts = 3", "contexts:"),
        ("contexts.a = 3", "contexts.a"),
        ("[contexts.a]\nk.l = [1]", "context a: k.l:"),
    ],
)
def test_errors_name_file_and_key(text: str, named: str) -> None:
    with pytest.raises(ContextError) as raised:
        parse(text, PATH)
    assert str(raised.value).startswith(str(PATH)) and named in str(raised.value)


def test_names_are_words() -> None:
    check_name("prod-1.eu_west")
    for name in ("", "a b", "-x", "a]", "ä"):
        with pytest.raises(ContextError, match="cannot be a context's name"):
            check_name(name)


def test_another_current_context() -> None:
    assert with_current(TEXT, PATH, "b.c") == TEXT.replace('"a"', '"b.c"')
    assert parse(with_current(TEXT, PATH, None), PATH).current is None
    assert with_current("[contexts.a]\n", PATH, "a") == 'current-context = "a"\n\n[contexts.a]\n'
    assert with_current("", PATH, "a") == 'current-context = "a"\n'


def test_settings_change_where_they_stand() -> None:
    changed = with_settings(TEXT, PATH, "a", {"bootstrap.servers": "new:1", "request.timeout.ms": None, "acks": "1"})
    assert changed == TEXT.replace('"one:9092"', '"new:1"').replace("request.timeout.ms = 60_000\n", 'acks = "1"\n')
    quoted = with_settings(TEXT, PATH, "b.c", {"bootstrap.servers": 'say "x" \\'})
    assert parse(quoted, PATH).contexts["b.c"]["bootstrap.servers"] == 'say "x" \\'


def test_a_new_context_comes_last() -> None:
    made = with_settings(TEXT, PATH, "new", {"bootstrap.servers": "x:1"})
    assert made == TEXT + '\n[contexts.new]\nbootstrap.servers = "x:1"\n'
    assert parse(with_settings("", PATH, "d.e", {"k": "v"}), PATH).contexts == {"d.e": {"k": "v"}}


def test_a_context_goes_with_its_lines_only() -> None:
    left = without_context(TEXT, PATH, "a")
    assert left.startswith("# my clusters\n") and "slow" not in left and "current" not in left
    assert parse(left, PATH).contexts == {"b.c": parse(TEXT, PATH).contexts["b.c"]}
    assert parse(without_context(TEXT, PATH, "b.c"), PATH).current == "a"


@pytest.mark.parametrize(
    "text",
    [
        "contexts = {a = {k = '1'}}",
        "[contexts]\na.k = '1'",
        "[contexts.a]\nk = '''\n[contexts.a]\n'''",
        "[contexts.a]\nx = {k = '1'}",
    ],
)
def test_what_cannot_be_edited_safely_is_left_to_people(text: str) -> None:
    for edit in (
        lambda: with_settings(text, PATH, "a", {"k": "2", "x.k": "3"}),
        lambda: without_context(text, PATH, "a"),
    ):
        try:
            edited = edit()
        except ContextError as problem:
            assert "by hand" in str(problem)
        else:  # also allowed: the edit says exactly what was wanted
            assert parse(edited, PATH).contexts in ({}, {"a": {"k": "2", "x.k": "3"}})


def test_files_are_private_and_replaced_at_once(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "config.toml"
    assert read(path) == ""
    write(path, TEXT)
    assert read(path) == TEXT and path.stat().st_mode & 0o777 == 0o600
    os.chmod(path, 0o640)
    link = tmp_path / "link.toml"
    link.symlink_to(path)
    write(link, "x = 1\n")
    assert link.is_symlink() and path.read_text() == "x = 1\n" and path.stat().st_mode & 0o777 == 0o640
    assert [each.name for each in path.parent.iterdir()] == ["config.toml"]
    with pytest.raises(ContextError, match="cannot be read"):
        read(tmp_path)
    with pytest.raises(ContextError, match="cannot be written"):
        write(path / "below", "")


def test_the_nearest_project_file_counts(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "kafkalite.toml").touch()
    assert find_project_file(inner) == tmp_path / "kafkalite.toml"
    (tmp_path / "a" / "kafkalite.toml").touch()
    assert find_project_file(inner) == tmp_path / "a" / "kafkalite.toml"


def test_another_users_home_has_no_contexts_and_a_locked_file_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_text", refuse)
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert read(tmp_path / "config.toml") == ""
    monkeypatch.setattr(os, "access", lambda *_: True)
    with pytest.raises(ContextError, match=r"config\.toml: it cannot be read: Permission denied"):
        read(tmp_path / "config.toml")
