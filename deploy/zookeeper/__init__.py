"""The distribution `kafkalite-zookeeper`: the jars of an Apache ZooKeeper server in a wheel, which `kafkalite cluster up` finds.

| File | Content |
|---|---|
| `jars.txt` | the jars, each with its SHA-256 and its licence |
| `jars` | reads that list; checks files against it |
| `module` | the Python module of the wheel |
| `licences` | notices, and the licences that a jar requires and does not have inside |
| `wheel` | the wheel as bytes |
| `build` | gets the jars by Maven and writes the wheel: `python -m deploy.zookeeper [FOLDER]` |
"""
