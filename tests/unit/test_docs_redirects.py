"""Links to pages that have moved lead on."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.docs.contents import MOVED, PAGES
from deploy.docs.redirects import write_redirects


def test_old_addresses_lead_to_pages_with_their_fragment(tmp_path: Path) -> None:
    for _ in range(2):  # the second time over a site that is there
        write_redirects(tmp_path, {"a/old": "b/new"}, ["b/new"])
    text = (tmp_path / "a" / "old.html").read_text()
    assert '<a href="../b/new.html">' in text
    assert 'location.replace("../b/new.html" + location.search + location.hash)' in text


def test_a_redirect_neither_hides_a_page_nor_leads_nowhere(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="page is a page"):
        write_redirects(tmp_path, {"page": "page"}, ["page"])
    with pytest.raises(ValueError, match="old leads to gone, which is no page"):
        write_redirects(tmp_path, {"old": "gone"}, ["page"])
    assert list(tmp_path.iterdir()) == []


def test_what_has_moved_is_a_page_now(tmp_path: Path) -> None:
    write_redirects(tmp_path, MOVED, {page.place for page in PAGES})
    assert {str(path.relative_to(tmp_path).with_suffix("")) for path in tmp_path.rglob("*.html")} == set(MOVED)
