"""Administration of SCRAM credentials of users (KIP-554). A part of `Admin`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from kafkalite.client.admin.calls import AdminCalls, Results, raise_failures
from kafkalite.client.errors import raise_error
from kafkalite.client.plain_values import PlainValues, with_known_fields
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.security.scram import MIN_ITERATIONS, ScramMechanism, salted_password

_SALT_BYTES: Final = 24


@dataclass(frozen=True, slots=True)
class ScramCredentialInfo(PlainValues):
    """What a broker tells of a credential: `mechanism` is "SCRAM-SHA-256" or "SCRAM-SHA-512"."""

    mechanism: str
    iterations: int


@with_known_fields
@dataclass(frozen=True, slots=True)
class ScramUpsertion:
    """A password for a user; what is sent is the salted password, never the password itself."""

    user: str
    mechanism: str
    password: str = field(repr=False)
    iterations: int = MIN_ITERATIONS
    salt: bytes = field(default_factory=lambda: os.urandom(_SALT_BYTES), repr=False)


@with_known_fields
@dataclass(frozen=True, slots=True)
class ScramDeletion:
    """The end of a user's credential."""

    user: str
    mechanism: str


class CredentialAdmin(AdminCalls):
    """Reads and alters the SCRAM credentials of users (KIP-554)."""

    async def describe_user_scram_credentials(
        self, users: Iterable[str] = ()
    ) -> dict[str, tuple[ScramCredentialInfo, ...]]:
        """Return the credentials of users, of all who have some by default; users without any are left out.

        AdminError, by user, where a broker could not tell.
        """
        m = messages.describe_user_scram_credentials_request
        what = "describing credentials"
        request = m.DescribeUserScramCredentialsRequest(users=[m.UserName(name=each) for each in users] or None)
        response = await self._ask(None, request, what)
        raise_error(response, what)
        answers = [each for each in response.results if each.error_code != ErrorCode.RESOURCE_NOT_FOUND]
        found = {
            each.user: tuple(
                ScramCredentialInfo(_mechanism_name(info.mechanism), info.iterations) for info in each.credential_infos
            )
            for each in answers
            if not each.error_code
        }
        raise_failures("credentials of", ((each.user, each) for each in answers), found)
        return found

    async def alter_user_scram_credentials(self, changes: Iterable[ScramUpsertion | ScramDeletion]) -> None:
        """Set and delete credentials; all changes of a user are made, or none.

        ValueError for an unknown mechanism; AdminError, by user, with UNACCEPTABLE_CREDENTIAL, RESOURCE_NOT_FOUND, DUPLICATE_RESOURCE
        for those that failed.
        """
        m = messages.alter_user_scram_credentials_request
        deletions, upsertions = [], []
        for change in changes:
            mechanism = scram_mechanism(change.mechanism)
            if isinstance(change, ScramDeletion):
                deletions.append(m.ScramCredentialDeletion(name=change.user, mechanism=mechanism))
                continue
            salted = salted_password(mechanism, change.password, change.salt, change.iterations)
            upsertions.append(
                m.ScramCredentialUpsertion(
                    name=change.user,
                    mechanism=mechanism,
                    iterations=change.iterations,
                    salt=change.salt,
                    salted_password=salted,
                )
            )
        results = Results("credentials of")

        async def attempt() -> None:
            request = m.AlterUserScramCredentialsRequest(
                deletions=[each for each in deletions if results.lacks(each.name)],
                upsertions=[each for each in upsertions if results.lacks(each.name)],
            )
            response = await self._ask_controller(request)
            results.record_answers((answer.user, answer, None) for answer in response.results)

        await self._retrying(attempt, "changing credentials")
        results.raise_failures()


def scram_mechanism(name: str) -> ScramMechanism:
    """Return the mechanism of a name such as "SCRAM-SHA-256". ValueError."""
    for each in ScramMechanism:
        if each.config_key == name:
            return each
    raise ValueError(f"no SCRAM mechanism {name!r}; there are {', '.join(each.config_key for each in ScramMechanism)}")


def _mechanism_name(number: int) -> str:
    """Return a mechanism's name, or its number: a newer broker may know more mechanisms."""
    return next((each.config_key for each in ScramMechanism if each == number), f"mechanism {number}")
