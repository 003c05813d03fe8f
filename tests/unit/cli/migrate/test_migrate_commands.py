"""What the commands of `kafkalite migrate` refuse before, and without, a cluster."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kafkalite.cli.main import main
from kafkalite.cli.migrate.evidence import AFTER_FILE, BEFORE_FILE, Moment, write_moment
from kafkalite.cli.migrate.plan import Plan, PlannedStep
from kafkalite.cli.migrate.stepping import _Cluster
from kafkalite.cli.migrate.survey import Side

STEPS = tuple(PlannedStep(each, f"b{each}:9092", "Apache Kafka 3.9", False, ()) for each in (2, 3))
PLAN = Plan("id", Side.KAFKALITE, datetime(2026, 11, 26, tzinfo=UTC), {}, (), (), STEPS)


def migrate(*words: str) -> Result:
    return CliRunner().invoke(main, ["migrate", *words])


@pytest.mark.parametrize("left", ["plan.toml.journal", "plan.toml.evidence"])
def test_a_plan_is_not_made_beside_what_an_earlier_one_left(tmp_path: Path, left: str) -> None:
    (tmp_path / left).mkdir()
    result = migrate("plan", str(tmp_path / "plan.toml"), "-b", "127.0.0.1:1")
    assert result.exit_code == 4 and f"{left} exists" in result.stderr


def test_evidence_of_another_cluster_proves_nothing(tmp_path: Path) -> None:
    for name, taken_ms in ((BEFORE_FILE, 1), (AFTER_FILE, 2)):
        write_moment(tmp_path / name, Moment(taken_ms, "other", {}, {}, {}))
    assert _Cluster(PLAN, "").audit_evidence(tmp_path) == [f"{tmp_path} is of cluster other, the plan is for id"]
