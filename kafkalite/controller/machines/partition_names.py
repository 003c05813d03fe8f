"""How lines of the state-change trace name partitions: a line for each of few, a line for many that change together.

A broker's death changes a hundred thousand partitions, most of which end in a few states. A line for each would take as long as the changes
themselves. Every partition is named in either form, `partition=t-0` or `partitions=t-0,t-1`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kafkalite.types import TopicPartition

ONE_BY_ONE: Final = 100
"""Changes at once up to which each has a line."""
_NAMES_CHARACTERS: Final = 3_000
"""Names in one line, which is cut where it is written if it is longer than 4,000 characters (`log_output`)."""


def name_partitions(partitions: Sequence[TopicPartition]) -> Iterator[str]:
    """Yield the names of partitions, as many together as a line may have, each time with the key before them."""
    if len(partitions) == 1:
        yield f"partition={partitions[0]}"
        return
    names = [str(partition) for partition in partitions]
    together = max(1, _NAMES_CHARACTERS // (max(map(len, names)) + 1))
    for first in range(0, len(names), together):
        some = names[first : first + together]
        yield f"partition{'s' if len(some) > 1 else ''}={','.join(some)}"
