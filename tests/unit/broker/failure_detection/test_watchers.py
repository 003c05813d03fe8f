"""Who is asked before a session is ended, and what their answers are worth."""

from __future__ import annotations

import pytest

from kafkalite.broker.failure_detection import watchers
from kafkalite.broker.failure_detection.watchers import Watchers, _Answer
from kafkalite.testing.simulation import virtual_time

HEARD, NOT_HEARD, LOST, FOREIGN = _Answer.HEARD, _Answer.NOT_HEARD, _Answer.NOT_REACHED, _Answer.NOT_OURS


class Answering(Watchers):
    """Asks brokers whose answers are given; `asked` has them in order."""

    def __init__(self, answers: dict[int, watchers._Answer]) -> None:
        self.answers, self.asked = answers, list[int]()

    async def _ask(self, watcher: int, broker: int, broker_epoch: int) -> watchers._Answer:
        self.asked.append(watcher)
        return self.answers[watcher]


@pytest.mark.parametrize(
    ("answers", "deniers", "wanted", "asked"),
    [
        ({}, {2, 3, 4}, True, []),
        ({4: NOT_HEARD}, {2, 3}, True, [4]),
        ({4: HEARD}, {2, 3}, False, [4]),
        ({3: LOST, 4: LOST, 5: NOT_HEARD, 6: NOT_HEARD}, {2}, True, [3, 4, 5, 6]),
        ({3: LOST, 4: LOST, 5: NOT_HEARD, 6: LOST}, {2}, False, [3, 4, 5, 6]),
        ({3: LOST, 4: LOST, 5: NOT_HEARD, 6: HEARD}, {2}, False, [3, 4, 5, 6]),
        ({3: FOREIGN, 4: FOREIGN}, {2}, True, [3, 4]),
    ],
    ids=[
        "all have said so",
        "the last one says so",
        "one hears",
        "cluster says so",
        "halves",
        "one far away hears",
        "mixed",
    ],
)
def test_nobody_hears_it_and_enough_say_so(
    answers: dict[int, watchers._Answer], deniers: set[int], wanted: bool, asked: list[int]
) -> None:
    """Broker 1 asks about broker 9, which 2, 3 and 4 watch, too; 5 and 6 do not."""
    target = Answering(answers)
    others = [2, 3, 4, 5, 6]
    confirmed = virtual_time.run(target.confirm(9, 70, watchers=[2, 3, 4], others=others, deniers=deniers))
    assert confirmed is wanted and target.asked == asked
