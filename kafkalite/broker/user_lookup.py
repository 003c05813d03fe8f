"""SCRAM credentials of a user who authenticates: read from ZooKeeper each time, so that who is revoked cannot come back for a moment."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping

from kafkalite.broker.quota_znodes import entity_path
from kafkalite.broker.quotas import QuotaEntity
from kafkalite.broker.user_credentials import credentials_in
from kafkalite.security.sasl_server import SaslMalformed
from kafkalite.security.scram import ScramCredential, ScramMechanism
from zk import paths
from zk.store import StoreError

logger = logging.getLogger("kafkalite.broker.user_lookup")


class UserCredentials:
    """See the module. `read(path)` gives the settings in a znode of configuration, empty when there is none."""

    def __init__(self, read: Callable[[str], Awaitable[Mapping[str, str]]]) -> None:
        self._read = read

    async def find(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        """What is kept of the user's password; None without any. SaslMalformed when it cannot be found out."""
        try:
            return credentials_in(await self._read(paths.config(entity_path(QuotaEntity(user))))).get(mechanism)
        except ValueError as problem:
            logger.error("the credentials of a user cannot be read: %s", problem)
            raise SaslMalformed("the credentials cannot be read") from None
        except StoreError as problem:
            logger.warning("credentials could not be looked up: %s", problem)
            raise SaslMalformed("the credentials could not be looked up") from None
