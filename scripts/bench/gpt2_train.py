#!/usr/bin/env python3
"""A plain PyTorch training job: GPT-2 from a config, random weights, bf16 autocast, AdamW."""
import torch
import transformers

import turns

SIZES = {
    "small": dict(n_layer=12, n_head=12, n_embd=768),
    "medium": dict(n_layer=24, n_head=16, n_embd=1024),
    "large": dict(n_layer=36, n_head=20, n_embd=1280),
    "xl": dict(n_layer=48, n_head=25, n_embd=1600),
    "tiny": dict(n_layer=2, n_head=2, n_embd=32, vocab_size=512),
}


class Gpt2(turns.Job):
    def build(self):
        config = transformers.GPT2Config(n_positions=self.args.sequence, use_cache=False,
                                         **SIZES[self.args.model])
        self.model = transformers.GPT2LMHeadModel(config).train()
        self.vocabulary = config.vocab_size

    def loss(self):
        tokens = torch.randint(self.vocabulary, (self.args.batch, self.args.sequence),
                               generator=self.data).pin_memory().cuda(non_blocking=True)
        return self.model(input_ids=tokens, labels=tokens).loss


if __name__ == "__main__":
    turns.main(Gpt2, __doc__, SIZES, batch=8)
