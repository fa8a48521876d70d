"""The runs of one program under `coverage`: started, counted, and judged."""
import collections
import glob
import json
import os
import signal
import subprocess
import time

import cuda_programs
import profile_events
import witnessed

MISSING = 77  # tests/gpu/programs/frameworks.py: what a program needs is not installed
REPLAYS = ["off", "managed"]


def end_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def last_line(text):
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")[:300]


def empty_plan(metadata):
    """A plan of the recorded program that knows no block (src/plan/plan_file.h)."""
    sizes = ["budget", "overhead_bytes", "warm_bytes", "cold_bytes", "step_launches",
             "native_step_ms", "predicted_step_ms", "max_live_bytes", "planned_peak_bytes",
             "slab_bytes"]
    lists = ["slabs", "cleared", "sites", "prologue", "step"]
    return {"schema": 2, "program": metadata["program"], "gpu": metadata.get("gpu", ""),
            "ebbtide": metadata.get("ebbtide", ""), "source": "", **{name: 0 for name in sizes},
            **{name: [] for name in lists}}


class Stage:
    """One run of a program: what it said and what was counted."""

    def __init__(self, name):
        self.name, self.result, self.error, self.seconds, self.code = name, None, None, 0, None
        self.said, self.tables, self.notes = [], {}, {}
        self.witness = self.coverage = None

    def fault(self, text):
        """The first thing that went wrong is what the rest comes from."""
        self.error = self.error or text

    def in_report(self):
        """Counts of every function are kept where something was wrong."""
        report = {"seconds": round(self.seconds, 2), "code": self.code, "result": self.result,
                  "error": self.error, "said": self.said, **self.notes}
        if self.witness:
            report["witness"] = {"processes": self.witness.processes,
                                 "walked": self.witness.walked, "scanned": self.witness.scanned,
                                 "own": sum(pair[1] for pair in self.witness.own.values())}
            if self.error:
                report["witness"].update(driver=self.witness.driver, own=self.witness.own,
                                         runtime=self.witness.runtime)
        if self.coverage is not None:
            paths = collections.Counter()
            for row in self.coverage.values():
                paths.update(row["paths"])
            report["paths"] = dict(paths)
            if self.error:
                report["coverage"] = {symbol: row["calls"]
                                      for symbol, row in self.coverage.items() if row["calls"]}
        for name, table in self.tables.items():
            report[name] = table.in_report()
        return report


class Missing(Exception):
    """Why a program cannot run on this machine."""


