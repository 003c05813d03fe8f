"""`kafkalite mirror`: the topics of a cluster copied byte by byte into a cluster of Apache Kafka 4, until clients are switched over."""
