"""The documentation becomes a site without a warning: links between its pages lead somewhere, nothing is fetched from elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from selenium.webdriver import Chrome

from deploy.docs import docstrings, staging
from deploy.docs.contents import OWN, PAGES, Page
from deploy.docs.staging import ROOT, BrokenLink
from tests.system.browser import StatusPage, browser

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as `./deploy/docs/build` does it. Sphinx in strict mode finds links to pages and headings that there are not."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "deploy.docs", str(folder)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout
    return folder


def test_every_page_is_there_and_fetches_nothing_from_elsewhere(site: Path) -> None:
    for page in PAGES:
        html = (site / f"{page.place}.html").read_text()
        fetched = re.findall(r"<(?:script|img|iframe)\b[^>]*\bsrc=\"([^\"]+)\"|<link\b[^>]*\bhref=\"([^\"]+)\"", html)
        foreign = [address for pair in fetched for address in pair if re.match(r"(https?:)?//", address)]
        assert not foreign, page.place
    styles = "".join(path.read_text() for path in (site / "_static").rglob("*.css"))
    assert not re.search(r"@import|url\([\"']?(https?:)?//", styles)


def test_programs_that_read_find_every_page(site: Path) -> None:
    listed = re.findall(r"^- \[.+\]\((\S+)\): \S", (site / "llms.txt").read_text(), re.MULTILINE)
    assert len(listed) == len(PAGES) - 1
    assert all((site / address).is_file() for address in listed)


def test_what_is_only_shown_is_a_block_as_any_other(site: Path) -> None:
    page = re.sub(r"<[^>]*>", "", (site / "howto" / "deploy.html").read_text())
    between = page.partition('prints "[KafkaServer id=1] started" when it serves')[2].partition(
        "All of them on this machine"
    )[0]
    assert between.strip() == ""


def test_a_site_that_is_opened_from_a_file(site: Path, tmp_path: Path) -> None:
    with browser(tmp_path / "chromium") as chrome:
        search_finds_where_words_stand(chrome, site)
        a_button_copies_what_is_typed(chrome, site)
        pages_fit_a_phone(chrome, site)
        drawings_follow_the_theme_of_the_page(chrome, site)


def search_finds_where_words_stand(chrome: Chrome, site: Path) -> None:
    page = StatusPage(chrome, f"{(site / 'index.html').as_uri()}")
    chrome.execute_script("document.querySelector('.sidebar-search').value = 'advertised listeners'")
    chrome.execute_script("document.querySelector('.sidebar-search-container').submit()")
    page.wait(lambda: page.texts(".search-summary") != [""], "the end of the search")
    page.wait(
        lambda: any("advertised.listeners" in each for each in page.texts("#search-results .context")), "excerpts"
    )
    assert {"advertised", "listeners"} <= set(page.texts("#search-results mark"))
    assert len(page.texts("#search-results .context")) == len(page.texts("#search-results li"))
    links = chrome.execute_script("return [...document.querySelectorAll('#search-results li > a')].map(e => e.href)")
    assert all(Path(re.sub(r"^file://|#.*", "", each)).is_file() for each in links)
    complaints = chrome.get_log("browser")  # type: ignore[no-untyped-call]
    assert [each for each in complaints if each["level"] == "SEVERE"] == []


def a_button_copies_what_is_typed(chrome: Chrome, site: Path) -> None:
    """Of a session at a terminal that is the commands without prompts and output, of another block all of it."""
    chrome.execute_cdp_cmd(
        "Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    )
    page = StatusPage(chrome, (site / "index.html").as_uri())
    copy = "document.querySelectorAll('.copy-button')[arguments[0]].click()"
    read = "const done = arguments[0]; navigator.clipboard.readText().then(done, e => done(String(e)))"
    for number, begins, has_output in ((0, "./deploy/demo  ", False), (1, "kafkalite cluster up", True)):
        chrome.execute_script(copy, number)
        page.wait(lambda number=number: page.texts(".copy-button")[number] == "Copied", "the copy")  # type: ignore[misc]
        copied = chrome.execute_async_script(read)
        assert copied.startswith(begins), copied
        assert not has_output or ("$ " not in copied and "ready after" not in copied)


def pages_fit_a_phone(chrome: Chrome, site: Path) -> None:
    chrome.set_window_size(500, 900)
    chrome.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 375, "height": 812, "deviceScaleFactor": 1, "mobile": True}
    )
    for place in ("index", "explain/elections", "explain/results", "reference/broker-settings", "reference/client-api"):
        chrome.get((site / f"{place}.html").as_uri())
        assert chrome.execute_script("return document.documentElement.scrollWidth") <= 375, place
        outside = "[...document.querySelectorAll('article table, article svg')].filter(e => !e.closest('.table-wrapper, .drawing'))"
        assert chrome.execute_script(f"return {outside}.length") == 0, place


def drawings_follow_the_theme_of_the_page(chrome: Chrome, site: Path) -> None:
    chrome.get((site / "explain" / "architecture.html").as_uri())
    paper = "return getComputedStyle(document.querySelector('.drawing svg rect')).fill"
    shown = []
    for theme in ("light", "dark"):
        chrome.execute_script("document.body.dataset.theme = arguments[0]", theme)
        shown.append(chrome.execute_script(paper))
    assert shown == ["rgb(255, 255, 255)", "rgb(19, 20, 22)"]
    chrome.get((site / "howto" / "console.html").as_uri())
    for theme in ("light", "dark"):
        chrome.execute_script("document.body.dataset.theme = arguments[0]", theme)
        seen = chrome.execute_script(
            "return [...document.querySelectorAll('article img')].filter(e => e.checkVisibility()).map(e => [e.src, e.naturalWidth])"
        )
        assert seen and all(f"-{theme}." in source and width > 0 for source, width in seen), seen


def test_a_setting_a_command_and_a_znode_are_in_the_reference(site: Path) -> None:
    reference = site / "reference"
    for page, text in (
        ("broker-settings", "replica.lag.time.max.ms"),
        ("topic-settings", "min.insync.replicas"),
        ("client-settings", "delivery.timeout.ms"),
        ("commands/partition", "kafkalite partition reassign plan"),
        ("kafka-tools/kafka-consumer-groups", "--reset-offsets"),
        ("client-api/syncproducer", "send_and_wait"),
        ("client-api/records-descriptions-and-results", "TopicPartition"),
        ("testing-api/localcluster", "bootstrap_servers"),
        ("metrics", "kafkalite_isr_shrinks_total"),
        ("errors", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"),
        ("files", "leader-epoch-checkpoint"),
        ("znodes", "/brokers/topics/*/partitions/*/state"),
    ):
        assert text in re.sub(r"<[^>]*>", "", (reference / f"{page}.html").read_text()), page


def test_links_to_a_page_that_was_divided_lead_to_its_line(site: Path) -> None:
    for page, anchor, target in (
        ("commands", "kafkalite-topic-create", "commands/topic.html"),
        ("kafka-tools", "kafka-topics", "kafka-tools/kafka-topics.html"),
        ("client-api", "aclfilter", "client-api/records-descriptions-and-results.html#aclfilter"),
        ("testing-api", "localcluster", "testing-api/localcluster.html"),
    ):
        line = (site / "reference" / f"{page}.html").read_text().partition(f'<a id="{anchor}"></a>')[2]
        assert re.search(r'href="([^"]+)"', line)[1] == target  # type: ignore[index]


def test_every_page_of_our_own_is_in_the_site() -> None:
    files = {str(path.relative_to(ROOT)) for path in (ROOT / OWN).rglob("*.md")}
    assert files == {page.path for page in PAGES if page.path.startswith(OWN) and isinstance(page.origin, str)}


def test_a_link_to_what_is_not_there_stops_the_build() -> None:
    page = Page("howto/x", f"{OWN}/howto/x.md")
    with pytest.raises(BrokenLink, match=r"x\.md: there is no deploy/docs/pages/howto/gone\.md"):
        staging._with_links(page, "see [that](gone.md)")
    assert staging._with_links(page, "[a](pytest.md#b) `[x](y.md)`") == "[a](pytest.md#b) `[x](y.md)`"
    assert staging._with_links(page, "[the runbook](../../../RUNBOOK.md)") == "[the runbook](runbook.md)"
    assert staging._with_links(page, "[the licence](../../../../LICENSE)") == "the licence (`LICENSE`)"


def test_what_looks_like_markup_in_a_docstring_is_meant_as_it_is() -> None:
    page = Page("reference/x", f"{OWN}/reference/x.md")
    text = docstrings.cell("RULE:[n:text](pattern)s/x/y/ of <name>, a*b*c, `<code>` | more")
    assert text == r"RULE:\[n:text](pattern)s/x/y/ of &lt;name>, a\*b\*c, `<code>` \| more"
    assert staging._with_links(page, text) == text
