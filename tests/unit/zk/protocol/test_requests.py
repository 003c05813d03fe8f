"""Results of many operations in one reply, as a server sends them and as it must not."""

from __future__ import annotations

import struct

import pytest

from zk.protocol.jute import MalformedError
from zk.protocol.requests import Code, ResultError, decode_results
from zk.store import Stat

_STAT = struct.pack(">qqqqiiiqiiq", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
STAT = Stat(1, 2, 3, 4, version=5, cversion=6, ephemeral_owner=8, data_length=9, children_count=10)
END = struct.pack(">iBi", -1, 1, -1)


def _result(code: int, body: bytes = b"") -> bytes:
    return struct.pack(">iBi", code, 0, 0) + body


def _buffer(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


RESULTS = (
    _result(Code.GET_DATA, _buffer(b"data") + _STAT),
    _result(Code.SET_DATA, _STAT),
    _result(Code.CREATE, _buffer(b"/path")),
    _result(Code.CHECK),
    _result(-1, struct.pack(">i", -101)),
    _result(Code.GET_DATA, struct.pack(">i", -1) + _STAT),
)


def test_each_operation_has_its_result() -> None:
    found = decode_results(b"head" + b"".join(RESULTS) + END, 4)
    assert found == [(b"data", STAT), STAT, "/path", None, ResultError(-101), (b"", STAT)]


def test_a_list_that_is_cut_off_anywhere_is_refused() -> None:
    message = b"".join(RESULTS) + END
    for size_bytes in range(len(message)):
        with pytest.raises(MalformedError):
            decode_results(message[:size_bytes], 0)


@pytest.mark.parametrize("announced_bytes", [5, 2**31 - 1])
def test_data_that_is_longer_than_the_message_is_refused(announced_bytes: int) -> None:
    with pytest.raises(MalformedError):
        decode_results(_result(Code.GET_DATA, struct.pack(">i", announced_bytes) + b"data" + _STAT), 0)


def test_a_result_that_was_not_asked_for_is_refused() -> None:
    with pytest.raises(MalformedError, match="type 9"):
        decode_results(_result(Code.SYNC, _buffer(b"/path")) + END, 0)
