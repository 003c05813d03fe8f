"""`python -m deploy.zookeeper [FOLDER]`: write the wheel kafkalite-zookeeper into a folder (dist), and print its path."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from deploy.zookeeper.build import JarsMissingError, build_wheel


def main(arguments: Sequence[str]) -> int:
    try:
        print(build_wheel(Path(arguments[0] if arguments else "dist")))
    except JarsMissingError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
