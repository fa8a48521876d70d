"""The part of `cost` about a training step whose host is the bottleneck: by an empty plan."""
import concurrent.futures
import json
import os
import statistics
import sys
import time

import intervals
import pairs

STEP_RATIO = 1.01
SIDES = ["native", "pool", "empty", "empty-async"]


class NoDevice:
    """In the place of sides.Device: nobody asks the driver for memory while steps are timed."""
    peak = 0

    def used(self):
        return 0

    def reset(self):
        return 0


class StepSetup:
    """How a side of the step part is started (see sides.Side)."""

    def __init__(self, bench):
        self.bench = bench

    def log_path(self, mode, _job):
        return self.bench.path(f"step-{mode}.log")

    def start(self, mode, job, _log):
        train = [sys.executable, self.bench.args.train, *job]
        # One thread is what a step's host work is.
        environment = dict(os.environ, EBBTIDE_LOG="warning", OMP_NUM_THREADS="1")
        if mode == "pool":
            environment["PYTORCH_CUDA_ALLOC_CONF"] = "backend:cudaMallocAsync"
        if mode in ("native", "pool"):
            return train, environment
        if mode == "record":
            how = ["record", "-o", self.bench.path("step.ebp")]
        else:
            how = ["run", "--strict", "--plan", self.bench.path("empty.plan.json")]
            how += ["--torch-backend", "async"] if mode == "empty-async" else []
        return [self.bench.args.ebbtide, *how, "--", *train], environment


def in_threads(action, sides):
    with concurrent.futures.ThreadPoolExecutor(max(1, len(sides))) as pool:
        for done in [pool.submit(action, side) for side in sides]:
            done.result()


def make_empty(plan):
    """The plan of the same program without a block: by it nothing is served."""
    plan.update(warm_bytes=0, cold_bytes=0, slab_bytes=0, slabs=[], cleared=[], sites=[],
                prologue=[], step=[], max_live_bytes=0, planned_peak_bytes=0, overhead_bytes=0)
    return plan


def run(bench):
    from sides import Side  # needs pynvml, which the other parts do not
    setup, alive = StepSetup(bench), []
    job = ["--model", "small", "--batch", str(bench.args.batch), "--sequence",
           str(bench.args.sequence), "--warmup", str(bench.args.warmup), "--on-device"]

    def launch(mode):
        alive.append(Side(mode, job, setup, NoDevice()))
        return alive[-1]

    try:
        recorder = launch("record")
        recorder.start()
        recorder.quit()
        with open(bench.path("empty.plan.json"), "w") as file:
            json.dump(make_empty(bench.plan("step.ebp", "step.plan.json")), file)
        step_pairs(bench, launch)
    finally:
        for side in alive:
            side.kill()


def step_pairs(bench, launch):
    modes, rounds, waiting, began = bench.args.sides, [], {}, time.monotonic()
    for pair in range(bench.args.pairs):
        if bench.time_is_up(began, pair):
            break
        if pair not in waiting:
            # Two pairs' imports take place together, and nothing is timed meanwhile.
            for coming in range(pair, min(pair + 2, bench.args.pairs)):
                with pairs.processors(coming):
                    waiting[coming] = {mode: launch(mode) for mode in modes}
            in_threads(lambda side: side.hello(),
                       [side for sides in waiting.values() for side in sides.values()])
        sides = waiting.pop(pair)
        in_threads(lambda side: side.start(), list(sides.values()))
        order = pairs.turned(modes, pair)
        for turn in range(bench.args.turns):
            for mode in order if turn % 2 == 0 else order[::-1]:
                sides[mode].steps(bench.args.steps, "async")
        in_threads(lambda side: side.quit(), list(sides.values()))
        rounds.append({mode: sides[mode].ms["async"] for mode in modes})
        bench.report["torch"] = sides[modes[0]].versions["torch"]
        bench.report["step"] = {"rounds": rounds, "rows": step_rows(rounds)}
        bench.save()
        medians = ", ".join(f"{mode} {statistics.median(rounds[-1][mode]):.2f}" for mode in modes)
        print(f"  pair {pair + 1}: step ms {medians}", flush=True)
    print_steps(bench, rounds)


def step_rows(rounds):
    """name -> interval of the ratio to native; with a pool side also of that under Ebbtide."""
    medians = [{mode: statistics.median(ms) for mode, ms in r.items()} for r in rounds]
    rows = {mode: intervals.ratio([(m[mode], m["native"]) for m in medians])
            for mode in medians[0] if mode != "native"}
    if "pool" in medians[0] and "empty-async" in medians[0]:
        rows["empty-async / pool"] = intervals.ratio([(m["empty-async"], m["pool"])
                                                      for m in medians])
    return rows


def print_steps(bench, rounds):
    rows = step_rows(rounds)
    for mode in rounds[0]:
        ms = statistics.median(statistics.median(r[mode]) for r in rounds)
        shown = pairs.interval(rows[mode]) if mode in rows else ""
        print(f"  {mode:12} {ms:8.2f} ms a step (median of {len(rounds)} processes) {shown}")
    if "empty-async / pool" in rows:
        print("  the driver's pool under Ebbtide against that without: "
              f"{pairs.interval(rows['empty-async / pool'])}")
    bench.enough_pairs("step", rounds)
    bench.claims.add(f"an empty plan: at most {STEP_RATIO:.2f} of native's step: "
                     f"{pairs.interval(rows['empty'])}", rows["empty"][0] <= STEP_RATIO)
