"""Many seeds: `python -m tests.simulation --seeds 100`, or one of them with all that happened: `--seed 7 --trace`."""

from __future__ import annotations

import argparse
import sys
import time
import traceback

from tests.simulation.scenario import Life


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds")
    parser.add_argument("--seed", type=int, default=0, help="the first of them")
    parser.add_argument("--trace", action="store_true", help="print every change of state")
    parser.add_argument("--all", action="store_true", help="and all that went over the network or to a disk")
    options = parser.parse_args()
    failed = []
    for seed in range(options.seed, options.seed + options.seeds):
        life = Life(seed)
        life.simulation.trace.shows_all = options.all
        began_s = time.process_time()
        try:
            life.run()
            result = "holds"
        except Exception:
            failed.append(seed)
            result = traceback.format_exc()
        if options.trace:
            print(life.simulation.trace)
        trace = life.simulation.trace
        print(
            f"seed {seed}: {life.simulation.time.now_s:.1f} s in {time.process_time() - began_s:.2f} s of CPU, "
            f"{'; '.join(life.outcome.faults)}; digest {trace.digest}: {result}",
            flush=True,
        )
    if failed:
        print(f"{len(failed)} seeds failed: {', '.join(map(str, failed))}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
