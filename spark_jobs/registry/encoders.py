"""Values of a column to the wire format, by a registered schema. Pure."""

from __future__ import annotations

from typing import Any, Protocol

from spark_jobs.registry.schemas import JSON, PROTOBUF, Encoding
from spark_jobs.registry.wire_format import with_header

_MAX_REASON_LENGTH = 300


class EncodeError(ValueError):
    """A row whose value is not of the schema; the message names the schema and what is wrong."""


class PayloadEncoder(Protocol):
    """Encodes values by one schema."""

    def encode(self, value: Any) -> bytes:
        """Return what stands behind the header, for a value as Arrow gives it. Raises whatever its library does."""
        ...


class ValueEncoder:
    """Encodes the values of a column that are not null."""

    def __init__(self, encoding: Encoding) -> None:
        self._encoding = encoding
        self._payloads = _make_payload_encoder(encoding)

    def encode(self, value: Any) -> bytes:
        """Return the value in the wire format. EncodeError."""
        try:
            payload = self._payloads.encode(value)
        except Exception as problem:  # libraries raise whatever their parts raise
            raise EncodeError(
                f"a value cannot be written with the schema {self._encoding.id} of {self._encoding.known_from}: "
                f"{type(problem).__name__}: {problem}"[:_MAX_REASON_LENGTH]
            ) from None
        return with_header(self._encoding.id, payload)


def _make_payload_encoder(encoding: Encoding) -> PayloadEncoder:
    if encoding.schema.type == PROTOBUF:
        from spark_jobs.registry.protobuf_encoding import ProtobufPayloads

        return ProtobufPayloads(encoding)
    if encoding.schema.type == JSON:
        from spark_jobs.registry.json_encoding import JsonPayloads

        return JsonPayloads(encoding)
    from spark_jobs.registry.avro_encoding import AvroPayloads

    return AvroPayloads(encoding)
