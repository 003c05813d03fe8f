"""What starts a night every night: a systemd timer and service, a line of cron, an Airflow DAG, from one description.

All three run the same command for the day that has ended, in the time zone of the run's own options. A run that failed is tried again where
that can help (not by cron, which knows no retries).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

from spark_jobs.batch.failures import BadRequestError, Exit

NOT_WORTH_A_RETRY: Final = (
    Exit.USAGE,
    Exit.NOT_FOUND,
    Exit.NOT_AUTHORIZED,
    Exit.CHECK_FAILED,
    Exit.DATA_LOSS,
    Exit.OUTPUT_FAILED,
    Exit.DEAD_LETTERS,
)
"""They call for a person: another try ends in the same way."""

_LONGEST_WINDOW_MINUTES: Final = 20 * 60
"""In which tries are counted: the next night's first try is not one of this night's."""
_TIME: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")
_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,99}")
_PLAIN: Final = re.compile(r"[\w@+=:,./-]+", re.ASCII)
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\t": r"\t"})
_HARDENING: Final = """\
CapabilityBoundingSet=
LockPersonality=yes
NoNewPrivileges=yes
PrivateDevices=yes
PrivateTmp=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHome=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectSystem=strict
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
ProtectProc=invisible
RemoveIPC=yes
"""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A night's description.

    `arguments` are the options of the run without its date, `program` the words that start it (`…/kafkalite`), `zone` where the days begin
    and by whose clocks `at` ("00:30") is meant, `writable` the local folders that the run writes to, `start` the first day for Airflow.
    """

    name: str
    at: str
    zone: str
    program: str
    arguments: Sequence[str]
    user: str
    tries: int
    retry_minutes: int
    limit_hours: int
    start: date
    writable: Sequence[str] = ()

    def check(self) -> None:
        """Raise BadRequestError for a name or a time that the three could not take."""
        if not _NAME.fullmatch(self.name):
            raise BadRequestError(f"--unit {self.name!r} is no name: give lower-case letters, digits and hyphens")
        if not _TIME.fullmatch(self.at):
            raise BadRequestError(f"--at {self.at!r} is no time of the day; give one like 00:30")
        for word in (*self.arguments, self.program, self.user):
            if "\n" in word or "\0" in word:
                raise BadRequestError(f"{word!r} has a line break, which cron and systemd do not take")

    @property
    def command(self) -> list[str]:
        """The words of the run, but for its date."""
        return [self.program, "spark", "run", *self.arguments]

    @property
    def cron_time(self) -> str:
        """Minute and hour of every day, in cron's five fields."""
        hour, minute = self.at.split(":")
        return f"{int(minute)} {int(hour)} * * *"


def write_timer(schedule: Schedule) -> str:
    """Return the unit that starts the service; a night that the machine slept through is made up for."""
    return (
        f"# /etc/systemd/system/{schedule.name}.timer\n"
        f"[Unit]\nDescription={schedule.name} every day at {schedule.at} {schedule.zone}\n\n"
        f"[Timer]\nOnCalendar=*-*-* {schedule.at}:00 {schedule.zone}\nRandomizedDelaySec=5min\nPersistent=true\n\n"
        "[Install]\nWantedBy=timers.target\n"
    )


def write_service(schedule: Schedule) -> str:
    """Return the unit of the run."""
    name, retry = schedule.name, schedule.retry_minutes
    window_minutes = min(schedule.tries * (schedule.limit_hours * 60 + retry), _LONGEST_WINDOW_MINUTES)
    prevented = " ".join(str(int(code)) for code in NOT_WORTH_A_RETRY)
    writable = "".join(f"ReadWritePaths={quote_path(path)}\n" for path in schedule.writable)
    if writable:
        writable = f"# These folders must be there before the first night, and belong to the user.\n{writable}"
    return (
        f"# /etc/systemd/system/{name}.service\n"
        f"[Unit]\nDescription=nightly Spark jobs on a kafkalite cluster ({name})\n"
        "Wants=network-online.target\nAfter=network-online.target\n"
        f"# {schedule.tries} tries, then the unit has failed.\n"
        f"StartLimitIntervalSec={window_minutes}min\nStartLimitBurst={schedule.tries}\n\n"
        f"[Service]\nType=oneshot\nUser={schedule.user}\n"
        f"ExecStart={' '.join(map(quote_word, schedule.command))}\n"
        f"Restart=on-failure\nRestartSec={retry}min\n"
        "# What another try does not cure: usage, unknown topic, not authorized, differences, lost offsets, output, dead letters.\n"
        f"RestartPreventExitStatus={prevented}\nTimeoutStartSec={schedule.limit_hours}h\n"
        f"StateDirectory={name}\nWorkingDirectory=/var/lib/{name}\n{writable}UMask=0027\n\n{_HARDENING}"
    )


