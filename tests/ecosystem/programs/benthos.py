"""Benthos: records mapped from topic to topic, by its components over franz-go and over sarama; each pipeline is stopped and started.

Its output over sarama cannot be idempotent: with `idempotent_write`, it ends at the start, because sarama wants a
`Net.MaxOpenRequests` of 1, which Benthos leaves at 5.
"""

import json

from confluent_kafka import TopicPartition
from confluent_kafka.admin import OffsetSpec

from tests.ecosystem import environments
from tests.ecosystem.contract import HERE, TIMEOUT_S, Program, Scene
from tests.museum.stage import COUNT

VERSION = "4.27.0"
_COUNT = 5 * COUNT
"""Records, each of which a pipeline holds for 50 ms, so that it is stopped between them."""
_RAISE = """
input:
  kafka_franz:
    seed_brokers: ["{servers}"]
    topics: ["{source}"]
    consumer_group: "{group}"
    commit_period: 500ms
pipeline:
  threads: 1
  processors:
    - sleep: {{duration: 50ms}}
    - mapping: root = content().uppercase()
output:
  kafka:
    addresses: ["{servers}"]
    topic: "{target}"
    target_version: 3.6.0
    key: '${{! metadata("kafka_key") }}'
    ack_replicas: true
    compression: zstd
http: {{enabled: false}}
"""
_WRAP = """
input:
  kafka:
    addresses: ["{servers}"]
    topics: ["{source}"]
    target_version: 3.6.0
    consumer_group: "{group}"
    commit_period: 500ms
pipeline:
  threads: 1
  processors:
    - sleep: {{duration: 50ms}}
    - mapping: 'root = {{"key": metadata("kafka_key"), "value": content().string()}}'
output:
  kafka_franz:
    seed_brokers: ["{servers}"]
    topic: "{target}"
    key: '${{! metadata("kafka_key") }}'
    idempotent_write: true
    compression: lz4
http: {{enabled: false}}
"""


def _size(scene: Scene, topic: str) -> int:
    """Return how many records have been appended to a topic of two partitions."""
    ends = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in (0, 1)}
    return sum(answer.result(TIMEOUT_S).offset for answer in scene.stage.admin.list_offsets(ends).values())


def _committed(scene: Scene, topic: str, group: str) -> int:
    """Return the sum of the group's offsets, none of them as 0."""
    return sum(max(offset, 0) for offset in scene.stage.committed(topic, group).values())


def _move(scene: Scene, name: str, text: str, source: str, target: str) -> None:
    """Run a pipeline that is stopped in the midst of the source's records and started again, until the target has all."""
    group, path = f"group-{target}", scene.folder / f"{name}.yaml"
    path.write_text(text.format(servers=scene.servers, source=source, target=target, group=group))
    running = scene.start("-c", path, name=f"{name}-first")
    running.until(lambda: _size(scene, target) >= COUNT // 2, f"the first records that {name} writes")
    running.process.terminate()
    running.wait()
    written, committed = len(scene.committed_records(target)), _committed(scene, source, group)
    assert committed == written < _COUNT, f"{name} ended with {written} records written and {committed} committed"
    running = scene.start("-c", path, name=f"{name}-second")
    running.until(lambda: _size(scene, target) >= _COUNT, f"all records that {name} writes")
    running.process.terminate()
    running.wait()
    assert _committed(scene, source, group) == _COUNT, f"{name} has not committed all at its end"


def show(scene: Scene) -> None:
    source, raised, wrapped = (scene.stage.create(name) for name in ("source", "raised", "wrapped"))
    scene.stage.write(source, range(_COUNT))
    _move(scene, "raise", _RAISE, source, raised)
    wanted = sorted((f"key-{number}", f"VALUE-{number}") for number in range(_COUNT))
    assert scene.committed_records(raised) == wanted, scene.committed_records(raised)
    _move(scene, "wrap", _WRAP, raised, wrapped)
    found = [(key, json.loads(value)) for key, value in scene.committed_records(wrapped)]
    assert found == [(key, {"key": key, "value": value}) for key, value in wanted], found


PROGRAM = Program(
    title="Benthos",
    version=VERSION,
    tried="records mapped from topic to topic (franz-go to sarama, sarama to idempotent franz-go), each once though it is stopped midway",
    setup=lambda: environments.go_program(HERE / "apps" / "benthos.go", f"github.com/benthosdev/benthos/v4@v{VERSION}"),
    show=show,
)
