"""Who is named as showing a promise, or as holding off a threat, is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "kafkalite" / "PROMISES.md").read_text()


@pytest.mark.parametrize("page", ["PROMISES.md", "SECURITY_MODEL.md"])
def test_the_tests_that_the_promises_name_are_there(page: str) -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "kafkalite" / page).read_text())
    assert len(named) > 20
    missing = [f"{path}::{name}" for path, name in named if f"def {name}(" not in (ROOT / path).read_text()]
    assert missing == []


def test_the_transcripts_that_the_promises_name_are_there() -> None:
    named = {
        name
        for row in re.findall(r"transcripts? ((?:`[a-z0-9-]+`(?:, )?)+)", PAGE)
        for name in re.findall(r"[a-z0-9-]+", row)
    }
    assert len(named) > 5
    folder = ROOT / "tests" / "simulation" / "transcripts"
    assert named <= {path.stem for path in folder.glob("*.txt")}
