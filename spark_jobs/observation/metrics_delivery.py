"""A run's metrics to where Prometheus finds them: a file for node_exporter's textfile collector, a Pushgateway. Failures are told."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from spark_jobs.observation.exposition import CONTENT_TYPE, find_value, write_families
from spark_jobs.observation.http_request import send_request
from spark_jobs.observation.run_metrics import LAST_SUCCESS, labels_of_run, run_families, success_family
from spark_jobs.observation.run_summary import RunSummary, without_login

JOB: Final = "kafkalite_spark"
_GROUPED: Final = "/metrics/job"

Tell = Callable[[str], None]


def write_metrics_file(path: Path, run: RunSummary, tell: Tell) -> None:
    """Replace the file in one step. After a run that failed it still has the time of the last success, which is read from it first."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        before_s = find_value(_read(path), LAST_SUCCESS, labels_of_run(run))
        text = write_families([success_family(run, before_s), *run_families(run)])
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as problem:
        temporary.unlink(missing_ok=True)
        tell(f"warning: the metrics were not written to {path}: {problem.strerror or problem}")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""


def push_metrics(url: str, run: RunSummary, tell: Tell) -> None:
    """Replace the run's group in a Pushgateway. The time of the last success has a group of its own, which runs that fail leave alone."""
    group = group_url(url, run)
    pushed = {group: write_families(run_families(run))}
    if run.succeeded:
        pushed[f"{group}/result/success"] = write_families([success_family(run)])
    for target, text in pushed.items():
        problem = send_request("PUT", target, text.encode(), {"Content-Type": CONTENT_TYPE})
        if problem is not None:
            tell(f"warning: the metrics were not pushed to {without_login(url)}: {problem}")
            return


def group_url(url: str, run: RunSummary) -> str:
    """Return the URL of the run's group; one that names a job already has only the labels added. Values may have any letters."""
    base = url.rstrip("/")
    if _GROUPED not in base:
        base += f"{_GROUPED}/{JOB}"
    for name, value in labels_of_run(run).items():
        base += f"/{name}@base64/{base64.urlsafe_b64encode(value.encode()).decode() or '='}"
    return base
