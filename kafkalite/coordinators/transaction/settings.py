"""The settings of transaction coordinators, under the names of Kafka's broker keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkalite.config.broker import BrokerConfig


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """Durations in ms."""

    id_expiration_ms: int = 604_800_000
    abort_timed_out_interval_ms: int = 10_000
    remove_expired_interval_ms: int = 3_600_000

    @classmethod
    def from_config(cls, config: BrokerConfig) -> TransactionSettings:
        return cls(
            id_expiration_ms=config.transactional_id_expiration_ms,
            abort_timed_out_interval_ms=config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
            remove_expired_interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
        )
