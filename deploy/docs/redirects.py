"""Pages at old addresses, which lead on to where their content is now."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Mapping
from pathlib import Path


def write_redirects(site: Path, moved: Mapping[str, str], places: Collection[str]) -> None:
    """Write a page at each old place. Raises ValueError for an old place that is a page, and for a new one that is none."""
    for old, new in moved.items():
        if old in places:
            raise ValueError(f"{old} is a page; take it out of MOVED in deploy/docs/contents.py")
        if new not in places:
            raise ValueError(f"{old} leads to {new}, which is no page; correct MOVED in deploy/docs/contents.py")
        path = site / f"{old}.html"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_page(posixpath.relpath(f"{new}.html", posixpath.dirname(old) or ".")))


def _page(target: str) -> str:
    """A link's fragment goes on with it where scripts run; without scripts the page itself is found."""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Moved</title>
<link rel="canonical" href="{target}">
<script>location.replace("{target}" + location.search + location.hash)</script>
<noscript><meta http-equiv="refresh" content="0; url={target}"></noscript>
</head>
<body><p>This page is <a href="{target}">here</a> now.</p></body>
</html>
"""
