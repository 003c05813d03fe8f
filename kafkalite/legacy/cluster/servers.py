"""Addresses of brokers, checked as Kafka's clients check them before they connect."""

from __future__ import annotations

import re
import socket
from typing import Final

from kafkalite.legacy.command_line.entry import log
from kafkalite.legacy.command_line.failures import ToolError

HOST_AND_PORT: Final = re.compile(r".*?\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]+)")


def check_servers(servers: str, refusal: str = "Failed to create new KafkaAdminClient") -> None:
    """Raise ToolError with the message `refusal` unless at least one of the addresses can be resolved."""
    found = [each.strip() for each in servers.split(",") if each.strip()]
    if not found:
        raise _config_error(refusal, "You must set either bootstrap.servers or bootstrap.controllers")
    resolved = 0
    for each in found:
        match = HOST_AND_PORT.fullmatch(each)
        if match is None:
            raise _config_error(refusal, f"Invalid url in bootstrap.servers: {each}")
        resolved += _resolves(each, *match.groups())
    if not resolved:
        raise _config_error(refusal, "No resolvable bootstrap urls given in bootstrap.servers")


def _resolves(server: str, host: str, port: str) -> bool:
    # In ASCII, as far as it goes: Python looks at text in the light of IDNA, and loads tables of Unicode for that.
    name = host.encode() if host.isascii() else host
    try:
        socket.getaddrinfo(name, int(port))
    except (OSError, OverflowError):
        reason = f"as DNS resolution failed for {host}"
        log(
            "WARN",
            f"Couldn't resolve server {server} from bootstrap.servers {reason}",
            "org.apache.kafka.clients.ClientUtils",
        )
        return False
    return True


def _config_error(refusal: str, reason: str) -> ToolError:
    cause = ToolError(reason, "org.apache.kafka.common.config.ConfigException")
    return ToolError(refusal, "org.apache.kafka.common.KafkaException", cause)
