"""`deploy/stages.sh`: what `./deploy/test` says at its end, and its exit status."""

from __future__ import annotations

import subprocess
from pathlib import Path

STAGES = Path(__file__).parents[2] / "deploy" / "stages.sh"
BEGINNING = f"""
set -eu
say() {{ printf '%s\\n' "$*"; }}
stop_docker() {{ :; }}
began_s=$(($(date +%s) - 100))
. {STAGES}
"""


def run(script: str) -> tuple[int, list[str]]:
    """The exit status and the lines that were printed."""
    done = subprocess.run(["sh", "-c", BEGINNING + script], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


def test_the_last_line_tells_how_long_it_took() -> None:
    status, lines = run("check first true\nfinish\n")
    assert status == 0
    took_s = int(lines[-1].removeprefix("deploy/test: all checks passed in ").removesuffix(" s"))
    assert 100 <= took_s < 160


def test_a_check_that_fails_is_named_and_does_not_stop_the_others() -> None:
    status, lines = run(
        """
        one() { check "wrong" sh -c 'echo seen; exit 3'; check "right" true; }
        two() { check "beside" true; }
        side_by_side one two
        check "later" true
        finish
        """
    )
    assert status == 1 and lines[-1].startswith("deploy/test: FAILED after ") and lines[-1].endswith(": wrong")
    assert "seen" in lines
    said = {each.split(" after ")[0] for each in lines}
    assert {"== wrong FAILED with status 3", "== right passed", "== beside passed", "== later passed"} <= said
