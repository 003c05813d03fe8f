"""`kafkalite console` as a process, and what a person does with it in a browser: for the tests of the console and its pictures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from kafkalite.local.cluster import LocalCluster
from tests.system.browser import StatusPage

SECRET = "the-password-of-the-context"
_LOSE_ANSWERS: Final = """window.answersToLose = arguments[0];
    window.realFetch ??= window.fetch;
    window.fetch = async (address, options) => {
      const answer = await window.realFetch(address, options);
      if (options?.method !== "POST" || window.answersToLose <= 0) return answer;
      window.answersToLose -= 1;
      throw new TypeError("Failed to fetch");
    };"""


@contextmanager
def console(cluster: LocalCluster, folder: Path, *options: str) -> Iterator[str]:
    """`kafkalite console` of one cluster; its address."""
    servers = ("-z", cluster.zookeeper_connect, "-b", cluster.bootstrap_servers)
    arguments = (*servers, "-X", f"ssl.keystore.password={SECRET}", *options)
    with serve_console(folder, folder / "no-contexts", *arguments) as address:
        yield address


@contextmanager
def serve_console(folder: Path, contexts: Path, *arguments: str) -> Iterator[str]:
    """`kafkalite console` as a process of its own, with a file of contexts; its address."""
    command = [sys.executable, "-m", "kafkalite", "console", "--port", "0", *arguments]
    environment = {**os.environ, "KAFKALITE_CONFIG": str(contexts)}
    with (folder / "console.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:"), (folder / "console.log").read_text()
        yield address
    finally:
        process.terminate()
        process.wait(30)
    assert process.returncode == 0, (folder / "console.log").read_text()


class Screens:
    """What a person does with the console; each screen is kept as a picture in `folder`, where somebody may look at it."""

    def __init__(self, chrome: Chrome, address: str, folder: Path) -> None:
        self.page = StatusPage(chrome, address)
        self.chrome, self.address, self._folder = chrome, address, folder

    def open(self, place: str, heading: str) -> None:
        self.chrome.execute_script("location.hash = arguments[0]", place)
        self.page.wait(lambda: self.page.texts("h1") == [heading], f"the screen {place}")

    def has(self, *texts: str) -> None:
        self.page.wait(lambda: all(each in self.text() for each in texts), f"{texts}")

    def text(self) -> str:
        return self.page.text("body")

    def rows(self, path: str) -> list[dict[str, Any]]:
        """The rows of an answer of the console, as the page gets it."""
        with urllib.request.urlopen(f"{self.address}api/{path}", timeout=60) as response:
            found: list[dict[str, Any]] = json.load(response)["rows"]
        return found

    def find(self, selector: str) -> Any:
        self.page.wait(lambda: self.page.data(selector) != [], selector)
        return self.chrome.find_element(By.CSS_SELECTOR, selector)

    def click(self, text: str) -> None:
        """A button, by what is on it, when it can be used."""
        script = "const found = [...document.querySelectorAll('button')].find(e => e.innerText === arguments[0] && !e.disabled);"
        self.page.wait(
            lambda: bool(self.chrome.execute_script(f"{script} found?.click(); return Boolean(found)", text)), text
        )

    def act(self, action: str, **fields: str) -> None:
        """Fill in an action and look at what it would do."""
        script = "document.querySelector(arguments[0]).closest('details').open = true"
        form = f"form[data-action={action}]"
        self.page.wait(lambda: bool(self.chrome.find_elements(By.CSS_SELECTOR, form)), form)
        self.chrome.execute_script(script, form)
        for name, value in fields.items():
            control = self.find(f"{form} [name={name}]")
            control.clear()
            control.send_keys(value)
        self.find(f"{form} button:not([type])").click()
        self.page.wait(lambda: self.page.texts(f"{form} [role=status]") != [""], f"a plan of {action}")

    def confirm(self, action: str, word: str) -> None:
        """Type the word that an action wants, and do it."""
        form = f"form[data-action={action}]"
        control = self.find(f"{form} [name=confirm]")
        assert not self.find(f"{form} button.danger").is_enabled()
        control.send_keys(word)
        self.find(f"{form} button.danger").click()

    def lose_answers(self, count: int) -> None:
        """Have the next answers to changes lost on their way back, as when the network of the machine changes; each change arrives."""
        self.chrome.execute_script(_LOSE_ANSWERS, count)

    def break_loading(self, *files: str) -> None:
        """Have these files of the page not be loaded, as when the network of the machine changes; without any, all are again."""
        self.chrome.execute_cdp_cmd("Network.enable", {})
        self.chrome.execute_cdp_cmd("Network.setBlockedURLs", {"urls": [f"*/{each}" for each in files]})

    def follow(self, selector: str) -> None:
        """The first link of the kind; found and clicked at once, because tables are drawn again."""
        script = "const found = document.querySelector(arguments[0]); found?.click(); return Boolean(found)"
        self.page.wait(lambda: bool(self.chrome.execute_script(script, selector)), selector)

    def choose_cluster(self, name: str) -> None:
        """Another cluster, from the list behind the name of this one."""
        self.find("#clusters")
        self.chrome.execute_script("document.getElementById('clusters').open = true")
        link = f"[...document.querySelectorAll('#cluster-list a')].find(e => e.textContent === {json.dumps(name)})"
        self.chrome.execute_script(f"{link}.click()")
        self.page.wait(lambda: f"/clusters/{name}/" in self.chrome.current_url, f"the cluster {name}")

    def keep(self, name: str) -> None:
        self.chrome.save_screenshot(str(self._folder / f"{name}.png"))

    def prefer(self, theme: str) -> None:
        """Have the system prefer light or dark colours."""
        features = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
        self.chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", features)

    def contrasts(self, ground: str, texts: str) -> set[float]:
        """The contrast ratios of texts to the ground that they stand on (WCAG 2.2, 1.4.3)."""
        script = """const colour = (element, name) => getComputedStyle(element)[name].match(/[\\d.]+/g).slice(0, 3).map(Number);
            const ground = colour(document.querySelector(arguments[0]), "backgroundColor");
            return [ground, [...document.querySelectorAll(arguments[1])].map(each => colour(each, "color"))]"""
        found, colours = self.chrome.execute_script(script, ground, texts)
        return {contrast(colour, found) for colour in colours}


def contrast(one: list[float], other: list[float]) -> float:
    """The contrast ratio of two colours in sRGB."""
    low, high = sorted(map(_luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: list[float]) -> float:
    parts = (each / 255 for each in colour)
    linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
