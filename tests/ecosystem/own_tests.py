"""Programs that have tests of their own in tests/peers, and those of the museum."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Final

from tests.ecosystem.contract import Scene
from tests.museum.contract import exhibits
from tests.museum.environments import prepare
from tests.museum.features import FEATURES
from tests.museum.program import Program as Exhibited
from tests.museum.program import StepFailed
from tests.museum.stage import Visit

_ROOT: Final = Path(__file__).parents[2]


def passed(scene: Scene, path: str) -> None:
    """By a pytest of its own, on clusters of its own."""
    scene.run("-m", "pytest", "-q", "-p", "no:cacheprovider", _ROOT / path, timeout_s=600)


def exhibited(scene: Scene, name: str) -> None:
    """All that the museum knows of one of its exhibits."""
    (exhibit,) = (each for each in exhibits() if each.name == name)
    problems = prepare([exhibit])
    assert not problems, problems
    with closing(Exhibited(exhibit, scene.stage.bootstrap, scene.stage.zookeeper)) as program:
        for feature in exhibit.features:
            try:
                FEATURES[feature](Visit(exhibit, scene.stage, program))
            except StepFailed as problem:
                raise AssertionError(f"{feature}: {problem}") from problem
