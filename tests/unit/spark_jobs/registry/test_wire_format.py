"""The header of a registry's values."""

from __future__ import annotations

import pytest

from spark_jobs.registry.wire_format import HEADER_BYTES, WireFormatError, schema_id, with_header


def test_the_id_is_four_big_endian_bytes_behind_the_magic_byte() -> None:
    assert schema_id(b"\x00\x00\x00\x01\x02payload") == 258
    assert schema_id(b"\x00\xff\xff\xff\xff") == 0xFFFF_FFFF
    assert with_header(258, b"payload") == b"\x00\x00\x00\x01\x02payload"
    assert len(with_header(1, b"")) == HEADER_BYTES


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "0 bytes, the header alone has 5"),
        (b"\x00\x00\x00\x01", "4 bytes, the header alone has 5"),
        (b'{"a":1}', "the first byte is 0x7b, not the magic byte 0x00"),
    ],
)
def test_values_without_a_header(value: bytes, reason: str) -> None:
    with pytest.raises(WireFormatError, match=f"not in the schema registry's wire format: {reason}"):
        schema_id(value)
