"""The Java exceptions of Kafka's error codes, and their messages for errors without a message of the broker.

`errors.txt` has a line for each of the constants of Kafka's `Errors`, in their order: code, exception, message.
"""

from __future__ import annotations

import os
from functools import cache

from kafkalite.errors import ErrorCode

_PACKAGE = "org.apache.kafka.common.errors"


@cache
def java_errors() -> dict[int, tuple[str, str]]:
    """Return exception and message by error code."""
    with open(os.path.join(os.path.dirname(__file__), "errors.txt"), encoding="utf-8") as table:
        rows = [line.rstrip("\n").split(" ", 2) for line in table]
    return {int(code): (exception, message) for code, exception, message in rows}


def class_of(name: str) -> str:
    """Return the full name of the Java exception for an error by its name in the protocol."""
    return f"{_PACKAGE}.{java_errors()[ErrorCode[name]][0]}"
