"""What a run's calls were by the witness, by Ebbtide's own count and by its profile; and whether
they agree.

Counts are of one run: all its processes together. A witness's count is a pair (before exit
handlers, in the end): what is called while a process ends may or may not be seen, so a count
between the two is right.
"""
import collections
import glob
import json
import os
import re

import profile_events

# Class of calls -> (driver functions, runtime functions that come down to one of them each).
CLASSES = {
    "alloc linear": (r"cuMemAlloc_v2", r"cudaMalloc"),
    "alloc pitched": (r"cuMemAllocPitch_v2", r"cudaMallocPitch|cudaMalloc3D"),
    "alloc managed": (r"cuMemAllocManaged", r"cudaMallocManaged"),
    "alloc async": (r"cuMemAllocAsync", r"cudaMallocAsync"),
    "alloc pool": (r"cuMemAllocFromPoolAsync", r"cudaMallocFromPoolAsync"),
    "alloc vmm": (r"cuMemCreate", None),
    "free": (r"cuMemFree_v2|cuMemFreeAsync", r"cudaFree|cudaFreeAsync"),
    "launch": (r"cuLaunchKernel|cuLaunchKernelEx|cuLaunchCooperativeKernel",
               r"cudaLaunchKernel|cudaLaunchKernelExC|cudaLaunchCooperativeKernel"),
    "copy": (r"cuMemcpy\w*", r"cudaMemcpy\w*"),
    "memset": (r"cuMemset\w*", r"cudaMemset\w*"),
    "graph": (r"cuGraphLaunch", r"cudaGraphLaunch"),
}
PER_THREAD = re.compile(r"_pts[zd]$")
RUNTIME_VERSION = re.compile(r"_v\d{4,5}$")
# A call of these that Ebbtide has no hook for is a hole; others without one are only listed.
MUST_BE_HOOKED = re.compile(
    r"cuMem(cpy|set|Alloc|Free)(?!Host)|cuMem(Create|Release)|cuLaunch(?!HostFunc)|cuGraphLaunch")
ABOUT_MEMORY = re.compile(r"cu(Mem|Launch|Graph|Ipc|Pointer|Array|Mipmapped|Import|External|"
                          r"StreamBeginCapture|StreamEndCapture|TensorMap)")
# What the witness cannot count: it comes to life within cuInit, and CUPTI tells of no call after
# the driver's end, when the runtime gives its contexts back.
OUT_OF_SIGHT = re.compile(r"cuInit|cuDriverGetVersion|cuGetProcAddress|cuGetExportTable|"
                          r"cuDevicePrimaryCtxRelease")
# Where a context ends the recording says so of each block that was left in it, without a call.
ENDS_CONTEXT = re.compile(r"cuDevicePrimaryCtx(Release|Reset)|cuCtx(Destroy|Detach)")
# Ebbtide may answer these classes in the driver's stead.
SERVED = re.compile(r"alloc (linear|async|pool)|free")

PATHS = ["linked", "dlsym", "proc_v1", "proc_v2"]  # by which a call came, in EBBTIDE_COVERAGE
ALLOCATED = dict(enumerate(profile_events.ALLOC_KINDS))
# Classes of events that need no further look.
COUNTED = {profile_events.LAUNCH: "launch", profile_events.GRAPH: "graph",
           profile_events.FAILED: "failed"}


def class_of(function, domain):
    bare = PER_THREAD.sub("", function)
    for name, patterns in CLASSES.items():
        if patterns[domain] and re.fullmatch(patterns[domain], bare):
            return name
    return None


def by_class(calls, domain):
    """{class: [before exit, in the end]} of {function: [before exit, in the end]}."""
    sums = {}
    for function, pair in calls.items():
        name = class_of(function, domain)
        if name:
            sums[name] = [a + b for a, b in zip(sums.get(name, [0, 0]), pair)]
    return sums


class Witness:
    """What the witness wrote about a run; driver, own and runtime are {function: pair}, empty is
    {function: calls of the program that failed or freed a null pointer}.
    """

    def __init__(self):
        self.processes, self.walked, self.scanned = 0, 0, 0
        self.driver, self.own, self.runtime = {}, {}, {}
        self.empty = collections.Counter()
        self.unfinished = []

    def add(self, into, function, pair):
        if any(pair):
            into[function] = [a + b for a, b in zip(into.get(function, [0, 0]), pair)]

    def read(self, pattern, command_pid):
        """Files of all processes but the `ebbtide` command's own."""
        for path in sorted(glob.glob(pattern.replace("{pid}", "*"))):
            with open(path) as file:
                said = json.load(file)
            if said["pid"] == command_pid:
                continue
            self.processes += 1
            self.walked += said["walked"]
            self.scanned += said["scanned"]
            if not said["ended"]:
                self.unfinished.append(said["pid"])
            for function, pairs in said["driver"].items():
                self.add(self.driver, function, pairs["program"])
                self.add(self.own, function, pairs["own"])
                self.empty[function] += pairs["empty"]
            for function, pairs in said["runtime"].items():
                self.add(self.runtime, RUNTIME_VERSION.sub("", function), pairs["program"])
        return self

    def read_simulated(self, path):
        """The simulated driver's log; it does not tell Ebbtide's own calls from the program's."""
        if os.path.exists(path):
            self.processes = 1
            with open(path) as file:
                calls = collections.Counter(line.split(" ", 1)[0].strip() for line in file)
            self.driver = {function: [count, count] for function, count in calls.items()}
        return self


