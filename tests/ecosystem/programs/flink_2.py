"""Flink 2: an endless job with the exactly-once sink, which is killed and goes on from its checkpoint; its transactions have pooled ids."""

from tests.ecosystem import environments
from tests.ecosystem.contract import Program, Scene
from tests.museum.stage import COUNT

VERSION, CONNECTOR = "2.2.1", "5.0.0-2.2"


def show(scene: Scene) -> None:
    source, target = scene.stage.create("flink-in"), scene.stage.create("flink-out")
    checkpoints = scene.folder / "checkpoints"
    checkpoints.mkdir()
    job = ("-cp", scene.compile_java("FlinkPooled.java"), "FlinkPooled", scene.servers, source, target, checkpoints)

    def read_values() -> list[str]:
        return sorted(value for _, value in scene.committed_records(target))

    def capitals(count: int) -> list[str]:
        return sorted(f"VALUE-{number}" for number in range(count))

    scene.stage.write(source, range(COUNT))
    first = scene.start(*job, name="first")
    first.until(lambda: read_values() == capitals(COUNT), "the first records")
    scene.stage.write(source, range(COUNT, 2 * COUNT))
    first.until(lambda: scene.has_open_transaction(target), "records in an open transaction")
    first.kill()
    scene.stage.write(source, range(2 * COUNT, 3 * COUNT))
    second = scene.start(*job, name="second")
    second.until(lambda: read_values() == capitals(3 * COUNT), "the records after its death")


PROGRAM = Program(
    title="Flink 2",
    version=VERSION,
    tried="an endless job with the exactly-once KafkaSink and pooled transactional ids (ListTransactions), killed and restarted",
    setup=lambda: environments.jars(
        f"org.apache.flink:flink-clients:{VERSION}",
        f"org.apache.flink:flink-connector-base:{VERSION}",
        f"org.apache.flink:flink-connector-kafka:{CONNECTOR}",
        "org.slf4j:slf4j-simple:1.7.36",
    ),
    show=show,
)
