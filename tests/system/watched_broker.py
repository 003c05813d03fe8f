"""`python watched_broker.py --config FILE`: a broker whose packets and whose neighbours' silences can be told.

It runs with the group `network.group_of(its id)`. Each silence of a neighbour that then was heard of, as its failure detector counts
it, is a line in FILE.silences when it was longer than `NOTED_MS`: the time, the neighbour, its broker epoch, and milliseconds.
"""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path
from typing import Any, Final

from kafkalite.broker.failure_detection.detector import FailureDetector
from kafkalite.cli.main import main
from tests.system.network import group_of

NOTED_MS: Final = 400.0


def _note_silences(path: Path) -> None:
    heard = FailureDetector.note_sign_of_life

    def note(self: Any, broker: int, broker_epoch: int, incarnation: bytes, now_ms: float, *, answered: bool) -> Any:
        known = self._neighbours.get(broker)
        if known is not None and known.broker_epoch == broker_epoch and now_ms - known.last_sign_ms > NOTED_MS:
            with path.open("a") as file:
                file.write(f"{time.time():.3f} {broker} {broker_epoch} {now_ms - known.last_sign_ms:.0f}\n")
        return heard(self, broker, broker_epoch, incarnation, now_ms, answered=answered)

    FailureDetector.note_sign_of_life = note  # type: ignore[method-assign]


if __name__ == "__main__":
    config = Path(sys.argv[sys.argv.index("--config") + 1])
    named = re.fullmatch(r"broker-(\d+)\.properties", config.name)
    assert named is not None, config
    os.setgid(group_of(int(named[1])))
    _note_silences(config.with_suffix(".silences"))
    sys.argv.insert(1, "broker")
    main()
