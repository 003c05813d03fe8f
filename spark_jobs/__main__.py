"""`python -m spark_jobs`; see `commands`. `kafkalite spark` becomes this program, and says by what name it was called."""

import os

from kafkalite.standard_streams import standard_streams
from spark_jobs.commands import main

if __name__ == "__main__":
    called_as = os.environ.pop("_KAFKALITE_SPARK_CALLED_AS", None)
    with standard_streams():
        main(
            prog_name="python -m spark_jobs" if called_as is None else "kafkalite spark",
            auto_envvar_prefix="KAFKALITE_SPARK",
            obj=called_as,
        )
