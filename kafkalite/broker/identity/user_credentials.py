"""Which changes of SCRAM credentials are allowed, and what becomes of a user's settings by them (KIP-554). Pure.

A user is changed as a whole or not at all. Who is refused for the form of what is asked (no name, no such mechanism, too few or too many
iterations) is refused before anything is looked up; then who is named twice with one mechanism; then who has not what shall go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.portions import Work
from kafkalite.security.scram import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    ScramCredential,
    ScramMechanism,
    credential_of,
)

if TYPE_CHECKING:
    from kafkalite.protocol.messages import alter_user_scram_credentials_request as m

NO_USER_NAME: Final = "Username must not be empty"
_MECHANISMS: Final = {int(each): each for each in ScramMechanism}


@dataclass(frozen=True, slots=True)
class CredentialChange:
    """The change of one user's credentials."""

    deleted: list[ScramMechanism] = field(default_factory=list)
    set: dict[ScramMechanism, ScramCredential] = field(default_factory=dict)

    def apply(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Return the user's settings after the change; other settings stay. Raises KafkaError RESOURCE_NOT_FOUND."""
        changed = dict(settings)
        for mechanism in self.deleted:
            if changed.pop(mechanism.config_key, None) is None:
                raise KafkaError(
                    ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
                )
        changed.update({mechanism.config_key: credential.encode() for mechanism, credential in self.set.items()})
        return changed


def users_of(request: m.AlterUserScramCredentialsRequest) -> list[str]:
    """Return the users that a request names, each once."""
    return list(dict.fromkeys(each.name for each in _items(request)))


def judge(
    request: m.AlterUserScramCredentialsRequest,
) -> Work[tuple[dict[str, KafkaError], dict[str, CredentialChange]]]:
    """Return the refusals, and the changes of the other users, by the names of users."""
    refused: dict[str, KafkaError] = {}
    for each in _items(request):
        yield
        problem = _find_problem(each)
        if problem is not None:
            refused[each.name] = problem
    counts = Counter((each.name, each.mechanism) for each in _items(request) if each.name not in refused)
    for (user, _), count in counts.items():
        yield
        if count > 1:
            message = "A user credential cannot be altered twice in the same request"
            refused[user] = KafkaError(ErrorCode.DUPLICATE_RESOURCE, message)
    changes = {user: CredentialChange() for user in users_of(request) if user not in refused}
    for deletion in request.deletions:
        yield
        if deletion.name in changes:
            changes[deletion.name].deleted.append(_MECHANISMS[deletion.mechanism])
    for upsertion in request.upsertions:
        yield
        if upsertion.name in changes:
            mechanism = _MECHANISMS[upsertion.mechanism]
            changes[upsertion.name].set[mechanism] = credential_of(
                mechanism, upsertion.salted_password, upsertion.salt, upsertion.iterations
            )
    return refused, changes


def _items(request: m.AlterUserScramCredentialsRequest) -> Iterable[Any]:
    return (*request.upsertions, *request.deletions)


def _find_problem(item: Any) -> KafkaError | None:
    """Return why an upsertion or deletion is refused whatever is stored, None if it is not."""
    if not item.name:
        return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, NO_USER_NAME)
    if item.mechanism not in _MECHANISMS:
        return KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    iterations = getattr(item, "iterations", None)
    if iterations is None:
        return None
    if iterations < MIN_ITERATIONS:
        return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if iterations > MAX_ITERATIONS:
        return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if not item.salted_password:
        return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Salted password must not be empty")
    return None


def credentials_in(settings: Mapping[str, str]) -> dict[ScramMechanism, ScramCredential]:
    """Return the credentials among a user's settings. Raises ValueError if one of them cannot be read."""
    return {
        mechanism: ScramCredential.decode(settings[mechanism.config_key])
        for mechanism in ScramMechanism
        if mechanism.config_key in settings
    }
