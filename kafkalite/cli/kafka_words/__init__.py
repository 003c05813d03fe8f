"""Words of Apache Kafka's tools on our command line: taken where they mean the same, answered with a remedy where they do not."""
