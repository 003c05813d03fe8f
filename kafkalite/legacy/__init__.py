"""Apache Kafka's command-line tools under their own names, with their options and output, on top of this project's functions.

One file for each tool, `main` in each; `kafkalite.tool_names` lists them, and `kafkalite kafka-tools` puts them into a folder. The tables
that `--help` prints and every message are those of Apache Kafka 3.9 word for word (and, behind `--zookeeper`, of 2.8), because scripts
read them; `tests/peers` compares the two. Modules are imported when a command needs them: a tool has to start in a tenth of the time that
Java takes. A tool of several files keeps its options and their meaning in `options`, which its main module and its actions import; no
action imports the main module.
"""

KAFKA_VERSION = "3.9.1"
"""The version whose tools these are, and which `--version` prints."""
KAFKA_COMMIT = "f745dfdcee2b9851"
"""The commit that tools with argparse4j print behind the version."""
