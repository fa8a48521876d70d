#!/usr/bin/env python3
"""A deterministic training job of one process on two GPUs: half of the model on each, and what one
sends goes straight to the other, by copies and by kernels that read the other's memory.

It knows nothing of Ebbtide. The last line of stdout is one JSON object: every loss, and checksums of
all parameters and of the optimizer's state.
"""
import argparse
import json
import time

import torch
from torch import nn
from torch.nn import functional

from training_job import VOCABULARY, Block, digests


class Halves(nn.Module):
    def __init__(self, width, layers, devices):
        super().__init__()
        self.devices = devices
        self.tokens = nn.Embedding(VOCABULARY, width, device=devices[0])
        blocks = [Block(width, width // 64).to(devices[2 * i // layers]) for i in range(layers)]
        self.blocks = nn.ModuleList(blocks)
        self.head = nn.Linear(width, VOCABULARY, bias=False, device=devices[1])

    def forward(self, tokens):
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x.to(block.norm1.weight.device))
        logits = self.head(x.to(self.devices[1]))
        return functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(),
                                        tokens[:, 1:].flatten().to(logits.device))


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--devices", nargs=2, default=["cuda:0", "cuda:1"])
    return parser.parse_args()


def main():
    args = parse()
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(1)
    data = torch.Generator().manual_seed(2)
    model = Halves(args.width, args.layers, [torch.device(name) for name in args.devices])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)
    started, losses = time.monotonic(), []
    for _ in range(args.steps):
        tokens = torch.randint(VOCABULARY, (8, 512), generator=data).to(args.devices[0])
        with torch.autocast(tokens.device.type, torch.bfloat16):
            loss = model(tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.detach())
    print(json.dumps({"losses": [loss.item().hex() for loss in losses],
                      "parameters": digests("", dict(model.named_parameters())),
                      "state": digests("", optimizer.state_dict()["state"]),
                      "loop_seconds": time.monotonic() - started}))


if __name__ == "__main__":
    main()
