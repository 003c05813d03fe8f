"""The states of a broker with Kafka's numbers (KafkaServer's BrokerState)."""

from __future__ import annotations

from enum import IntEnum


class BrokerState(IntEnum):
    """In the order of a broker's life. The parts of a broker are there from RUNNING on."""

    NOT_RUNNING = 0
    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7
