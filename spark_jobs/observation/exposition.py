"""Prometheus' text format 0.0.4 for the few samples of a run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_LABEL_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class Sample(NamedTuple):
    """`suffix` is added to the name of the family: those of a histogram have one."""

    labels: Mapping[str, str]
    value: float
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class Family:
    """A metric with all its samples."""

    name: str
    kind: Literal["gauge", "histogram"]
    help: str
    samples: tuple[Sample, ...]


def write_families(families: Iterable[Family]) -> str:
    """Return the families as text, without those that have no samples."""
    lines = []
    for family in families:
        if family.samples:
            lines += [f"# HELP {family.name} {family.help}", f"# TYPE {family.name} {family.kind}"]
            lines += [_write_sample(family.name, sample) for sample in family.samples]
    return "".join(f"{line}\n" for line in lines)


def _write_sample(name: str, sample: Sample) -> str:
    return f"{name}{sample.suffix}{{{label_text(sample.labels)}}} {sample.value!r}"


def label_text(labels: Mapping[str, str]) -> str:
    """Return labels as text, such as `topic="t",partition="0"`."""
    return ",".join(f'{name}="{text.translate(_LABEL_ESCAPES)}"' for name, text in labels.items())


def find_value(text: str, name: str, labels: Mapping[str, str]) -> float | None:
    """Return the value of a sample in a text that `write_families` has made; None where it is not there."""
    found = re.search(rf"^{re.escape(f'{name}{{{label_text(labels)}}}')} (\S+)$", text, re.MULTILINE)
    try:
        return float(found[1]) if found else None
    except ValueError:
        return None
