"""Builds the site: stages all pages in a temporary folder, and runs Sphinx over them. Any warning is an error."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from deploy.docs.contents import MOVED, PAGES
from deploy.docs.redirects import write_redirects
from deploy.docs.staging import ROOT, stage


def build(target: Path) -> int:
    """Build the site, and return the exit status of Sphinx: 0 when there was nothing to complain of."""
    from sphinx.cmd.build import build_main

    with tempfile.TemporaryDirectory(prefix="kafkalite-docs-") as temporary:
        source = Path(temporary, "source")
        stage(source)
        options = ["--quiet", "--fail-on-warning", "--keep-going", "-b", "html"]
        places = ["-c", str(Path(__file__).parent), "-d", str(Path(temporary, "doctrees")), str(source), str(target)]
        status = int(build_main([*options, *places]))
    if status == 0:
        write_redirects(target, MOVED, {page.place for page in PAGES})
    return status


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m deploy.docs", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "build" / "docs", help="default: build/docs")
    folder = parser.parse_args().folder
    status = build(folder)
    if status == 0:
        print(folder / "index.html")
    return status


if __name__ == "__main__":
    sys.exit(main())
