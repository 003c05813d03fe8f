"""CRC-32C comes from the extension module of its package, or from the package."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kafkalite.protocol.record_batches.checksum import load_function

PROGRAM = """
import sys
from kafkalite.protocol.record_batches.checksum import crc32c
assert crc32c(b"123456789") == 0xE3069283
assert "crc32c" not in sys.modules
import crc32c as package
assert package.crc32c is crc32c
"""


def test_the_extension_module_is_loaded_alone_and_once() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_package_that_is_laid_out_in_another_way_is_imported_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "crc32c", raising=False)
    assert load_function("crc32c._elsewhere")(b"123456789") == 0xE3069283
    assert "crc32c" in sys.modules