class Runs:
    """The runs of one program, one after another."""

    def __init__(self, setup, program, command):
        self.setup, self.program, self.command = setup, program, command
        self.folder = os.path.join(setup.folder, program.name + ".runs")
        os.makedirs(self.folder)
        self.base = os.path.join(self.folder, "run")
        self.stages, self.planned, self.plan_fault = [], None, None

    # --- one run

    def environment(self, stage, watched, mode=None):
        environment = dict(os.environ, OMP_NUM_THREADS="2", PYTHONHASHSEED="0",
                           PYTHONDONTWRITEBYTECODE="1", CUBLAS_WORKSPACE_CONFIG=":4096:8")
        for name in ("LD_PRELOAD", "CUDA_INJECTION64_PATH", "PYTORCH_ALLOC_CONF"):
            environment.pop(name, None)
        environment.update(cuda_programs.caches(self.program, self.setup.folder))
        environment.update(self.program.environment)
        if watched and self.setup.witness == "simulated":
            environment["SIMCUDA_LOG"] = f"{self.base}.{stage}.simcuda"
        elif watched:
            environment.update(CUDA_INJECTION64_PATH=self.setup.witness,
                               WITNESS_OUT=f"{self.base}.{stage}.{{pid}}.witness")
            if self.setup.cupti:
                environment["WITNESS_CUPTI"] = self.setup.cupti
        if watched and self.setup.counts:
            environment["EBBTIDE_COVERAGE"] = f"{self.base}.{stage}.{{pid}}.coverage"
        if mode:
            environment.update(LD_PRELOAD=self.setup.library, EBBTIDE_MODE=mode)
        return environment

    def call(self, command, environment, limit):
        """(exit code, None where the time was up; stdout; stderr; its pid)"""
        left = self.setup.left()
        limit = min(limit, left)
        if left < 5:
            return None, "", "the time for all programs was up", 0
        # A group of its own: whatever the program has started has to go with it.
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, errors="replace",
                                   stdin=subprocess.DEVNULL, start_new_session=True,
                                   cwd=self.folder)
        try:
            out, err = process.communicate(timeout=limit)
            return process.returncode, out, err, process.pid
        except subprocess.TimeoutExpired:
            end_group(process)
            try:
                _, err = process.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                err = ""  # somebody outside the group still has the pipe
            return None, "", f"no end within {limit:.0f} s; {last_line(err)}", process.pid

    def run(self, name, prefix=(), watched=True, mode=None, limit=None):
        stage = Stage(name)
        started = time.monotonic()
        stage.code, out, err, pid = self.call([*prefix, *self.command],
                                              self.environment(name, watched, mode),
                                              limit or self.program.limit)
        stage.seconds = time.monotonic() - started
        stage.said = [line[:300] for line in err.splitlines()
                      if line.startswith(("ebbtide", "witness"))][:20]
        if stage.code == MISSING:
            raise Missing(last_line(err))
        last = last_line(out).split()
        if stage.code != 0:
            stage.fault(last_line(err) if stage.code is None
                        else f"exit code {stage.code}: {last_line(err)}")
        elif len(last) != 2 or last[0] != "result":
            stage.fault(f"no result: {last_line(err)}")
        else:
            stage.result = last[1]
        self.stages.append(stage)
        if watched and stage.code is not None:
            self.read_counts(stage, pid if prefix else 0)
        return stage

    def read_counts(self, stage, command_pid):
        base = f"{self.base}.{stage.name}"
        try:
            if self.setup.witness == "simulated":
                stage.witness = witnessed.Witness().read_simulated(base + ".simcuda")
            elif self.setup.witness:
                stage.witness = witnessed.Witness().read(base + ".{pid}.witness", command_pid)
            stage.coverage = witnessed.read_coverage(base + ".{pid}.coverage")
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            stage.fault(f"counts cannot be read: {error!r}")
        if stage.witness and stage.witness.processes == 0:
            stage.fault("the witness wrote nothing")
            stage.witness = None

    # --- what is expected of each

    def same(self, stage):
        native = self.stages[0].result
        if stage.result is not None and native is not None and stage.result != native:
            stage.fault(f"result {stage.result}, native's {native}")

    def judge(self, stage, name, table):
        stage.tables[name] = table
        if table.wrong():
            stage.fault(f"{name}: {table.in_words()}")

    def off(self):
        stage = self.run("off", mode="off")
        self.same(stage)
        own = sum(pair[1] for pair in stage.witness.own.values()) if stage.witness else 0
        if own:
            stage.fault(f"{own} calls of Ebbtide's own")
        # Where off counts at all, it has to count right.
        if stage.witness and stage.coverage and any(row["calls"] for row in
                                                    stage.coverage.values()):
            self.judge(stage, "functions", witnessed.against_coverage(stage.witness,
                                                                      stage.coverage))
        return stage

    def record(self):
        profile = self.base + ".ebp"
        stage = self.run("record", [self.setup.ebbtide, "record", "-o", profile, "--"])
        self.same(stage)
        if not stage.witness:
            return stage
        if stage.coverage is not None:
            self.judge(stage, "functions", witnessed.against_coverage(stage.witness,
                                                                      stage.coverage))
            stage.notes["without hook"] = witnessed.without_hook(stage.witness, stage.coverage)
            for function, calls in stage.notes["without hook"].items():
                if witnessed.MUST_BE_HOOKED.match(function):
                    stage.fault(f"{function} has no hook, {calls} calls")
        elif self.setup.counts:
            stage.fault("no EBBTIDE_COVERAGE file was written")
        try:
            self.judge(stage, "events", witnessed.against_profile(
                stage.witness, self.events(stage), witnessed.ends_contexts(stage.coverage or {})))
        except (OSError, ValueError) as error:
            stage.fault(f"the profile cannot be read: {error}")
        return stage

    def events(self, stage):
        """Of all processes' profiles: the later ones lie beside the first."""
        counts = {}
        for path in sorted(glob.glob(glob.escape(self.base) + "*.ebp")):
            metadata, events = profile_events.load(path)
            if "stopped" in metadata:
                stage.fault(f"recording stopped: {metadata['stopped']}")
            for name, count in witnessed.classes_of(events).items():
                counts[name] = counts.get(name, 0) + count
        return counts

    def plan(self):
        """Where no step's memory comes and goes (an allocator that keeps what it has), there is
        nothing to plan: an empty plan then serves the program in the dynamic part alone.
        """
        path = self.base + ".plan.json"
        code, out, err, _ = self.call([self.setup.ebbtide, "plan", self.base + ".ebp", "-o", path,
                                       "--json"], dict(os.environ), 60)
        if code == 0:
            self.planned = "made"
            return True
        self.planned = f"empty: {last_line(err) or last_line(out)}"
        try:
            metadata, _ = profile_events.load(self.base + ".ebp")
            with open(path, "w") as file:
                json.dump(empty_plan(metadata), file)
        except (OSError, ValueError, KeyError) as error:
            self.plan_fault = f"{self.planned}; and {error!r}"
        return self.plan_fault is None

    def replay(self, cold, off):
        stage = self.run(f"replay-{cold}", [self.setup.ebbtide, "run", "--strict", "--plan",
                                            self.base + ".plan.json", "--cold", cold, "--"])
        self.same(stage)
        if not stage.witness or stage.error:
            return
        if stage.coverage is not None:
            self.judge(stage, "functions", witnessed.against_coverage(
                stage.witness, stage.coverage, services=["told", "counted"]))
            if off.witness:
                self.judge(stage, "classes", witnessed.against_runtime(off.witness, stage.witness,
                                                                       stage.coverage))
        elif self.setup.counts:
            stage.fault("no EBBTIDE_COVERAGE file was written")

    def all(self):
        if self.program.warmed:
            self.run("warm", watched=False, limit=3 * self.program.limit)
            self.stages.clear()
        if self.run("native", watched=False).error:
            return
        off = self.off()
        if self.record().code == 0 and self.plan():
            for cold in REPLAYS:
                self.replay(cold, off)

    def faults(self):
        found = {stage.name: stage.error for stage in self.stages if stage.error}
        if self.plan_fault:
            found["plan"] = self.plan_fault
        return found
