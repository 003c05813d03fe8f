"""`kafkalite migrate kraft`: Apache Kafka 3.9 led from ZooKeeper to KRaft on the same logs (KIP-866), and from there to 4.x."""
