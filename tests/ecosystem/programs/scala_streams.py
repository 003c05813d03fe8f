"""Kafka Streams in Scala: repartitions, joins by key and by foreign key, and windows that close, though an instance is killed."""

import time

from tests.ecosystem import environments
from tests.ecosystem.contract import Program, Scene
from tests.museum.stage import COUNT

VERSION, SCALA = "4.1.1", "2.13.18"
_LATER = (1000, 1001)
"""Orders so late that windows of all others are closed by them, one for each partition."""


def _wanted_counts() -> dict[str, str]:
    """Return what each shop counts at the end."""
    numbers = [*range(2 * COUNT), *_LATER]
    return {f"key-{shop}": f"value-{shop} {sum(number % 3 == shop for number in numbers)}" for shop in range(3)}


def show(scene: Scene) -> None:
    topics = [scene.stage.create(f"scala-{name}") for name in ("orders", "shops", "counts", "joined", "windows")]
    orders, shops, counts, joined, windows = topics
    jars = f"{scene.environment.folder}/*"
    scene.run("-cp", jars, "scala.tools.nsc.Main", "-usejavacp", "-d", scene.folder, scene.app("ScalaShop.scala"))
    program = ("-cp", f"{scene.folder}:{jars}", "ScalaShop", scene.servers, *topics, int(time.time()) // 10 * 10_000)

    def is_joined(numbers: list[int]) -> bool:
        wanted = {(f"key-{number}", f"value-{number} of value-{number % 3}") for number in numbers}
        return set(scene.committed_records(joined)) == wanted

    scene.stage.write(shops, range(3))
    scene.stage.write(orders, range(COUNT))
    first = scene.start(*program, name="first")
    first.until(lambda: is_joined([*range(COUNT)]), "orders with their shops")
    scene.stage.write(orders, range(COUNT, 2 * COUNT))
    first.until(lambda: scene.has_open_transaction(joined), "records in an open transaction")
    first.kill()
    scene.stage.write(orders, _LATER)
    second = scene.start(*program, name="second")
    second.until(lambda: is_joined([*range(2 * COUNT), *_LATER]), "orders with their shops after its death")

    def largest() -> dict[str, str]:
        """Return the largest count of each shop, which is the last."""
        found = sorted(scene.committed_records(counts), key=lambda each: int(each[1].split()[1]))
        return dict(found)

    second.until(lambda: largest() == _wanted_counts(), "the counts")
    wanted = [(str(begin), "10") for begin in range(0, 2 * COUNT, 10)]
    second.until(lambda: scene.committed_records(windows) == wanted, "the windows")


PROGRAM = Program(
    title="Kafka Streams in Scala",
    version=VERSION,
    tried="repartition topics, joins by key and by foreign key, suppressed windows, exactly once, though an instance is killed",
    setup=lambda: environments.jars(
        f"org.apache.kafka:kafka-streams-scala_2.13:{VERSION}",
        f"org.scala-lang:scala-compiler:{SCALA}",
        f"org.scala-lang:scala-library:{SCALA}",
        "org.slf4j:slf4j-simple:1.7.36",
    ),
    show=show,
)
