"""Faults that tests ask the brokers of a `LocalCluster(faults=True)` for: requests that fail, wait or are lost, and failpoints.

    lost = cluster.faults.drop("PRODUCE", "answer", topic="orders", nth=3)
    ...
    lost.wait()        # until a broker has done it
    cluster.faults.clear()

APIs and errors have Kafka's names as in `ApiKey` and `ErrorCode`. Each broker counts for itself, so `nth` is best said with the `topic` and
`partition` that one broker leads, or with `broker_id`. A request that names several partitions is taken as a whole. `client` is a
client.id; without it the brokers' own requests (a follower's FETCH, ALTER_PARTITION) count too. What was asked for of a broker ends with
its process.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple

from kafkalite.errors import ErrorCode
from kafkalite.local.broker_process import wait_until
from kafkalite.protocol.apis import ApiKey

ADDRESS_VARIABLE: Final = "KAFKALITE_FAULTS"
"""Variable with the loopback address at which a broker accepts its faults."""

SETTINGS: Final[Mapping[str, str]] = {"kafkalite.fault.injection.enable": "true"}
_TIMEOUT_S: Final = 30.0


class FaultRefused(ValueError):
    """Raised when a broker refuses a fault. The message is the broker's."""


class Fault(NamedTuple):
    """A rule at some brokers, by broker id."""

    owner: Faults
    rules: Mapping[int, int]

    @property
    def hits(self) -> int:
        """Return how often it has struck, at all brokers that run and have it."""
        return sum(self.owner.ask(broker, {"hits": rule})["hits"] for broker, rule in self.rules.items())

    def wait(self, hits: int = 1, timeout_s: float = _TIMEOUT_S) -> None:
        """Wait until it has struck so often. Raises TimeoutError."""
        wait_until(lambda: self.hits >= hits, f"{hits} hits of a fault", timeout_s)

    def remove(self) -> None:
        for broker, rule in self.rules.items():
            self.owner.ask(broker, {"remove": rule})

    def __enter__(self) -> Fault:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


class Faults:
    """Sets faults at brokers. `addresses` are the addresses of the running brokers by broker id."""

    def __init__(self, addresses: Callable[[], Mapping[int, str]]) -> None:
        self._addresses = addresses

    def fail(self, api: ApiKey | str, error: ErrorCode | str, **which: Any) -> Fault:
        """Answer requests with an error instead of executing them. `which`: topic, partition, client, broker_id, nth (from 1), times
        (None: for ever).
        """
        return self._add(api, "fail", which, error=ErrorCode[error].name if isinstance(error, str) else error.name)

    def delay(self, api: ApiKey | str, delay_s: float, **which: Any) -> Fault:
        """Execute requests later; later requests on their connection wait too. `which`: see `fail`."""
        return self._add(api, "delay", which, delay_ms=round(delay_s * 1000))

    def drop(self, api: ApiKey | str, what: Literal["request", "answer"] = "request", **which: Any) -> Fault:
        """Drop requests or their answers; the connection is silent from then on. `which`: see `fail`."""
        return self._add(api, "drop" if what == "request" else "drop-answer", which)

    def arm(self, failpoint: str, action: str, *, broker_id: int) -> None:
        """Let a failpoint (`kafkalite.failpoints`) of a broker end it, fail or stall: `exit`, `fail@2`, `stall(1.5)`."""
        self.ask(broker_id, {"arm": failpoint, "action": action})

    def stall(self, seconds: float, *, broker_id: int) -> None:
        """Let the event loop of a broker stand still for so long, from now on."""
        self.arm("loop.turn", f"stall({seconds})", broker_id=broker_id)

    def clear(self) -> None:
        """Remove all faults at the running brokers."""
        for broker in self._addresses():
            self.ask(broker, {"clear": True})

    def _add(self, api: ApiKey | str, action: str, which: dict[str, Any], **more: Any) -> Fault:
        broker_id, client = which.pop("broker_id", None), which.pop("client", None)
        rule = {"api": ApiKey[api].name if isinstance(api, str) else api.name, "action": action, **more, **which}
        if client is not None:
            rule["client_id"] = client
        brokers = self._addresses() if broker_id is None else [broker_id]
        return Fault(self, {broker: self.ask(broker, {"add": rule})["rule"] for broker in brokers})

    def ask(self, broker_id: int, wish: Mapping[str, Any]) -> dict[str, Any]:
        """Return a broker's answer. Raises FaultRefused, and OSError when it does not run."""
        host, _, port = self._addresses()[broker_id].rpartition(":")
        with socket.create_connection((host, int(port)), _TIMEOUT_S) as connection, connection.makefile("rwb") as lines:
            lines.write(json.dumps(dict(wish)).encode() + b"\n")
            lines.flush()
            answer: dict[str, Any] = json.loads(lines.readline())
        if "error" in answer:
            raise FaultRefused(answer["error"])
        return answer
