"""The report of processor time counts this process and those below it."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from tests.processor_time import processor_s, worked_s

WORK_S = 0.1
WORK = f"import time\nwhile time.process_time() < {WORK_S}: pass"


def test_work_of_this_process_and_of_a_child_that_has_ended_is_counted() -> None:
    before_s = processor_s(os.getpid())
    subprocess.run([sys.executable, "-c", WORK], check=True, timeout=60)
    after_child_s = processor_s(os.getpid())
    assert after_child_s - before_s >= WORK_S * 0.8
    end_s = time.process_time() + WORK_S
    while time.process_time() < end_s:
        pass
    assert processor_s(os.getpid()) - after_child_s >= WORK_S * 0.8


def test_the_clock_of_a_process_counts_its_work_and_not_its_children() -> None:
    before_s, own_s = worked_s(os.getpid()), time.process_time()
    subprocess.run([sys.executable, "-c", WORK], check=True, timeout=60)
    end_s = time.process_time() + WORK_S
    while time.process_time() < end_s:
        pass
    assert abs(worked_s(os.getpid()) - before_s - (time.process_time() - own_s)) < WORK_S / 10
