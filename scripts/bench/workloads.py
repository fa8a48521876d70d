#!/usr/bin/env python3
"""Training jobs of many kinds, each with random weights and random data from fixed seeds.

  workloads.py NAME [--steps N] [--marks FILE] [--mark-steps] [--tiny] [--device cpu]
  workloads.py --list

A job knows nothing of Ebbtide, but for two things: with --mark-steps it tells where its steps
begin (ebbtide_step() of the C API), and a line of --marks has the launches that Ebbtide counted
before the step where it says so. Its last line is one JSON object: the steps' wall times (each step
ends with its loss on the host), the sum of the losses, the allocator's own peaks and the versions.
"""
import argparse
import ctypes
import dataclasses
import importlib
import json
import platform
import statistics
import sys
import time

WARMUP = 3  # steps that the medians and the steady peaks leave out


@dataclasses.dataclass(frozen=True)
class Workload:
    says: str
    module: str  # imported when the job is chosen: JAX and PyTorch need not both be there
    job: str
    size: dict
    tiny: dict  # what --tiny has otherwise: seconds on a processor
    steps: int = 10


def gpt2(says, **size):
    return Workload(says, "torch_jobs", "Gpt2", {"batch": 8, "sequence": 1024, **size},
                    {"model": "tiny", "batch": 2, "sequence": 32})


WORKLOADS = {
    "gpt2-small": gpt2("GPT-2 of 124 M parameters, bf16 autocast, AdamW", model="small"),
    "gpt2-medium": gpt2("GPT-2 of 355 M parameters, bf16 autocast, AdamW", model="medium"),
    "gpt2-xl": gpt2("GPT-2 of 1.56 B parameters, bf16 autocast, AdamW", model="xl"),
    "llama-full": Workload(
        "Llama-like, 1.3 B parameters, all trained: checkpointing, 4 micro-batches, clipping",
        "torch_jobs", "Llama", {"model": "1.3b", "batch": 4, "sequence": 1024, "accumulate": 4},
        {"model": "tiny", "batch": 2, "sequence": 32}),
    "llama-lora": Workload(
        "Llama-like, 3.2 B frozen parameters in bf16, LoRA of rank 16 (peft)",
        "torch_jobs", "Lora", {"model": "3b", "batch": 4, "sequence": 1024},
        {"model": "tiny", "batch": 2, "sequence": 32}),
    "vit-l": Workload(
        "ViT-L/16 (timm), bf16 autocast, AdamW", "torch_jobs", "VitLarge",
        {"model": "vit_large_patch16_224", "batch": 64, "image": 224},
        {"model": "vit_tiny_patch16_224", "batch": 2, "image": 224}),
    "resnet50": Workload(
        "ResNet-50, channels last, fp16 autocast with GradScaler, SGD",
        "torch_jobs", "ResNet", {"model": "resnet50", "batch": 128, "image": 224},
        {"model": "resnet18", "batch": 2, "image": 64}),
    "unet": Workload(
        "convolutional U-Net that predicts noise, attention at low resolution, averaged weights",
        "plain_jobs", "Diffusion", {"width": 256, "batch": 16, "image": 64},
        {"width": 32, "batch": 2, "image": 16}),
    "experts": Workload(
        "decoder with a mixture of 8 experts, 2 a token, routed unevenly",
        "plain_jobs", "Experts",
        {"width": 1024, "layers": 12, "batch": 8, "sequence": 1024},
        {"width": 64, "layers": 2, "batch": 2, "sequence": 32}, steps=12),
    "lengths": Workload(
        "GPT-2 small, every batch as long as its longest sequence", "torch_jobs", "Lengths",
        {"model": "small", "batch": 8, "sequence": 1024},
        {"model": "tiny", "batch": 2, "sequence": 32}, steps=16),
    "jax": Workload(
        "JAX transformer of 12 layers, bf16, AdamW (optax)", "jax_job", "Transformer",
        {"width": 1024, "layers": 12, "batch": 8, "sequence": 1024},
        {"width": 64, "layers": 2, "batch": 2, "sequence": 32}),
}


class Statistics(ctypes.Structure):
    """The beginning of ebbtide_statistics (include/ebbtide/ebbtide.h)."""
    _fields_ = [(name, ctypes.c_uint64) for name in (
        "allocations_seen", "allocations_planned", "allocations_dynamic", "allocations_native",
        "launches_seen")]


