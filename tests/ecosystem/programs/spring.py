"""Spring for Apache Kafka: listeners in transactions, with records that fail, and a template that waits for answers."""

from tests.ecosystem import environments
from tests.ecosystem.contract import Program, Scene
from tests.museum.stage import COUNT

VERSION = "4.1.2"


def show(scene: Scene) -> None:
    topics = [scene.stage.create(f"spring-{name}") for name in ("source", "target", "dead", "questions", "answers")]
    source, target, dead, _, _ = topics
    scene.stage.write(source, range(COUNT))
    program = scene.start("-cp", scene.compile_java("SpringUpper.java"), "SpringUpper", scene.servers, *topics)
    wanted = sorted((f"key-{number}", f"VALUE-{number}") for number in range(COUNT) if number != 13)
    program.until(lambda: scene.committed_records(target) == wanted, "the records in capital letters")
    program.until(lambda: scene.committed_records(dead) == [("key-13", "value-13")], "the dead letter")
    group, read = f"spring-{source}", {0: COUNT // 2, 1: COUNT // 2}
    program.until(
        lambda: scene.stage.committed(source, group) == read, "the group's offsets, committed in transactions"
    )
    answers = [f"answer to question {number}" for number in range(5)]
    program.until(lambda: all(each in program.said.splitlines() for each in answers), "answers")
    assert scene.committed_records(target) == wanted


PROGRAM = Program(
    title="Spring for Apache Kafka",
    version=VERSION,
    tried="listeners in transactions, of which some roll back, are tried again or end in a dead letter; questions with answers",
    setup=lambda: environments.jars(
        f"org.springframework.kafka:spring-kafka:{VERSION}",
        "org.slf4j:slf4j-simple:2.0.17",
    ),
    show=show,
)
