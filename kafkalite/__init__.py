"""A broker cluster that is coordinated by ZooKeeper and speaks Apache Kafka's protocol."""

__version__ = "0.1.0"
