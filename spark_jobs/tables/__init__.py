"""Delta Lake and Iceberg tables as the output of nights: packages, sessions, commits, schemas, reading, maintenance."""
