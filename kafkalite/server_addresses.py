"""Addresses of servers, parsed and printed in one form."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

DEFAULT_PORT: Final = 9092

_SCHEME: Final = re.compile(r"[A-Za-z0-9_.+-]+://")
_LARGEST_PORT: Final = 65535


def parse_servers(servers: str | Sequence[str]) -> list[tuple[str, int]]:
    """Return the (host, port) pairs of "host:port,host:port" or of a list of such. Raises ValueError for what cannot be read.

    As Kafka's clients do, this ignores a scheme (`PLAINTEXT://host:port`): `security.protocol` says how to connect. The port is 9092 by
    default. IPv6 addresses stand in brackets; without them the last number has to be the port.
    """
    items = servers.split(",") if isinstance(servers, str) else list(servers)
    addresses = [_parse_server(item) for each in items if (item := each.strip())]
    if not addresses:
        raise ValueError("no bootstrap server given")
    return addresses


def address_text(host: str, port: int) -> str:
    """Return `host:port`, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _parse_server(item: str) -> tuple[str, int]:
    place = _SCHEME.sub("", item, count=1) if _SCHEME.match(item) else item
    host, colon, port = place.rpartition(":")
    if not colon or place.endswith("]"):
        host, port = place, str(DEFAULT_PORT)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        if not _is_ipv6(host):
            raise ValueError(f"bootstrap server {item!r} has no IPv6 address between its brackets")
    elif ":" in host and not _is_ipv6(host):
        hint = f"; an IPv6 address stands in brackets: [{place}]:{DEFAULT_PORT}" if _is_ipv6(place) else ""
        raise ValueError(f"bootstrap server {item!r} is not host:port{hint}")
    is_port = port.isascii() and port.isdecimal() and 0 < int(port) <= _LARGEST_PORT
    if not is_port or not host or any(each in host for each in "[]/@ \t"):
        raise ValueError(f"bootstrap server {item!r} is not host:port")
    return host, int(port)


def _is_ipv6(text: str) -> bool:
    """True if the text is an IPv6 address, perhaps with a zone (`fe80::1%eth0`)."""
    from ipaddress import IPv6Address  # imported for the few that need it

    try:
        IPv6Address(text)
    except ValueError:
        return False
    return True
