"""prometheus-kafka-consumer-group-exporter: it reads the records of `__consumer_offsets` themselves, as few programs do."""

import urllib.request

from kafkalite.local.ports import ReservedPort
from tests.ecosystem import environments
from tests.ecosystem.contract import Program, Scene
from tests.museum.stage import COUNT

VERSION = "0.5.5"


def show(scene: Scene) -> None:
    topic = scene.stage.create("exported")
    scene.stage.write(topic, range(COUNT))
    group = f"group-{topic}"
    with ReservedPort() as port:
        begin = "from prometheus_kafka_consumer_group_exporter import main; main()"
        options = ("--bootstrap-brokers", scene.servers, "--port", port.number, "--from-start")
        exporter = scene.start("-c", begin, *options)
        scene.stage.commit(topic, group, {0: 4, 1: 9})

        def exported() -> bool:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port.number}/metrics", timeout=10) as page:
                    lines = page.read().decode().splitlines()
            except OSError:
                return False
            found = {line.rsplit(" ", 1)[1] for line in lines if f'"{group}"' in line and "_offset{" in line}
            return {float(each) for each in found} >= {4.0, 9.0}

        exporter.until(exported, "committed offsets among the metrics")


PROGRAM = Program(
    title="prometheus-kafka-consumer-group-exporter",
    version=VERSION,
    tried="committed offsets as metrics, which it decodes from the records of `__consumer_offsets`",
    setup=lambda: environments.python(f"prometheus-kafka-consumer-group-exporter=={VERSION}", "kafka-python==2.0.2"),
    show=show,
    quick=True,
)
