"""Prometheus' text format 0.0.4: families of samples as lines.

Written here because a page of many partitions must be made in portions: the Prometheus library makes it in one go, and needs ten
times as long for it (42 ms for 8,000 samples, in which the event loop would serve nobody). The tests read the pages with that library.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from kafkalite.histogram import Histogram
from kafkalite.portions import Work, with_pauses

T = TypeVar("T")

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_PORTION: Final = 250
"""Samples that are written before other work of the event loop: less than a millisecond."""

_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class Sample(NamedTuple):
    """`labels` as `label_text` writes them; `suffix` is added to the family's name."""

    labels: str
    value: float
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class Family:
    """One metric. `kind` is counter, gauge or histogram; a counter's name ends in `_total`. `samples` may be computed lazily.

    `old_name` is that of the same metric where Apache Kafka's JMX beans are exported in the usual way, so that dashboards made for
    them find it; the samples are repeated under it.
    """

    name: str
    kind: str
    help: str
    samples: Iterable[Sample]
    old_name: str | None = None


PAUSE: Final = Family("", "gauge", "", ())
"""No family: other work of the event loop is done before the next one is computed."""

_UNITS: Final = 2000
"""Units of work, of a microsecond or two, between two pauses."""


def finish_with_pauses(work: Work[T]) -> Generator[Family, None, T]:
    """Return the result of work on which families depend, with pauses while it is done."""
    return (yield from with_pauses(work, _UNITS, PAUSE))


def gauge(name: str, help: str, value: float, old_name: str | None = None) -> Family:
    return Family(name, "gauge", help, (Sample("", value),), old_name)


def counter(name: str, help: str, value: float, old_name: str | None = None) -> Family:
    return Family(name, "counter", help, (Sample("", value),), old_name)


def gauges(
    name: str, help: str, label: str, values: Iterable[tuple[object, float]], old_name: str | None = None
) -> Family:
    """Return a family with one sample for each value of `label`."""
    return Family(name, "gauge", help, [Sample(label_text(**{label: each}), value) for each, value in values], old_name)


def counters(name: str, help: str, label: str, values: Iterable[tuple[object, float]]) -> Family:
    """Return a family of counters with one sample for each value of `label`."""
    return Family(name, "counter", help, [Sample(label_text(**{label: each}), value) for each, value in values])


def label_text(**labels: object) -> str:
    """Return labels as text, such as `topic="t",partition="0"`."""
    return ",".join(f'{name}="{str(value).translate(_ESCAPES)}"' for name, value in labels.items())


def histogram_samples(histogram: Histogram, labels: str = "") -> list[Sample]:
    """Return buckets, sum and count of durations in seconds."""
    comma = "," if labels else ""
    samples = [
        Sample(f'{labels}{comma}le="{_number(bound)}"', count, "_bucket") for bound, count in histogram.cumulative()
    ]
    total = samples[-1].value
    return [*samples, Sample(labels, histogram.sum_s, "_sum"), Sample(labels, total, "_count")]


async def page(families: Iterable[Family]) -> bytes:
    """Return the whole page, made in portions. Families without samples are left out."""
    parts: list[str] = []
    for family in families:
        samples = iter(family.samples)
        portion = list(islice(samples, _PORTION))
        if not portion:
            await asyncio.sleep(0)
            continue
        again: list[str] = []
        parts.append(_head(family, family.name))
        while portion:
            parts += [_line(family.name, sample) for sample in portion]
            if family.old_name is not None:
                again += [_line(family.old_name, sample) for sample in portion]
            await asyncio.sleep(0)
            portion = list(islice(samples, _PORTION))
        if family.old_name is not None:
            parts += [_head(family, family.old_name), *again]
    return "".join(parts).encode()


def _head(family: Family, name: str) -> str:
    return f"# HELP {name} {_help(family.help)}\n# TYPE {name} {family.kind}\n"


def _line(name: str, sample: Sample) -> str:
    labels, value, suffix = sample
    braced = f"{{{labels}}}" if labels else ""
    return f"{name}{suffix}{braced} {value if type(value) is int else _number(value)}\n"


def _number(value: float) -> str:
    if value == float("inf"):
        return "+Inf"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def _help(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")
