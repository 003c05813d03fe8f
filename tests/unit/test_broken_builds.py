"""The bugs of tests/broken_builds can be put into the source as it is now."""

from __future__ import annotations

from tests.broken_builds.builds import BUILDS, ROOT
from tests.case import case


def test_every_bug_has_its_place() -> None:
    for build in BUILDS:
        with case(build.name):
            assert (ROOT / build.file).read_text().count(build.right) == 1
            assert build.wrong not in (build.right, "")
