"""What the training jobs of this folder share: taking turns when told to.

A job knows nothing of Ebbtide. It is told on stdin when to begin and how many steps to take, so
that several of them can share one GPU fairly, and answers with one JSON object a line.

  start          moves the model to the GPU and takes the warm-up steps
  steps N item   takes N steps, each ended by loss.item()
  steps N async  takes N steps without waiting for any
  quit
"""
import argparse
import json
import sys

import torch


def say(**fields):
    print(json.dumps(fields), flush=True)


class Job:
    """One job: subclasses set self.model and self.data in build() and define loss()."""

    def __init__(self, args):
        self.args = args
        torch.manual_seed(1)
        self.data = torch.Generator().manual_seed(2)
        if not args.on_device:
            self.build()

    def start(self):
        if self.args.on_device:
            with torch.device("cuda"):
                self.build()
        self.model.cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, weight_decay=0.01,
                                           **{self.args.optimizer: True})
        return self.steps(self.args.warmup, True)

    def micro_step(self):
        with torch.autocast("cuda", torch.bfloat16):
            loss = self.loss()
        (loss if self.args.accumulate == 1 else loss / self.args.accumulate).backward()
        return loss.detach()

    def step(self):
        losses = [self.micro_step() for _ in range(self.args.accumulate)]
        self.optimizer.step()
        self.optimizer.zero_grad()
        return losses[0] if len(losses) == 1 else torch.stack(losses).mean()

    def state_bytes(self):
        return sum(t.numel() * t.element_size() for state in self.optimizer.state.values()
                   for t in state.values() if torch.is_tensor(t) and t.is_cuda)

    def steps(self, count, item):
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
        losses = []
        torch.cuda.synchronize()
        marks[0].record()
        for mark in marks[1:]:
            loss = self.step()
            losses.append(loss.item() if item else loss)
            mark.record()
        torch.cuda.synchronize()
        return {
            "step_ms": [a.elapsed_time(b) for a, b in zip(marks, marks[1:])],
            "losses": [float(loss).hex() for loss in losses],
            "torch_allocated": torch.cuda.max_memory_allocated(),
            "torch_reserved": torch.cuda.max_memory_reserved(),
        }


def main(job_class, description, models, batch):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--model", choices=models, default=next(iter(models)))
    parser.add_argument("--optimizer", choices=["fused", "foreach"], default="fused")
    parser.add_argument("--batch", type=int, default=batch, help="of one micro-batch")
    parser.add_argument("--accumulate", type=int, default=1, help="micro-batches of one step")
    parser.add_argument("--sequence", type=int, default=1024)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--deterministic", action="store_true")
    parser.add_argument("--on-device", action="store_true",
                        help="make the model on the GPU, at `start`: quick for large ones")
    args = parser.parse_args()
    if args.deterministic:
        torch.use_deterministic_algorithms(True)
        torch.backends.cudnn.benchmark = False
    job = job_class(args)
    say(event="built", torch=torch.__version__)
    for line in sys.stdin:
        words = line.split()
        if words[0] == "start":
            say(event="warm", **job.start(), state_bytes=job.state_bytes())
        elif words[0] == "steps":
            say(event="steps", **job.steps(int(words[1]), words[2] == "item"))
        elif words[0] == "quit":
            break
