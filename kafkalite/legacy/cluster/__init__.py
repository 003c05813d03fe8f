"""How the tools reach a cluster: brokers by the admin client, or with `--zookeeper` its znodes."""
