"""A file that cannot be used is told with the option that named it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkalite.cli.main import main


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("topic list -b a:1 --command-config FILE", "--command-config"),
        ("broker --config FILE", "--config"),
        ("zk run --config FILE", "--config"),
        ("doctor --config FILE --only zookeeper", "--config"),
        ("config alter --topic t --file FILE", "--file"),
        ("perf produce t --payload-file FILE", "--payload-file"),
        ("record delete --file FILE --yes", "--file"),
        ("group reset-offsets g --from-file FILE --execute", "--from-file"),
        ("partition reassign execute --file FILE --yes", "--file"),
        ("console -b a:1 --users-file FILE", "--users-file"),
        ("zk serve --data-dir FILE", "--data-dir"),
        ("cluster up --brokers 1 --data-dir FILE", "--data-dir"),
    ],
)
def test_the_option_is_named(command: str, option: str) -> None:
    file = "/proc/nothing/there"  # nobody can make it, root neither
    result = CliRunner().invoke(main, command.replace("FILE", file).split())
    assert result.exit_code != 0 and isinstance(result.exception, SystemExit)
    assert any(option in line and file in line for line in (result.output + result.stderr).splitlines())


def test_the_variable_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKALITE_CONFIG", str(tmp_path))
    result = CliRunner().invoke(main, ["topic", "list", "-b", "a:1"])
    assert result.exit_code == 2 and f"KAFKALITE_CONFIG: {tmp_path}: it cannot be read" in result.stderr
