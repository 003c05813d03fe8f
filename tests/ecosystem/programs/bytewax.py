"""bytewax: a dataflow from a topic to a topic, to the end of what there is."""

from tests.ecosystem import environments
from tests.ecosystem.contract import Program, Scene
from tests.museum.stage import COUNT

VERSION = "0.21.1"


def show(scene: Scene) -> None:
    source, target = scene.stage.create("wax-words"), scene.stage.create("wax-counts")
    scene.stage.write(source, range(COUNT))
    scene.stage.write(source, range(COUNT))
    scene.run(scene.app("wax_count.py"), scene.servers, source, target)
    found = scene.committed_records(target)
    assert found == sorted((f"key-{number}", "2") for number in range(COUNT)), found


PROGRAM = Program(
    title="bytewax",
    version=VERSION,
    tried="a dataflow that counts by key, from a topic to another",
    setup=lambda: environments.python(f"bytewax[kafka]=={VERSION}"),
    show=show,
)
