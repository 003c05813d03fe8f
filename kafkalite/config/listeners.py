"""Listeners: the texts `NAME://host:port` and `NAME:PROTOCOL`, and what they must agree on.

Names are compared in upper case. An empty host in `listeners` means the default interface; in `advertised.listeners` it
means that the broker puts its own host name when it registers. Port 0 means a free port, chosen when it is bound.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final

from kafkalite.config.keys import split_list
from kafkalite.server_addresses import address_text
from kafkalite.types import Endpoint

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
DEFAULT_PROTOCOL_MAP: Final[Mapping[str, str]] = {
    name: name for name in ("SASL_SSL", "PLAINTEXT", "SSL", "SASL_PLAINTEXT")
}
WILDCARD_HOSTS: Final = frozenset({"0.0.0.0", "::", "0:0:0:0:0:0:0:0"})

_HOST_AND_PORT: Final = r"(?:\[([0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]|([^\[\]:/\s]*)):(-?[0-9]+)"
_ENDPOINT: Final = rf"([A-Za-z0-9_.-]+)://{_HOST_AND_PORT}"


def listener_text(endpoint: Endpoint) -> str:
    """Return `NAME://host:port`, IPv6 hosts in brackets."""
    return f"{endpoint.listener}://{address_text(endpoint.host, endpoint.port)}"


def parse_protocol_map(text: str) -> Mapping[str, str]:
    """Return the security protocol of each listener name. Raises ValueError naming the wrong entry and the remedy."""
    protocols: dict[str, str] = {}
    for entry in split_list(text):
        name, _, protocol = (part.strip().upper() for part in entry.rpartition(":"))
        if not name or protocol not in SECURITY_PROTOCOLS:
            raise ValueError(f"the entry {entry!r} must be NAME:PROTOCOL with one of {', '.join(SECURITY_PROTOCOLS)}")
        if name in protocols:
            raise ValueError(f"the listener {name} appears twice; keep one of its entries")
        protocols[name] = protocol
    return protocols


def parse_listeners(text: str, protocols: Mapping[str, str]) -> tuple[Endpoint, ...]:
    """Return the listeners in `text`. Raises ValueError naming the wrong one and the remedy."""
    endpoints = []
    for entry in split_list(text):
        match = re.fullmatch(_ENDPOINT, entry)
        if match is None:
            raise ValueError(f"{entry!r} must be NAME://host:port, an IPv6 host in brackets")
        name, port = match[1].upper(), int(match[4])
        if not 0 <= port <= 65535:
            raise ValueError(f"{entry!r} has a port outside 0 to 65535")
        if name not in protocols:
            raise ValueError(
                f"the listener {name} has no protocol; add {name}:PLAINTEXT to listener.security.protocol.map"
            )
        endpoints.append(Endpoint(name, match[2] or match[3], port, protocols[name]))
    if not endpoints:
        raise ValueError("it must name at least one listener, such as PLAINTEXT://:9092")
    _check_names_differ(endpoints)
    return tuple(endpoints)


def split_host_port(text: str) -> tuple[str, int]:
    """Return host and port of `host:port`, an IPv6 host in brackets; an empty host means every interface. Raises ValueError."""
    match = re.fullmatch(_HOST_AND_PORT, text)
    if match is None or not 0 <= int(match[3]) <= 65535:
        raise ValueError(f"{text!r} must be host:port, an IPv6 host in brackets")
    return match[1] or match[2], int(match[3])


def parse_connection_limits(text: str) -> tuple[tuple[str, int], ...]:
    """Return (address or host name, connections) for each entry of max.connections.per.ip.overrides. ValueError names a wrong one.

    The last colon separates, so IPv6 addresses need no brackets, as in Kafka.
    """
    limits = []
    for entry in split_list(text):
        host, _, number = (part.strip() for part in entry.rpartition(":"))
        host = host.removeprefix("[").removesuffix("]")
        if not host or not number.isdecimal():
            raise ValueError(f"the entry {entry!r} must be HOST:NUMBER")
        limits.append((str(ip_address(host)) if is_address(host) else host, int(number)))
    return tuple(limits)


def is_address(host: str) -> bool:
    """True if the host is an IP address rather than a name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def check_ports_differ(endpoints: tuple[Endpoint, ...]) -> None:
    """Raise ValueError when two listeners bind one port, unless one is IPv4 and the other IPv6."""
    by_port: dict[int, list[Endpoint]] = {}
    for endpoint in endpoints:
        by_port.setdefault(endpoint.port, []).append(endpoint)
    for port, sharing in by_port.items():
        families = [":" in endpoint.host for endpoint in sharing if endpoint.host]
        one_of_each = len(sharing) == 2 and sorted(families) == [False, True]
        if port != 0 and len(sharing) > 1 and not one_of_each:
            names = " and ".join(endpoint.listener for endpoint in sharing)
            raise ValueError(f"{names} share port {port}; give each listener its own port")


def check_hosts_can_be_reached(endpoints: tuple[Endpoint, ...]) -> None:
    """Raise ValueError for an advertised address that means "every interface": no client can connect to it."""
    for endpoint in endpoints:
        if endpoint.host in WILDCARD_HOSTS:
            raise ValueError(
                f"{endpoint.listener} advertises {endpoint.host}, which clients cannot reach; set advertised.listeners to "
                f"{endpoint.listener}://HOST:{endpoint.port} with a host name or address of this machine"
            )


def _check_names_differ(endpoints: list[Endpoint]) -> None:
    names = [endpoint.listener for endpoint in endpoints]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"the listener {name} appears twice; give each its own name")
