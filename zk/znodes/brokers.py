"""`/brokers/ids/<id>`: a broker's registration.

Written as version 5 (`features`, since 2.7); versions 1 to 5 are read: 1 has host and port only, 2 adds `endpoints`, 3
`rack`, 4 `listener_security_protocol_map`. The broker's epoch is not in the data: it is the znode's czxid.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from zk.znodes.fields import Fields, to_json

_KIND = "broker registration"
_ENDPOINT = re.compile(r"(?P<listener>[^:/]*)://(?:\[(?P<ipv6>[0-9A-Za-z:.%]+)\]|(?P<host>[^\[\]:/]*)):(?P<port>-?\d+)")
_PLAINTEXT = "PLAINTEXT"
_PROTOCOLS = (_PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_PORT_MAX = 65_535
_TEXT_MAX = 8_000
"""Characters of an endpoint or a rack: in any script, UTF-8 makes less of them than a string in a message may have."""


class RegisteredEndpoint(NamedTuple):
    """The address of one listener; `security_protocol` is PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""

    listener: str
    host: str
    port: int
    security_protocol: str = _PLAINTEXT

    @property
    def uri(self) -> str:
        """Return `LISTENER://host:port`, an IPv6 address in brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener}://{host}:{self.port}"


class FeatureRange(NamedTuple):
    """Versions of a feature that a broker supports (KIP-584)."""

    min_version: int
    max_version: int


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """A broker's description of itself; `timestamp_ms` is when it registered, `jmx_port` -1 for none."""

    endpoints: tuple[RegisteredEndpoint, ...]
    timestamp_ms: int = -1
    rack: str | None = None
    jmx_port: int = -1
    features: Mapping[str, FeatureRange] = field(default_factory=dict)

    def encode(self) -> bytes:
        """Version 5. `host` and `port` are of the first plaintext endpoint, for readers of version 1."""
        plaintext = next((e for e in self.endpoints if e.security_protocol == _PLAINTEXT), None)
        document: dict[str, Any] = {
            "features": {name: feature._asdict() for name, feature in self.features.items()},
            "listener_security_protocol_map": {e.listener: e.security_protocol for e in self.endpoints},
            "endpoints": [endpoint.uri for endpoint in self.endpoints],
        }
        if self.rack is not None:
            document["rack"] = self.rack
        document |= {
            "jmx_port": self.jmx_port,
            "port": plaintext.port if plaintext else -1,
            "host": plaintext.host if plaintext else None,
            "version": 5,
            "timestamp": str(self.timestamp_ms),
        }
        return to_json(document)

    @classmethod
    def decode(cls, data: bytes) -> BrokerRegistration:
        """Raises MalformedZnodeError when it is none of versions 1 and above."""
        fields = Fields.parse(_KIND, data)
        version = fields.version(1)
        if version == 1:
            endpoints: tuple[RegisteredEndpoint, ...] = (
                RegisteredEndpoint(_PLAINTEXT, fields.text("host"), fields.integer("port")),
            )
        else:
            protocols = fields.mapping("listener_security_protocol_map")
            endpoints = tuple(_endpoint(fields, uri, protocols) for uri in fields.texts("endpoints"))
        return cls(
            endpoints,
            timestamp_ms=fields.integer_text("timestamp") if fields.has("timestamp") else -1,
            rack=_rack(fields),
            jmx_port=fields.integer("jmx_port", -1),
            features=_features(fields),
        )


def _rack(fields: Fields) -> str | None:
    rack = fields.text("rack", "")
    if len(rack) > _TEXT_MAX:
        raise fields.refuse(f"rack has {len(rack)} characters")
    return rack if fields.has("rack") else None


def _endpoint(fields: Fields, uri: str, protocols: Mapping[str, Any]) -> RegisteredEndpoint:
    match = _ENDPOINT.fullmatch(uri) if len(uri) <= _TEXT_MAX else None
    if match is None or not -1 <= (port := int(match["port"])) <= _PORT_MAX:
        raise fields.refuse(f"endpoint {uri[:80]!r} is not LISTENER://host:port")
    listener = match["listener"]
    protocol = protocols.get(listener, listener)
    if protocol not in _PROTOCOLS:
        raise fields.refuse(f"security protocol of listener {listener} is not one of {', '.join(_PROTOCOLS)}")
    return RegisteredEndpoint(listener, match["ipv6"] or match["host"], port, protocol)


def _features(fields: Fields) -> dict[str, FeatureRange]:
    ranges = {}
    for name, value in fields.mapping("features").items():
        if not isinstance(value, dict):
            raise fields.refuse(f"feature {name[:80]} is not an object")
        entry = Fields(fields.kind, value)
        ranges[name] = FeatureRange(entry.integer("min_version", bits=16), entry.integer("max_version", bits=16))
    return ranges
