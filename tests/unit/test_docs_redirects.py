"""Links to pages that have moved lead on."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.docs.contents import MOVED, PAGES
from deploy.docs.redirects import write_redirects


def test_old_addresses_lead_to_pages_with_their_fragment(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "new.html").touch()
    write_redirects(tmp_path, {"a/old": "b/new"})
    text = (tmp_path / "a" / "old.html").read_text()
    assert '<a href="../b/new.html">' in text
    assert 'location.replace("../b/new.html" + location.search + location.hash)' in text


def test_a_redirect_neither_hides_a_page_nor_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "page.html").touch()
    with pytest.raises(FileExistsError, match="page is a page"):
        write_redirects(tmp_path, {"page": "page"})
    with pytest.raises(FileNotFoundError, match="old leads to gone"):
        write_redirects(tmp_path, {"old": "gone"})


def test_what_has_moved_is_a_page_now() -> None:
    places = {page.place for page in PAGES}
    assert set(MOVED.values()) <= places
    assert not set(MOVED) & places
