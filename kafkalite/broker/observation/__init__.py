"""The broker's HTTP listener for people and monitoring: metrics, health, status, and a page that shows the cluster live.

| File | What it does |
|---|---|
| `http` | HTTP/1.1 on the broker's event loop, with bounds; knows nothing of brokers |
| `pages` | which path is answered by what |
| `exposition` | the text format of Prometheus |
| `broker_metrics` and the other `…_metrics` | collected from counters that the parts have anyway, when somebody asks |
| `status` | the document of `/status.json`, and what of it changed |
| `history` | figures of the last hour, for plots |
| `live` | server-sent events for the page |
| `groups` | groups with their lag |
| `zookeeper_groups` | groups of old consumers, which commit to ZooKeeper |
| `loop_lag` | how late the event loop is |

Nothing here is imported by a broker without `kafkalite.http.listener`. Whatever walks through many partitions or groups does it in
portions, so that requests are served between them.
"""
