"""`kafkalite config`: settings of topics and brokers, quotas of clients."""