def write_cron(schedule: Schedule) -> str:
    """Return a file for /etc/cron.d; of several runs at a time all but one wait."""
    line = shlex.join([*schedule.command, *([] if "--wait" in schedule.arguments else ["--wait", "3600"])])
    return (
        f"# /etc/cron.d/{schedule.name}: cron sends what the run says on stderr by mail.\n"
        "# A cron that does not know CRON_TZ goes by the machine's clock.\n"
        f"CRON_TZ={schedule.zone}\n{schedule.cron_time}  {schedule.user}  {line.replace('%', chr(92) + '%')}\n"
    )


def write_dag(schedule: Schedule) -> str:
    """Return a DAG for Airflow 2.7 and newer, whose runs are those of the days since `start`."""
    values: Mapping[str, object] = {
        "command": schedule.command,
        "codes": {int(code) for code in NOT_WORTH_A_RETRY},
        "name": schedule.name.replace("-", "_"),
        "cron": schedule.cron_time,
        "zone": schedule.zone,
        "start": f"{schedule.start.year}, {schedule.start.month}, {schedule.start.day}",
        "retries": schedule.tries - 1,
        "minutes": schedule.retry_minutes,
        "hours": schedule.limit_hours,
        "at": schedule.at,
    }
    return _DAG.format(**values)


_DAG: Final = '''\
"""Nights at {at} {zone}, each for the day that has ended. Put this file into Airflow's folder of DAGs; to run a day again is safe."""

import subprocess
from datetime import timedelta

import pendulum
from airflow.exceptions import AirflowException, AirflowFailException
from airflow.timetables.interval import CronDataIntervalTimetable

try:
    from airflow.sdk import dag, task
except ImportError:  # Airflow 2
    from airflow.decorators import dag, task

COMMAND = {command!r}
ZONE = {zone!r}
NOT_WORTH_A_RETRY = {codes!r}
"""Usage, unknown topic, not authorized, differences, lost offsets, output, dead letters: they call for a person."""


@dag(
    dag_id={name!r},
    # A run has the interval of a day, also in Airflow 3, where a bare line of cron has none.
    schedule=CronDataIntervalTimetable({cron!r}, timezone=ZONE),
    start_date=pendulum.datetime({start}, tz=ZONE),
    catchup=True,
    max_active_runs=1,
    default_args={{
        "retries": {retries},
        "retry_delay": timedelta(minutes={minutes}),
        "execution_timeout": timedelta(hours={hours}),
    }},
    tags=["kafkalite"],
)
def nightly():
    @task
    def run(data_interval_start=None):
        """Run the night of the day on which the data interval begins."""
        day = data_interval_start.astimezone(pendulum.timezone(ZONE)).strftime("%Y-%m-%d")
        done = subprocess.run([*COMMAND, "--date", day], check=False)
        if done.returncode in NOT_WORTH_A_RETRY:
            raise AirflowFailException(f"exit code {{done.returncode}}: see the log above")
        if done.returncode:
            raise AirflowException(f"exit code {{done.returncode}}: another try may help")

    run()


nightly()
'''

FORMS: Final = {
    "timer": write_timer,
    "service": write_service,
    "cron": write_cron,
    "airflow": write_dag,
}


def quote_word(word: str) -> str:
    """Return a word of a command line as systemd takes it (systemd.service(5), "Command lines"): `%` and `$` are doubled."""
    escaped = word.replace("%", "%%").replace("$", "$$")
    return escaped if _PLAIN.fullmatch(word) else f'"{escaped.translate(_ESCAPES)}"'


def quote_path(path: str) -> str:
    """Return a path of a unit's setting, where `$` means nothing."""
    escaped = path.replace("%", "%%")
    return escaped if _PLAIN.fullmatch(path) else f'"{escaped.translate(_ESCAPES)}"'
