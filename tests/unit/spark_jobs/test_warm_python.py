"""The Python that Spark's workers are forked from in tests."""

from __future__ import annotations

from importlib.util import find_spec

from tests.spark.warm_python import PRELOADED


def test_what_is_imported_before_the_fork_has_not_moved() -> None:
    assert [name for name in PRELOADED if not name.startswith("pyspark") and find_spec(name) is None] == []
