"""The compiled code for records, for tests that compare it with Python's."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

import pytest

from tests.conftest import not_run
from tests.unit.protocol.record_batches.record_rows import COMPILED


@pytest.fixture(scope="module")
def compiled() -> ModuleType:
    if find_spec(COMPILED) is None:
        not_run("compiled code for records is not there: an installation builds it where there is a C compiler")
    return import_module(COMPILED)
