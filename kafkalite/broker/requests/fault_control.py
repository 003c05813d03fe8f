"""Control of the faults of a running broker, for tests: lines of JSON over a connection to a loopback address.

    {"add": {"api": "PRODUCE", "action": "fail", "error": "NOT_LEADER_OR_FOLLOWER", "nth": 3}}   →  {"rule": 1}
    {"hits": 1}                                                                                 →  {"hits": 0}
    {"remove": 1}, {"clear": true}                                                              →  {}
    {"arm": "controller.written", "action": "exit@2"}, {"disarm": "controller.written"}         →  {}

A wish that cannot be fulfilled is answered with {"error": "..."}. The address is in the variable KAFKALITE_FAULTS, and the broker needs the
setting kafkalite.fault.injection.enable; see `request_faults` and `kafkalite.failpoints`. Other addresses than loopback ones are refused.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from kafkalite import failpoints
from kafkalite.broker.requests.request_faults import RequestFaults, Rule
from kafkalite.config.broker import ConfigError

if TYPE_CHECKING:
    from kafkalite.config.broker import BrokerConfig

logger = logging.getLogger("kafkalite.broker.faults")

VARIABLE: Final = "KAFKALITE_FAULTS"
_TURN: Final = "loop.turn"


def is_wanted(config: BrokerConfig, environment: Mapping[str, str]) -> bool:
    """True if the environment arms anything. Raises ConfigError when the settings do not allow that."""
    armed = [name for name in (VARIABLE, failpoints.VARIABLE) if environment.get(name)]
    if armed and not config.kafkalite_fault_injection_enable:
        raise ConfigError(
            f"{' and '.join(armed)} would let this broker fail on purpose; that needs kafkalite.fault.injection.enable=true"
        )
    return bool(armed)


class FaultControl:
    """Arms and disarms the faults of a broker under test.

    Armed from the environment when it is made; `faults` go around the broker's handlers. ConfigError.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.faults = RequestFaults()
        self._address = environment.get(VARIABLE, "")
        self._server: asyncio.AbstractServer | None = None
        try:
            failpoints.arm_all(environment.get(failpoints.VARIABLE, ""))
            self._host, self._port = _loopback(self._address) if self._address else ("", 0)
        except ValueError as problem:
            raise ConfigError(str(problem)) from None

    async def start(self) -> None:
        logger.warning("this broker fails on purpose when asked to: it is for tests only")
        if self._address:
            self._server = await asyncio.start_server(self._serve, self._host, self._port)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                writer.write(json.dumps(self.obey(line)).encode() + b"\n")
                await writer.drain()
        except (OSError, ValueError):
            pass  # the test is gone, or sends a line without an end
        finally:
            writer.close()

    def obey(self, line: bytes) -> dict[str, Any]:
        """Obey one line, and return the answer."""
        try:
            wish = json.loads(line)
            return self._obey(wish)
        except (ValueError, TypeError, KeyError, AttributeError) as problem:
            return {"error": str(problem) or repr(problem)}

    def _obey(self, wish: dict[str, Any]) -> dict[str, Any]:
        rules = self.faults.rules
        match wish:
            case {"add": rule}:
                return {"rule": self.faults.add(Rule.parse(rule))}
            case {"hits": number}:
                return {"hits": rules[number].hits}
            case {"remove": number}:
                del rules[number]
            case {"clear": _}:
                rules.clear()
                failpoints.disarm()
            case {"arm": name, "action": action}:
                failpoints.arm(name, action)
                if name == _TURN:
                    asyncio.get_running_loop().call_soon(failpoints.reach, _TURN)
            case {"disarm": name}:
                failpoints.disarm(name)
            case _:
                raise ValueError(f"nobody understands {wish}")
        return {}


def _loopback(address: str) -> tuple[str, int]:
    """Return host and port. Raises ValueError for an address that others than this machine reach."""
    host, _, port = address.rpartition(":")
    if not ipaddress.ip_address(host.strip("[]")).is_loopback:
        raise ValueError(f"{VARIABLE} is {address}: faults are taken at loopback addresses only")
    return host.strip("[]"), int(port)
