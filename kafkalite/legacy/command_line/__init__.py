"""Command lines as Kafka's tools read them: options, help, start, end, and failures in their words."""
