"""The store port by a client of our own: `native_store` over `session_thread`, which has the sockets, and `zk.protocol`, which has none."""
