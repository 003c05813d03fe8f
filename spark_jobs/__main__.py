"""`python -m spark_jobs`; see `commands`."""

from spark_jobs.commands import main

if __name__ == "__main__":
    main(prog_name="python -m spark_jobs", auto_envvar_prefix="KAFKALITE_SPARK")
