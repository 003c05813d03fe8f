"""The loop of every Python program of the museum: steps from stdin, answers to stdout; see tests/museum/contract.py."""

import json
import os
import signal
import sys
import traceback


def tell(partition, offset, value):
    """For `follow`: a record that was seen."""
    print(json.dumps({"partition": partition, "offset": offset, "value": value.decode()}), file=_answers, flush=True)


def end_at_sigterm():
    """`follow` then leaves its group in its `finally`."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))


def serve(steps):
    """`steps` are functions by name; each gets the words of the step and may return texts."""
    end_at_sigterm()
    for line in sys.stdin:
        name, *words = line.split()
        try:
            values = steps[name](*words)
            answer = {"ok": True, "values": [str(each) for each in values or ()]}
        except Exception as problem:
            traceback.print_exc()
            answer = {"ok": False, "error": repr(problem)}
        print(json.dumps(answer), file=_answers, flush=True)
    os._exit(0)  # threads of a client do not hold it up


def texts(values):
    return [each.decode() for each in values]


# Whatever else prints does not mix with the answers.
_answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
