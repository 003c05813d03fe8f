"""How many connections may authenticate at the same time, so that those who never do leave room for followers. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Final

_OF_ONE_ADDRESS: Final = 20
_OF_ALL: Final = 200


class Logins:
    """Connections that have not authenticated yet, by where they come from."""

    def __init__(self) -> None:
        self._addresses: dict[Hashable, str] = {}
        self._counts: Counter[str] = Counter()

    def add_connection(self, connection: Hashable, address: str) -> bool:
        """Count a connection until `remove_connection`; False if there are too many of its address, or of all."""
        if len(self._addresses) >= _OF_ALL or self._counts[address] >= _OF_ONE_ADDRESS:
            return False
        self._addresses[connection] = address
        self._counts[address] += 1
        return True

    def remove_connection(self, connection: Hashable) -> None:
        """Count a connection no more: it has authenticated, or is closed."""
        address = self._addresses.pop(connection, None)
        if address is not None:
            self._counts -= Counter((address,))
