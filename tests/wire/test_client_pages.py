"""The examples of the client's pages run as they stand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import kafkalite.client
from kafkalite.local.cluster import LocalCluster

pytestmark = pytest.mark.wire

FOLDER = Path(kafkalite.client.__file__).parent
PAGES = ("producer.md", "consumer.md", "admin.md", "errors.md")
README = "README.md"
_EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with LocalCluster(brokers=1, properties={"num.partitions": "1"}) as cluster:
        yield cluster.bootstrap_servers


def test_every_page_is_linked() -> None:
    listed = re.findall(r"\]\((\w+\.md)\)", (FOLDER / README).read_text())
    assert tuple(listed) == PAGES
    assert {each.name for each in FOLDER.glob("*.md")} == {*PAGES, README}


def test_examples(servers: str) -> None:
    """In the order of the pages: what the producer's examples send is what the consumer's read."""
    for page in (*PAGES, README):
        examples = _EXAMPLE.findall((FOLDER / page).read_text())
        assert examples, page
        for number, example in enumerate(examples):
            code = compile(example, f"{page}[{number}]", "exec", dont_inherit=True)
            exec(code, {"SERVERS": servers, "__name__": f"{page}[{number}]"})
