"""The ranks of one data-parallel job: started together, watched, and ended together."""
import collections
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time

LAST_LINES = 20
LOOK_S = 0.05
# A rank that dies takes others with it; who was first is seen before they are killed.
GRACE_S = 1
DUMP_S = 2
TOOL_S = 40
# What shows native stacks, where it is installed; Python's own are always there.
STACK_TOOLS = [["py-spy", "dump", "--native", "--pid", "{pid}"],
               ["gdb", "-p", "{pid}", "-batch", "-ex", "set print frame-arguments none", "-ex",
                "set print address off", "-ex", "thread apply all backtrace 12"]]
GDB_STARTS = ("Thread", "#")  # the rest of what gdb says is about itself


class Rank:
    """One process of ddp_job.py; the command in front of it, if any, is in its group."""

    def __init__(self, number, command, environment):
        self.number = number
        self.pid = self.step = self.result = None
        self.heard = time.monotonic()  # of progress, not of whatever else it says
        self.ended = None
        self.said = []
        self.last = collections.deque(maxlen=LAST_LINES)
        self.dump = None
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        errors="replace", start_new_session=True)
        self.readers = [threading.Thread(target=self.read, args=work, daemon=True)
                        for work in ((self.process.stdout, self.hear_out),
                                     (self.process.stderr, self.hear_error))]
        for reader in self.readers:
            reader.start()

    @staticmethod
    def read(pipe, hear):
        for line in pipe:
            hear(line.rstrip("\n"))

    def hear_out(self, line):
        if line.startswith("{"):
            # A cut line of a rank that was killed is no result.
            with contextlib.suppress(ValueError):
                self.result = json.loads(line)
        elif line.startswith("pid "):
            self.pid = int(line.split()[1])
        elif line.startswith("step "):
            self.step = int(line.split()[1])
        else:
            self.last.append(line)
            return
        self.heard = time.monotonic()

    def hear_error(self, line):
        if self.dump is not None:
            self.dump.append(line)
            return
        self.last.append(line)
        if line.startswith("ebbtide"):
            self.said.append(line)

    def poll(self):
        code = self.process.poll()
        if code is not None and self.ended is None:
            self.ended = time.monotonic()
        return code

    def quiet_for(self):
        """Seconds without progress; what goes before the job itself, imports above all, is none."""
        return time.monotonic() - self.heard if self.pid else 0

    def where(self):
        if self.result:
            return "after its result"
        if self.step is not None:
            return f"after step {self.step}"
        return "before its first step" if self.pid else "before it began"

    def stacks(self):
        """What its threads are doing, as lines of text."""
        if self.pid is None:
            return ["it has not begun"]
        native = threads_of(self.pid)
        for tool in STACK_TOOLS:
            if shutil.which(tool[0]):
                native += run_tool([word.format(pid=self.pid) for word in tool])
        # Last, for an interpreter that is ending has no handler any more and dies of it.
        self.dump = []
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGUSR1)
        time.sleep(DUMP_S)
        return (list(self.dump) or ["no answer to SIGUSR1"]) + native

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        # One that is stuck in the driver cannot be killed, and must not hold us up either.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=20)

    def finish(self):
        """Everything that it said has been read, or never will be."""
        for reader in self.readers:
            reader.join(timeout=5)


def threads_of(pid):
    """Its threads, and where in the kernel each of them waits."""
    lines = ["threads:"]
    folder = f"/proc/{pid}/task"
    with contextlib.suppress(OSError):
        for thread in sorted(os.listdir(folder), key=int):
            # One may end while it is looked at.
            with contextlib.suppress(OSError):
                name, place = (read_text(f"{folder}/{thread}/{file}") for file in ("comm", "wchan"))
                lines.append(f"  {thread} {name} {place if place != '0' else 'running'}")
    return lines


def read_text(path):
    with open(path) as file:
        return file.read().strip()


def run_tool(command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace",
                              timeout=TOOL_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        return [f"{command[0]}: {error}"]
    lines = (done.stdout + done.stderr).splitlines()
    if done.returncode == 0 and command[0] == "gdb":
        lines = [line for line in lines if line.startswith(GDB_STARTS)]
    return [f"{command[0]}:", *lines]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(command, count):
    """Starts `count` ranks of one command, as a launcher would."""
    port = str(free_port())
    ranks = []
    for number in range(count):
        environment = dict(os.environ, RANK=str(number), LOCAL_RANK=str(number),
                           WORLD_SIZE=str(count), MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
        environment.setdefault("OMP_NUM_THREADS", "2")
        environment.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        # Sums in the switch need multicast, which not every machine lets a job use.
        environment.setdefault("NCCL_NVLS_ENABLE", "0")
        ranks.append(Rank(number, command, environment))
    return ranks


def crash_of(ranks):
    """Waits a moment for those that die of the first one's death, and says who died."""
    deadline = time.monotonic() + GRACE_S
    while any(rank.poll() is None for rank in ranks) and time.monotonic() < deadline:
        time.sleep(LOOK_S)
    dead = sorted((rank for rank in ranks if rank.poll() not in (None, 0)),
                  key=lambda rank: rank.ended)
    alive = [rank.number for rank in ranks if rank.poll() is None]
    text = "; ".join(f"rank {rank.number} ended with exit code {rank.poll()} {rank.where()}"
                     for rank in dead)
    return text + "".join(f"; rank {number} was killed" for number in alive)


def watch(ranks, quiet_limit, limit):
    """Waits for the end of all ranks. What went wrong, in words, and the stacks if they hang."""
    started = time.monotonic()
    while True:
        codes = [rank.poll() for rank in ranks]
        if any(code not in (None, 0) for code in codes):
            return crash_of(ranks), {}
        running = [rank for rank in ranks if rank.poll() is None]
        if not running:
            return None, {}
        over = time.monotonic() - started > limit
        if over or any(rank.quiet_for() > quiet_limit for rank in running):
            why = f"no end within {limit} s" if over else f"no progress for {quiet_limit} s"
            places = ", ".join(f"rank {rank.number} {rank.where()}" for rank in ranks)
            return f"hang: {why}: {places}", {rank.number: rank.stacks() for rank in running}
        time.sleep(LOOK_S)


def run(command, count, quiet_limit, limit):
    """One job from start to end: {"fault", "stacks", "ranks", "seconds"}; nothing is left of it."""
    started = time.monotonic()
    ranks = start(command, count)
    try:
        fault, stacks = watch(ranks, quiet_limit, limit)
    finally:
        for rank in ranks:
            rank.kill()
    for rank in ranks:
        rank.finish()
    silent = [rank.number for rank in ranks if rank.result is None]
    if fault is None and silent:
        fault = f"no result of rank {silent[0]}"
    return {"fault": fault, "stacks": stacks, "ranks": ranks,
            "seconds": time.monotonic() - started}
