"""Access of the tools to a cluster: to brokers by the admin client, or with `--zookeeper` to its znodes."""
