"""Command lines as Kafka's tools read them: options, help, exit status, and errors in Kafka's words."""
