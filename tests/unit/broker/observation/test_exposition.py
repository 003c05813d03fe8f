"""Pages as Prometheus' own parser reads them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kafkalite.broker.observation import exposition
from kafkalite.broker.observation.exposition import (
    Family,
    Sample,
    counter,
    finish_with_pauses,
    gauge,
    histogram_samples,
    label_text,
)
from kafkalite.histogram import Histogram
from kafkalite.portions import idle_units
from tests.unit.broker.loop_turns import measured_turns


def read(*families: Family) -> dict[str, Any]:
    text = asyncio.run(exposition.page(families)).decode()
    return {found.name: found for found in text_string_to_metric_families(text)}


@pytest.mark.parametrize("value", ['say "hi"', "back\\slash", "two\nlines", "ünïcode ✓", "{a=b},", "\\n", ""])
def test_labels_keep_every_character(value: str) -> None:
    found = read(Family("m", "gauge", "Help.", [Sample(label_text(topic=value, n=1), 3)]))
    assert found["m"].samples[0].labels == {"topic": value, "n": "1"}


@pytest.mark.parametrize("value", [0, 3, -1, 2**63, 0.1, 1e-9, 1.5e300, float("inf"), 12345678.0])
def test_values_are_kept(value: float) -> None:
    assert read(gauge("m", "Help.", value))["m"].samples[0].value == value


def test_help_kind_and_old_name() -> None:
    found = read(counter("kafkalite_x_total", "With \\ and\na line break.", 4, "kafka_x_total"))
    for name in ("kafkalite_x", "kafka_x"):
        assert (found[name].type, found[name].samples[0].value) == ("counter", 4)
        assert found[name].documentation == "With \\ and\na line break."


def test_a_family_without_samples_is_left_out() -> None:
    assert read(Family("m", "gauge", "Help.", [])) == {}


def test_a_histogram() -> None:
    histogram = Histogram()
    for duration_s in (0.0002, 0.3, 99.0):
        histogram.observe(duration_s)
    samples = read(Family("h", "histogram", "Help.", histogram_samples(histogram, label_text(request="Produce"))))[
        "h"
    ].samples
    assert all(sample.labels["request"] == "Produce" for sample in samples)
    buckets = {sample.labels["le"]: sample.value for sample in samples if sample.name == "h_bucket"}
    assert (buckets["0.0001"], buckets["0.00025"], buckets["0.5"], buckets["10"], buckets["+Inf"]) == (0, 1, 2, 2, 3)
    assert {sample.name: sample.value for sample in samples[-2:]} == {"h_sum": pytest.approx(99.3002), "h_count": 3}


def test_others_are_served_while_a_long_page_is_made() -> None:
    async def scenario() -> int:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.get_running_loop().create_task(other())
        await exposition.page([Family("m", "gauge", "Help.", [Sample(label_text(n=n), n) for n in range(8000)])])
        task.cancel()
        return turns

    assert asyncio.run(scenario()) >= 16


def test_others_are_served_while_a_figure_is_computed() -> None:
    def families(units: int) -> Iterator[Family]:
        yield from finish_with_pauses(idle_units(units))
        yield gauge("m", "Help.", 1)

    async def measure(units: int) -> int:
        with measured_turns() as turns:
            assert b"m 1" in await exposition.page(families(units))
        return turns.longest

    few, many = (asyncio.run(measure(units)) for units in (5000, 20_000))
    assert many < 1.1 * few
