"""All that can be fuzzed, by name."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.brokers import Brokers
from tests.fuzz.commands import Commands
from tests.fuzz.engine import Target
from tests.fuzz.files import Checkpoints, Logs
from tests.fuzz.messages import Requests, Responses
from tests.fuzz.record_batches import RecordBatches
from tests.fuzz.texts import CommandLines, Properties, Znodes
from tests.fuzz.tools import Tools

TARGETS: dict[str, Callable[[], Target]] = {
    each.name: each
    for each in (
        Brokers,
        Requests,
        Responses,
        RecordBatches,
        Checkpoints,
        Logs,
        Znodes,
        Properties,
        CommandLines,
        Commands,
        Tools,
    )
}
