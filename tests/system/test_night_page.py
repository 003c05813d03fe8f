"""The page of a night in a browser: it fits every screen in light and dark, its colours can be read, and it asks nobody for anything."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome

from spark_jobs.batch import layout
from spark_jobs.batch.ledger import Ledger
from spark_jobs.batch.storage import LocalStorage
from spark_jobs.jobs import report as job
from tests.system.browser import browser
from tests.unit.spark_jobs.observation.example_runs import DAY, archive_entry, report

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

LONG_NAME = "payments.card-settlements.of-all-countries.with-a-name-that-no-screen-has-room-for"
WIDTHS = (320, 375, 768, 1400)
CONTRAST = """
const luminance = color => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d");
  canvas.fillStyle = color;
  canvas.fillRect(0, 0, 1, 1);
  const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3)
    .map(c => c / 255).map(c => c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4);
  return .2126 * r + .7152 * g + .0722 * b;
};
const ground = element => {
  for (let e = element; e; e = e.parentElement) {
    const color = getComputedStyle(e).backgroundColor;
    if (!color.includes(", 0)") && color !== "transparent") return color;
  }
  return "Canvas";
};
return [...document.querySelectorAll("h1, h2, h3, p, li, dt, dd, small, td, th, caption, figcaption, summary, a, b, code, .label")]
  .filter(e => e.checkVisibility() && [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()))
  .map(e => {
    const [one, other] = [luminance(getComputedStyle(e).color), luminance(ground(e))];
    return [(Math.max(one, other) + .05) / (Math.min(one, other) + .05), e.className + " " + e.innerText.slice(0, 40)];
  }).filter(([ratio]) => ratio < 4.5);
"""
"""Texts whose contrast is below that of WCAG 2.2, AA."""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a night with a good topic, one with a long name that differs, and one that is not done."""
    folder = tmp_path_factory.mktemp("nightly")
    storage = LocalStorage(folder)
    ledger = Ledger(storage, "archive")
    for number in range(10):
        entry = archive_entry(day=DAY - timedelta(days=number))
        ledger.finish(entry, entry.done_ms)
    ledger.finish(archive_entry(LONG_NAME), 1)
    ledger.put_pending(replace(archive_entry("orders"), state="planned"))
    for topic, differences in (("flights", 0), (LONG_NAME, 3)):
        audit = {**report(topic, differences).to_dict(), "records": 125}
        storage.write(layout.audit_file(topic, DAY), json.dumps(audit).encode())
    job.main(storage, [DAY])
    return folder / layout.page_file(DAY)


@pytest.fixture(scope="module")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    with browser(tmp_path_factory.mktemp("profile")) as running:
        yield running


def show(chrome: Chrome, page: Path, width: int, scheme: str) -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    chrome.get(page.as_uri())


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_every_screen_and_can_be_read(chrome: Chrome, page: Path, scheme: str) -> None:
    for width in WIDTHS:
        show(chrome, page, width, scheme)
        found: list[Any] = chrome.execute_script(
            "return [document.documentElement.scrollWidth, getComputedStyle(document.body).backgroundColor]"
        )
        assert found[0] <= width, f"nothing is beyond the right edge of {width} pixels"
        assert found[1] == ("rgb(251, 251, 249)" if scheme == "light" else "rgb(21, 24, 23)")
        assert chrome.execute_script(CONTRAST) == []


def test_it_asks_nobody_and_complains_of_nothing(chrome: Chrome, page: Path) -> None:
    show(chrome, page, 1400, "light")
    assert chrome.execute_script("return performance.getEntriesByType('resource').map(e => e.name)") == []
    assert chrome.get_log("browser") == []  # type: ignore[no-untyped-call]
    heights: dict[str, float] = chrome.execute_script(
        "return Object.fromEntries([...document.querySelectorAll('#topic-1 .columns rect')]"
        ".map(e => [e.textContent, e.getBoundingClientRect().height]))"
    )
    assert len(heights) == 24
    assert heights["00:00: 90"] / heights["07:00: 35"] == pytest.approx(90 / 35, rel=0.02)


def test_its_parts_have_roles_and_names(chrome: Chrome, page: Path) -> None:
    """What a screen reader tells, by the browser's own tree."""
    show(chrome, page, 1400, "light")
    tree = chrome.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    found = {(each["role"]["value"], each.get("name", {}).get("value", "")) for each in tree if not each["ignored"]}
    assert ("heading", "Saturday, 15 June 2013") in found and ("heading", "flights") in found
    assert any(role == "table" and name.startswith("Records by partition") for role, name in found)
    assert any(role in ("image", "img") and name.startswith("Busiest at 00:00") for role, name in found)
    assert ("rowheader", "1") in found and ("cell", "35") in found
