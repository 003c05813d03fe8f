"""The documentation becomes a site without a warning: links between its pages lead somewhere, nothing is fetched from elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.docs import docstrings, staging
from deploy.docs.contents import OWN, PAGES, Page
from deploy.docs.staging import ROOT, BrokenLink

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
    page = (site / "howto" / "deploy.html").read_text()
    block, _, after = page.partition("kafkalite zk run --config zoo.cfg --id 1")[2].partition("</pre>")
    assert block and after.split("<p>")[1].startswith("All of them on this machine")


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
        assert text in (reference / f"{page}.html").read_text(), page


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
