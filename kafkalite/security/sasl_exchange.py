"""What a client and a server say to each other during SASL, as the client sees it; and how it fails on the client's side."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias

Exchange: TypeAlias = Generator[bytes, bytes, None]
"""What it yields goes to the server; the server's answer comes back."""


class ServerNotProven(Exception):
    """What a server answered is not what one that knows the user's keys answers."""


class KerberosError(Exception):
    """What the library of Kerberos says: no ticket, no key, a clock that differs."""
