#!/usr/bin/env python3
"""A small deterministic training job whose loop does what loops do beside stepping.

It knows nothing of Ebbtide. The same command line gives the same numbers, bit for bit: every loss,
and checksums of every parameter and every tensor of the optimizer's state, as one JSON object.

  plain        forward, backward, AdamW
  checkpoint   saves model and optimizer after step 3, goes on, loads both again after step 6
  scaler       fp16 with GradScaler; the scale overflows twice, and those steps are skipped
  groups       two parameter groups; the second is frozen in steps 3 to 5
  evaluation   every third step an evaluation under no_grad, with another batch size
"""
import argparse
import ctypes
import hashlib
import io
import json
import os
import tempfile
import time

import torch
from torch import nn
from torch.nn import functional

VARIANTS = ["plain", "checkpoint", "scaler", "groups", "evaluation"]
VOCABULARY = 8192
SAVED_AFTER, LOADED_AFTER = 3, 6
FROZEN = range(3, 6)
OVERFLOWS = (3, 5)
SCALE, TOO_LARGE = 2.0**16, 2.0**40


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(0.1)

    def attention(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(x).chunk(3, dim=-1))
        out = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.projection(out.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x):
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.down(functional.gelu(self.up(self.norm2(x)))))


class Model(nn.Module):
    def __init__(self, width, layers, length):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, width // 64) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(),
                                        tokens[:, 1:].flatten())


def local(tensor):
    """Of a tensor that lies in parts on several ranks this rank's part."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def digest(tensor):
    data = local(tensor.detach()).cpu().contiguous()
    bytes_ = ctypes.string_at(data.data_ptr(), data.numel() * data.element_size())
    return hashlib.sha256(str((data.dtype, tuple(data.shape))).encode() + bytes_).hexdigest()


def digests(name, value):
    """Name and checksum of every tensor in nested dictionaries and lists; other values as text."""
    if torch.is_tensor(value):
        return {name: digest(value)}
    if isinstance(value, dict):
        parts = ((str(key), part) for key, part in value.items())
    elif isinstance(value, (list, tuple)):
        parts = ((str(i), part) for i, part in enumerate(value))
    else:
        return {name: repr(value)}
    out = {}
    for key, part in parts:
        out.update(digests(f"{name}.{key}" if name else key, part))
    return out


class Training:
    def __init__(self, args):
        self.args = args
        torch.manual_seed(1)
        self.data = torch.Generator().manual_seed(2)
        self.model = Model(args.width, args.layers, args.length).to(args.device).train()
        late = [*self.model.blocks[args.layers // 2:].parameters(), *self.model.norm.parameters()]
        in_late = {id(p) for p in late}
        self.late = late
        groups = [{"params": [p for p in self.model.parameters() if id(p) not in in_late]},
                  {"params": late, "lr": 3e-4, "weight_decay": 0.1}]
        self.optimizer = torch.optim.AdamW(
            groups if args.variant == "groups" else self.model.parameters(), lr=1e-3,
            weight_decay=0.01, **{args.optimizer: True})
        # Backing off leads from an overflow straight to the scale of before.
        self.scaler = torch.amp.GradScaler(args.device, init_scale=SCALE,
                                           backoff_factor=SCALE / TOO_LARGE, growth_interval=10**6,
                                           enabled=args.variant == "scaler")
        self.out = {"losses": [], "evaluations": [], "skipped": [], "saved": {}}

    def batch(self, size):
        tokens = torch.randint(VOCABULARY, (size, self.args.length), generator=self.data)
        return tokens.to(self.args.device, non_blocking=True)

    def loss(self, size):
        kind = torch.float16 if self.args.variant == "scaler" else torch.bfloat16
        with torch.autocast(self.args.device, kind):
            return self.model(self.batch(size))

    def step(self):
        loss = self.loss(self.args.batch)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    def scaled_step(self, number):
        if number in OVERFLOWS:
            self.scaler.update(TOO_LARGE)  # for the step that follows
        before = self.scaler.get_scale()
        loss = self.step()
        if self.scaler.get_scale() < before:
            self.out["skipped"].append(number)
        return loss

    def save(self):
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        self.path = os.path.join(self.folder, "checkpoint.pt")
        torch.save(state, self.path)
        buffer = io.BytesIO()
        torch.save(state, buffer)
        buffer.seek(0)
        for source, file in (("file", self.path), ("buffer", buffer)):
            read = torch.load(file, map_location="cpu", weights_only=True)
            self.out["saved"].update(digests(source, read))

    def load(self):
        state = torch.load(self.path, map_location="cpu", weights_only=True)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])

    def evaluate(self):
        self.model.eval()
        with torch.no_grad():
            self.out["evaluations"] += [self.loss(3).item().hex() for _ in range(2)]
        self.model.train()

    def run(self):
        variant, losses = self.args.variant, []
        for number in range(self.args.steps):
            if variant == "groups":
                for p in self.late:
                    p.requires_grad_(number not in FROZEN)
            losses.append(self.scaled_step(number) if variant == "scaler" else self.step())
            if number >= self.args.steps // 2:
                losses[-1].item()  # a loop that looks at each loss, after one that does not
            if variant == "checkpoint" and number == SAVED_AFTER:
                self.save()
            if variant == "checkpoint" and number == LOADED_AFTER:
                self.load()
            if variant == "evaluation" and number % 3 == 2:
                self.evaluate()
        self.out["losses"] = [loss.item().hex() for loss in losses]

    def finish(self):
        state = self.optimizer.state_dict()["state"]
        self.out["parameters"] = digests("", dict(self.model.named_parameters()))
        self.out["state"] = digests("", state)
        self.out["state_bytes"] = sum(
            t.numel() * t.element_size() for entry in state.values() for t in entry.values()
            if torch.is_tensor(t))
        return self.out


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--variant", choices=VARIANTS, default="plain")
    parser.add_argument("--optimizer", choices=["fused", "foreach"], default="fused")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--device", default="cuda", help="cpu: to try the script without a GPU")
    args = parser.parse_args()
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    training = Training(args)
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as training.folder:
        training.run()
    seconds = time.monotonic() - started
    print(json.dumps({**training.finish(), "loop_seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