def read_coverage(pattern):
    """{symbol: {"calls": N, "family": ..., "paths": {path: N}}}, None where there is no file."""
    files = glob.glob(pattern.replace("{pid}", "*"))
    if not files:
        return None
    symbols = {}
    for path in files:
        with open(path) as file:
            for line in file:
                if not line.strip():
                    continue
                row = json.loads(line)
                if "symbol" not in row:
                    continue
                paths = {path: row.get(path, 0) for path in PATHS}
                found = symbols.setdefault(row["symbol"], {
                    "calls": 0, "family": row.get("family"), "service": row.get("service"),
                    "paths": collections.Counter()})
                found["calls"] += sum(paths.values())
                found["paths"].update(paths)
    return symbols


def classes_of(events):
    """{class: events} of a recording; what became of a handle is no call of cuMemFree."""
    counts, handles = collections.Counter(), set()
    for event in events:
        if event.kind == profile_events.ALLOC:
            name = ALLOCATED.get(event.alloc_kind, f"kind {event.alloc_kind}")
            counts[f"alloc {name}"] += 1
            if event.alloc_kind == profile_events.VMM:
                handles.add(event.block)
        elif event.kind == profile_events.FREE:
            counts["free vmm" if event.block in handles else "free"] += 1
        elif event.kind == profile_events.COPY:
            counts["memset" if event.copy_kind == profile_events.MEMSET else "copy"] += 1
        elif event.kind in COUNTED:
            counts[COUNTED[event.kind]] += 1
    return dict(counts)


def compared(pair, seen):
    """What was missed and what was seen twice."""
    return max(0, pair[0] - seen), max(0, seen - pair[1])


class Table:
    """Rows (name, witness's pair, seen) and what they come to."""

    def __init__(self):
        self.rows = []

    def row(self, name, pair, seen):
        missed, twice = compared(pair, seen)
        self.rows.append({"name": name, "witness": pair, "seen": seen, "missed": missed,
                          "twice": twice})

    def total(self, key):
        return sum(row[key] for row in self.rows)

    def wrong(self):
        return [row for row in self.rows if row["missed"] or row["twice"]]

    def in_words(self):
        return (f"{self.total('seen')} seen, missed {self.total('missed')}, "
                f"twice {self.total('twice')}")

    def in_report(self):
        return {**{key: self.total(key) for key in ("seen", "missed", "twice")},
                "wrong": self.wrong(),
                "agree": {row["name"]: row["seen"] for row in self.rows
                          if not row["missed"] and not row["twice"]}}


def against_coverage(witness, coverage, services=None):
    """Each hooked symbol, or only those of some services: what the witness counted of the program's
    calls, and what Ebbtide did.
    """
    table = Table()
    for symbol in sorted(coverage):
        if OUT_OF_SIGHT.match(symbol) or coverage[symbol]["family"] == "resolve":
            continue
        if services and coverage[symbol]["service"] not in services:
            continue
        pair = witness.driver.get(symbol, [0, 0])
        if pair[1] or coverage[symbol]["calls"]:
            table.row(symbol, pair, coverage[symbol]["calls"])
    return table


def without_hook(witness, coverage):
    """Functions about memory that the program called and Ebbtide does not know: {name: calls}."""
    return {function: pair[1] for function, pair in sorted(witness.driver.items())
            if function not in coverage and ABOUT_MEMORY.match(function)}


def ends_contexts(coverage):
    return any(ENDS_CONTEXT.match(symbol) and row["calls"] for symbol, row in coverage.items())


def against_profile(witness, counts, contexts_end=False):
    """Each class of calls: the witness's, less those that made or freed nothing, and the events of
    the recording.
    """
    table = Table()
    made = sum(count for name, count in counts.items() if name.startswith("alloc"))
    sums = by_class(witness.driver, 0)
    empty = by_class({function: [calls] * 2 for function, calls in witness.empty.items()}, 0)
    for name in CLASSES:
        pair, seen = sums.get(name, [0, 0]), counts.get(name, 0)
        if name.startswith("alloc") or name == "free":
            pair = [a - b for a, b in zip(pair, empty.get(name, [0, 0]))]
        if name == "free" and contexts_end:
            pair[1] = max(pair[1], made)
        if pair[1] or seen:
            table.row(name, pair, seen)
    return table


def against_runtime(plain, replayed, coverage):
    """The classes of calls of a replayed run that Ebbtide may serve. Those never reach the driver,
    so what was due is what the driver was asked without Ebbtide, and what the runtime was asked
    more.
    """
    table = Table()
    due, before = by_class(plain.driver, 0), by_class(plain.runtime, 1)
    now = by_class(replayed.runtime, 1)
    seen = collections.Counter()
    for symbol, row in coverage.items():
        name = class_of(symbol, 0)
        if name:
            seen[name] += row["calls"]
    for name in filter(SERVED.fullmatch, CLASSES):
        none = [0, 0]
        low = due.get(name, none)[0] + now.get(name, none)[0] - before.get(name, none)[0]
        high = due.get(name, none)[1] + now.get(name, none)[1] - before.get(name, none)[1]
        if high or seen[name]:
            table.row(name, [min(low, high), max(low, high)], seen[name])
    return table
