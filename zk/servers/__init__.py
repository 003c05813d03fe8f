"""Real ZooKeeper servers as processes of this machine: `ensemble` starts, stops, kills and pauses them."""
