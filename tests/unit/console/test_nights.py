"""What the nightly jobs did, as their own program tells it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from kafkalite.console.nights import Nights
from spark_jobs.batch import layout
from spark_jobs.batch.ledger import Ledger
from spark_jobs.batch.storage import LocalStorage
from tests.unit.clocks import HandClock
from tests.unit.spark_jobs.test_ledger import ENTRY


def test_the_ledger_is_read_and_what_it_says_is_kept_for_a_while(tmp_path: Path) -> None:
    folder = tmp_path / "nightly"
    folder.mkdir()
    Ledger(LocalStorage(folder), ENTRY.job).finish(ENTRY, 1)

    async def scenario() -> None:
        nights = Nights(str(folder), HandClock())
        found = await nights.rows()
        assert found["problem"] is None
        assert [(row["job"], row["topic"], row["state"]) for row in found["rows"]] == [
            (ENTRY.job, ENTRY.plan.topic, "done")
        ]
        (folder / "_ledger").rename(folder / "elsewhere")
        assert await nights.rows() == found, "it is not asked again at once"

    asyncio.run(scenario())


def test_a_ledger_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    storage.write(layout.done_file(ENTRY.job, ENTRY.plan.topic, ENTRY.plan.date), b"nonsense")

    async def scenario() -> None:
        found = await Nights(str(tmp_path), HandClock()).rows()
        assert found["rows"] == [] and "is no entry of the ledger" in found["problem"]

    asyncio.run(scenario())
