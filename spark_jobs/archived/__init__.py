"""The rows that an archive has of a run, from folders of Parquet or from tables, each hashed as brokers hash a record."""
