"""quixstreams: counts in RocksDB with a changelog topic, exactly once; the second run has lost its disk."""

from collections import Counter

from tests.ecosystem import environments
from tests.ecosystem.contract import Program, Scene
from tests.museum.stage import COUNT

VERSION = "3.28.1"


def show(scene: Scene) -> None:
    source, target = scene.stage.create("quix-words"), scene.stage.create("quix-counts")
    for run in (1, 2):
        scene.stage.write(source, range(COUNT))
        scene.run(scene.app("quix_count.py"), scene.servers, source, target, COUNT, scene.folder / f"state-{run}")
    found = Counter(count for _, count in scene.committed_records(target))
    assert found == {"1": COUNT, "2": COUNT}, found


PROGRAM = Program(
    title="quixstreams",
    version=VERSION,
    tried="counts with a changelog in transactions, restored from the changelog by a second run without a disk",
    setup=lambda: environments.python(f"quixstreams=={VERSION}"),
    show=show,
    quick=True,
)
