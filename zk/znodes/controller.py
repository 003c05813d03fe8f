"""`/controller`, `/controller_epoch` and `/migration`: who the controller is, how many there were, and how far KRaft has taken over."""

from __future__ import annotations

from dataclasses import dataclass

from zk.znodes.fields import Fields, MalformedZnodeError, to_json

_EPOCH_MAX = 2**31 - 1
_EPOCH_DIGITS = 10


@dataclass(frozen=True, slots=True)
class ControllerSeat:
    """The ephemeral `/controller`. Version 2 is written; version 1 (to 3.3) lacks `kraft_controller_epoch`.

    A `kraft_controller_epoch` other than -1 means that a KRaft controller owns the cluster (KIP-866).
    """

    broker_id: int
    timestamp_ms: int
    kraft_controller_epoch: int = -1

    @property
    def is_of_kraft(self) -> bool:
        return self.kraft_controller_epoch >= 0

    def encode(self) -> bytes:
        return to_json(
            {
                "version": 2,
                "brokerid": self.broker_id,
                "timestamp": str(self.timestamp_ms),
                "kraftControllerEpoch": self.kraft_controller_epoch,
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> ControllerSeat:
        """Raises MalformedZnodeError when the broker id is missing."""
        fields = Fields.parse("controller", data)
        return cls(
            fields.integer("brokerid"),
            fields.integer_text("timestamp") if fields.has("timestamp") else -1,
            fields.integer("kraftControllerEpoch", -1),
        )


@dataclass(frozen=True, slots=True)
class ControllerEpoch:
    """The persistent `/controller_epoch`: an ASCII integer; the first controller ever has epoch 1."""

    epoch: int

    def encode(self) -> bytes:
        return b"%d" % self.epoch

    @classmethod
    def decode(cls, data: bytes) -> ControllerEpoch:
        """Raises MalformedZnodeError when it is no integer, or one after which no other could be written."""
        if not data.isdigit() or len(data) > _EPOCH_DIGITS or not 0 <= (epoch := int(data)) < _EPOCH_MAX:
            raise MalformedZnodeError("controller epoch", f"{data[:80]!r} is no epoch")
        return cls(epoch)


@dataclass(frozen=True, slots=True)
class KraftMigration:
    """The persistent `/migration` of a move from ZooKeeper to KRaft (KIP-866), which KRaft controllers alone write. Version 0.

    `metadata_offset` is how far the metadata log has been written back to ZooKeeper; above 0, all of ZooKeeper's metadata was copied.
    """

    controller_id: int
    controller_epoch: int
    metadata_offset: int
    metadata_epoch: int

    @classmethod
    def decode(cls, data: bytes) -> KraftMigration:
        """Raises MalformedZnodeError for another version, or when something is missing."""
        fields = Fields.parse("migration", data)
        fields.version(0, 0)
        return cls(
            fields.integer("kraft_controller_id"),
            fields.integer("kraft_controller_epoch"),
            fields.integer("kraft_metadata_offset", bits=64),
            fields.integer("kraft_metadata_epoch"),
        )
