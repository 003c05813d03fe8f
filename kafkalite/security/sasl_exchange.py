"""The messages of SASL as the client sees them; and how it fails on the client's side."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias

Exchange: TypeAlias = Generator[bytes, bytes, None]
"""Yields tokens for the server and receives the server's answers."""


class ServerNotProven(Exception):
    """Raised when a server's answer does not prove that it knows the user's keys."""


class KerberosError(Exception):
    """Raised with the message of the Kerberos library: no ticket, no key, a clock that differs."""
