"""The examples in the docstrings run as they stand."""

from __future__ import annotations

import doctest
from types import ModuleType

import pytest

from kafkalite.testing import containers
from kafkalite.testing.containers import broker as container_broker
from kafkalite.testing.containers import cluster as container_cluster
from kafkalite.testing.containers import ensemble as container_ensemble


@pytest.mark.parametrize("module", [containers, container_broker, container_ensemble, container_cluster])
def test_examples(module: ModuleType, image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKALITE_IMAGE", image)
    found = doctest.testmod(module)
    assert found.attempted > 1 and found.failed == 0
