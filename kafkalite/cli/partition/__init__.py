"""`kafkalite partition`: more partitions, more replicas, and partitions moved to other brokers."""
