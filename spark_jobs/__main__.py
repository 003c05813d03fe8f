"""`python -m spark_jobs`; see `commands`."""

from kafkalite.standard_streams import standard_streams
from spark_jobs.commands import main

if __name__ == "__main__":
    with standard_streams():
        main(prog_name="python -m spark_jobs", auto_envvar_prefix="KAFKALITE_SPARK")
