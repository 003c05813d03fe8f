"""A frozen cluster and its copies: everything is there, and what one does no other sees."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkalite.client import (
    AclBinding,
    AclEntry,
    NewTopic,
    Operation,
    PermissionType,
    ResourcePattern,
    ResourceType,
    SyncAdmin,
    SyncConsumer,
    SyncProducer,
    TopicPartition,
)
from kafkalite.local.cluster import LocalCluster
from kafkalite.local.contract import Cluster
from kafkalite.local.frozen import FrozenCluster

pytestmark = pytest.mark.wire

TOPIC, LOCKED = "orders", "audited"
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "zookeeper.session.timeout.ms": "2000",  # for the one that is killed
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:ANONYMOUS",
}
RULE = AclBinding(
    ResourcePattern(ResourceType.TOPIC, LOCKED), AclEntry("User:ann", "*", Operation.READ, PermissionType.ALLOW)
)


@pytest.fixture(scope="session")
def kafkalite_properties() -> dict[str, str]:
    return SETTINGS


@pytest.fixture(scope="session")
def kafkalite_prepare() -> Callable[[Cluster], None]:
    def fill(cluster: Cluster) -> None:
        servers = cluster.bootstrap_servers
        with SyncAdmin(bootstrap_servers=servers) as admin:
            # A segment for each record.
            settings = {"retention.ms": "123456789", "segment.bytes": "100"}
            admin.create_topics([NewTopic(TOPIC, 2, 1, topic_configs=settings)])
            admin.create_acls([RULE])
        undecided = SyncProducer(
            bootstrap_servers=servers, transactional_id="undecided", transaction_timeout_ms=600_000
        )
        undecided.connect()
        undecided.init_transactions()
        undecided.begin_transaction()
        undecided.send_and_wait(TOPIC, b"undecided", partition=0)
        undecided.close(0)  # which leaves the transaction open
        with SyncProducer(bootstrap_servers=servers) as producer:
            for number in range(4):
                producer.send_and_wait(TOPIC, b"%d" % number, partition=number % 2)
        with SyncAdmin(bootstrap_servers=servers) as admin:
            admin.alter_group_offsets("readers", {TopicPartition(TOPIC, 1): 1})

    return fill


def values(servers: str, partition: int, **options: str) -> list[bytes]:
    """What a reader finds in a partition of the topic."""
    place = TopicPartition(TOPIC, partition)
    with SyncConsumer(bootstrap_servers=servers, **options) as consumer:  # type: ignore[arg-type]
        consumer.assign([place])
        consumer.seek_to_beginning(place)
        end, found = consumer.end_offsets([place])[place], []
        while consumer.position(place) < end:
            found += [record.value for record in consumer.poll(timeout_ms=500).get(place, [])]
        return found


def test_a_copy_has_all_that_the_cluster_had(kafkalite_fork: Cluster) -> None:
    servers = kafkalite_fork.bootstrap_servers
    with SyncAdmin(bootstrap_servers=servers) as admin:
        assert values(servers, 1) == [b"1", b"3"]
        assert admin.describe_configs("topic", TOPIC)["retention.ms"].value == "123456789"
        assert admin.describe_acls() == [RULE]
        assert admin.list_group_offsets("readers")[TopicPartition(TOPIC, 1)].offset == 1
        assert values(servers, 0, isolation_level="read_committed") == []
        assert admin.describe_transactions(["undecided"])["undecided"].state == "Ongoing"
        admin.fence_producers(["undecided"])  # which aborts it
        assert values(servers, 0, isolation_level="read_committed") == [b"0", b"2"]


def test_what_is_done_to_a_copy_no_other_sees(kafkalite_frozen: FrozenCluster) -> None:
    """Nor does the cluster that was frozen; copies that run at once are apart, also after brokers were killed."""
    with kafkalite_frozen.fork() as one, kafkalite_frozen.fork() as other:
        with SyncProducer(bootstrap_servers=one.bootstrap_servers) as producer:
            producer.send_and_wait(TOPIC, b"more", partition=1)
            producer.send_and_wait("another", b"first")
        with SyncAdmin(bootstrap_servers=other.bootstrap_servers) as admin:
            admin.delete_topics([TOPIC])
        one.kill(1)
        one.start_broker(1)
        assert values(one.bootstrap_servers, 1) == [b"1", b"3", b"more"]
        links = [path.stat().st_nlink for path in sorted((one.broker(1).log_dir / f"{TOPIC}-1").glob("*.log"))]
        assert links[0] > 1 and set(links[1:]) == {1}  # what was sealed is shared, what is written is not
    with kafkalite_frozen.fork() as later, SyncAdmin(bootstrap_servers=later.bootstrap_servers) as admin:
        assert values(later.bootstrap_servers, 1) == [b"1", b"3"]
        assert admin.list_topics() == [TOPIC]


def test_a_cluster_that_cannot_be_copied_goes_on() -> None:
    with pytest.raises(ValueError, match="another's"):
        FrozenCluster(LocalCluster(brokers=1))
