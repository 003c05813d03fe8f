"""How `kafkalite console` refuses to begin."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from kafkalite.cli.console import _access
from tests.unit.cli.test_commands import call


def test_nobody_looks_from_elsewhere_without_a_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments, environment, told in (
        ((), {}, "name who may look"),
        ((), {"KAFKALITE_CONSOLE_USER": "ann"}, "belong together"),
        (("--users-file", str(tmp_path / "absent")), {}, "--users-file"),
    ):
        with monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            result = call("console", "--host", "0.0.0.0", *arguments)
        assert result.exit_code == 2 and told in result.stderr


def test_a_console_that_others_reach_only_reads(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("ann:secret\n")
    users.chmod(0o600)
    for host, wanted, is_read_only in (
        ("127.0.0.1", None, False),
        ("127.0.0.1", True, True),
        ("0.0.0.0", None, True),
        ("0.0.0.0", False, False),
    ):
        assert _access(host, (), str(users), wanted).read_only is is_read_only


def test_what_cannot_be_served_is_told_with_its_remedy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = call("console", "--port", str(taken.getsockname()[1]))
    assert result.exit_code == 1 and "cannot bind 127.0.0.1:" in result.stderr and "--port" in result.stderr
    result = call("console", "--schema-registry", "nonsense")
    assert result.exit_code == 2 and "http://" in result.stderr


def test_a_cluster_that_is_away_ends_it() -> None:
    with socket.socket() as held:  # nobody listens there, and nobody else takes it
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        result = call("console", "--port", "0", "-b", f"127.0.0.1:{port}")
    assert result.exit_code == 5 and str(port) in result.stderr
