"""The transcripts, told again: what is seen is what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.stories import FOLDER, replayed

TRANSCRIPTS = sorted(FOLDER.glob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_it_happens_as_it_is_told(path: Path) -> None:
    assert replayed(path) == path.read_text()


def test_the_famous_histories_are_there() -> None:
    names = " ".join(path.stem for path in TRANSCRIPTS)
    assert all(name in names for name in ("kip-101", "kip-279", "kip-320", "zombie-controller", "jepsen-2013"))
