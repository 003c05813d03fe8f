"""An Airflow DAG (2.7 or newer) for the nightly jobs: a run for each day's data interval, tried again where that can help.

`kafkalite spark schedule --as airflow` prints one for the options of your own night.
Put it into Airflow's folder of DAGs. Airflow's own backfill and "clear" are safe: a day that is run again is the same as before.
"""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime, timedelta

from airflow.exceptions import AirflowException, AirflowFailException
from airflow.timetables.interval import CronDataIntervalTimetable

try:
    from airflow.sdk import dag, task
except ImportError:  # Airflow 2
    from airflow.decorators import dag, task

COMMAND = ["/opt/kafkalite/bin/kafkalite", "spark", "run"]
TOPICS = ["flights"]
OUTPUT = "hdfs://name/nightly"
PLACE = ["-b", "broker-1:9092,broker-2:9092", "-z", "zookeeper-1:2181,zookeeper-2:2181"]

NOT_WORTH_A_RETRY = {2, 3, 6, 7, 8, 9, 10}
"""Usage, unknown topic, not authorized, differences, data loss, output, dead letters: they call for a person."""


@dag(
    dag_id="kafkalite_nightly",
    # A run has the interval of a day, also in Airflow 3, where a bare line of cron has none.
    schedule=CronDataIntervalTimetable("30 0 * * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=True,
    max_active_runs=1,
    default_args={"retries": 3, "retry_delay": timedelta(minutes=10)},
    tags=["kafkalite"],
)
def nightly():
    @task
    def run(data_interval_start=None):
        """Archive and audit the day that the data interval begins with."""
        topics = [word for topic in TOPICS for word in ("--topic", topic)]
        day = data_interval_start.strftime("%Y-%m-%d")
        done = subprocess.run([*COMMAND, "--date", day, "--output", OUTPUT, *topics, *PLACE], check=False)
        if done.returncode in NOT_WORTH_A_RETRY:
            raise AirflowFailException(f"exit code {done.returncode}: see the log above")
        if done.returncode:
            raise AirflowException(f"exit code {done.returncode}: another try may help")

    run()


nightly()
