"""`python -m deploy.docs.drawings` draws the pictures of the documentation again; `--check` only says which are not what would be drawn."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from deploy.docs.drawings import architecture, beside_kafka, hero, recording, timeline, waits
from deploy.docs.drawings.facts import ROOT

PICTURES: Final = ROOT / "deploy" / "docs" / "pictures"
DRAWN: Final[Mapping[str, Callable[[], str]]] = {
    "architecture.svg": architecture.draw,
    "beside-kafka.svg": beside_kafka.draw,
    "election.svg": timeline.draw,
    "first-minute.svg": recording.draw,
    "hero.svg": hero.draw,
    "single-record.svg": waits.draw,
}


def find_stale() -> list[Path]:
    """Return the pictures that are missing, or are not what would be drawn now."""
    return [
        path
        for path, draw in ((PICTURES / name, draw) for name, draw in DRAWN.items())
        if not path.exists() or path.read_text() != draw()
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m deploy.docs.drawings", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 when a picture is not up to date"
    )
    check = parser.parse_args().check
    stale = find_stale()
    for path in stale:
        if not check:
            path.write_text(DRAWN[path.name]())
        print(f"{'not up to date' if check else 'written'}: {path.relative_to(ROOT)}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
