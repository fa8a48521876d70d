"""The sides of a comparison: one training process in one mode each, and how it is started."""
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time

import pynvml

import waits
import where

# PyTorch on the driver's own stream-ordered pool, without Ebbtide: not asked for, but it tells
# what of a difference is the backend's.
POOL = "pool"
PLANNED = ["off", "managed", "swap"]  # they start when the recording has been planned
# A device that hangs must not take all the time that there is.
PATIENCE_S = 240


class Device:
    """Used bytes of the GPU, watched by a thread of its own."""

    def __init__(self):
        pynvml.nvmlInit()
        self.handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        self.peak = 0
        threading.Thread(target=self.watch, daemon=True).start()

    def used(self):
        return pynvml.nvmlDeviceGetMemoryInfo(self.handle).used

    def watch(self):
        while True:
            self.peak = max(self.peak, self.used())
            time.sleep(0.01)

    def reset(self):
        self.peak = self.used()
        return self.peak

    def settle(self):
        """Waits until a process that has ended no longer holds memory."""
        before, deadline = self.used(), time.monotonic() + 10
        while time.monotonic() < deadline:
            time.sleep(0.3)
            now = self.used()
            if now == before:
                return
            before = now

    def describe(self):
        return {"gpu": pynvml.nvmlDeviceGetName(self.handle),
                "driver": pynvml.nvmlSystemGetDriverVersion()}


class Side:
    """One training process in one mode."""

    def __init__(self, mode, job, setup, device):
        self.mode, self.device = mode, device
        self.ms = {"async": [], "item": []}
        self.losses = []
        self.peak = 0
        self.state_bytes = 0
        self.torch = {}
        self.versions = None
        self.turns = []  # (kind, samples in the run log when it had ended)
        self.overdue = False
        self.patience_s = PATIENCE_S
        self.log_path = setup.log_path(mode, job)
        command, environment = setup.start(mode, job, self.log_path)
        # A group of its own: the command's child has to go with it.
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, start_new_session=True)

    def strike(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def kill(self):
        self.strike()
        self.process.wait()

    def lose_patience(self):
        self.overdue = True
        self.strike()

    def ask(self, line=None):
        watchdog = threading.Timer(self.patience_s, self.lose_patience)
        watchdog.daemon = True
        watchdog.start()
        try:
            if line:
                try:
                    self.process.stdin.write(line + "\n")
                    self.process.stdin.flush()
                except OSError:
                    pass  # it has ended: there is no answer either
            while True:
                answer = self.process.stdout.readline()
                if not answer:
                    why = (f"no answer within {self.patience_s:.0f} s" if self.overdue
                           else f"the job ended ({self.process.wait()})")
                    raise RuntimeError(f"{self.mode}: {why}")
                if answer.startswith("{"):
                    return json.loads(answer)
        finally:
            watchdog.cancel()

    def end_turn(self, kind, answer):
        self.losses += answer["losses"]
        self.torch = {k: answer[k] for k in ("torch_allocated", "torch_reserved")}
        self.turns.append((kind, len(waits.read_log(self.log_path)["samples"])))

    def hello(self):
        """Waits until the job has imported what it needs."""
        if self.versions is None:
            self.versions = self.ask()

    def start(self):
        self.hello()
        self.before = self.device.reset()
        answer = self.ask("start")
        self.peak = self.device.peak - self.before
        self.settled = self.device.used()
        self.state_bytes = answer["state_bytes"]
        self.end_turn("warm", answer)

    def steps(self, count, kind):
        at_begin = self.device.reset()
        answer = self.ask(f"steps {count} {kind}")
        grown = self.device.peak - at_begin
        self.peak = max(self.peak, self.settled - self.before + grown)
        self.settled += self.device.used() - at_begin
        self.ms[kind] += answer["step_ms"]
        self.end_turn(kind, answer)

    def quit(self):
        try:
            self.process.stdin.write("quit\n")
            self.process.stdin.close()
            code = self.process.wait(timeout=60)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise RuntimeError(f"{self.mode}: does not end: {error}") from error
        if code != 0:
            raise RuntimeError(f"{self.mode}: exit code {code}")

    def log(self):
        return waits.read_log(self.log_path)


class Setup:
    """How a mode is started: through the command, or by environment variables alone."""

    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.logs = 0
        self.library = args.library
        if self.library is None:
            beside = os.path.join(os.path.dirname(os.path.abspath(args.ebbtide)), "libebbtide.so")
            self.library = beside if os.path.exists(beside) else os.path.normpath(
                os.path.join(os.path.dirname(beside), "..", "lib", "libebbtide.so"))

    def path(self, job, suffix):
        return os.path.join(self.folder, "-".join(w.strip("-") for w in job) + suffix)

    def log_path(self, mode, job):
        self.logs += 1
        return self.path(job, f".{mode}-{self.logs}.log")

    def start(self, mode, job, log):
        train = [sys.executable, os.path.join(where.HERE, self.args.job + "_train.py"), *job]
        environment = dict(os.environ, EBBTIDE_LOG="info")
        environment.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        if mode == POOL:
            environment["PYTORCH_CUDA_ALLOC_CONF"] = "backend:cudaMallocAsync"
        if mode in ("native", POOL):
            return train, environment
        profile, plan = self.path(job, ".ebp"), self.path(job, ".plan.json")
        if self.args.via == "command":
            verb = (["record", "-o", profile] if mode == "record"
                    else ["run", "--plan", plan, "--log", log, "--cold", mode])
            return [self.args.ebbtide, *verb, "--", *train], environment
        environment["LD_PRELOAD"] = self.library
        if mode == "record":
            if os.path.exists(profile):  # else the recording would go beside it
                os.remove(profile)
            environment.update(EBBTIDE_MODE="record", EBBTIDE_PROFILE=profile)
        else:
            environment.update(EBBTIDE_MODE="replay", EBBTIDE_PLAN=plan, EBBTIDE_COLD=mode,
                               EBBTIDE_RUN_LOG=log)
        return train, environment

    def plan(self, job):
        """From the recording as far as it has been flushed, if its process lives on."""
        command = [self.args.ebbtide, "plan", self.path(job, ".ebp"), "-o",
                   self.path(job, ".plan.json"), "--json"]
        if self.args.budget:
            command += ["--budget", self.args.budget]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"ebbtide plan: {done.stdout}{done.stderr}")
        return json.loads(done.stdout)
