"""The pages of real nights, looked at in a browser: what they show is what was sent."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kafkalite.local.cluster import LocalCluster
from spark_jobs.batch import layout
from spark_jobs.batch.formats import Formats
from spark_jobs.jobs import archive, audit, report
from tests.spark.conftest import TopicMaker
from tests.spark.nights import DAY, FOREVER, Sent, after, night_on, send
from tests.system.browser import browser
from tests.system.test_night_page import CONTRAST, WIDTHS, show

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

_HOUR_S = 3600
_TEXTS = "return [...document.querySelectorAll(arguments[0])].map(e => e.innerText.trim())"
_COLUMNS = (
    "return [...document.querySelectorAll('#topic-1 .columns rect')]"
    ".map(e => [e.textContent, e.getBoundingClientRect().height])"
)


def test_the_page_of_a_real_night_shows_what_was_sent(
    spark: Any, cluster: LocalCluster, make_topic: TopicMaker, tmp_path: Path
) -> None:
    """Records of a few hours, most of them in one partition; in the next night a record of the day before comes late."""
    servers, topic = cluster.bootstrap_servers, make_topic(3, config=FOREVER)
    hours = Counter({2: 40, 9: 20, 23: 4})
    sent = [Sent(DAY, hour * _HOUR_S + n, n % 4 // 2) for hour, count in hours.items() for n in range(count)]
    send(servers, topic, sent)
    pages = []
    with night_on(spark, servers, tmp_path) as night:
        for day in (DAY, after(1)):
            archive.main(night, topic, day, Formats())
            audit.main(night, [topic], [day])
            report.main(night.storage, [day])
            pages.append(tmp_path / layout.page_file(day))
            send(servers, topic, [Sent(DAY, 5), Sent(after(1), 6, 2)])
    with browser(tmp_path / "profile") as chrome:
        for scheme in ("light", "dark"):
            for width in WIDTHS:
                show(chrome, pages[0], width, scheme)
                assert chrome.execute_script("return document.documentElement.scrollWidth") <= width
                assert chrome.execute_script(CONTRAST) == []
        (verdict,) = chrome.execute_script(_TEXTS, ".verdict > p")
        assert verdict.endswith("64 records, the topic is archived; log and archive agree.")
        heights = dict(chrome.execute_script(_COLUMNS))
        assert len(heights) == 24 and sum(int(label.rpartition(" ")[2]) for label in heights) == len(sent)
        for hour, count in hours.items():
            assert heights[f"{hour:02}:00: {count}"] / heights["02:00: 40"] == pytest.approx(count / 40, rel=0.02)
        show(chrome, pages[1], 1400, "light")
        assert chrome.execute_script(_TEXTS, "#topic-1 .figures dd")[:2] == ["1", "1\nof earlier dates"]
        assert "Records of earlier dates, archived under their own:" in chrome.execute_script(
            _TEXTS, "#topic-1 .card p"
        )
        assert chrome.get_log("browser") == []  # type: ignore[no-untyped-call]
