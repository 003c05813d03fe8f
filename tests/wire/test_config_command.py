"""`kafkalite config` for users that have SCRAM credentials, which lie in the same znode as their quotas."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from kafkalite.cli.main import main

pytestmark = pytest.mark.wire

TIMEOUT_S = 30
MECHANISM = ScramMechanism.SCRAM_SHA_256


def config(servers: str, *arguments: str) -> list[dict[str, Any]]:
    asked = ["config", *arguments, "--bootstrap-server", servers, "-o", "json"]
    result = CliRunner().invoke(main, asked)
    assert result.exit_code == 0, result.output
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return found


def test_quotas_come_and_go_and_credentials_stay(servers: str, admin: AdminClient) -> None:
    user = f"user-{uuid.uuid4()}"

    def alter(change: Any) -> None:
        admin.alter_user_scram_credentials([change], request_timeout=TIMEOUT_S)[user].result(TIMEOUT_S)

    alter(UserScramCredentialUpsertion(user, ScramCredentialInfo(MECHANISM, 4096), b"secret"))
    assert config(servers, "describe", "--user", user) == [], "credentials are no quotas"
    config(servers, "set", "producer_byte_rate=5", "--user", user)
    assert [(each["name"], each["value"]) for each in config(servers, "describe", "--user", user)] == [
        ("producer_byte_rate", 5.0)
    ]
    config(servers, "delete", "producer_byte_rate", "--user", user)
    assert config(servers, "describe", "--user", user) == []
    described = admin.describe_user_scram_credentials([user], request_timeout=TIMEOUT_S)[user].result(TIMEOUT_S)
    assert [(each.mechanism, each.iterations) for each in described.scram_credential_infos] == [(MECHANISM, 4096)]
    alter(UserScramCredentialDeletion(user, MECHANISM))
