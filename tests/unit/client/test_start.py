"""A program that imports clients loads what they all need, and nothing that only some of them use."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest

from kafkalite.protocol.record_batches.record_code import IS_COMPILED

PROGRAM = """
import asyncio, sys
before = set(sys.modules)
exec(sys.argv[1])
print(*sorted(set(sys.modules) - before))
"""

_LIBRARIES: Final = "aiokafka cramjam hmac importlib.metadata isal json kio msgpack numpy pyarrow uvloop zk"
_CLIENT: Final = "admin blocking consumer.range_reader group.assignors group.consumer_protocol group.session keywords producer.transactions"
_RECORD_BATCHES: Final = "compressed_forms legacy_records record_digest" + " python_records" * IS_COMPILED
FOR_SOME: Final = {
    *_LIBRARIES.split(),
    *(f"kafkalite.{each}" for each in ("config", "security", "storage")),
    *(f"kafkalite.client.{each}" for each in _CLIENT.split()),
    *(f"kafkalite.protocol.record_batches.{each}" for each in _RECORD_BATCHES.split()),
}
"""What compression, formats by name, groups, transactions, SASL, older formats and digests need, and type checkers."""
FOR_CONSUMERS: Final = {
    "msgspec",
    *(f"kafkalite.client.{each}" for each in ("consumer", "consumer_record", "record_reader")),
}


def loaded_by(statement: str) -> set[str]:
    """Return the modules that a program loads with a statement, beside those of asyncio."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, statement], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("names", "unwanted"), [("Consumer, Producer", FOR_SOME), ("Producer", FOR_SOME | FOR_CONSUMERS)]
)
def test_clients_load_nothing_that_only_some_programs_use(names: str, unwanted: set[str]) -> None:
    assert loaded_by(f"from kafkalite.client import {names}") & unwanted == set()
