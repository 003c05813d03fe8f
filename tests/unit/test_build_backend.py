"""When modules are compiled, when they are found compiled, and that a build goes on without."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalite import build_backend, compilation


@pytest.fixture(autouse=True)
def nothing_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(build_backend.CACHE, str(tmp_path))
    monkeypatch.setattr(build_backend, "has_compiler", lambda: True)


def make(folder: Path) -> None:
    for name in build_backend.EXTENSIONS:
        path = folder / build_backend.place_of(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def test_what_was_made_of_the_same_files_is_found_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_backend, "compile_into", make)
    folder = build_backend.compiled()
    assert folder is not None and folder == build_backend.cache()
    monkeypatch.setattr(build_backend, "has_compiler", lambda: False)
    assert build_backend.compiled() == folder
    assert build_backend.MYPYC not in build_backend.get_requires_for_build_wheel()


def test_a_changed_file_is_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = build_backend.cache()
    edited = tmp_path / "edited.py"
    edited.write_text("changed = True")
    monkeypatch.setattr(build_backend, "source_of", lambda module: edited)
    assert build_backend.cache() != before


def test_a_build_is_pure_without_a_compiler_or_when_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(build_backend, "compile_into", make)
    monkeypatch.setenv(build_backend.PURE, "1")
    assert build_backend.compiled() is None and not capsys.readouterr().err
    monkeypatch.delenv(build_backend.PURE)
    monkeypatch.setattr(build_backend, "has_compiler", lambda: False)
    assert build_backend.compiled() is None
    assert "no C compiler" in capsys.readouterr().err


@pytest.mark.parametrize("problem", [SystemExit(1), OSError("no space left")])
def test_a_build_goes_on_in_python_when_compiling_fails(
    problem: BaseException, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(folder: Path) -> None:
        raise problem

    monkeypatch.setattr(build_backend, "compile_into", fail)
    assert build_backend.compiled() is None
    assert f"pure Python: {type(problem).__name__}" in capsys.readouterr().err


def test_only_a_wheel_asks_for_mypyc_unless_an_editable_installation_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert build_backend.MYPYC in build_backend.get_requires_for_build_wheel()
    assert build_backend.MYPYC not in build_backend.get_requires_for_build_editable()
    monkeypatch.setenv(build_backend.EDITABLE, "1")
    assert build_backend.MYPYC in build_backend.get_requires_for_build_editable()


def test_every_module_on_the_list_is_a_file_and_says_how_it_runs() -> None:
    for module in compilation.MODULES:
        assert build_backend.source_of(module).exists()
    assert compilation.description() in ("pure Python", "compiled")
