"""Values of the records of a load: random letters as Kafka's ProducerPerformance sends them, or lines of a file."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Final

_LETTERS: Final = bytes(ord("A") + each % 26 for each in range(256))
_POOL_RECORDS: Final = 1024
_POOL_BYTES: Final = 16 * 1024 * 1024


def random_payloads(record_size: int, seed: int = 0) -> Callable[[int], bytes]:
    """Return a function that returns the value of record n: `record_size` random letters. Values repeat after a thousand records, or
    after 16 MB.
    """
    count = max(1, min(_POOL_RECORDS, _POOL_BYTES // max(record_size, 1)))
    chance = random.Random(seed)
    values = [chance.randbytes(record_size).translate(_LETTERS) for _ in range(count)]
    return lambda number: values[number % count]


def payloads_of_file(path: Path, delimiter: str = "\\n", seed: int = 0) -> Callable[[int], bytes]:
    """Return a function that returns the value of record n: a random part of the file. Raises ValueError for an empty file, OSError.

    In `delimiter` the two characters \\n stand for a line end, as in Kafka's tool. What follows the last delimiter counts if it is not
    empty.
    """
    parts = path.read_bytes().split(delimiter.replace("\\n", "\n").encode())
    if not parts[-1]:
        parts.pop()
    if not parts:
        raise ValueError(f"the payload file {path} is empty")
    chance = random.Random(seed)
    return lambda _: chance.choice(parts)
