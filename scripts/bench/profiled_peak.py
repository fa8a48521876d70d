#!/usr/bin/env python3
"""What PyTorch's own profiler says the memory at a job's peak is for.

  profiled_peak.py NAME -o FILE [--tiny] [--device cpu]

Runs a job of workloads.py on PyTorch's native allocator, profiles one whole step behind its
warm-up, and writes the blocks that are alive at that step's peak: [bytes, category, site, how
many], the site being the innermost Python function where there is one. Knows nothing of Ebbtide.
"""
import argparse
import collections
import importlib
import json
import os
import sys
import time

import torch
from torch._C._profiler import _EventType
from torch.profiler import _memory_profiler

import workloads
from kind_matching import site_name

Action = _memory_profiler.Action
TensorKey = _memory_profiler.TensorKey


def python_frame(event):
    """The innermost Python frame around an event: that of a call of C, else a function's own."""
    while event is not None:
        if event.typed[0] == _EventType.PyCCall:
            return event.typed[1].caller
        if event.typed[0] == _EventType.PyCall:
            return event.typed[1].callsite
        event = event.parent
    return None


def sites(memory):
    """{TensorKey: site} of what was allocated while it was profiled."""
    found = {}
    for event in memory._op_tree.dfs():
        if event.typed[0] != _EventType.Allocation or event.typed[1].alloc_size <= 0:
            continue
        key, frame = TensorKey.from_allocation(event.typed[1]), python_frame(event)
        if key is not None and frame is not None:
            found[key] = site_name(frame.file_name, frame.function_name)
    return found


class Live:
    """What is alive along the profiler's timeline, in the sizes that it has."""

    def __init__(self):
        self.blocks = {}  # tensor -> (bytes, version)
        self.nameless = collections.Counter()  # bytes -> how many without a tensor
        self.bytes = 0

    def go(self, action, key, version, size):
        if not isinstance(key, TensorKey):
            change = {Action.CREATE: 1, Action.PREEXISTING: 1, Action.DESTROY: -1}.get(action, 0)
            self.nameless[size] += change
            self.bytes += change * size
        elif action == Action.DESTROY:
            self.bytes -= self.blocks.pop(key, (0, 0))[0]
        else:
            before = self.blocks.get(key, (0, 0))[0]
            now = version + (action == Action.INCREMENT_VERSION)
            self.blocks[key] = (size, now)
            self.bytes += size - before

    def copy(self):
        return dict(self.blocks), collections.Counter(self.nameless)


def at_peak(timeline, device):
    """(bytes, tensors, nameless) of the moment at which most is alive on the device."""
    events = [(action, key, version, size) for _, action, (key, version), size in timeline
              if key.device.type == device]
    live, most, when = Live(), -1, 0
    for number, event in enumerate(events):
        live.go(*event)
        if live.bytes > most:
            most, when = live.bytes, number
    live = Live()
    for event in events[:when + 1]:
        live.go(*event)
    return (most, *live.copy())


def category_name(memory, key, version):
    category = memory._categories.get(key, version)
    return None if category is None else category.name


def blocks_at_peak(memory, device):
    most, tensors, nameless = at_peak(memory.timeline, device)
    where = sites(memory)
    blocks = collections.Counter()
    for key, (size, version) in tensors.items():
        blocks[(size, category_name(memory, key, version), where.get(key, ""))] += 1
    for size, count in nameless.items():
        blocks[(size, None, "")] += count
    rows = [[*block, count] for block, count in blocks.items() if count > 0 and block[0] > 0]
    return most, sorted(rows, key=lambda row: (-row[0] * row[3], str(row)))


def used(device):
    """(allocated now, most allocated) by PyTorch's own count."""
    if device == "cpu":
        return None, None
    return torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()


def profile(job, device, steps):
    """The profiler's account of the step after so many, and PyTorch's counts around it."""
    job.bring_up()
    for _ in range(steps):
        job.loss_of_step()
    job.begin_steady()
    before = used(device)[0]
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU],
                                profile_memory=True, record_shapes=True,
                                with_stack=True) as profiler:
        job.loss_of_step()
    return profiler._memory_profile(), before, used(device)[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=[name for name, workload in workloads.WORKLOADS.items()
                                         if workload.module != "jax_job"])
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    args = parser.parse_args()
    if any(os.environ.get(name) for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")):
        sys.exit("profiled_peak.py: the native allocator is asked for: unset PYTORCH_*ALLOC_CONF")
    workload = workloads.WORKLOADS[args.name]
    size = {**workload.size, **(workload.tiny if args.tiny else {})}
    job = getattr(importlib.import_module(workload.module), workload.job)(size, args.device)
    began = time.monotonic()
    memory, before, most = profile(job, args.device, workloads.WARMUP)
    found, blocks = blocks_at_peak(memory, args.device)
    with open(args.output, "w") as file:
        json.dump({"job": args.name, "size": size, "versions": job.versions(),
                   "peak_bytes": found, "allocated_before_bytes": before,
                   "max_allocated_bytes": most,
                   "seconds": round(time.monotonic() - began, 1), "blocks": blocks}, file)
        file.write("\n")
    print(json.dumps({"job": args.name, "peak_bytes": found, "max_allocated_bytes": most,
                      "blocks": sum(row[3] for row in blocks)}), flush=True)


if __name__ == "__main__":
    main()
