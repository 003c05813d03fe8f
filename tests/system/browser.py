"""A headless Chromium for tests of the status page, driven by Selenium; Debian has both programs, nothing is downloaded."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

from tests.conftest import foreign_program

_ARGUMENTS: Final = (
    "--headless=new",
    "--no-sandbox",  # tests run as root, too
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--window-size=1300,1000",
)
_POLL_S: Final = 0.05
_LOADS: Final = 5
_NETWORK_CHANGED: Final = "net::ERR_NETWORK_CHANGED"


@contextmanager
def browser(profile: Path) -> Iterator[Chrome]:
    """A browser with an empty profile in `profile`; the test is not run where there is none."""
    chromium = foreign_program("chromium", "chromium")
    driver = foreign_program("chromedriver", "chromium-driver")
    options = ChromeOptions()
    options.binary_location = chromium
    for argument in (*_ARGUMENTS, f"--user-data-dir={profile}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = Chrome(options=options, service=Service(driver))
    try:
        chrome.set_page_load_timeout(60)
        yield chrome
    finally:
        chrome.quit()


class StatusPage:
    """What a person reads on the page of one broker."""

    def __init__(self, chrome: Chrome, url: str) -> None:
        self.chrome = chrome
        self._complaints: list[Any] = []
        """Of the browser, until they were last asked for."""
        self._load(url)
        self.opened = chrome.execute_script("return performance.timeOrigin")

    def _load(self, url: str) -> None:
        """Load the page; again where the machine's network changed meanwhile, as containers of other tests change it."""
        for _ in range(_LOADS):
            self.chrome.get(url)
            self._complaints = self.chrome.get_log("browser")  # type: ignore[no-untyped-call]
            if not any(_NETWORK_CHANGED in each["message"] for each in self._complaints):
                break

    def _take_complaints(self) -> list[Any]:
        told = self._complaints + self.chrome.get_log("browser")  # type: ignore[no-untyped-call]
        self._complaints = []
        return told

    def texts(self, selector: str) -> list[str]:
        """Of the elements that are to be seen."""
        script = (
            "return [...document.querySelectorAll(arguments[0])].filter(e => e.checkVisibility()).map(e => e.innerText)"
        )
        return [str(text) for text in self.chrome.execute_script(script, selector)]

    def text(self, selector: str) -> str:
        (found,) = self.texts(selector)
        return found

    def tile(self, name: str) -> str:
        return self.text(f"#tile-{name} dd")

    def data(self, selector: str) -> list[dict[str, str]]:
        """The data attributes of the elements that are to be seen."""
        script = "return [...document.querySelectorAll(arguments[0])].filter(e => e.checkVisibility()).map(e => ({...e.dataset}))"
        found: list[dict[str, str]] = self.chrome.execute_script(script, selector)
        return found

    def partition(self, topic: str, number: int) -> dict[str, str]:
        """leader and isr, as the page has them."""
        (found,) = self.data(f'[data-topic="{topic}"] [data-partition="{number}"]')
        return found

    def broker(self, broker_id: int) -> dict[str, str]:
        (found,) = self.data(f'[data-broker="{broker_id}"]')
        return found

    def metric(self, name: str) -> float:
        """The sum of a metric's samples, scraped by the browser."""
        script = "const done = arguments[0]; fetch('metrics').then(r => r.text()).then(done, e => done(String(e)))"
        families = list(text_string_to_metric_families(self.chrome.execute_async_script(script)))
        samples = [each.value for family in families for each in family.samples if each.name == name]
        if not samples:
            raise AssertionError(f"there is no metric {name}")
        return sum(samples)

    def wait(self, condition: Callable[[], bool], what: str, timeout_s: float = 30) -> None:
        """Until the condition holds, which may look at elements that are being replaced. TimeoutError shows the page's text."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            try:
                if condition():
                    return
            except (StaleElementReferenceException, ValueError):
                pass
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"{what}: not within {timeout_s:g} s; the page says\n{self._state()}")
            time.sleep(_POLL_S)

    def _state(self) -> str:
        """What is to be seen, what the browser complained about, and what it has loaded."""
        script = "return performance.getEntriesByType('resource').map(e => `${e.name}: ${e.responseStatus}, ${Math.round(e.duration)} ms`)"
        told = (each["message"] for each in self._take_complaints())
        return "\n".join((self.text("body"), *told, *self.chrome.execute_script(script)))

    def assert_sound(self) -> None:
        """The page was never loaded again, and the browser complained about nothing that matters."""
        assert self.chrome.execute_script("return performance.timeOrigin") == self.opened
        errors = [each["message"] for each in self._take_complaints() if each["level"] == "SEVERE"]
        serious = [each for each in errors if "net::ERR_" not in each]
        assert not serious, serious
