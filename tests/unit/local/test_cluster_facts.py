"""Passwords of ZooKeeper sessions, against those that a server gave out."""

from __future__ import annotations

import pytest

from kafkalite.local.cluster_facts import session_password

GIVEN_BY_A_SERVER = {
    0x100003A9BCF0000: "03fe67f7d40ad75619e0baa83d299697",
    0x100003A9BCF0001: "161f62f77456b69b0e2322d411b2aa64",
    0x100003A9BCF0002: "ddbb73f7947318cd2f5aec5196176dfd",
}


@pytest.mark.parametrize("session_id", GIVEN_BY_A_SERVER)
def test_session_password_is_the_servers(session_id: int) -> None:
    assert session_password(session_id).hex() == GIVEN_BY_A_SERVER[session_id]
