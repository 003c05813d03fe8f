"""The formatters of `kafka-console-consumer` by their Java classes. Pure."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from kafkalite.legacy.command_line.entry import log
from kafkalite.legacy.console.deserializers import Deserializer, deserializer_named

if TYPE_CHECKING:
    from kafkalite.client.consumer_record import ConsumerRecord

Formatter = Callable[["ConsumerRecord"], bytes]
"""Returns the output for a record. Raises ToolError when the record cannot be shown."""

DEFAULT: Final = "org.apache.kafka.tools.consumer.DefaultMessageFormatter"
_PACKAGE: Final = "org.apache.kafka.tools.consumer."
_RENAMED: Final = {
    f"kafka.tools.{name}": f"{_PACKAGE}{name}"
    for name in ("DefaultMessageFormatter", "LoggingMessageFormatter", "NoOpMessageFormatter")
}
_TIMESTAMP_TYPES: Final = {0: b"CreateTime", 1: b"LogAppendTime"}
_LOGGER: Final = "org.apache.kafka.tools.consumer.DefaultMessageFormatter"


def formatter_named(name: str, properties: Mapping[str, str]) -> Formatter | None:
    """Return the configured formatter of a Java class, None for an unknown class."""
    if name in _RENAMED:
        _warn_of_old_name(name, _RENAMED[name])
        name = _RENAMED[name]
    if name == DEFAULT:
        return DefaultFormatter(properties)
    if name == f"{_PACKAGE}LoggingMessageFormatter":
        return LoggingFormatter(properties)
    if name == f"{_PACKAGE}NoOpMessageFormatter":
        return lambda record: b""
    from kafkalite.legacy.console import coordinator_formatters

    found = coordinator_formatters.BY_CLASS.get(name)
    if name in coordinator_formatters.SUCCESSORS:
        _warn_of_old_name(name, coordinator_formatters.SUCCESSORS[name])
    return found


def _warn_of_old_name(name: str, successor: str) -> None:
    print(
        f"WARNING: {name} is deprecated and will be removed in the next major release. Please use {successor} instead",
        file=sys.stderr,
    )


class DefaultFormatter:
    """Formats timestamp, partition, offset, headers, key and value, in this order, as far as `print.…` demands them."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        def wanted(name: str) -> bool:
            return properties.get(name, "").strip().lower() == "true"

        self._timestamp, self._partition = wanted("print.timestamp"), wanted("print.partition")
        self._offset, self._headers, self._key = wanted("print.offset"), wanted("print.headers"), wanted("print.key")
        self._value = wanted("print.value") if "print.value" in properties else True
        self._separator = properties.get("key.separator", "\t").encode()
        self._line_end = properties.get("line.separator", "\n").encode()
        self._header_separator = properties.get("headers.separator", ",").encode()
        self._null = properties.get("null.literal", "null").encode()
        self._of_key = _deserializer(properties, "key.deserializer")
        self._of_value = _deserializer(properties, "value.deserializer")
        self._of_header = _deserializer(properties, "headers.deserializer")
        self._only_value = self._value and not any(
            (self._timestamp, self._partition, self._offset, self._headers, self._key, self._of_value)
        )

    def __call__(self, record: ConsumerRecord) -> bytes:
        if self._only_value:
            return (self._null if record.value is None else bytes(record.value)) + self._line_end
        fields = []
        if self._timestamp:
            kind = _TIMESTAMP_TYPES.get(record.timestamp_type)
            fields.append(b"NO_TIMESTAMP" if kind is None else b"%b:%d" % (kind, record.timestamp))
        if self._partition:
            fields.append(b"Partition:%d" % record.partition)
        if self._offset:
            fields.append(b"Offset:%d" % record.offset)
        if self._headers:
            fields.append(self._shown_headers(record))
        if self._key:
            fields.append(self._format_bytes(self._of_key, record.key))
        if self._value:
            fields.append(self._format_bytes(self._of_value, record.value))
        return self._separator.join(fields) + self._line_end if fields else b""

    def _shown_headers(self, record: ConsumerRecord) -> bytes:
        shown = [name.encode() + b":" + self._format_bytes(self._of_header, value) for name, value in record.headers]
        return self._header_separator.join(shown) if shown else b"NO_HEADERS"

    def _format_bytes(self, deserializer: Deserializer | None, data: bytes | None) -> bytes:
        given = self._null if data is None else bytes(data)
        return given if deserializer is None else deserializer(given)


class LoggingFormatter:
    """Formats as the default formatter, and logs the record."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._plain = DefaultFormatter(properties)

    def __call__(self, record: ConsumerRecord) -> bytes:
        kind = _TIMESTAMP_TYPES.get(record.timestamp_type)
        when = "" if kind is None else f"{kind.decode()}:{record.timestamp}, "
        key = "null " if record.key is None else record.key.decode(errors="replace") + ", "
        value = "null" if record.value is None else record.value.decode(errors="replace")
        log("INFO", f"{when}key:{key}value:{value}", f"{_PACKAGE}LoggingMessageFormatter")
        return self._plain(record)


def _deserializer(properties: Mapping[str, str], name: str) -> Deserializer | None:
    if name not in properties:
        return None
    found = deserializer_named(properties[name])
    if found is None:
        log("ERROR", f"Unable to instantiate a deserializer from {properties[name]}", _LOGGER)
    return found