class Ebbtide:
    """The C API, in a process in which the library is preloaded; without it nothing happens."""

    def __init__(self):
        program = ctypes.CDLL(None)
        self.step = getattr(program, "ebbtide_step", lambda: None)
        self.ask = getattr(program, "ebbtide_get_statistics", None)
        if self.ask is not None:
            self.ask.argtypes = [ctypes.POINTER(Statistics), ctypes.c_size_t]

    def launches(self):
        """Kernel launches so far, if they are counted."""
        found = Statistics()
        if self.ask is None or self.ask(ctypes.byref(found), ctypes.sizeof(found)) != 0:
            return None
        return found.launches_seen or None


class Marks:
    """Where the steps began; the last mark is where the last one ended."""

    def __init__(self, path, mark_steps):
        self.ebbtide = Ebbtide()
        self.file = open(path, "w") if path else None
        self.mark_steps = mark_steps
        self.all = []

    def add(self):
        if self.mark_steps:
            self.ebbtide.step()
        mark = {"step": len(self.all), "time": round(time.monotonic(), 6)}
        launches = self.ebbtide.launches()
        if launches is not None:
            mark["launches"] = launches
        self.all.append(mark)
        if self.file is not None:
            # At once: a job that is struck down leaves its marks.
            print(json.dumps(mark), file=self.file, flush=True)

    def step_ms(self):
        return [round((b["time"] - a["time"]) * 1e3, 3) for a, b in zip(self.all, self.all[1:])]


def run(job, steps, marks):
    """Builds the job and takes its steps. Returns the losses, and the seconds of building."""
    began = time.monotonic()
    job.bring_up()
    built = time.monotonic() - began
    losses = []
    for number in range(steps):
        if number == min(WARMUP, steps - 1):
            job.begin_steady()
        marks.add()
        losses.append(job.loss_of_step())
    marks.add()
    return losses, built


def wait_for_go():
    """For who measures: what is imported has been imported, the GPU has not been touched."""
    print(json.dumps({"event": "ready"}), flush=True)
    if not sys.stdin.readline():
        sys.exit("workloads.py: nobody said to go")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", nargs="?", choices=list(WORKLOADS), metavar="NAME",
                        help=", ".join(WORKLOADS))
    parser.add_argument("--list", action="store_true", help="print the jobs, and do nothing else")
    parser.add_argument("--steps", type=int, help="default: enough for a recording of three")
    parser.add_argument("--marks", metavar="FILE", help="where the steps began, a JSON line each")
    parser.add_argument("--mark-steps", action="store_true", help="call ebbtide_step() too")
    parser.add_argument("--tiny", action="store_true", help="small enough for a processor")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--wait", action="store_true",
                        help="import, then wait for a line on stdin before touching the GPU")
    args = parser.parse_args()
    if not args.list and args.name is None:
        parser.error("a job's NAME is needed; --list prints them")
    if args.steps is not None and args.steps < 1:
        parser.error("--steps is 1 or more")
    return args


def main():
    args = parse()
    if args.list:
        for name, workload in WORKLOADS.items():
            print(f"{name:12} {workload.says}")
        return
    workload = WORKLOADS[args.name]
    steps = args.steps or workload.steps
    size = {**workload.size, **(workload.tiny if args.tiny else {})}
    began = time.monotonic()
    job = getattr(importlib.import_module(workload.module), workload.job)(size, args.device)
    imported = time.monotonic() - began
    if args.wait:
        wait_for_go()
    marks = Marks(args.marks, args.mark_steps)
    losses, built = run(job, steps, marks)
    step_ms = marks.step_ms()
    print(json.dumps({
        "job": args.name, "size": size, "steps": steps, "warmup": min(WARMUP, steps - 1),
        "step_ms": round(statistics.median(step_ms[min(WARMUP, steps - 1):]), 3),
        "all_step_ms": step_ms, "marks": marks.all, "loss_sum": sum(losses), "loss_sum_hex": float(sum(losses)).hex(),
        "memory": job.memory(), "parameters": job.parameter_count(),
        "versions": {"python": platform.python_version(), **job.versions()},
        "seconds": {"import": round(imported, 3), "build": round(built, 3),
                    "steps": round(sum(step_ms) / 1e3, 3)},
    }), flush=True)


if __name__ == "__main__":
    main()
