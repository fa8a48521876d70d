"""Runs of the jobs of `workloads.py`, natively and recorded, as who measures them starts them."""
import os
import shutil
import sys
import threading
import time

import where
from sides import Side
from step_costs import NoDevice

OF_ALLOCATORS = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "XLA_PYTHON_CLIENT_ALLOCATOR")
# For PYTORCH_CUDA_ALLOC_CONF.
POOL = "backend:cudaMallocAsync"
EXPANDABLE = "expandable_segments:True"


def plain_environment():
    """Without what would choose another allocator than the framework's default."""
    kept = {name: value for name, value in os.environ.items()
            if name not in OF_ALLOCATORS and not name.startswith("EBBTIDE_")}
    # Else what JAX reserves says nothing about the job.
    return dict(kept, XLA_PYTHON_CLIENT_PREALLOCATE="false")


def python():
    """As somebody types it, where that is the one that runs this."""
    return "python3" if shutil.which("python3") == sys.executable else sys.executable


class RunSetup:
    """How a run of a job is started (see sides.Side).

      native      with the framework's default allocator
      expandable  natively, with PyTorch's expandable segments
      recorded    under `ebbtide record --steps N`
      marked      the same to the end, and the job tells where steps begin by ebbtide_step()
      pool        natively, with PyTorch on the driver's pool as a recording has it
    """

    def __init__(self, ebbtide, folder, steps=3, words=()):
        self.ebbtide, self.folder = os.path.abspath(ebbtide), folder
        self.steps = steps  # that are recorded
        self.words = list(words)  # of the job's command line, behind its name

    def file(self, mode, job, suffix):
        return os.path.join(self.folder, f"{job}.{mode}{suffix}")

    def log_path(self, _mode, _job):
        return os.devnull

    def record(self, profile):
        return ["record", "--steps", str(self.steps), "-o", profile]

    def start(self, mode, job, _log):
        # A profile keeps the command line: it shall say as little as can be of this machine.
        train = [python(), os.path.relpath(os.path.join(where.HERE, "workloads.py")), job,
                 *self.words, "--wait"]
        environment = plain_environment()
        chosen = {"pool": POOL, "expandable": EXPANDABLE}.get(mode)
        if chosen:
            environment["PYTORCH_CUDA_ALLOC_CONF"] = chosen
        if mode == "marked":
            train.append("--mark-steps")
        if mode in ("native", "pool", "expandable"):
            return train, environment
        profile = self.file(mode, job, ".ebp")
        # Of marked steps the first few would do: here are all that another recording may have.
        how = ["record", "-o", profile] if mode == "marked" else self.record(profile)
        return [self.ebbtide, *how, "--", *train], environment

    def command(self, job):
        """What somebody types, without the paths of this machine."""
        return " ".join(["ebbtide", *self.record(f"{job}.ebp"), "--", "python3",
                         "scripts/bench/workloads.py", job, *self.words])


class Run(Side):
    """One process of a job, which waits with its imports made until it is told to go."""

    def __init__(self, mode, job, setup):
        self.began = time.monotonic()
        super().__init__(mode, job, setup, NoDevice())

    def hello(self):
        if self.versions is None:
            super().hello()
            self.imported = time.monotonic() - self.began

    def go(self, patience_s):
        """The job's own result, and in it the seconds and the memory as seen from outside."""
        self.patience_s = max(1, patience_s)
        self.hello()
        began = time.monotonic()
        result = self.ask("go")
        stepped = time.monotonic()
        resident = self.ended()
        result["seconds"].update(until_last_step=round(stepped - began, 3),
                                 until_exit=round(time.monotonic() - began, 3))
        result.update(resident_bytes=resident, until_ready=self.imported)
        return result

    def ended(self):
        """Waits for the end. Returns the most resident bytes of one process of the run."""
        self.process.stdin.close()
        watchdog = threading.Timer(self.patience_s, self.lose_patience)
        watchdog.daemon = True
        watchdog.start()
        try:
            _, status, usage = os.wait4(self.process.pid, 0)
        finally:
            watchdog.cancel()
        self.process.returncode = os.waitstatus_to_exitcode(status)
        if self.process.returncode != 0:
            why = "does not end" if self.overdue else f"exit code {self.process.returncode}"
            raise RuntimeError(f"{self.mode}: {why}")
        return usage.ru_maxrss * 1024
