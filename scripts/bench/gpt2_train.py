#!/usr/bin/env python3
"""A plain PyTorch training job: GPT-2 from a config, random weights, bf16 autocast, AdamW.

It knows nothing of Ebbtide. It is told on stdin when to begin and how many steps to take, so
that several of them can take turns on one GPU, and answers with one JSON object a line.

  start          moves the model to the GPU and takes the warm-up steps
  steps N item   takes N steps, each ended by loss.item()
  steps N async  takes N steps without waiting for any
  quit
"""
import argparse
import json
import sys

import torch
import transformers

SIZES = {
    "tiny": dict(n_layer=2, n_head=4, n_embd=256),
    "small": dict(n_layer=12, n_head=12, n_embd=768),
    "medium": dict(n_layer=24, n_head=16, n_embd=1024),
    "large": dict(n_layer=36, n_head=20, n_embd=1280),
    "xl": dict(n_layer=48, n_head=25, n_embd=1600),
}


def say(**fields):
    print(json.dumps(fields), flush=True)


class Job:
    def __init__(self, args):
        self.args = args
        torch.manual_seed(1)
        config = transformers.GPT2Config(n_positions=args.sequence, use_cache=False,
                                         **SIZES[args.model])
        self.model = transformers.GPT2LMHeadModel(config).train()
        self.data = torch.Generator().manual_seed(2)
        self.vocabulary = config.vocab_size

    def start(self):
        self.model.cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, weight_decay=0.01,
                                           **{self.args.optimizer: True})
        return self.steps(self.args.warmup, True)

    def step(self):
        tokens = torch.randint(self.vocabulary, (self.args.batch, self.args.sequence),
                               generator=self.data).pin_memory().cuda(non_blocking=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = self.model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()

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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=SIZES, default="small")
    parser.add_argument("--optimizer", choices=["fused", "foreach"], default="fused")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--sequence", type=int, default=1024)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--deterministic", action="store_true")
    args = parser.parse_args()
    if args.deterministic:
        torch.use_deterministic_algorithms(True)
    job = Job(args)
    say(event="built", torch=torch.__version__, transformers=transformers.__version__)
    for line in sys.stdin:
        words = line.split()
        if words[0] == "start":
            say(event="warm", **job.start(), state_bytes=job.state_bytes())
        elif words[0] == "steps":
            say(event="steps", **job.steps(int(words[1]), words[2] == "item"))
        elif words[0] == "quit":
            break


if __name__ == "__main__":
    main()
