"""A user's program is checked by mypy with the types of the client."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_a_program_of_a_user_is_typed() -> None:
    program = Path(__file__).with_name("typed_program.py")
    done = subprocess.run([sys.executable, "-m", "mypy", str(program)], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
