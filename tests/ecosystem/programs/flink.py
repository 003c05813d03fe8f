"""Flink: a job from a topic to a topic, with the exactly-once sink, whose transactions are committed by checkpoints."""

from tests.ecosystem import environments
from tests.ecosystem.contract import Program, Scene
from tests.museum.stage import COUNT

VERSION, CONNECTOR = "1.20.1", "3.4.0-1.20"


def show(scene: Scene) -> None:
    source, target = scene.stage.create("flink-in"), scene.stage.create("flink-out")
    scene.stage.write(source, range(COUNT))
    scene.run("-cp", scene.compile_java("FlinkUpper.java"), "FlinkUpper", scene.servers, source, target)
    found = sorted(value for _, value in scene.committed_records(target))
    assert found == sorted(f"VALUE-{number}" for number in range(COUNT)), found


PROGRAM = Program(
    title="Flink",
    version=VERSION,
    tried="a job from a topic to a topic with KafkaSource and the exactly-once KafkaSink",
    setup=lambda: environments.jars(
        f"org.apache.flink:flink-clients:{VERSION}",
        f"org.apache.flink:flink-connector-base:{VERSION}",
        f"org.apache.flink:flink-connector-kafka:{CONNECTOR}",
        "org.slf4j:slf4j-nop:1.7.36",
    ),
    show=show,
)
