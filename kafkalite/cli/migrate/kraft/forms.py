"""The forms that a server passes through on its way from ZooKeeper to KRaft and Apache Kafka 4. Pure.

A form shows in a server's own answers: `process.roles` and `zookeeper.metadata.migration.enable` among its settings, and that 4.0 has
dropped the versions of Fetch before 4 (KIP-896).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

MIGRATION_ENABLE: Final = "zookeeper.metadata.migration.enable"
PROCESS_ROLES: Final = "process.roles"
_OLDEST_FETCH_OF_4: Final = 4


class Role(StrEnum):
    """What a server is."""

    BROKER = "broker"
    CONTROLLER = "controller"


class Form(StrEnum):
    """How a server runs, in the order of the migration. Controllers begin with `MIGRATION`."""

    ZOOKEEPER = "zookeeper"
    MIGRATION = "migration"
    KRAFT = "kraft"
    KAFKA_4 = "kafka-4"

    @property
    def place(self) -> int:
        """Return the position in the order of the migration."""
        return list(Form).index(self)


FORM_NAMES: Final[Mapping[Form, str]] = {
    Form.ZOOKEEPER: "a server on ZooKeeper",
    Form.MIGRATION: "a server in migration mode",
    Form.KRAFT: "a server on KRaft, out of migration mode",
    Form.KAFKA_4: "a server of Apache Kafka 4",
}


def judge_form(settings: Mapping[str, str | None], oldest_fetch: int, role: Role) -> Form:
    """Return the form of a server with these settings. `oldest_fetch` is the lowest version of Fetch that it speaks."""
    roles = (settings.get(PROCESS_ROLES) or "").split(",")
    if role in roles and oldest_fetch >= _OLDEST_FETCH_OF_4:
        return Form.KAFKA_4
    is_migrating = (settings.get(MIGRATION_ENABLE) or "").lower() == "true"
    if role in roles and (role is Role.BROKER or not is_migrating):
        return Form.KRAFT
    return Form.MIGRATION if is_migrating else Form.ZOOKEEPER


def find_form_before(form: Form, role: Role) -> Form | None:
    """Return the form that a server goes back to; None where there is no way back: a controller that has left migration mode."""
    if form is Form.ZOOKEEPER or (role is Role.CONTROLLER and form is not Form.KAFKA_4):
        return None
    return list(Form)[form.place - 1]
