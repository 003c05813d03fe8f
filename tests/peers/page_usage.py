"""Commands of ours in the blocks of a page, held against the options that there are."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Final

from deploy.docs.blocks import Block
from tests.deploy.test_docs_blocks import check_usage

_VARIABLES: Final = {"$CONTROLLERS": "3001@kafka-3001:9093"}


def check_commands(blocks: Iterable[Block]) -> int:
    """Return how many commands begin a line of the blocks. Raises click's UsageError for one that there is not."""
    lines = [line.strip() for block in blocks for line in block.text.splitlines()]
    said = [line.partition(" > ")[0] for line in lines if line.startswith("kafkalite ")]
    for line in said:
        check_usage([_VARIABLES.get(each, each) for each in shlex.split(line, comments=True)[1:]])
    return len(said)
