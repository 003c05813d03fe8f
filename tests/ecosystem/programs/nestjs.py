"""NestJS: its microservices over Kafka: requests whose answers come by a topic, whose partitions its own assignor gives out, and events."""

from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

from tests.ecosystem import environments
from tests.ecosystem.contract import Program, Running, Scene
from tests.museum.stage import COUNT, TIMEOUT_S

VERSION, CORE = "12.1.1", "12.5.1"


def show(scene: Scene) -> None:
    requests, events = scene.stage.create("requests"), scene.stage.create("events")
    replies = NewTopic(f"{requests}.reply", 2, 1)  # the name that NestJS gives it
    scene.stage.admin.create_topics([replies], operation_timeout=TIMEOUT_S)[replies.topic].result(TIMEOUT_S)
    program = (scene.node_app("nest_orders.mjs"), scene.servers, requests, events)

    def find_answering(first: int, end: int) -> set[str]:
        """Send requests with these numbers, and return the processes that answered."""
        said = [line.split() for line in scene.run(*program, "ask", first, end).splitlines()]
        answers = [words[1:] for words in said if words[0] == "answer"]
        assert sorted(word for word, _ in answers) == sorted(f"VALUE-{number}" for number in range(first, end)), answers
        return {process for _, process in answers}

    def kept(*servers: Running) -> list[str]:
        """The events that servers have printed, sorted."""
        lines = [line for server in servers for line in server.said.splitlines()]
        return sorted(line for line in lines if line.startswith("event "))

    def list_events(count: int) -> list[str]:
        return sorted(f"event value-{number}" for number in range(count))

    servers = [scene.start(*program, "serve", name=name) for name in ("first", "second")]
    servers[0].until(lambda: scene.is_shared(f"{requests}-server", 2), "the group of the services")
    assert find_answering(0, COUNT) == {str(server.process.pid) for server in servers}
    servers[0].until(lambda: kept(*servers) == list_events(COUNT), "events")
    servers[0].stop()
    assert find_answering(COUNT, 2 * COUNT) == {str(servers[1].process.pid)}
    servers[1].until(lambda: kept(*servers) == list_events(2 * COUNT), "events after a server has left")


PROGRAM = Program(
    title="NestJS",
    version=VERSION,
    tried="requests and answers over topics, by two services, of which one leaves (an assignor of its own), and events",
    setup=lambda: environments.node(
        f"@nestjs/microservices@{VERSION}",
        f"@nestjs/core@{CORE}",
        f"@nestjs/common@{CORE}",
        "kafkajs@2.2.4",
        "reflect-metadata@0.2.2",
        "rxjs@7.8.2",
    ),
    show=show,
)
