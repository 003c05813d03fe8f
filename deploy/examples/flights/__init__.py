"""The demo: the flights of 2013 through a cluster, and a nightly batch on Spark. `./deploy/demo` runs it.

The cluster is `kafkalite cluster up` as a process (`cluster_process`). `publisher` sends the rows of `records` and kills a leader, `check`
reads them back in another process, `night` archives a day with Spark, and `console_process` shows all of it in a browser.
"""
