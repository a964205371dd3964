"""Protocol of workers in Python: messages to and from `esker bench`, and times of operations.

    python -c PROTOCOL WORK

WORK is a program that imports this one as `esker_bench`, and calls `serve`. The worker reads a job and steps from
standard input, and writes answers to standard output. Each is a line of JSON, as for workers in Rust (worker.rs).
"""

import json
import os
import sys
import time

# Steps between two powers of two, to which latencies are rounded down.
STEP_BITS = 5


class Meter:
    """Times of consecutive operations, recorded as measure.rs and latency.rs do."""

    def __init__(self):
        self.start_s = time.time()
        self.begin = self.last = time.perf_counter_ns()
        self.ops = self.bytes = self.max_ns = 0
        self.counts = {}

    def tick(self, ops, size):
        """Record operations that began at the end of the previous ones and end now."""
        now = time.perf_counter_ns()
        took, self.last = max(now - self.last, 1), now
        # Latencies that agree in their first bits are counted together.
        shift = max(took.bit_length() - STEP_BITS - 1, 0)
        value = took >> shift << shift
        self.counts[value] = self.counts.get(value, 0) + 1
        self.max_ns = max(self.max_ns, took)
        self.ops += ops
        self.bytes += size

    def result(self):
        """The answer to a step."""
        end_s = self.start_s + (self.last - self.begin) / 1e9
        latency = {"max_ns": self.max_ns, "counts": sorted(self.counts.items())}
        return {"ops": self.ops, "bytes": self.bytes, "start_s": self.start_s, "end_s": end_s, "latency": latency}


NOTHING = {"ops": 0, "bytes": 0, "start_s": 0.0, "end_s": 0.0, "latency": {"max_ns": 0, "counts": []}}


def pin(cpu):
    """Pin this process to a processor, if one is given."""
    if cpu is not None:
        os.sched_setaffinity(0, [cpu])


def answer_to(worker, order):
    """Prepare a step, or run it at its start time."""
    if "prepare" in order:
        worker.prepare(order["prepare"])
        return NOTHING
    begin = order["begin"]
    left_ns = begin["start_ns"] - time.monotonic_ns()
    if left_ns > 0:
        time.sleep(left_ns / 1e9)
    return worker.run(begin["step"])


def serve(make):
    """Create a worker for the job, and run its steps until the end of the input."""
    # Redirect the output of libraries to standard error, so that standard output has answers only.
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    worker = None
    for line in sys.stdin:
        message, measured = json.loads(line), NOTHING
        try:
            if worker is None:
                worker = make(message)
            else:
                measured = answer_to(worker, message)
            answer = {"done": {"measured": measured, "event_times": []}}
        except Exception as error:
            answer = {"failed": f"{type(error).__name__}: {error}".replace("\n", " ")}
        print(json.dumps(answer), file=output, flush=True)


if __name__ == "__main__":
    sys.modules["esker_bench"] = sys.modules["__main__"]
    exec(compile(sys.argv[1], "<work>", "exec"), {"__name__": "work"})
