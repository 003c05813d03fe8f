"""The program for spark-submit, which takes a file and no module: `python -m spark_jobs` under another name."""

from spark_jobs.commands import main

main(prog_name="nightly.py", auto_envvar_prefix="KAFKALITE_SPARK")
