"""The broker that benches measure without bounds has none, and reads the same otherwise."""

from __future__ import annotations

import subprocess
import sys

import pytest

_PROGRAM = """
import sys
from kafkalite.errors import BoundExceeded
from kafkalite.protocol import codec, messages
from tests.bench.unbounded import unbound

if sys.argv[1] == "unbounded":
    unbound()
m = messages.metadata_request
asked = m.MetadataRequest(topics=[m.MetadataRequestTopic(name="t")])
body = b"".join(map(bytes, codec.encode_request(asked, 12)))
read = codec.reader(3, "request", 12)
assert read(body, 0).topics[0].name == "t"
tags = b"\\x21" + b"".join(bytes([each, 0]) for each in range(90, 123))  # 33 tagged fields that nobody knows
try:
    assert read(body[:-1] + tags, 0).topics[0].name == "t"
except BoundExceeded:
    print("refused")
"""


@pytest.mark.parametrize(("side", "expected"), [("bounded", "refused\n"), ("unbounded", "")])
def test_only_the_bounds_are_taken_out(side: str, expected: str) -> None:
    run = subprocess.run([sys.executable, "-c", _PROGRAM, side], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, expected, "")
