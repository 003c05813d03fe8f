"""The state of a cluster in ZooKeeper, which tests wait for and operators look up.

ZooKeeper is asked and not a broker, because a broker that was paused or cut off still answers with the old state.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import Final

from kazoo.exceptions import NoNodeError

from kafkalite.local.broker_process import POLL_S
from kafkalite.types import NO_BROKER
from zk import paths
from zk.kazoo_adapter.kazoo_client import threaded_client
from zk.security.store_security import PLAINTEXT, StoreSecurity
from zk.session_ending import end_session
from zk.store import StoreError
from zk.znodes.brokers import BrokerRegistration
from zk.znodes.controller import ControllerSeat
from zk.znodes.topics import PartitionState, TopicAssignment

_TIMEOUT_S: Final = 20.0
_SUPER_SECRET: Final = 0xB3415C00
"""The constant from which a ZooKeeper server derives the passwords of its sessions."""


class ClusterFacts:
    """A ZooKeeper session that reads. All methods block, and raise kazoo's exceptions when ZooKeeper does not answer."""

    def __init__(self, zookeeper_connect: str, security: StoreSecurity = PLAINTEXT) -> None:
        self._zookeeper_connect, self._security = zookeeper_connect, security
        self.client = threaded_client(zookeeper_connect, _TIMEOUT_S, security)
        self.client.logger.setLevel("CRITICAL")
        self.client.start(_TIMEOUT_S)

    def close(self) -> None:
        self.client.stop()
        self.client.close()

    def __enter__(self) -> ClusterFacts:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def controller(self) -> int:
        """Return the controller's broker id, NO_BROKER while there is none."""
        try:
            return ControllerSeat.decode(self.client.get(paths.CONTROLLER)[0]).broker_id
        except NoNodeError:
            return NO_BROKER

    def brokers(self) -> set[int]:
        """Return the registered brokers."""
        return {int(name) for name in self.client.get_children(paths.BROKER_IDS)}

    def racks(self) -> dict[int, str | None]:
        """Return the rack of each registered broker."""
        return {
            broker_id: BrokerRegistration.decode(self.client.get(paths.broker(broker_id))[0]).rack
            for broker_id in sorted(self.brokers())
        }

    def broker_epoch(self, broker_id: int) -> int:
        """Return the czxid of a broker's registration; 0 when it is not registered."""
        stat = self.client.exists(paths.broker(broker_id))
        return int(stat.czxid) if stat else 0

    def states(self, topic: str) -> dict[int, PartitionState]:
        """Return leader and ISR of each partition that has a state."""
        try:
            partitions = self.client.get_children(paths.partitions(topic))
        except NoNodeError:
            return {}
        found = {}
        for partition in map(int, partitions):
            try:
                found[partition] = self.state(topic, partition)
            except NoNodeError:
                pass  # the topic is being made or deleted
        return dict(sorted(found.items()))

    def state(self, topic: str, partition: int) -> PartitionState:
        return PartitionState.decode(self.client.get(paths.partition_state(topic, partition))[0])

    def leaders(self, topic: str) -> list[int]:
        return [state.leader for state in self.states(topic).values()]

    def fully_replicated(self, topic: str) -> bool:
        """True if every partition has a leader and all its replicas in sync. May be late where the server is behind its leader."""
        try:
            assignment = TopicAssignment.decode(self.client.get(paths.topic(topic))[0])
        except NoNodeError:
            return False
        states = self.states(topic)
        return len(states) == len(assignment.partitions) and all(
            state.leader in state.isr and len(state.isr) == len(assignment.partitions[partition])
            for partition, state in states.items()
        )

    def expire_session(self, broker_id: int) -> None:
        """End the session of a broker behind its back, as if it had not been heard of for too long.

        A broker that is between two sessions is waited for. TimeoutError when it does not register, or keeps its session.
        """
        path = paths.broker(broker_id)
        deadline = time.monotonic() + _TIMEOUT_S
        while (registration := self.client.exists(path)) is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"broker {broker_id} has not registered within {_TIMEOUT_S:g} s")
            time.sleep(POLL_S)
        owner = registration.ephemeralOwner
        while (found := self.client.exists(path)) is not None and found.ephemeralOwner == owner:
            left_s = deadline - time.monotonic()
            try:
                end_session(self._zookeeper_connect, owner, session_password(owner), self._security, left_s)
            except StoreError as problem:
                raise TimeoutError(
                    f"the session of broker {broker_id} could not be ended in {_TIMEOUT_S:g} s: {problem}"
                ) from None


def session_password(session_id: int) -> bytes:
    """Return the password of a ZooKeeper session: 16 bytes of Java's Random, seeded with the id and a constant."""
    seed = (session_id ^ _SUPER_SECRET ^ 0x5DEECE66D) & 0xFFFFFFFFFFFF
    password = b""
    for _ in range(4):
        seed = (seed * 0x5DEECE66D + 0xB) & 0xFFFFFFFFFFFF
        password += (seed >> 16).to_bytes(4, "little")
    return password
