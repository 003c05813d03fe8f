"""FastStream, by each of its two clients: a subscriber that publishes what it makes of records."""

from tests.ecosystem import environments
from tests.ecosystem.contract import Program, Scene
from tests.museum.stage import COUNT

VERSION = "0.7.8"


def _capitals(scene: Scene, client: str) -> None:
    source, target = scene.stage.create(f"fast-{client}"), scene.stage.create(f"fast-{client}-out")
    scene.stage.write(source, range(COUNT))
    service = scene.start(scene.app("fast_upper.py"), client, scene.servers, source, target, name=client)
    wanted = sorted(f"VALUE-{number}" for number in range(COUNT))
    service.until(lambda: sorted(value for _, value in scene.committed_records(target)) == wanted, client)
    service.stop()
    committed = scene.stage.committed(source, f"upper-{source}")
    assert committed == {0: COUNT // 2, 1: COUNT // 2}, committed


def show(scene: Scene) -> None:
    for client in ("confluent", "kafka"):
        _capitals(scene, client)


PROGRAM = Program(
    title="FastStream",
    version=VERSION,
    tried="a subscriber that publishes, with confluent-kafka and with aiokafka; offsets are committed at its end",
    setup=lambda: environments.python(f"faststream[confluent,kafka]=={VERSION}"),
    show=show,
)
