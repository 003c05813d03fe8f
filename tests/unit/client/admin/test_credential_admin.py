"""SCRAM credentials: what is asked, and what becomes of the answers."""

from __future__ import annotations

import hashlib

import pytest

from kafkalite.client import AdminError, ScramCredentialInfo, ScramDeletion, ScramUpsertion
from kafkalite.client.errors import ClientError
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from tests.unit.client.admin.test_partition_admin import ask
from tests.unit.client.fake_broker import FakeCluster


def described(*results: tuple[str, int, dict[int, int]], code: int = 0) -> object:
    m = messages.describe_user_scram_credentials_response
    return m.DescribeUserScramCredentialsResponse(
        error_code=code,
        results=[
            m.DescribeUserScramCredentialsResult(
                user=user,
                error_code=error,
                credential_infos=[m.CredentialInfo(mechanism=each, iterations=n) for each, n in infos.items()],
            )
            for user, error, infos in results
        ],
    )


def altered(**codes: int) -> object:
    m = messages.alter_user_scram_credentials_response
    return m.AlterUserScramCredentialsResponse(
        results=[
            m.AlterUserScramCredentialsResult(user=user, error_code=code, error_message="why")
            for user, code in codes.items()
        ]
    )


def test_users_without_credentials_are_left_out() -> None:
    cluster = FakeCluster({})
    cluster.script[ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS].append(
        described(("ann", 0, {1: 4096, 2: 8192, 9: 1}), ("bob", ErrorCode.RESOURCE_NOT_FOUND, {}))
    )
    found = ask(cluster, lambda admin: admin.describe_user_scram_credentials(["ann", "bob"]))
    assert found == {
        "ann": (
            ScramCredentialInfo("SCRAM-SHA-256", 4096),
            ScramCredentialInfo("SCRAM-SHA-512", 8192),
            ScramCredentialInfo("mechanism 9", 1),
        )
    }
    assert found["ann"][0].to_dict() == {"mechanism": "SCRAM-SHA-256", "iterations": 4096}
    (request,) = cluster.requests_of(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)
    assert [each.name for each in request.users] == ["ann", "bob"]


def test_what_cannot_be_described() -> None:
    cluster = FakeCluster({})
    cluster.script[ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS] += [
        described(("ann", ErrorCode.UNKNOWN_SERVER_ERROR, {}), ("bob", 0, {1: 4096})),
        described(code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    ]
    with pytest.raises(AdminError) as caught:
        ask(cluster, lambda admin: admin.describe_user_scram_credentials())
    assert list(caught.value.failures) == ["ann"]
    with pytest.raises(ClientError, match="not authorized for the cluster"):
        ask(cluster, lambda admin: admin.describe_user_scram_credentials())


def test_the_salted_password_is_sent_to_the_controller() -> None:
    cluster = FakeCluster({})
    cluster.script[ApiKey.ALTER_USER_SCRAM_CREDENTIALS] += [
        altered(ann=ErrorCode.NOT_CONTROLLER, bob=ErrorCode.NOT_CONTROLLER),
        altered(ann=0, bob=ErrorCode.RESOURCE_NOT_FOUND),
    ]
    wanted = ScramUpsertion("ann", "SCRAM-SHA-512", "secret", 5000, b"salt")
    assert "secret" not in repr(wanted)
    with pytest.raises(AdminError) as caught:
        ask(cluster, lambda admin: admin.alter_user_scram_credentials([wanted, ScramDeletion("bob", "SCRAM-SHA-256")]))
    assert list(caught.value.failures) == ["bob"]
    request = cluster.requests_of(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)[-1]
    (upsertion,), (deletion,) = request.upsertions, request.deletions
    assert (upsertion.name, upsertion.mechanism, upsertion.iterations, upsertion.salt) == ("ann", 2, 5000, b"salt")
    assert upsertion.salted_password == hashlib.pbkdf2_hmac("sha512", b"secret", b"salt", 5000)
    assert (deletion.name, deletion.mechanism) == ("bob", 1)


def test_mechanisms_that_are_none() -> None:
    with pytest.raises(ValueError, match="no SCRAM mechanism"):
        ask(FakeCluster({}), lambda admin: admin.alter_user_scram_credentials([ScramDeletion("ann", "PLAIN")]))
