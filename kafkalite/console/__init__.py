"""The page of `kafkalite console`: clusters in a browser, through ordinary clients, so that brokers reveal no more than to any.

| File | What it does |
|---|---|
| `app` | wires the parts, and has the table of what is served at which path |
| `clusters` | consoles of several clusters behind one address, each connected to in the background |
| `serving` | sockets and signals: binds, and serves until it is interrupted |
| `access` | who is answered: the name that was asked for, where a request comes from, the login |
| `parameters` | what a request says, checked and bounded |
| `state_survey` | asks ZooKeeper and every broker once a second who is there and leads what; no slow one holds it up |
| `state_sources`, `asking`, `membership` | what is asked of each of them, in which order, and whom to believe where they differ |
| `topic_states` | topics with leaders and ISRs, and what has changed of them |
| `survey` | asks the cluster every few seconds for figures: ends of partitions, sizes, groups |
| `changes`, `freshness` | the timeline with ZooKeeper's times; how old what a page shows is |
| `topics` | lists of topics, one topic |
| `reading` | records of a topic: pages, search, what comes live |
| `record_ranges`, `transaction_marks` | ranges of offsets read for them; which records are of aborted or open transactions |
| `writing` | records written |
| `decoding` | bytes as a person reads them |
| `schemas/` | values whose schemas a registry has: Avro, Protobuf |
| `actions/` | what can be changed, each planned first and then executed |
| `groups` | consumer groups, and moves of their offsets |
| `transactions` | transactions of coordinators, and those that hang |
| `cluster` | overview, brokers' settings, moves of partitions, ACLs and users |
| `znodes` | the tree of ZooKeeper, and what each znode means |
| `nights` | what the nightly jobs on Spark have done |
| `events` | server-sent events |
| `page/` | the page: ES modules and style sheets as they are served; nothing comes from elsewhere |

What a topic contains is data on all of the way: it leaves as JSON, and the page puts it in as text.
"""
