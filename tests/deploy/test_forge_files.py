"""Workflows and templates of the forge: their schemas accept them, and what they call is there."""

from __future__ import annotations

import configparser
import re
import subprocess
import sys

import pytest
import yaml

from deploy.docs.staging import ROOT

FORGE = ROOT / ".github"


@pytest.mark.parametrize(
    ("schema", "pattern", "count"),
    [
        ("vendor.github-workflows", "workflows/*.yml", 2),
        ("vendor.github-issue-forms", "ISSUE_TEMPLATE/[!c]*.yml", 2),
        ("vendor.github-issue-config", "ISSUE_TEMPLATE/config.yml", 1),
    ],
)
def test_the_forges_schemas_accept_the_files(schema: str, pattern: str, count: int) -> None:
    files = sorted(FORGE.glob(pattern))
    assert len(files) == count
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *files]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout


def test_checks_run_on_every_python_that_the_metadata_names() -> None:
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg")
    named = re.findall(
        r"^Programming Language :: Python :: (3\.\d+)$", settings["metadata"]["classifiers"], re.MULTILINE
    )
    jobs = yaml.safe_load((FORGE / "workflows" / "checks.yml").read_text())["jobs"]
    assert jobs["fast"]["strategy"]["matrix"]["python"] == named == ["3.11", "3.12", "3.13", "3.14"]


def test_what_workflows_call_is_there() -> None:
    text = "".join(path.read_text() for path in (FORGE / "workflows").glob("*.yml"))
    called = re.findall(r"(?:^|\s)\./([\w./-]+)", text)
    assert set(called) == {"deploy/test", "deploy/release", ".ci/run"}
    assert all((ROOT / each).stat().st_mode & 0o111 for each in called)
