"""MirrorMaker 2: a topic, its settings and a group's offsets copied from one cluster to another."""

from confluent_kafka.admin import ConfigResource, ResourceType

from kafkalite.local.cluster import LocalCluster
from tests.ecosystem import environments
from tests.ecosystem.contract import Program, Scene, committed_records
from tests.museum.clusters import PROPERTIES
from tests.museum.stage import COUNT, Stage

VERSION = "3.9.1"
_SETTINGS = """
clusters=near,far
near.bootstrap.servers={near}
far.bootstrap.servers={far}
near->far.enabled=true
near->far.topics={topic}
near->far.groups={group}
far->near.enabled=false
emit.heartbeats.enabled=false
sync.topic.acls.enabled=false
sync.group.offsets.enabled=true
sync.group.offsets.interval.seconds=1
emit.checkpoints.interval.seconds=1
refresh.topics.interval.seconds=2
refresh.groups.interval.seconds=1
sync.topic.configs.interval.seconds=2
offset.lag.max=0
replication.factor=1
checkpoints.topic.replication.factor=1
heartbeats.topic.replication.factor=1
offset-syncs.topic.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
config.storage.replication.factor=1
dedicated.mode.enable.internal.rest=false
exactly.once.source.support=enabled
"""


def _retention(stage: Stage, topic: str) -> str:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    found = stage.admin.describe_configs([resource])[resource].result(30)
    return str(found["retention.ms"].value)


def show(scene: Scene) -> None:
    near = scene.stage
    topic = near.create("mirrored")
    group, copy = f"group-{topic}", f"near.{topic}"
    near.write(topic, range(COUNT))
    with LocalCluster(brokers=1, properties=PROPERTIES) as target:
        far = Stage(target.bootstrap_servers, target.zookeeper_connect)
        settings = scene.folder / "mm2.properties"
        settings.write_text(_SETTINGS.format(near=near.bootstrap, far=far.bootstrap, topic=topic, group=group))
        maker = scene.start("org.apache.kafka.connect.mirror.MirrorMaker", settings)
        maker.until(lambda: copy in far.admin.list_topics(timeout=30).topics, "the topic")
        wanted = near.read(topic, COUNT)
        maker.until(lambda: committed_records(far, copy) == wanted, "the records")
        assert _retention(far, copy) == _retention(near, topic)
        near.write(topic, range(COUNT, 2 * COUNT))
        maker.until(lambda: committed_records(far, copy) == near.read(topic, 2 * COUNT), "what came later")
        near.commit(topic, group, {0: COUNT, 1: COUNT})

        def translated() -> bool:
            """It knows some pairs of offsets, and takes the next one below, so that nothing is left out."""
            return all(0 < offset <= COUNT for offset in far.committed(copy, group).values())

        maker.until(translated, "the group's offsets")


PROGRAM = Program(
    title="MirrorMaker 2",
    version=VERSION,
    tried="a topic, its settings and a group's offsets copied to another cluster, exactly once",
    setup=lambda: environments.jars(
        f"org.apache.kafka:connect-mirror:{VERSION}",
        f"org.apache.kafka:connect-runtime:{VERSION}",
        "org.slf4j:slf4j-simple:1.7.36",
    ),
    show=show,
)
