"""Camel: a route from a topic to a topic in transactions, with a repository of keys that lies in a topic too."""

from tests.ecosystem import environments
from tests.ecosystem.contract import Program, Running, Scene
from tests.museum.stage import COUNT

VERSION = "4.22.0"


def _capitals(count: int) -> list[tuple[str, str]]:
    return sorted((f"key-{number}", f"VALUE-{number}") for number in range(count))


def show(scene: Scene) -> None:
    source, target, seen = (scene.stage.create(name) for name in ("camel-in", "camel-out", "camel-seen"))
    class_path = scene.compile_java("CamelOnce.java")

    def route(name: str, count: int, read: dict[int, int]) -> Running:
        """Start the route, and wait until the target has so many records and the group has read as far as this."""
        running = scene.start("-cp", class_path, "CamelOnce", scene.servers, source, target, seen, name=name)
        running.until(lambda: scene.committed_records(target) == _capitals(count), f"{count} records")
        running.until(lambda: scene.stage.committed(source, f"camel-{source}") == read, "the group's offsets")
        return running

    scene.stage.write(source, range(COUNT))
    first = route("first", COUNT, {0: COUNT // 2, 1: COUNT // 2})
    assert "VALUE-7 fails the first time" in first.said, first.said
    first.stop()
    scene.stage.write(source, range(2 * COUNT))  # half of which it knows, if the repository is read again
    route("second", 2 * COUNT, {0: COUNT * 3 // 2, 1: COUNT * 3 // 2})
    assert scene.committed_records(target) == _capitals(2 * COUNT)


PROGRAM = Program(
    title="Camel",
    version=VERSION,
    tried="a route in transactions, one of them aborted, with the keys it knows in a topic (KafkaIdempotentRepository); restarted",
    setup=lambda: environments.jars(
        f"org.apache.camel:camel-main:{VERSION}",
        f"org.apache.camel:camel-kafka:{VERSION}",
        "org.slf4j:slf4j-simple:2.0.17",
    ),
    show=show,
)
