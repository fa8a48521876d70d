#!/usr/bin/env python3
"""One rank of a deterministic data-parallel training job, with delays if asked for. Each rank holds
the whole model (DistributedDataParallel) or, with --sharded, its share of it (FSDP2's fully_shard).

It knows nothing of Ebbtide, and is started as launchers start ranks: with RANK, WORLD_SIZE,
LOCAL_RANK, MASTER_ADDR and MASTER_PORT in the environment. The same command line gives the same
numbers, bit for bit, however the ranks are delayed: two gradients have only one sum.

On stdout it says "pid N", "step N" after each step, and in the end one JSON object: every loss,
what the extra all_reduces gave, and checksums of the parameters and the optimizer's state.
SIGUSR1 writes the Python stacks of all threads to stderr.

Every 20th step a copy of some of the optimizer's state is summed over the ranks on a stream of
its own, between backward and the optimizer, and looked at. From step 100 on the loop looks at each
loss, after steps that do not wait for anything.
"""
import argparse
import contextlib
import datetime
import faulthandler
import json
import os
import random
import signal
import time

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from training_job import VOCABULARY, Model, digests, local

EXTRA_EVERY = 20
LOOKED_FROM = 100
DELAYED_RANK = 1
DELAYED_STEPS = 1 / 3
LONGEST_DELAY_S = 0.05
PLACES = ["before backward", "before the optimizer", "after the step"]
# Whoever watches the ranks is to find out first that they hang.
PATIENCE = datetime.timedelta(hours=1)


class Delays:
    """Where one rank sleeps, and for how long: the same for the same seed."""

    def __init__(self, seed, rank):
        self.random = random.Random(seed) if seed is not None and rank == DELAYED_RANK else None
        self.place, self.seconds, self.slept = None, 0.0, 0.0

    def begin_step(self):
        self.place = None
        if self.random and self.random.random() < DELAYED_STEPS:
            self.place = self.random.choice(PLACES)
            self.seconds = self.random.uniform(0, LONGEST_DELAY_S)

    def at(self, place):
        if place == self.place:
            time.sleep(self.seconds)
            self.slept += self.seconds


class Side:
    """A stream beside the one that trains; on a CPU there is only one order."""

    def __init__(self, device):
        self.stream = torch.cuda.Stream() if device.type == "cuda" else None

    @contextlib.contextmanager
    def __call__(self):
        if self.stream is None:
            yield
            return
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            yield
        torch.cuda.current_stream().wait_stream(self.stream)


class Rank:
    def __init__(self, args, device):
        self.args, self.device = args, device
        self.number = distributed.get_rank()
        self.delays = Delays(args.delays, self.number)
        self.side = Side(device)
        torch.manual_seed(1)
        model = Model(args.width, args.layers, args.length).to(device).train()
        self.model = self.sharded(model) if args.sharded else DistributedDataParallel(
            model, device_ids=[device.index] if device.type == "cuda" else None)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3, weight_decay=0.01,
                                           **{args.optimizer: True})
        torch.manual_seed(100 + self.number)  # dropout differs from rank to rank, as data does
        self.data = torch.Generator().manual_seed(200 + self.number)
        self.sums = []

    @staticmethod
    def sharded(model):
        from torch.distributed.fsdp import fully_shard  # not in every version of PyTorch
        for block in model.blocks:
            fully_shard(block)
        return fully_shard(model)

    def loss(self):
        tokens = torch.randint(VOCABULARY, (self.args.batch, self.args.length),
                               generator=self.data)
        with torch.autocast(self.device.type, torch.bfloat16):
            return self.model(tokens.to(self.device, non_blocking=True))

    def extra(self):
        state = self.optimizer.state
        parameter = next(p for p in reversed(list(self.model.parameters())) if p in state)
        with self.side():
            total = local(state[parameter]["exp_avg"]).clone()
            distributed.all_reduce(total)
            self.sums.append(total.double().sum().item().hex())

    def step(self, number):
        self.delays.begin_step()
        loss = self.loss()
        self.delays.at("before backward")
        loss.backward()
        self.delays.at("before the optimizer")
        if number % EXTRA_EVERY == EXTRA_EVERY - 1:
            self.extra()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.delays.at("after the step")
        return loss.detach()

    def run(self):
        losses = []
        for number in range(self.args.steps):
            losses.append(self.step(number))
            if number >= LOOKED_FROM:
                losses[-1].item()
            print(f"step {number}", flush=True)
        return [loss.item().hex() for loss in losses]

    def numbers(self):
        state = self.optimizer.state_dict()["state"]
        tensors = [t for entry in state.values() for t in entry.values() if torch.is_tensor(t)]
        model = self.model if self.args.sharded else self.model.module
        return {"sums": self.sums,
                "parameters": digests("", dict(model.named_parameters())),
                "state": digests("", state),
                "state_bytes": sum(local(t).numel() * t.element_size() for t in tensors)}


def versions(device):
    said = {"torch": torch.__version__, "cuda": torch.version.cuda}
    if device.type == "cuda":
        said["nccl"] = ".".join(str(part) for part in torch.cuda.nccl.version())
        said["gpu"] = torch.cuda.get_device_name(device)
    return said


def pick_device(kind):
    if kind == "cpu":
        return torch.device("cpu")
    # With fewer GPUs than ranks, ranks share them.
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", choices=["nccl", "gloo"], default="nccl",
                        help="gloo also sums where both ranks have one GPU, or none")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--delays", type=int, metavar="SEED",
                        help="rank 1 sleeps up to 50 ms in a third of its steps")
    parser.add_argument("--sharded", action="store_true",
                        help="parameters, gradients and state are divided among the ranks")
    parser.add_argument("--optimizer", choices=["fused", "foreach"], default="fused")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda",
                        help="cpu: to try the script without a GPU")
    return parser.parse_args()


def main():
    args = parse()
    faulthandler.register(signal.SIGUSR1)
    print(f"pid {os.getpid()}", flush=True)
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    device = pick_device(args.device)
    distributed.init_process_group(args.backend, timeout=PATIENCE)
    rank = Rank(args, device)
    started = time.monotonic()
    losses = rank.run()
    seconds = time.monotonic() - started
    result = json.dumps({"rank": rank.number, "losses": losses, **rank.numbers(),
                         "loop_seconds": seconds, "slept_seconds": rank.delays.slept,
                         "versions": versions(device)})
    # One after the other: under a launcher all ranks may write to one pipe.
    for number in range(distributed.get_world_size()):
        if number == rank.number:
            print(result, flush=True)
        distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
